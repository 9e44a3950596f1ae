"""Chooses plans while training runs: rank 0 watches its iterations, and proposes.

A proposal is told to all ranks between two iterations, the same two on all, from which on they
follow it. State does not move: every plan moves the same atoms.
"""

from __future__ import annotations

import collections
import dataclasses
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pleach.policy import SettledPlan

from .layer_times import LayerTimer, LayerTimes

# A median is of so many iterations.
WINDOW = 10
# Iterations after a change that are not counted.
SETTLING = 2
# How far medians may be off, and how often in a row, until a new plan is made.
DRIFT = 0.15
DRIFTS = 3
PICOSECONDS_PER_SECOND = 1e12


@dataclasses.dataclass(frozen=True)
class Proposal:
    """A plan for all ranks.

    Attributes:
        settled: It.
        spec: The policy that it is of.
        iteration: From which it holds.
        why: In words.
    """

    settled: SettledPlan
    spec: str
    iteration: int
    why: str


# Settles a policy with layers' times, and with costs that are so many times those that are known.
Settle = Callable[[str, LayerTimes | None, float], SettledPlan]


class Planner(Protocol):
    """Rank 0's. Of the training thread."""

    @property
    def timer(self) -> LayerTimer | None:
        """What wants to know of this iteration's layers."""

    def observe(self, iteration_s: float) -> bool:
        """An iteration has passed. Returns whether there is something to propose."""

    def propose(self, iteration: int) -> Proposal:
        """What is proposed from that iteration on."""


class BucketSearch:
    """`dear_bo`: Bayesian search of the bucket size, over measured iterations."""

    def __init__(self, tuner: Any, settle: Settle):
        self.timer = None
        self._tuner = tuner
        self._settle = settle
        self._passed = 0

    @property
    def spec(self) -> str:
        """The policy of the present trial."""
        return f"dear,bucket={self._tuner.size_bytes}"

    def observe(self, iteration_s: float) -> bool:
        """See Planner."""
        self._passed += 1
        if self._tuner.settled or self._passed <= SETTLING:
            return False
        return bool(self._tuner.observe(round(iteration_s * PICOSECONDS_PER_SECOND)))

    def propose(self, iteration: int) -> Proposal:
        """See Planner."""
        self._passed = 0
        why = "found" if self._tuner.settled else "a trial"
        return Proposal(self._settle(self.spec, None, 1.0), self.spec, iteration, why)


class DriftWatch:
    """Learns the layers' times, makes a plan of them, and a new one when iterations drift."""

    def __init__(
        self,
        spec: str,
        settle: Settle,
        make_timer: Callable[[], LayerTimer],
        settled: SettledPlan,
        cost_ratio: Callable[[], float],
        knows_times: bool,
    ):
        """Begins to learn the times unless they are known.

        Args:
            spec: The policy.
            settle: Makes plans.
            make_timer: Of the model's layers.
            settled: The present plan.
            cost_ratio: How many times as long collectives take now as the costs say.
            knows_times: Whether the present plan was made with measured times.
        """
        self._spec = spec
        self._settle = settle
        self._make_timer = make_timer
        self._hash = settled.hash
        self._cost_ratio = cost_ratio
        self._why = "the layers' times are known now"
        self._usual_s: float | None = None
        self._drifts = 0
        self._window: collections.deque[float] = collections.deque(maxlen=WINDOW)
        self._left = SETTLING
        self._proposed: tuple[SettledPlan, str] | None = None
        self.timer: LayerTimer | None = None if knows_times else make_timer()

    def observe(self, iteration_s: float) -> bool:
        """See Planner."""
        if self._proposed is not None:
            return True
        if self._left > 0:
            self._left -= 1
            return False
        if self.timer is not None:
            return self._learn()
        self._window.append(iteration_s)
        if len(self._window) == WINDOW:
            self._judge(statistics.median(self._window))
            self._window.clear()
        return False

    def _learn(self) -> bool:
        assert self.timer is not None
        self.timer.patience -= 1
        if self.timer.count < 2 * WINDOW and self.timer.patience > 0:
            return False
        times = self.timer.times() if self.timer.count > 0 else None
        self.timer, self._usual_s = None, None
        if times is None:
            return False
        settled = self._settle(self._spec, times, self._cost_ratio())
        if settled.hash == self._hash:
            return False
        self._proposed = settled, self._why
        return True

    def _judge(self, median_s: float) -> None:
        if self._usual_s is None:
            self._usual_s = median_s
            return
        off = median_s / self._usual_s - 1
        self._drifts = self._drifts + 1 if abs(off) > DRIFT else 0
        if self._drifts == DRIFTS:
            self._drifts = 0
            self._why = f"iterations took {median_s:.4g} s instead of {self._usual_s:.4g} s"
            self.timer = self._make_timer()

    def propose(self, iteration: int) -> Proposal:
        """See Planner."""
        assert self._proposed is not None
        (settled, why), self._proposed = self._proposed, None
        self._hash, self._left = settled.hash, SETTLING
        return Proposal(settled, self._spec, iteration, why)


def ratio_of_costs(log: Sequence[Any], predicted_s: Callable[[int], float]) -> float:
    """How many times as long as predicted collectives kept the wire; 1 where the log has none.

    Several travel at a time and share the wire, so the time in which any of them is under way
    counts, once, and not the sum of their durations.

    Args:
        log: Of a replay.
        predicted_s: By index in the plan.
    """
    ended = sorted(
        (one for one in log if one.finished_ps >= 0 and predicted_s(one.index) > 0),
        key=lambda one: one.started_ps,
    )
    busy_ps, until_ps = 0, 0
    for one in ended:
        busy_ps += max(0, one.finished_ps - max(one.started_ps, until_ps))
        until_ps = max(until_ps, one.finished_ps)
    expected_s = sum(predicted_s(one.index) for one in ended)
    return busy_ps / PICOSECONDS_PER_SECOND / expected_s if ended else 1.0
