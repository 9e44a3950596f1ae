"""The user's optimizer, run on what this rank has to update.

The same class with the same settings runs on pieces of the flat buffers in place of the model's
parameters: on this rank's shards, on the tensors that it owns, or, where gradients are whole on
every rank, on everything.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import torch

from .layout import Layout

# Whose update of an element depends on no other element.
ELEMENTWISE = frozenset(
    {
        "SGD",
        "Adam",
        "AdamW",
        "Adamax",
        "NAdam",
        "RAdam",
        "Adagrad",
        "Adadelta",
        "ASGD",
        "RMSprop",
        "Rprop",
    }
)
WHOLE_TENSOR = frozenset({"Muon", "Adafactor"})
# Whose update with foreach has the same bits as without, and writes no gradients.
SAME_TOGETHER = frozenset({"SGD", "Adam", "AdamW", "Adamax", "Adagrad", "Adadelta", "RMSprop"})
REFUSED = {
    "LBFGS": "it evaluates the model several times a step; use torch.optim.AdamW or SGD",
    "SparseAdam": (
        "it needs sparse gradients; use torch.optim.Adam, and nn.Embedding with sparse=False"
    ),
}
# What optimizers keep for a whole tensor, of one element.
SCALARS = frozenset({"step", "mu_product", "eta", "mu"})


class Kind(enum.Enum):
    """How an optimizer's update can be divided among ranks."""

    ELEMENTWISE = "elementwise"  # torch's own: each part of a tensor by itself, when it is there
    WHOLE_TENSOR = "whole_tensor"  # torch's own: each tensor by itself, when it is there
    DECLARED = "declared"  # its user says elementwise: all parts of this rank in one step()
    UNKNOWN = "unknown"  # one step() on everything, on every rank

    @property
    def is_own_step(self) -> bool:
        """True if the optimizer's step() runs once a step, in the thread that calls it."""
        return self in (Kind.DECLARED, Kind.UNKNOWN)


def kind_of(
    optimizer: torch.optim.Optimizer, whole_tensor: bool | None, gathers_gradients: bool
) -> Kind:
    """Which kind an optimizer is.

    Args:
        optimizer: The optimizer. A class may say `whole_tensor = True` or `False` itself.
        whole_tensor: The caller's declaration; None: none.
        gathers_gradients: Every rank gets whole gradients, so that nothing has to be divided.

    Raises:
        ValueError: The optimizer cannot be run at all.
    """
    name = type(optimizer).__name__
    if name in REFUSED:
        raise ValueError(f"optimizer {name} cannot be run by pleach.torch: {REFUSED[name]}")
    for group in optimizer.param_groups:
        if group.get("differentiable"):
            raise ValueError(
                f"optimizer {name} with differentiable=True cannot be run by pleach.torch: its "
                "updates have no graph"
            )
        if group.get("capturable") and any(one.device.type == "cpu" for one in group["params"]):
            raise ValueError(
                f"optimizer {name} with capturable=True cannot be run: its parameters are on a CPU"
            )
    declared = (
        whole_tensor if whole_tensor is not None else getattr(optimizer, "whole_tensor", None)
    )
    if _is_torchs(type(optimizer), ELEMENTWISE):
        return Kind.WHOLE_TENSOR if declared else Kind.ELEMENTWISE
    if _is_torchs(type(optimizer), WHOLE_TENSOR):
        return Kind.WHOLE_TENSOR if declared is not False else Kind.ELEMENTWISE
    return Kind.DECLARED if declared is False and not gathers_gradients else Kind.UNKNOWN


def _is_torchs(kind: type[torch.optim.Optimizer], names: frozenset[str]) -> bool:
    return kind.__module__.startswith("torch.optim") and kind.__name__ in names


@dataclasses.dataclass(frozen=True)
class Unit:
    """What is updated at once: a part of one parameter, or all of it.

    Attributes:
        member: Of the layout.
        atoms: Those whose gradients it needs.
        begin: Where it begins in the parameter, in memory order [elements].
        values: What the optimizer takes for a parameter.
        gradient: Its gradient.
    """

    member: int
    atoms: tuple[int, ...]
    begin: int
    values: torch.Tensor
    gradient: torch.Tensor


def shard_units(layout: Layout, rank: int) -> list[Unit]:
    """The parts of all parameters that are in a rank's shares, flat, in order.

    Parameters without elements are every rank's, as a whole.
    """
    units = []
    for index, atom in enumerate(layout.atoms):
        buffer = layout.buffers[atom.buffer]
        begin, end = atom.share(rank)
        for part in atom.parts:
            low, high = max(begin, part.place), min(end, part.place + part.length)
            if low < high:
                units.append(
                    Unit(
                        part.member,
                        (index,),
                        part.begin + low - part.place,
                        buffer.parameters[low:high],
                        buffer.gradients[low:high],
                    )
                )
    for member, one in enumerate(layout.members):
        if one.parameter.numel() == 0:
            units.append(_whole_unit(layout, member, (len(layout.atoms) - 1,)))
    return units


def with_empty_units(layout: Layout, units: Sequence[Unit]) -> list[Unit]:
    """Units with one without elements for each member that has none.

    So every rank has every parameter's counters, such as Adam's `step`.
    """
    known = {unit.member for unit in units}
    atoms_of = layout.atoms_by_member()
    added = []
    for member, atoms in enumerate(atoms_of):
        if member not in known:
            place = layout.place(member)
            buffer = layout.buffers[place.buffer]
            empty = slice(place.begin, place.begin)
            values, gradient = buffer.parameters[empty], buffer.gradients[empty]
            added.append(Unit(member, (atoms[0],), 0, values, gradient))
    return [*units, *added]


def whole_units(layout: Layout, owner: int | None) -> list[Unit]:
    """Whole parameters, in their shapes: those of one owner, or all of them."""
    atoms_of = layout.atoms_by_member()
    units = []
    for member, atoms in enumerate(atoms_of):
        if owner is None or all(layout.atoms[atom].shares[owner] > 0 for atom in atoms):
            units.append(_whole_unit(layout, member, tuple(atoms)))
    return units


def _whole_unit(layout: Layout, member: int, atoms: tuple[int, ...]) -> Unit:
    return Unit(member, atoms, 0, layout.parameter(member), layout.gradient(member))


# Settings of all groups of an optimizer, as they were at one time.
Settings = list[dict[str, Any]]


def settings_of(optimizer: torch.optim.Optimizer) -> Settings:
    """The settings of an optimizer's groups, as they are now."""
    return [
        {
            key: value.clone() if isinstance(value, torch.Tensor) else value
            for key, value in group.items()
            if key != "params"
        }
        for group in optimizer.param_groups
    ]


def first_change(before: Settings, after: Settings) -> str:
    """The first setting that has changed, in words; "": none has."""
    for index, (one, other) in enumerate(zip(before, after, strict=True)):
        for key, value in other.items():
            old = one.get(key)
            if old is not value and not bool(torch.as_tensor(old == value).all()):
                return f"{key} of group {index}, from {old} to {value}"
    return ""


def unhooked_step(base: type[torch.optim.Optimizer]) -> Callable[..., Any]:
    """An optimizer's step() without hooks, which are of the user's step, not of its parts."""
    step: Any = base.step
    unhooked: Callable[..., Any] = step.__wrapped__ if getattr(step, "hooked", False) else step
    return unhooked


class UnitOptimizer:
    """An optimizer over units. Used by one thread at a time.

    Attributes:
        units: What this rank updates.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        base: type[torch.optim.Optimizer],
        layout: Layout,
        units: Sequence[Unit],
    ):
        """Takes over the optimizer's state, which may be large, for its units.

        Args:
            optimizer: The user's, which keeps the state of other parameters.
            base: Its class, as it was.
            layout: Where parameters lie.
            units: What this rank updates; a parameter has several where it is cut.
        """
        self.units = tuple(units)
        self.units_of: list[list[Unit]] = [[] for _ in layout.members]
        for unit in self.units:
            self.units_of[unit.member].append(unit)
        self._layout = layout
        self._has_same_bits = _is_torchs(base, SAME_TOGETHER)
        self._inner = object.__new__(base)
        self._inner.__dict__.update(optimizer.__dict__)
        self._inner.__dict__.pop("step", None)  # a scheduler's
        self._inner.state = collections.defaultdict(dict)
        self._inner.param_groups = []
        self._step = unhooked_step(base)
        self.take_over(optimizer)

    def update(self, units: Iterable[Unit], settings: Settings) -> None:
        """Updates units in place, as optimizer.step() would with these settings."""
        groups: list[list[torch.Tensor]] = [[] for _ in settings]
        chosen = list(units)
        for unit in chosen:
            unit.values.grad = unit.gradient
            groups[self._layout.members[unit.member].group].append(unit.values)
        self._inner.param_groups = [
            part
            for group, values in zip(settings, groups, strict=True)
            for part in self._parts_of(group, values)
        ]
        try:
            self._step(self._inner)
        finally:
            for unit in chosen:
                unit.values.grad = None

    def _parts_of(
        self, group: dict[str, Any], values: Sequence[torch.Tensor]
    ) -> list[dict[str, Any]]:
        """A group with these parameters: one, or one more for those without elements.

        They are updated together, as that takes time by the tensor, and has no bits to keep.
        """
        if self._has_same_bits:
            return [{**together(group), "params": list(values)}] if values else []
        full = [each for each in values if each.numel() > 0]
        empty = [each for each in values if each.numel() == 0]
        parts = [{**group, "params": full}] if full else []
        return [*parts, {**together(group), "params": empty}] if empty else parts

    def take_over(self, optimizer: torch.optim.Optimizer) -> None:
        """Takes the state of the layout's parameters away from an optimizer, for the units."""
        held = optimizer.__dict__["state"]
        self._inner.state.clear()
        for index, member in enumerate(self._layout.members):
            self.take(index, held.pop(member.parameter, {}))

    def take(self, member: int, state: dict[str, Any], kept: Collection[str] = ()) -> None:
        """Takes a whole parameter's state, for the units that this rank has of it.

        Args:
            member: The parameter.
            state: Copied; but not its entries `kept`, which units keep as they have them.
            kept: Keys.
        """
        parameter = self._layout.members[member].parameter
        for unit in self.units_of[member]:
            before = self._inner.state.pop(unit.values, {})
            part = {
                key: before[key] if key in kept else part_of(key, value, parameter, unit)
                for key, value in state.items()
            }
            if part:
                self._inner.state[unit.values] = part

    def state(self, unit: Unit) -> dict[str, Any]:
        """A unit's state; empty before its first update."""
        state: dict[str, Any] = self._inner.state.get(unit.values, {})
        return state


class DeclaredOptimizer(UnitOptimizer):
    """One whose step() runs once a step on all of this rank's parts, as its user declared.

    Its object is the user's, so what it writes to its groups or to itself stays.
    """

    def update(self, units: Iterable[Unit], settings: Settings) -> None:
        """Does nothing: step_now has updated everything."""

    def step_now(
        self, optimizer: torch.optim.Optimizer, used: Sequence[bool], step: Callable[[], Any]
    ) -> Any:
        """Runs step() with this rank's parts of the used members in place of the parameters."""
        chosen = [unit for unit in self.units if used[unit.member]]
        groups: list[list[torch.Tensor]] = [[] for _ in optimizer.param_groups]
        for unit in chosen:
            unit.values.grad = unit.gradient
            groups[self._layout.members[unit.member].group].append(unit.values)
        held = [group["params"] for group in optimizer.param_groups]
        for group, values in zip(optimizer.param_groups, groups, strict=True):
            group["params"] = values
        state, optimizer.__dict__["state"] = optimizer.__dict__["state"], self._inner.state
        try:
            return step()
        finally:
            optimizer.__dict__["state"] = state
            for group, parameters in zip(optimizer.param_groups, held, strict=True):
                group["params"] = parameters
            for unit in chosen:
                unit.values.grad = None


class NoOptimizer(UnitOptimizer):
    """In the place of one that runs its own step() on everything: it has no part in units."""

    def take(self, member: int, state: dict[str, Any], kept: Collection[str] = ()) -> None:
        """Does nothing: the user's optimizer keeps its state."""

    def update(self, units: Iterable[Unit], settings: Settings) -> None:
        """Does nothing."""

    def take_over(self, optimizer: torch.optim.Optimizer) -> None:
        """Does nothing: the user's optimizer keeps its state."""


def together(group: dict[str, Any]) -> dict[str, Any]:
    """A group's settings, with which an operation is one call for all units, where that may be.

    On a CPU torch has a call for each tensor unless it is told otherwise. Here other threads
    compute, and every call hands the interpreter to and fro.
    """
    is_said = group.get("foreach") is not None or bool(group.get("fused"))
    writes_gradients = bool(group.get("nesterov"))
    if is_said or writes_gradients or any(map(_has_tensor, group.values())):  # which it refuses
        return group
    return {**group, "foreach": True}


def _has_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or (
        isinstance(value, tuple) and any(map(_has_tensor, value))
    )


def is_per_element(key: str, value: Any, parameter: torch.Tensor) -> bool:
    """Whether an entry of an optimizer's state has a number for each of a parameter's elements."""
    return (
        isinstance(value, torch.Tensor)
        and value.shape == parameter.shape
        and not (value.numel() == 1 and key in SCALARS)
    )


def part_of(key: str, value: Any, parameter: torch.Tensor, unit: Unit) -> Any:
    """A unit's part of an entry of a parameter's state: a copy."""
    if not isinstance(value, torch.Tensor):
        return copy.deepcopy(value)
    if not is_per_element(key, value, parameter):
        return value.clone()
    if unit.values.shape == parameter.shape and unit.values.dim() != 1:
        part = torch.empty_like(unit.values, dtype=value.dtype, device=value.device)
        return part.copy_(value)
    return flat(value, parameter)[unit.begin : unit.begin + unit.values.numel()].clone()


def flat(value: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """A tensor of a parameter's shape, in the order in which that lies in memory."""
    ordered = torch.empty_strided(
        parameter.shape, parameter.stride(), dtype=value.dtype, device=value.device
    )
    return ordered.copy_(value).as_strided((parameter.numel(),), (1,))
