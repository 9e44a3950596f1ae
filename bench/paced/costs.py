"""What collectives take that follow one another in training, by size, for simulator and planners.

A training of equal layers that compute nothing is run, and the log of its collectives read: once a
train of them has begun, the time between two ends is what one more costs a channel that is never
idle. Starting and ending one through the engine is part of it; what others hide is not.
"""
from __future__ import annotations

import statistics
from collections.abc import Sequence

import torch
import torch.distributed as dist

from bench.paced.job import equal_layers
from bench.paced.layers import PacedModel, paced_loss
from bench.paced.variants import Variant
from pleach.torch import Costs

LEAST_BYTES, MOST_BYTES, FACTOR = 4096, 4 << 20, 4  # larger ones follow the slope
TRAIN_BYTES, SHORTEST_TRAIN, LONGEST_TRAIN = 4 << 20, 4, 32
ITERATIONS = 4  # of which the first does not count
# The kinds that a policy without buckets has.
POLICIES = {"wfbp": ("all_reduce",), "dear,bucket=0": ("reduce_scatter", "all_gather")}


def measure_in_training(backend: str, most_bytes: int) -> Costs:
    """The collectives of float32 among all ranks, up to that size. Collective."""
    points = []
    size = LEAST_BYTES
    while True:
        for policy, kinds in POLICIES.items():
            points += [(kind, size, seconds)
                       for kind, seconds in _train_s(f"{policy}@{backend}", kinds, size).items()]
        if size >= min(most_bytes, MOST_BYTES):
            break
        size = min(FACTOR * size, most_bytes)
    return Costs(dist.get_world_size(), tuple(points))


def _train_s(way: str, kinds: Sequence[str], size_bytes: int) -> dict[str, float]:
    """By kind: of one collective of a train, the median of several trains, on the slowest rank."""
    count = max(SHORTEST_TRAIN, min(LONGEST_TRAIN, TRAIN_BYTES // size_bytes))
    layers = equal_layers(count, size_bytes // 4, 0.0)
    variant = Variant(way, lambda: PacedModel(layers), paced_loss,
                      lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    for _ in range(ITERATIONS):
        dist.barrier()
        variant.iterate()
        variant.synchronize()
    own = torch.tensor([_between_ends_s(variant, kind) for kind in kinds], dtype=torch.float64)
    variant.close()
    dist.all_reduce(own, dist.ReduceOp.MAX)
    return dict(zip(kinds, own.tolist(), strict=True))


def _between_ends_s(variant: Variant, kind: str) -> float:
    """The mean in the latter half of a train, the median of all trains but the first."""
    means = []
    for ends in variant.ends_s(kind)[1:]:
        begin = len(ends) // 2 - 1
        means.append((ends[-1] - ends[begin]) / (len(ends) - 1 - begin))
    return statistics.median(means)
