"""Communication policies in real training: atoms, plans that all ranks follow, and their replay.

A policy decides which gradients travel when. In real training ranks do not see the same things at
the same times, so one of them rehearses the policy with a profile and costs (`settle_plan`), all
take its plan, and each follows it as soon as it can (`PlanReplay`). docs/training.md has the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pleach import _core
from pleach._arguments import in_one_line, shown
from pleach._core import AlphaBeta, BucketTuner, CostModel, MeasuredCosts, TrainingProfile
from pleach.errors import InvalidArgumentError

__all__ = [
    "AlphaBeta",
    "AtomCollective",
    "BucketTuner",
    "CostModel",
    "LoggedCollective",
    "MeasuredCosts",
    "PlanReplay",
    "SettledPlan",
    "TrainingProfile",
    "check_plan",
    "cut_atoms",
    "own_atoms",
    "profile",
    "settle_plan",
]

_PS = 1e12
_MOST_S = 1e6
# Collectives on the wire at once in real training, so that it does not idle between two.
TRAINING_CHANNEL_WIDTH = 2


@dataclass(frozen=True)
class AtomCollective:
    """A collective of a plan: of atoms [first, end)."""

    kind: str
    first: int
    end: int

    @property
    def reduces(self) -> bool:
        """Whether it reduces gradients; else it distributes what its ranks have made of them."""
        return self.kind in ("all_reduce", "reduce_scatter", "reduce")


@dataclass(frozen=True)
class SettledPlan:
    """One iteration's collectives, in the order in which every rank starts them.

    Attributes:
        collectives: In that order.
        step_at_once: Whether no forward starts before all parameters are in place.
        iteration_s: What an iteration takes in the rehearsal.
        hash: Of the collectives, of `step_at_once`, and of the tensors and atoms that they are for:
            ranks that have the same may follow it together.
    """

    collectives: tuple[AtomCollective, ...]
    step_at_once: bool
    iteration_s: float
    hash: int


@dataclass(frozen=True)
class LoggedCollective:
    """The life of one collective; times are what the replay was told.

    Attributes:
        number: As `PlanReplay.next` gave it.
        index: In the plan; -1: of a plan that is forgotten.
        iteration: Whose gradients it carries, from 0.
        ready_ps: What it needs was there.
        issued_ps: It was next in the plan's order.
        started_ps: It went on the wire.
        finished_ps: It left the wire; -1: not yet.
        updated_ps: What a reduction brought was used; -1: not yet.
        exposed_ps: Of its time on the wire during which computation stood still.
    """

    number: int
    index: int
    iteration: int
    ready_ps: int
    issued_ps: int
    started_ps: int
    finished_ps: int
    updated_ps: int
    exposed_ps: int


@in_one_line
def cut_atoms(
    sizes: Sequence[int],
    layers: Sequence[int],
    quanta: int | Sequence[int],
    least_bytes: int = 1,
    *,
    buffers: Sequence[int] | None = None,
    join_bytes: int = 0,
) -> list[int]:
    """Cuts the flat space into atoms, the smallest pieces that collectives move.

    Args:
        sizes: Of the tensors, in forward order [bytes].
        layers: That need them first, ascending.
        quanta: Tensors are cut after multiples of it, of one for all or one for each [bytes]: an
            element, or one for each rank.
        least_bytes: That a cut leaves on both of its sides; huge: nothing is cut.
        buffers: No atom holds tensors of two; None: all are of one.
        join_bytes: Neighbours of one layer are joined to atoms of at most this.

    Returns:
        Sizes of the atoms [bytes], at most 1,024 (but where buffers take turns).

    Raises:
        InvalidArgumentError: A tensor without bytes, a layer that goes back, a quantum below 1.
    """
    return _core.cut_atoms(
        list(sizes),
        list(layers),
        [quanta] * len(sizes) if isinstance(quanta, int) else list(quanta),
        [0] * len(sizes) if buffers is None else list(buffers),
        least_bytes=least_bytes,
        join_bytes=join_bytes,
    )


@in_one_line
def own_atoms(atom_bytes: Sequence[int], rank_count: int) -> list[int]:
    """Says who owns which atom where ranks own whole ones: the same on every rank, balanced."""
    return _core.own_atoms(list(atom_bytes), rank_count)


def _picoseconds(what: str, times_s: Sequence[float] | None) -> list[int] | None:
    if times_s is None:
        return None
    for time_s in times_s:
        if not 0 <= time_s <= _MOST_S:
            raise InvalidArgumentError(f"{what}: {shown(time_s)} is no time from 0 to {_MOST_S} s")
    return [round(time_s * _PS) for time_s in times_s]


@in_one_line
def profile(
    tensor_bytes: Sequence[Sequence[int]],
    atom_bytes: Sequence[int] = (),
    rank_count: int = 1,
    forward_s: Sequence[float] | None = None,
    backward_s: Sequence[float] | None = None,
) -> TrainingProfile:
    """Describes a training to policies.

    Args:
        tensor_bytes: By layer: sizes of its tensors, in forward order.
        atom_bytes: Sizes of the atoms, end to end the flat space; empty: a default cut.
        rank_count: Of the group.
        forward_s: By layer; None: no time.
        backward_s: The same.

    Returns:
        The profile.

    Raises:
        InvalidArgumentError: Atoms that are not the tensors' bytes together, a negative time, ...
    """
    return TrainingProfile(
        tensor_bytes=[list(layer) for layer in tensor_bytes],
        atom_bytes=list(atom_bytes),
        rank_count=rank_count,
        forward_ps=_picoseconds("forward_s", forward_s),
        backward_ps=_picoseconds("backward_s", backward_s),
    )


@in_one_line
def settle_plan(
    policy: str,
    profile: TrainingProfile,
    costs: CostModel,
    seed: int = 0,
    *,
    most_iterations: int = 1000,
) -> SettledPlan:
    """Rehearses a policy to its steady state, and takes an iteration of that.

    Args:
        policy: `dear,bucket=25MiB`.
        profile: What is trained.
        costs: What collectives take.
        seed: Of policies that draw.
        most_iterations: Of the rehearsal.

    Returns:
        The plan.

    Raises:
        InvalidArgumentError: No such policy or option.
        UnsupportedError: A policy that never settles, frees parameters or cuts exchanges; it is
            named.
    """
    collectives, step_at_once, iteration_ps, plan_hash = _core.settle_plan(
        policy, profile, costs, seed=seed, most_iterations=most_iterations
    )
    return SettledPlan(
        tuple(AtomCollective(*one) for one in collectives),
        step_at_once,
        iteration_ps / _PS,
        plan_hash,
    )


def _tuples(plan: Sequence[AtomCollective]) -> list[tuple[str, int, int]]:
    return [(one.kind, one.first, one.end) for one in plan]


@in_one_line
def check_plan(profile: TrainingProfile, plan: Sequence[AtomCollective]) -> None:
    """Checks that ranks can train by a plan.

    Raises:
        InvalidArgumentError: An atom is not in one all_reduce, in a reduce_scatter and later an
            all_gather, or in a reduce and later a broadcast.
    """
    _core.check_plan(profile, _tuples(plan))


class PlanReplay:
    """One rank's part in real training: which collective of a plan it starts when.

    A rank starts the plan's collectives in its order, iteration after iteration, each as soon as
    this rank can: a reduction when it has the gradients of all its atoms; an all_gather or a
    broadcast when it has updated its share of each of them; and never more at once than the channel
    is wide. Collectives have numbers, which count from 0 over the whole training. Times never go
    back. What cannot be is an InvalidArgumentError that changes nothing. Not thread safe.
    """

    @in_one_line
    def __init__(
        self,
        profile: TrainingProfile,
        plan: Sequence[AtomCollective],
        channel_width: int = TRAINING_CHANNEL_WIDTH,
        step_at_once: bool = False,
    ) -> None:
        """Makes one for the first iteration.

        Args:
            profile: What is trained.
            plan: As `check_plan` wants it.
            channel_width: Collectives on the wire at once.
            step_at_once: As the settled plan's.

        Raises:
            InvalidArgumentError: As `check_plan`; a channel without width.
        """
        if channel_width < 1:
            raise InvalidArgumentError(f"channel_width: {channel_width} is not positive")
        self._core = _core.PlanReplay(
            profile, _tuples(plan), channel_width=channel_width, step_at_once=step_at_once
        )
        # Called for every layer and collective: without another step through Python.
        self.gradient_ready = self._core.gradient_ready
        self.next = self._core.next
        self.land = self._core.land
        self.update = self._core.update
        self.may_run_forward = self._core.may_run_forward
        self.repeat = self._core.repeat
        self.stand_still = self._core.stand_still
        self.go_on = self._core.go_on
        self.index_of = self._core.index_of
        self.forget_before = self._core.forget_before

    def log(self) -> list[LoggedCollective]:
        """Lists every collective that has been started and not been forgotten."""
        return [LoggedCollective(*one) for one in self._core.log()]
