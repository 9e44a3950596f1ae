"""`optimizer.state` as its user sees it: this rank's parts of it, whose writes count."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .exchange import Exchange
from .group_calls import GroupCalls
from .guard import Guard, GuardedSet
from .layout import Layout
from .optimizer_state import gather_member
from .plainly import run_plainly
from .updates import Kind, UnitOptimizer, flat, is_per_element

aten = torch.ops.aten
# Uses of the storage of an entry: by itself, by the optimizer's own, and by the object that counts.
UNSHARED_USES = 3


class StateShard(torch.Tensor):
    """An entry of `optimizer.state[parameter]` that is divided among the ranks.

    It has the parameter's shape. `parts()` is what this rank holds. Any other use of its values
    gathers it from all ranks, which all make the same call. What is written to it in place counts.
    """

    _source: weakref.ref[ExposedState]
    _member: int
    _key: str

    @staticmethod
    def __new__(
        cls, source: ExposedState, member: int, key: str, like: torch.Tensor, device: torch.device
    ) -> StateShard:
        """Stands for the entry `key` of a member, of the shape, strides and type of `like`."""
        made = torch.Tensor._make_wrapper_subclass(
            cls, like.shape, strides=like.stride(), dtype=like.dtype, device=device
        )
        made._source, made._member, made._key = weakref.ref(source), member, key
        return made

    def __init__(self, *_arguments: Any) -> None:
        """See `__new__`."""

    @property
    def data(self) -> StateShard:
        """The entry itself. What is assigned is written to it."""
        return self

    @data.setter
    def data(self, values: torch.Tensor) -> None:
        _store(self, values)

    def parts(self) -> list[tuple[int, torch.Tensor]]:
        """This rank's parts, flat, each with the element of the parameter that it begins at."""
        return self._state().parts(self._member, self._key)

    def whole(self) -> torch.Tensor:
        """The whole entry, a new tensor. Collective: all ranks call it."""
        return self._state().whole(self._member, self._key)

    def _state(self) -> ExposedState:
        state = self._source()
        if state is None:
            raise RuntimeError("the training that this optimizer's state was of is no more")
        return state

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"StateShard({self._key}, shape={tuple(self.shape)}, dtype={self.dtype})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return memo.setdefault(id(self), self.whole())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.whole().__reduce_ex__(protocol)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func in (aten.detach.default, aten.alias.default):
            return args[0]
        made: dict[int, torch.Tensor] = {}  # by identity: whole entries, gathered once

        def gathered(one: StateShard) -> torch.Tensor:
            return made.setdefault(id(one), one.whole())

        written = _written(func, args, kwargs or {})
        if any(
            each.alias_info is not None and not each.alias_info.is_write
            for each in func._schema.arguments
        ):
            raise RuntimeError(
                f"a view or an index of the optimizer's state {args[0]!r}: what is written to it "
                "would be lost; read whole(), or write to all of the entry"
            )
        arguments, keywords = torch.utils._pytree.tree_map_only(
            StateShard, gathered, (tuple(args), dict(kwargs or {}))
        )
        result = func(*arguments, **keywords)
        for one in written:
            _store(one, made[id(one)])
        return written[0] if written and isinstance(result, torch.Tensor) else result


def _written(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[StateShard]:
    """The arguments that an operation writes to."""
    found: list[StateShard] = []
    for index, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            leaves = torch.utils._pytree.tree_leaves(value)
            found += [one for one in leaves if isinstance(one, StateShard)]
    return found


def _store(shard: StateShard, whole: torch.Tensor) -> None:
    """Takes this rank's parts of new values."""
    ordered = flat(whole, shard)
    for begin, part in shard.parts():
        part.copy_(ordered[begin : begin + part.numel()].view_as(part))


@dataclasses.dataclass
class _Shown:
    """A member's state as its user has it.

    Attributes:
        state: The dictionary in `optimizer.state`.
        entries: Its entries when it was last shown.
        inner: The units' entries of then, by key.
    """

    state: dict[str, Any]
    entries: dict[str, Any]
    inner: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Division:
    """How the state is divided among the ranks.

    Attributes:
        kind: Of the optimizer.
        is_divided: False: every rank has all of it.
        exchange: Tells ranks of each other's entries.
        calls: Gathers parts, in the exchange's group.
        await_updates: Returns when this rank's updates have ended.
        announce: Returns when all ranks have come to a call, given its name.
    """

    kind: Kind
    is_divided: bool
    exchange: Exchange
    calls: GroupCalls
    await_updates: Callable[[], None]
    announce: Callable[[str], None]


class ExposedState:
    """Keeps `optimizer.state` and the units' states alike, from when it is first read on."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        units: UnitOptimizer,
        layout: Layout,
        division: Division,
    ):
        """Shows nothing yet.

        Args:
            optimizer: The user's.
            units: Has the state of this rank's parts.
            layout: Where parameters lie.
            division: Of the state.
        """
        self._held: dict[str, Any] = optimizer.__dict__
        self._units = units
        self._layout = layout
        self._division = division
        self._shown: dict[int, _Shown] = {}
        self._given: Any = self._held["state"]  # the dictionary that is kept like the units' states
        self._guarded = GuardedSet([])  # numbers
        self._is_current = False  # it shows what is there, unless its user has changed it
        self._last: Any = None  # what was shown
        # By member that other ranks own: tensors without values, of the shapes of its entries.
        self._remote: dict[int, dict[str, torch.Tensor]] = {}
        self._learnt: set[int] = set()  # members whose entries were

    def read(self) -> Any:
        """`optimizer.state`, when this rank's updates have ended."""
        self._division.await_updates()
        if not (self._is_current and self._held["state"] is self._last):
            run_plainly(self._take_and_show)
            self._is_current, self._last = True, self._held["state"]
        return self._held["state"]

    def _take_and_show(self) -> None:
        self.take()
        for member in range(len(self._layout.members)):
            self._show(member)

    def take(self) -> None:
        """Takes what the user has written since it was last shown. With nothing under way."""
        self._is_current = False
        if self._division.kind is Kind.UNKNOWN:  # whose state is the user's own
            return
        given: dict[Any, dict[str, Any]] = self._held["state"]
        if given is not self._given:  # replaced as a whole
            self._given = given
            for index, member in enumerate(self._layout.members):
                self._units.take(index, given.get(member.parameter, {}))
            self._shown.clear()
            return
        if not self._shown and not given:
            return
        for index, member in enumerate(self._layout.members):
            self._take_moved(index)
            shown, now = self._shown.get(index), given.get(member.parameter, {})
            before = {} if shown is None else shown.entries
            if shown is not None and now is shown.state and _are_same(now, before):
                self._share_numbers(index)
            elif shown is not None or now:
                kept = [key for key, value in before.items() if now.get(key) is value]
                self._share_numbers(index)
                self._units.take(index, now, kept)
                self._shown.pop(index, None)
                self._show(index)  # so that it is taken once

    def _take_moved(self, member: int) -> None:
        """Takes what the user has assigned to the `data` of an entry, and shares it again."""
        shown = self._shown.get(member)
        if shown is None:
            return
        for key, entry in shown.entries.items():
            value = shown.inner.get(key)
            if isinstance(entry, StateShard) or not isinstance(value, torch.Tensor):
                continue
            if entry.data_ptr() != value.data_ptr():
                entry.data = value.copy_(entry)

    def forget(self) -> None:
        """All of it has been replaced, and taken."""
        self._given = self._held["state"]
        self._is_current = False
        self._shown.clear()

    def is_new(self, used: Sequence[Sequence[bool]]) -> bool:
        """True if members have states now whose entries were not learnt: what steps have used."""
        return not self._members(used) <= self._learnt

    def _members(self, used: Sequence[Sequence[bool]]) -> set[int]:
        count = len(self._layout.members)
        return {member for flags in used for member in range(count) if flags[member]}

    def learn_remote(self, used: Sequence[Sequence[bool]]) -> None:
        """Learns which entries other ranks own. Collective, with nothing under way.

        Args:
            used: By step and member: its gradient was used.
        """
        self._is_current = False
        self._learnt |= self._members(used)
        own: dict[int, dict[str, torch.Tensor]] = {}
        for index, units in enumerate(self._units.units_of):
            for unit in units:
                own[index] = {
                    key: torch.empty_strided(
                        value.shape, value.stride(), dtype=value.dtype, device="meta"
                    )
                    for key, value in self._units.state(unit).items()
                    if isinstance(value, torch.Tensor)
                }
        for theirs in self._division.exchange.gather_objects(own):
            self._remote.update(theirs)

    def has_aliases(self) -> bool:
        """True if other tensors share the memory of entries that were guarded last."""
        return self._guarded.is_shared(UNSHARED_USES)

    def guard(self, guard: Guard) -> bool:
        """Guards what the user may hold: an update is under way.

        Returns:
            False if nothing is guarded, as other tensors share its memory.
        """
        self._guarded = self._guarded.renewed(self._numbers())
        if guard.waits and self.has_aliases():
            return False
        guard.put(self._guarded.tensors, self._guarded.placeholders)
        return True

    def lift(self, guard: Guard) -> None:
        """Lifts these guards: the updates have ended."""
        guard.lift(self._guarded.tensors, self._guarded.values)

    def _numbers(self) -> list[torch.Tensor]:
        return [
            entry
            for shown in self._shown.values()
            for entry in shown.entries.values()
            if isinstance(entry, torch.Tensor) and not isinstance(entry, StateShard)
        ]

    # --- Showing.

    def _show(self, member: int) -> None:
        inner = self._inner(member)
        shown = self._shown.get(member)
        if shown is not None and _are_same(inner, shown.inner):
            return
        parameter = self._layout.members[member].parameter
        if not inner:
            self._shown.pop(member, None)
            self._held["state"].pop(parameter, None)
            return
        state = self._held["state"].get(parameter, {})  # which the user may hold
        entries = {key: self._entry(member, key, value) for key, value in inner.items()}
        state.clear()
        state.update(entries)
        self._held["state"][parameter] = state
        self._shown[member] = _Shown(state, entries, inner)

    def _inner(self, member: int) -> dict[str, Any]:
        """The entries of a member's first unit, or of another rank's."""
        for unit in self._units.units_of[member]:
            return dict(self._units.state(unit))
        return dict(self._remote.get(member, {}))

    def _entry(self, member: int, key: str, value: Any) -> Any:
        """An entry as the user has it."""
        if not isinstance(value, torch.Tensor):
            return value
        parameter = self._layout.members[member].parameter
        if not self._division.is_divided:
            return value.detach()
        if self._is_per_element(member, key, value):
            like = torch.empty_strided(
                parameter.shape, parameter.stride(), dtype=value.dtype, device="meta"
            )
            return StateShard(
                self,
                member,
                key,
                like,
                value.device if value.device.type != "meta" else parameter.device,
            )
        if self._division.kind is Kind.WHOLE_TENSOR:
            return StateShard(self, member, key, value, parameter.device)
        return value.detach()

    def _is_per_element(self, member: int, key: str, value: torch.Tensor) -> bool:
        units = self._units.units_of[member]
        of: torch.Tensor = units[0].values if units else self._layout.members[member].parameter
        return is_per_element(key, value, of)

    def _share_numbers(self, member: int) -> None:
        """Gives all units of a member what the user may have written to the first one's numbers."""
        if len(self._units.units_of[member]) < 2:
            return
        first, *others = self._units.units_of[member]
        for key, value in self._units.state(first).items():
            if isinstance(value, torch.Tensor) and not is_per_element(key, value, first.values):
                for unit in others:
                    self._units.state(unit)[key].copy_(value)

    # --- The source of shards.

    def parts(self, member: int, key: str) -> list[tuple[int, torch.Tensor]]:
        """See StateShard.parts."""
        self._division.await_updates()
        return [
            (unit.begin, self._units.state(unit)[key])
            for unit in self._units.units_of[member]
            if key in self._units.state(unit)
        ]

    def whole(self, member: int, key: str) -> torch.Tensor:
        """See StateShard.whole."""
        name = self._layout.members[member].name
        self._division.announce(f"reading optimizer.state of {name}, {key}")
        parts = self.parts(member, key)
        shown = self._shown[member].entries[key]
        if shown.shape == self._layout.members[member].parameter.shape:
            return gather_member(self._layout, self._division.calls, member, shown.dtype, parts)
        device = self._layout.members[member].parameter.device
        for value in self._division.exchange.gather_objects([part.cpu() for _, part in parts]):
            if value:
                found: torch.Tensor = value[0].to(device)
                return found
        raise RuntimeError(f"no rank has the optimizer's state of {name}, {key}")


def _are_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """True if two dictionaries have the same objects."""
    return len(one) == len(other) and all(
        key in other and other[key] is value for key, value in one.items()
    )
