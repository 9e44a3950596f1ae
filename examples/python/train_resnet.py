#!/usr/bin/env python3
"""Trains a small ResNet on local ranks: PyTorch's DDP over Gloo beside ours, step by step alike.

The same model, data and optimizer; ranks of one thread each. On one machine ranks share the cores,
so communication is computation and little of it can hide; what shows is what it costs.

Losses are compared in float64. In float32 they drift apart, as those of DDP do when it sums in
another order (with other buckets, say): some of the many activations next to zero get another
sign from a rounding, and with it another gradient.

    python3 train_resnet.py [--ranks 4] [--steps 5] [--rounds 3] [--policy dear]
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

BATCH, PIXELS, CLASSES, WIDTH = 8, 32, 10, 32
COMPARED_STEPS = 10
DEADLINE = timedelta(seconds=120)


class Block(nn.Module):
    """Two convolutions, and what goes past them."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)
        self.past = nn.Conv2d(channels_in, channels, 1, stride, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Of images, [batch, channels_in, height, width]."""
        inside = self.second_norm(self.second(self.first_norm(self.first(images)).relu()))
        return torch.relu(inside + self.past(images))


def resnet() -> nn.Module:
    """A ResNet of eight convolutional layers for images of 32 x 32, 1.2 million parameters."""
    widths = [WIDTH, 2 * WIDTH, 4 * WIDTH, 8 * WIDTH]
    blocks = [Block(3, widths[0], 1)]
    blocks += [Block(one, two, 2) for one, two in itertools.pairwise(widths)]
    return nn.Sequential(
        *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], CLASSES)
    )


@dataclasses.dataclass(frozen=True)
class Job:
    """What every rank is told."""

    ranks: int
    steps: int
    rounds: int
    policy: str
    folder: str


@dataclasses.dataclass
class Training:
    """One way to train, its losses, and how long each step took on this rank."""

    step: Callable[[torch.Tensor, torch.Tensor], float]
    losses: list[float] = dataclasses.field(default_factory=list)
    times_s: list[float] = dataclasses.field(default_factory=list)


def stepper(
    model: nn.Module, inner: nn.Module, optimizer: torch.optim.Optimizer
) -> Callable[[torch.Tensor, torch.Tensor], float]:
    """A stock training step; the loss of this rank's images."""
    criterion = nn.CrossEntropyLoss()

    def step(images: torch.Tensor, labels: torch.Tensor) -> float:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    inner.train()
    return step


def trainings(job: Job, dtype: torch.dtype) -> dict[str, Training]:
    """DDP over Gloo, and the same model with a policy over Pleach."""
    import pleach.torch

    ways = {}
    for name, backend in (("DDP over Gloo", "gloo"), (f"{job.policy} over Pleach", "pleach")):
        torch.manual_seed(0)
        model = resnet().to(dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        group = dist.new_group(backend=backend, timeout=DEADLINE)
        if backend == "gloo":
            parallel: nn.Module = nn.parallel.DistributedDataParallel(model, process_group=group)
        else:
            parallel, optimizer = pleach.torch.data_parallel(
                model, optimizer, policy=job.policy, process_group=group
            )
        ways[name] = Training(stepper(parallel, model, optimizer))
    return ways


def images_of(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A rank's images of a step, and their labels."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    labels = torch.randint(CLASSES, (BATCH,), generator=generator)
    images = torch.randn(BATCH, 3, PIXELS, PIXELS, generator=generator)
    return images + labels.view(-1, 1, 1, 1) / CLASSES, labels


def losses_apart(rank: int, job: Job) -> float:
    """The largest relative difference of the ways' losses in float64, over some steps."""
    if rank == 0:
        print(f"comparing losses: {COMPARED_STEPS} steps in float64", file=sys.stderr, flush=True)
    apart = 0.0
    ways = trainings(job, torch.float64)
    for step in range(COMPARED_STEPS):
        images, labels = images_of(rank, step)
        losses = [way.step(images.double(), labels) for way in ways.values()]
        apart = max(apart, *(abs(loss - losses[0]) / abs(losses[0]) for loss in losses))
    return apart


def train(rank: int, job: Job) -> None:
    """One rank: rounds of one way and then of the other; rank 0 tells what they took."""
    torch.set_num_threads(1)
    store = dist.FileStore(os.path.join(job.folder, "store"), job.ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=job.ranks, timeout=DEADLINE)
    apart = losses_apart(rank, job)
    ways = trainings(job, torch.float32)
    for number in range(-1, job.rounds):  # The first one warms up.
        for name, way in ways.items():
            if rank == 0:
                print(f"{name}: round {number + 1} of {job.rounds}", file=sys.stderr, flush=True)
            for step in range(job.steps):
                data = images_of(rank, (number + 1) * job.steps + step)
                begin = time.monotonic()
                way.losses.append(way.step(*data))
                if number >= 0:
                    way.times_s.append(time.monotonic() - begin)
    if rank == 0:
        tell(job, ways, apart)
    dist.barrier()
    dist.destroy_process_group()


def tell(job: Job, ways: dict[str, Training], apart: float) -> None:
    """A line for each way, and how far their losses are apart."""
    print(f"\ntraining: a ResNet of {sum(one.numel() for one in resnet().parameters()):,} "
          f"parameters on {job.ranks} processes of this machine, {BATCH} images each")  # fmt: skip
    first = None
    for name, way in ways.items():
        median_s = statistics.median(way.times_s)
        first = first if first is not None else median_s
        print(f"  {name:<24} {median_s * 1e3:7.1f} ms a step {first / median_s:6.2f}x  "
              f"loss {way.losses[0]:.4f} to {way.losses[-1]:.4f}")  # fmt: skip
    print(f"  losses in float64 apart by at most {apart:.1e} of themselves, {COMPARED_STEPS} steps")


def main() -> None:
    """Starts the ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=5, help="of a round")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median step counts")
    parser.add_argument("--policy", default="dear")
    options = vars(parser.parse_args())
    with tempfile.TemporaryDirectory(prefix="pleach-train-") as folder:
        job = Job(**options, folder=folder)
        # Forked: PyTorch has been imported, and nothing computed, which would have started threads.
        torch.multiprocessing.start_processes(train, (job,), job.ranks, start_method="fork")


if __name__ == "__main__":
    main()
