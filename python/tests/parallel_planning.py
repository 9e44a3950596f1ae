"""What ranks do in tests of profiles, costs and plans."""

from __future__ import annotations

import time
from typing import Any

import torch
from parallel_cases import (
    distance,
    make_batches,
    make_model,
    make_optimizer,
    share,
    train,
    values_of,
)
from parallel_checks import trainer_of
from rank_pool import GROUPS
from torch import nn

import pleach.torch


class Sleeping(nn.Module):
    """A layer whose forward and backward take given times."""

    def __init__(self, forward_s: float, backward_s: float, elements: int = 100):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(elements))
        self.times = forward_s, backward_s

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = _Sleep.apply(values, self.weight, *self.times)
        return made


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Any, weight: Any, forward_s: float, backward_s: float) -> Any:
        ctx.backward_s, ctx.shape = backward_s, weight.shape
        time.sleep(forward_s)
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        time.sleep(ctx.backward_s)
        return gradients[0], torch.zeros(ctx.shape), None, None


def costs(rank: int, count: int, path: str) -> tuple[int, list[tuple[str, int, float]]]:
    """Measures, and saves on the first rank."""
    measured = pleach.torch.measure_costs(GROUPS[count], most_bytes=1 << 20)
    if rank == 0:
        measured.save(path)
        assert pleach.torch.Costs.load(path) == measured
    return measured.rank_count, list(measured.points)


def auto(rank: int) -> tuple[str, float]:
    """Trains by what is chosen for a profile; the policy, and how far from plain training."""
    batches = make_batches("transformer", steps=4)
    model = make_model("transformer")
    profile = pleach.torch.profile(model, batches[0][0], iterations=20) if rank == 0 else None
    optimizer = make_optimizer("sgd", model)
    pleach.torch.data_parallel(model, optimizer, "auto", process_group=GROUPS[2], profile=profile)
    train(model, optimizer, [share(one, rank, 2) for one in batches])
    plain = make_model("transformer")
    train(plain, make_optimizer("sgd", plain), batches)
    found = distance(values_of(model), values_of(plain))
    policy = trainer_of(optimizer).policy
    optimizer.close()
    return policy, found


def search(rank: int) -> list[tuple[str, int]]:
    """dear_bo as it is, over real iterations: the trials that were followed."""
    batches = make_batches("mlp", steps=60)
    model = make_model("mlp", torch.float32)
    optimizer = make_optimizer("sgd", model)
    pleach.torch.data_parallel(
        model,
        optimizer,
        "dear_bo,trials=3,least=1KiB,first=2KiB,most=64KiB",
        process_group=GROUPS[2],
    )
    parts = [share((x.float(), y), rank, 2) for x, y in batches]
    train(model, optimizer, parts, schedules=False)
    found = [(one.spec, one.iteration) for one in trainer_of(optimizer).proposals]
    optimizer.close()
    return found
