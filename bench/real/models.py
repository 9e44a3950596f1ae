"""Two models that compute for real, a ResNet-18 and a BERT-like encoder, small enough for a thread;
with what they are trained on, and by.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import nn

Batch = tuple[torch.Tensor, torch.Tensor]

WIDTH, PIXELS, CLASSES = 32, 32, 10
VOCABULARY, WORDS, FEATURES, ENCODERS = 4096, 64, 192, 4
MASKED = 0.15
UNSEEN = -100  # labels that cross_entropy passes over


@dataclasses.dataclass(frozen=True)
class Model:
    """A model, and how it is trained.

    Attributes:
        make: It, always with the same parameters.
        batch: Of one rank at one step: inputs and labels; samples, then the seed.
        loss: Of its output and labels: a mean.
        optimizer: Of its parameters.
        samples: Of a batch.
    """

    make: Callable[[], nn.Module]
    batch: Callable[[int, int], Batch]
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    optimizer: Callable[[Sequence[nn.Parameter]], torch.optim.Optimizer]
    samples: int


class _Block(nn.Module):
    """A basic block: two convolutions of 3x3, and what goes past them."""

    def __init__(self, channels_in: int, channels: int, stride: int):
        super().__init__()
        self.inside = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.past: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.past = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inside(images) + self.past(images))


def resnet18() -> nn.Module:
    """ResNet-18 as it is built for CIFAR's images of 32 x 32, of half the usual width.

    A first convolution of 3x3 that keeps the size, no pooling, four stages of two blocks: 2.8
    million parameters (He et al., Deep Residual Learning for Image Recognition, sec. 4.2).
    """
    torch.manual_seed(0)
    layers: list[nn.Module] = [
        nn.Conv2d(3, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU()
    ]
    channels = WIDTH
    for stage in range(4):
        for number in range(2):
            wider = WIDTH << stage
            layers.append(_Block(channels, wider, 2 if stage > 0 and number == 0 else 1))
            channels = wider
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)
    )


def _images(samples: int, seed: int) -> Batch:
    """Noise, a little brighter the larger the label."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (samples,), generator=generator)
    images = torch.randn(samples, 3, PIXELS, PIXELS, generator=generator)
    return images + labels.view(-1, 1, 1, 1) / CLASSES, labels


class _Encoder(nn.Module):
    """Words and places embedded, encoders, and a head tied to the words' embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, FEATURES)
        self.places = nn.Embedding(WORDS, FEATURES)
        self.norm = nn.LayerNorm(FEATURES)
        layer = nn.TransformerEncoderLayer(
            FEATURES, FEATURES // 64, 4 * FEATURES, dropout=0.0, activation="gelu",
            batch_first=True,
        )
        self.encoders = nn.TransformerEncoder(layer, ENCODERS, enable_nested_tensor=False)
        self.head = nn.Linear(FEATURES, VOCABULARY)
        nn.init.normal_(self.words.weight, std=0.02)
        self.head.weight = self.words.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        values = self.words(words) + self.places.weight[: words.shape[1]]
        result: torch.Tensor = self.head(self.encoders(self.norm(values)))
        return result


def encoder() -> nn.Module:
    """A BERT-like encoder: 4 layers of 192 features, 3 heads, 4096 words: 2.6 million parameters.

    No dropout: it would draw other numbers in each way of training.
    """
    torch.manual_seed(0)
    return _Encoder()


def _sentences(samples: int, seed: int) -> Batch:
    """Sequences that count up from a random word; of some words only the label tells which."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(VOCABULARY, (samples, 1), generator=generator)
    words = (first + torch.arange(WORDS)) % VOCABULARY
    hidden = torch.rand(samples, WORDS, generator=generator) < MASKED
    hidden[:, 0] = True
    return words.masked_fill(hidden, 0), words.masked_fill(~hidden, UNSEEN)


def _of_words(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())


MODELS = {
    "resnet18": Model(
        resnet18, _images, nn.functional.cross_entropy,
        lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9), 12,
    ),
    "encoder": Model(
        encoder, _sentences, _of_words,
        lambda parameters: torch.optim.AdamW(parameters, lr=3e-4), 16,
    ),
}
