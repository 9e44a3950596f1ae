"""Arranges the trained parameters: their order, their division among ranks, their memory."""

from __future__ import annotations

import dataclasses

import torch

from pleach.policy import BucketTuner, profile, settle_plan

from .comparing import check_modules
from .first_use import Order, Reading, Wait, find_gates, order_of, waits_of
from .following import check_kinds, first_policy, is_early, model_of
from .groups import Groups
from .layout import Allocator, Layout, Member, Rules
from .membership import Membership
from .program import Gathers
from .updates import Kind, Unit, shard_units, whole_units, with_empty_units

# Seeds the searches of bucket sizes.
SEED = 0


@dataclasses.dataclass(frozen=True)
class Requirements:
    """The inputs that determine an arrangement.

    Attributes:
        policy: With its options.
        kind: How the optimizer's update can be divided.
        gathers_gradients: Ranks get whole gradients, where the policy scatters them.
    """

    policy: str
    kind: Kind
    gathers_gradients: bool


class Arrangement:
    """A model's parameters in flat buffers. The same on all ranks, but for their shares.

    Attributes:
        names: Of the parameters that are trained and have elements.
        tuner: The first rank's search of a bucket size, if the policy is one.
        gathers: What ranks get whole.
        layout: Where parameters lie.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        groups: Groups,
        requirements: Requirements,
        allocate: Allocator,
    ):
        """Moves the parameters into flat buffers, in the modules' order. Collective.

        Raises:
            ValueError: A policy that cannot be trained with; on all ranks.
        """
        self._model = model
        self._optimizer = optimizer
        self._groups = groups
        self._requirements = requirements
        names = {parameter: name for name, parameter in model.named_parameters()}
        trained = {one: name for one, name in names.items() if one.requires_grad}
        self.names = {one: name for one, name in trained.items() if one.numel() > 0}
        self._empty = {one: name for one, name in trained.items() if one.numel() == 0}
        self._frozen = {one: name for one, name in names.items() if not one.requires_grad}
        self._membership = Membership(model)
        self._groups_at_creation = [
            [id(one) for one in group["params"]] for group in optimizer.param_groups
        ]
        self.tuner, kinds = self._check_policy()
        self.gathers, self._rules = self._divide(kinds)
        self._allocate = allocate
        gates, unread = find_gates(model, Reading(), list(self.names))
        order = order_of(gates, unread, self.names)
        self.layout = Layout(self._members(order), self._rules, allocate)
        self.layout.adopt()

    @property
    def trained(self) -> list[torch.nn.Parameter]:
        """All parameters that are trained."""
        return [*self.names, *self._empty]

    def _check_policy(self) -> tuple[BucketTuner | None, frozenset[str]]:
        """Rank 0's search of a bucket size, if there is one; and the kinds of collectives."""
        tuners: list[BucketTuner] = []
        sizes = [parameter.numel() * parameter.element_size() for parameter in self.names]
        policy, kind = self._requirements.policy, self._requirements.kind

        def kinds() -> frozenset[str]:
            if policy.split(",")[0] == "dear_bo":
                tuners.append(BucketTuner(policy, SEED))
            count = self._groups.calls.size
            times = [1e-3] * len(sizes)
            settled = settle_plan(
                first_policy(policy, *tuners),
                profile([[size] for size in sizes], (), count, times, times),
                model_of(None, count),
            )
            check_kinds(policy, settled.collectives, is_early(policy))
            if is_early(policy) and kind.is_own_step:
                raise ValueError(
                    f"policy {policy}: gathers=early updates in backward, and optimizer "
                    f"{type(self._optimizer).__name__} runs its step() as a whole; use "
                    "gathers=after_step"
                )
            return frozenset(one.kind for one in settled.collectives)

        found: frozenset[str] = self._groups.exchange.share(kinds)
        return next(iter(tuners), None), found

    def _divide(self, kinds: frozenset[str]) -> tuple[Gathers, Rules]:
        """What is gathered, and how the flat space is cut for it."""
        scatters, kind = "all_reduce" not in kinds, self._requirements.kind
        gathers = Gathers.NOTHING
        if scatters:
            takes_whole = self._requirements.gathers_gradients or kind is Kind.UNKNOWN
            gathers = Gathers.GRADIENTS if takes_whole else Gathers.PARAMETERS
        keeps_tensors = scatters and (
            "reduce" in kinds or (kind is Kind.WHOLE_TENSOR and gathers is Gathers.PARAMETERS)
        )
        return gathers, Rules(self._groups.calls.size, keeps_tensors)

    def _members(self, order: Order) -> list[Member]:
        """The parameters in that order, and then those without elements."""
        order = order + [(name, order[-1][1]) for name in self._empty.values()]
        parameters = {name: one for one, name in (self.names | self._empty).items()}
        group_of = {
            parameter: index
            for index, group in enumerate(self._optimizer.param_groups)
            for parameter in group["params"]
        }
        return [
            Member(name, parameters[name], layer, group_of[parameters[name]])
            for name, layer in dict(order).items()
        ]

    def follow(self, reading: Reading) -> list[Wait]:
        """Puts the parameters in the order in which a forward pass read them. Collective.

        They stay where they are if another tensor shares their memory, on any rank.

        Returns:
            The layers that modules wait for.
        """
        exchange, names = self._groups.exchange, self.names
        gates, unread = find_gates(self._model, reading, list(names))
        order = order_of(gates, unread, names)
        has_aliases = torch.tensor([float(self.layout.has_aliases())])
        if bool(exchange.all_reduce(has_aliases, is_maximum=True)):
            order = [(member.name, member.layer) for member in self.layout.members]
        modules = {module: name for name, module in self._model.named_modules()}
        waits: list[Wait]
        order, waits = exchange.broadcast_object((order, waits_of(gates, order, names, modules)))
        layout = Layout(self._members(order), self._rules, self._allocate, self.layout)
        layout.adopt()
        if not layout.shares_memory:
            self.layout.release()
        self.layout = layout
        return waits

    def units(self) -> list[Unit]:
        """What this rank updates."""
        layout, rank = self.layout, self._groups.calls.rank
        if self.gathers is not Gathers.PARAMETERS:
            return whole_units(layout, None)
        units = (
            whole_units(layout, rank) if self._rules.keeps_tensors else shard_units(layout, rank)
        )
        is_divisible = self._requirements.kind is not Kind.WHOLE_TENSOR
        return with_empty_units(layout, units) if is_divisible else units

    def check(self) -> None:
        """Parameters can still be trained, after what has been done to them since creation.

        Raises:
            RuntimeError: One takes gradients now, is new, or is in another group.
            ValueError: One is new and in a module that cannot be trained so.
        """
        if [[id(one) for one in group["params"]] for group in self._optimizer.param_groups] != (
            self._groups_at_creation
        ):
            raise RuntimeError(
                "optimizer.param_groups has other parameters, or another order, than when "
                "data_parallel was called: close() it, and begin anew with another optimizer"
            )
        new = self._membership.new()
        self._frozen.update(new)  # all of them, whichever is told of
        for parameter, name in new.items():
            if parameter.requires_grad:
                check_modules(self._model)  # it may be a wrapper's
                raise RuntimeError(
                    f"parameter {name} is new since data_parallel was called, so ranks would not "
                    "train it: put it in before, or call optimizer.close() and begin anew"
                )
        for parameter, name in self._frozen.items():
            if parameter.requires_grad:
                raise RuntimeError(
                    f"parameter {name} takes gradients, and did not when data_parallel was called, "
                    "or was not there: let it take them then, and freeze it afterwards, or close() "
                    "and begin anew"
                )

    def shards(self) -> list[list[torch.Tensor]]:
        """By member: this rank's parts of its gradient, flat."""
        shards: list[list[torch.Tensor]] = [[] for _ in self.layout.members]
        for unit in shard_units(self.layout, self._groups.calls.rank):
            shards[unit.member].append(unit.gradient)
        return shards
