"""Makes plans of policies, and makes them ready for a rank."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pleach.policy import (
    AlphaBeta,
    AtomCollective,
    BucketTuner,
    CostModel,
    PlanReplay,
    SettledPlan,
    TrainingProfile,
    profile,
    settle_plan,
)

from .costs import Costs
from .engine import Following
from .explaining import Described
from .group_calls import GroupCalls
from .layer_times import LayerTimes
from .layout import Layout
from .profiling import Profile
from .program import Gathers, Program
from .updates import Unit

# What layers and collectives take where nobody has measured it, until training has.
NOMINAL_BYTES_PER_S = 1e9
NOMINAL_ALPHA = "50us"
NOMINAL_BANDWIDTH = "8Gb/s"
# What of the engine's time to start and end a collective is not hidden behind another one.
STARTING_S = 0.1e-3
# What a piece that a search cuts is to travel at the least. The engine has 0.4 ms to do for each,
# which on a CPU are taken from computation.
LEAST_ON_CPU_S, LEAST_BESIDE_S = 4e-3, 1.6e-3
# By how much measured costs are off: waiting for a slower rank is in some of them, a link that was
# idle sends its first bytes faster, and two collectives on the wire slow each other.
MARGIN_PERCENT = 20


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What is asked of plans.

    Attributes:
        policy: As a stock training loop allows it, or as its user has promised.
        gathers: What second halves distribute.
        channel_width: Collectives on the wire at once.
        costs: Of the group; None: nominal ones.
    """

    policy: str
    gathers: Gathers
    channel_width: int
    costs: Costs | None

    @property
    def updates_early(self) -> bool:
        """Whether the user promises that what is reduced may be used before step()."""
        return is_early(self.policy)


def is_early(policy: str) -> bool:
    """Whether a policy's text promises updates before step()."""
    return "gathers=early" in policy.split(",")


def for_training(policy: str) -> str:
    """A policy's text with what a training loop needs of it and its user has not said."""
    name, *options = policy.split(",")
    given = {option.split("=")[0] for option in options}
    if name == "work_conserving":
        if "gathers" not in given:
            options.append("gathers=after_step")
        if "collectives" not in given:
            options.append("collectives=scatter")
    return ",".join([name, *options])


def for_measured(policy: str, least_s: float, total_bytes: int, costs: CostModel) -> str:
    """A policy's text for costs that are measured.

    One that searches for cuts has a least piece and a margin then, where it does not say so.

    Args:
        policy: Its text.
        least_s: What a piece is to take on the wire at the least.
        total_bytes: Of the model: no piece is larger.
        costs: Of collectives.
    """
    name, *options = policy.split(",")
    if name != "work_conserving":
        return policy
    if not any(one.startswith("piece=") for one in options):
        size = 1 << 12
        while size < total_bytes and costs.time_ps("reduce_scatter", size) < least_s * 1e12:
            size += size // 4
        options.append(f"piece={min(size, max(1, total_bytes))}")
    if not any(one.startswith("margin=") for one in options):
        options.append(f"margin={MARGIN_PERCENT}")
    return ",".join([name, *options])


def first_policy(policy: str, tuner: BucketTuner | None = None) -> str:
    """What is settled first: a search begins with its first trial."""
    return policy if tuner is None else f"dear,bucket={tuner.size_bytes}"


def check_kinds(policy: str, plan: Sequence[AtomCollective], early: bool) -> bool:
    """Whether a plan scatters gradients.

    Raises:
        ValueError: It does so with some only, or wants updates before step() that nobody promised.
    """
    scattered = [one for one in plan if one.kind != "all_reduce"]
    if scattered and len(scattered) < len(plan):
        raise ValueError(
            f"policy {policy}: its plan reduces some tensors to shards and others whole; a "
            "training keeps one kind of state"
        )
    last_reduction = max(index for index, one in enumerate(plan) if one.reduces)
    if not early and any(not one.reduces for one in plan[:last_reduction]):
        raise ValueError(
            f"policy {policy}: it gathers parameters before step(); say gathers=early if the "
            "training allows it"
        )
    return bool(scattered)


def model_of(costs: Costs | None, rank_count: int, ratio: float = 1.0) -> CostModel:
    """What policies are told of costs, the engine's among them: nominal ones where none are."""
    if costs is None:
        return AlphaBeta(rank_count, alpha=NOMINAL_ALPHA, bandwidth=NOMINAL_BANDWIDTH)
    return costs.scaled(ratio, STARTING_S).model()


class Plans:
    """The plans of one training, on one rank. Of the training thread."""

    def __init__(self, layout: Layout, calls: GroupCalls, wanted: Wanted, units: Sequence[Unit]):
        """For a layout's atoms.

        Args:
            layout: Where parameters lie.
            calls: Of the group that collectives travel in.
            wanted: What plans are to be like.
            units: What this rank updates.
        """
        self.wanted = wanted
        self._layout = layout
        self._calls = calls
        self._units = units
        self._tensor_bytes = layout.tensor_bytes()
        self._atom_bytes = layout.atom_bytes()
        self._measured = None if wanted.costs is None else wanted.costs.model()

    def profile(self, times: LayerTimes | None) -> TrainingProfile:
        """The layout as policies see it."""
        if times is None:
            sizes = [sum(layer) / NOMINAL_BYTES_PER_S for layer in self._tensor_bytes]
            times = LayerTimes(tuple(sizes), tuple(2 * size for size in sizes))
        return profile(
            self._tensor_bytes,
            self._atom_bytes,
            self._calls.size,
            times.forward_s,
            times.backward_s,
        )

    def settle(
        self, policy: str, times: LayerTimes | None = None, ratio: float = 1.0
    ) -> SettledPlan:
        """A policy's plan.

        Args:
            policy: Its text.
            times: Of the layers, measured.
            ratio: How many times as long as known collectives take.
        """
        costs = model_of(self.wanted.costs, self._calls.size, ratio)
        is_beside = self._layout.members[0].parameter.device.type != "cpu"
        least_s = LEAST_BESIDE_S if is_beside else LEAST_ON_CPU_S
        pieced = for_measured(policy, least_s, sum(self._atom_bytes), costs)
        settled = settle_plan(pieced, self.profile(times), costs)
        check_kinds(policy, settled.collectives, self.wanted.updates_early)
        return settled

    def follow(self, settled: SettledPlan) -> Following:
        """Makes a plan ready."""
        plan = settled.collectives
        described = tuple(self._describe(one) for one in plan)
        return Following(
            Program(plan, self._layout, self._calls, self.wanted.gathers, self._units),
            PlanReplay(self.profile(None), plan, self.wanted.channel_width, settled.step_at_once),
            self.wanted.gathers,
            self.wanted.updates_early,
            described,
            tuple(self._layers_of(one) for one in plan),
            settled.step_at_once,
        )

    def predicted_s(self, one: AtomCollective) -> float:
        """What a collective takes by the costs; 0: nobody knows."""
        if self._measured is None:
            return 0.0
        size_bytes = sum(self._atom_bytes[one.first : one.end])
        return self._measured.time_ps(one.kind, size_bytes) / 1e12

    def _layers_of(self, one: AtomCollective) -> tuple[int, ...]:
        members, atoms = self._layout.members, self._layout.atoms[one.first : one.end]
        return tuple(sorted({members[part.member].layer for atom in atoms for part in atom.parts}))

    def _describe(self, one: AtomCollective) -> Described:
        atoms, members = self._layout.atoms, self._layout.members
        return Described(
            one.kind,
            members[atoms[one.first].parts[0].member].name,
            members[atoms[one.end - 1].parts[-1].member].name,
            sum(self._atom_bytes[one.first : one.end]),
        )


def times_of(layout: Layout, profile: Profile | None) -> LayerTimes | None:
    """A profile's times by the layers of a layout: each layer's count where its first tensor is."""
    if profile is None:
        return None
    layer_of = {member.name: member.layer for member in layout.members}
    forward_s, backward_s = [0.0] * layout.layer_count, [0.0] * layout.layer_count
    for layer in profile.layers:
        index = layer_of.get(layer.tensors[0][0]) if layer.tensors else None
        if index is None:
            raise ValueError(f"the profile {profile.name} has a layer {layer.name} of no parameter")
        forward_s[index] += layer.forward_s
        backward_s[index] += layer.backward_s
    return LayerTimes(tuple(forward_s), tuple(backward_s))
