"""Chooses a policy and its buckets for a model on a group, by rehearsal."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pleach.errors import InvalidArgumentError, UnsupportedError
from pleach.policy import profile as profile_of
from pleach.policy import settle_plan

from .costs import Costs
from .following import LEAST_ON_CPU_S, for_measured, model_of
from .profiling import Profile

MIB = 1 << 20
BUCKETS = tuple((MIB << power) // 4 for power in range(10))
# A choice that gains less is not worth another one than the first.
WORTH = 0.005


def candidates(total_bytes: int) -> list[str]:
    """Policies that a stock loop allows, with buckets up to a model's size; the plainest first."""
    sizes = [size for size in BUCKETS if size < total_bytes] or [BUCKETS[0]]
    return [
        *(f"dear,bucket={size}" for size in reversed(sizes)),
        *(f"ddp,bucket={size},first_bucket={min(size, MIB)}" for size in reversed(sizes)),
        "mg_wfbp,merge=optimal",
        "work_conserving,gathers=after_step,collectives=scatter",
    ]


@dataclasses.dataclass(frozen=True)
class Choice:
    """What a rehearsal of several policies says.

    Attributes:
        policy: The fastest; data_parallel takes it.
        iteration_s: What it is to take.
        others: All that were rehearsed, the fastest first: policies and seconds.
        refused: Those that could not be, and why.
    """

    policy: str
    iteration_s: float
    others: tuple[tuple[str, float], ...]
    refused: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        lines = [f"{seconds * 1e3:10.3f} ms  {policy}" for policy, seconds in self.others]
        lines += [f"   refused     {policy}: {why}" for policy, why in self.refused]
        return "\n".join(lines)


def plan(profile: Profile, costs: Costs, policies: Sequence[str] | None = None) -> Choice:
    """Chooses the policy, with its buckets, whose iterations are to be the shortest.

    Args:
        profile: Of the model.
        costs: Of the group.
        policies: Candidates; None: those that a stock training loop allows.

    Returns:
        The choice; of policies that are as good as each other within 0.5 %, the first one.

    Raises:
        ValueError: None of them can be rehearsed.
    """
    sizes = [
        [count * profile.element_bytes for _, count in layer.tensors if count > 0]
        for layer in profile.layers
    ]
    layers = [index for index, layer in enumerate(sizes) if layer]
    described = profile_of(
        [sizes[index] for index in layers],
        (),
        costs.rank_count,
        [profile.layers[index].forward_s for index in layers],
        [profile.layers[index].backward_s for index in layers],
    )
    model = model_of(costs, costs.rank_count)
    total_bytes = sum(map(sum, sizes))
    found: list[tuple[str, float]] = []
    refused: list[tuple[str, str]] = []
    for policy in policies or candidates(total_bytes):
        pieced = for_measured(policy, LEAST_ON_CPU_S, total_bytes, model)
        try:
            found.append((policy, settle_plan(pieced, described, model).iteration_s))
        except (InvalidArgumentError, UnsupportedError) as error:
            refused.append((policy, str(error)))
    if not found:
        raise ValueError(f"plan: no policy can be rehearsed: {refused[0][1]}")
    best_s = min(seconds for _, seconds in found)
    policy, iteration_s = next(one for one in found if one[1] <= best_s * (1 + WORTH))
    ordered = tuple(sorted(found, key=lambda one: one[1]))
    return Choice(policy, iteration_s, ordered, tuple(refused))
