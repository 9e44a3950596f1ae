"""Models, optimizers and batches that tests of data parallelism train, and plain training."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import rank_pool
import torch
import torch._dynamo  # as the first optimizer does: no rank has to
import torch.distributed as dist
from torch import nn

import pleach.torch.parallel as parallel

STEPS = 20
# Where only values count: what a loop does every fifth time it has done twice.
FEW_STEPS = STEPS if os.environ.get("PLEACH_LONG") else 10
SAMPLES = 12  # of all ranks together: divided by 1, 2, 3 and 4


class Perceptron(nn.Module):
    """Of odd sizes: primes, and fewer elements than ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.first = nn.Linear(7, 31)
        self.second = nn.Linear(31, 13)
        self.third = nn.Linear(13, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.third(torch.tanh(self.second(torch.relu(self.first(values * self.scale)))))

    @staticmethod
    def batch(draw: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        return torch.randn(SAMPLES, 7, generator=draw, dtype=torch.float64).to(dtype)


class Convolutions(nn.Module):
    """A small CNN, its weights in channels_last order."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 5, 3, padding=1)
        self.norm = nn.GroupNorm(1, 5)
        self.second = nn.Conv2d(5, 7, 3, stride=2)
        self.last = nn.Linear(7 * 3 * 3, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        values = torch.relu(self.norm(self.first(values)))
        return self.last(torch.relu(self.second(values)).flatten(1))

    @staticmethod
    def batch(draw: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        return torch.randn(SAMPLES, 3, 8, 8, generator=draw, dtype=torch.float64).to(dtype)


class Transformer(nn.Module):
    """Its decoder is tied to its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(17, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 19, dropout=0.0, batch_first=True)
        self.bias = nn.Parameter(torch.zeros(17))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.block(self.embedding(tokens))
        return nn.functional.linear(hidden, self.embedding.weight, self.bias).mean(1)

    @staticmethod
    def batch(draw: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        return torch.randint(0, 17, (SAMPLES, 5), generator=draw)


class Wide(nn.Module):
    """Its weights are large enough to be cut, between ranks that divide none of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(7, 4099)
        self.second = nn.Linear(4099, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(values)))

    batch = Perceptron.batch


class Weights(nn.Module):
    """Matrices only, as Muon wants them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(7, 31, bias=False)
        self.second = nn.Linear(31, 13, bias=False)
        self.third = nn.Linear(13, 3, bias=False)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.third(torch.tanh(self.second(torch.relu(self.first(values)))))

    batch = Perceptron.batch


MODELS: dict[str, Any] = {
    "weights": Weights,
    "wide": Wide,
    "mlp": Perceptron,
    "cnn": Convolutions,
    "transformer": Transformer,
}

Groups = list[dict[str, Any]]
OPTIMIZERS: dict[str, Callable[[Groups], torch.optim.Optimizer]] = {
    "sgd": lambda groups: torch.optim.SGD(groups, lr=0.05, momentum=0.9),
    "nesterov": lambda groups: torch.optim.SGD(
        groups, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01
    ),
    "adam": lambda groups: torch.optim.Adam(groups, lr=0.003),
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=0.003, weight_decay=0.05),
    "amsgrad": lambda groups: torch.optim.Adam(groups, lr=0.003, amsgrad=True, maximize=True),
    "adamax": lambda groups: torch.optim.Adamax(groups, lr=0.003),
    "nadam": lambda groups: torch.optim.NAdam(groups, lr=0.003),
    "radam": lambda groups: torch.optim.RAdam(groups, lr=0.003),
    "adagrad": lambda groups: torch.optim.Adagrad(groups, lr=0.01),
    "adadelta": lambda groups: torch.optim.Adadelta(groups, lr=0.5),
    "asgd": lambda groups: torch.optim.ASGD(groups, lr=0.01),
    "rmsprop": lambda groups: torch.optim.RMSprop(groups, lr=0.003, momentum=0.5),
    "rprop": lambda groups: torch.optim.Rprop(groups, lr=0.003),
    "adafactor": lambda groups: torch.optim.Adafactor(groups, lr=0.01),
}


def make_model(kind: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> nn.Module:
    """A model with seeded values, on PyTorch's default device, as batches are."""
    torch.manual_seed(seed)
    model: nn.Module = MODELS[kind]().to(dtype)
    return model.to(memory_format=torch.channels_last) if kind == "cnn" else model


def make_optimizer(kind: str, model: nn.Module) -> torch.optim.Optimizer:
    """An optimizer of two groups."""
    if kind == "muon":
        return torch.optim.Muon([p for p in model.parameters() if p.dim() == 2], lr=0.02)
    flat = [p for p in model.parameters() if p.dim() < 2]
    others = [p for p in model.parameters() if p.dim() >= 2]
    made = OPTIMIZERS[kind]([{"params": others}, {"params": flat, "weight_decay": 0.0}])
    made.param_groups[1]["lr"] *= 0.5
    return made


def make_batches(
    kind: str, dtype: torch.dtype = torch.float64, steps: int = STEPS
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Inputs and classes of all ranks' samples, a pair a step."""
    draw = torch.Generator().manual_seed(1)
    made = []
    for _ in range(steps):
        with torch.device("cpu"):
            batch = MODELS[kind].batch(draw, dtype), torch.randint(0, 3, (SAMPLES,), generator=draw)
        inputs, classes = (each.to(torch.get_default_device()) for each in batch)
        made.append((inputs, classes))
    return made


def share(batch: Sequence[torch.Tensor], rank: int, count: int) -> list[torch.Tensor]:
    """A rank's samples of a batch."""
    return [each.chunk(count)[rank] for each in batch]


def loss_of(model: nn.Module, batch: Sequence[torch.Tensor]) -> torch.Tensor:
    """The mean over the samples."""
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[Sequence[torch.Tensor]],
    schedules: bool = True,
    between: Callable[[], Any] = lambda: None,
) -> list[float]:
    """A stock loop; the losses.

    Args:
        model: It.
        optimizer: Its.
        batches: A step each.
        schedules: Whether a scheduler changes the rate after every step.
        between: Called between backward and step.
    """
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.93)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        between()
        optimizer.step()
        if schedules:
            scheduler.step()
        losses.append(float(loss.detach()))
    return losses


def values_of(model: nn.Module) -> list[torch.Tensor]:
    """Copies of the parameters."""
    return [parameter.detach().clone() for parameter in model.parameters()]


def largest(values: Iterable[torch.Tensor]) -> float:
    """The largest magnitude in some tensors; NaN where there is one."""
    return float(
        torch.stack(
            [
                torch.zeros((), dtype=torch.float64),
                *(value.detach().double().abs().max() for value in values if value.numel() > 0),
            ]
        ).max()
    )


def distance(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> float:
    """The largest difference of two models' parameters."""
    return largest(a - b for a, b in zip(one, other, strict=True))


def digest(tensors: Sequence[torch.Tensor]) -> str:
    """Of the bits of some tensors."""
    made = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        made.update(
            tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        )
    return made.hexdigest()


EARLY = "work_conserving,gathers=early"
OWNERS = "dear,bucket=1KiB,halves=reduce_broadcast"


def costs_of(policy: str, count: int) -> parallel.Costs | None:
    """Given costs for a policy that asks for some, which it would measure with some thousand
    collectives."""
    if policy.split(",")[0] not in parallel.PLAN_BY_COST:
        return None
    points = [
        (kind, size, (2 if kind == "all_reduce" else 1) * (1e-4 + size * 1e-6))
        for kind in ("all_reduce", "reduce_scatter", "all_gather")
        for size in (1 << 10, 1 << 16)
    ]
    return parallel.Costs(count, tuple(points))


def make_any_parallel(
    model: nn.Module, optimizer: torch.optim.Optimizer, count: int, policy: str, **options: Any
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Makes them data parallel on so many ranks. Costs are given unless the options say None."""
    return parallel.data_parallel(
        model,
        optimizer,
        policy,
        process_group=rank_pool.GROUPS[count],
        **{"costs": costs_of(policy, count), **options},
    )


def make_parallel(
    kind: str,
    optimizer: str,
    count: int,
    policy: str = "dear,bucket=1KiB",
    dtype: torch.dtype = torch.float64,
    seed: int | None = None,
    **options: Any,
) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A data-parallel model; ranks begin with different values unless a seed is given."""
    rank = dist.get_rank()
    model = make_model(kind, dtype, rank if seed is None else seed)
    return make_any_parallel(model, make_optimizer(optimizer, model), count, policy, **options)
