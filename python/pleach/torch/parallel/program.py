"""A plan made ready for one rank: its collectives' calls, and what follows from their ends."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence

from pleach.policy import AtomCollective

from .group_calls import Call, GroupCalls, Stretch, stretches
from .layout import Layout
from .updates import Unit


class Gathers(enum.Enum):
    """What ranks get whole once gradients are reduced."""

    PARAMETERS = "parameters"  # of shards that their owners have updated
    GRADIENTS = "gradients"  # then every rank updates everything
    NOTHING = "nothing"  # gradients are whole on all ranks: all_reduce


class Program:
    """A plan on one rank, and how far an iteration of it has come.

    Some of its collectives make gradients final on this rank: the reductions, or where gradients
    are gathered the gathers. A unit may be updated when all those that its atoms are in have ended.
    Not thread safe.
    """

    def __init__(
        self,
        plan: Sequence[AtomCollective],
        layout: Layout,
        calls: GroupCalls,
        gathers: Gathers,
        units: Sequence[Unit],
    ):
        """Makes the calls, which borrow the layout's memory.

        Args:
            plan: Legal for the layout.
            layout: Where atoms lie.
            calls: Of the group that the collectives are among.
            gathers: What the plan's second halves distribute.
            units: What this rank updates.
        """
        self.plan = tuple(plan)
        self.units = tuple(units)
        self.reduction_count = sum(one.reduces for one in self.plan)
        self.calls = [_calls_of(one, layout, calls, gathers) for one in self.plan]
        self._divisions = [
            functools.partial(_divide, one, layout, calls)
            if one.reduces and not calls.averages
            else None
            for one in self.plan
        ]
        self.finals = [one.reduces == (gathers is not Gathers.GRADIENTS) for one in self.plan]
        # Each is taken up once an iteration by what updates.
        self.final_count = sum(
            one.reduces or is_final for one, is_final in zip(self.plan, self.finals, strict=True)
        )
        final_of_atom = {
            atom: index
            for index, one in enumerate(self.plan)
            if self.finals[index]
            for atom in range(one.first, one.end)
        }
        self._finals_of_unit = [
            frozenset(final_of_atom[atom] for atom in unit.atoms) for unit in self.units
        ]
        self._units_of_final: list[list[int]] = [[] for _ in self.plan]
        for unit, finals in enumerate(self._finals_of_unit):
            for index in finals:
                self._units_of_final[index].append(unit)
        self.begin()

    def begin(self) -> None:
        """An iteration begins: nothing has been issued, has ended, or is updated."""
        self.issued = 0
        self._missing_finals = [len(finals) for finals in self._finals_of_unit]
        self._missing_units = [len(units) for units in self._units_of_final]

    def divide(self, index: int) -> None:
        """Makes averages of what a reduction has summed, where that has not been done."""
        division = self._divisions[index]
        if division is not None:
            division()

    def end(self, index: int) -> list[int]:
        """A collective has ended. Returns the units that may be updated now."""
        ready = []
        for unit in self._units_of_final[index]:
            self._missing_finals[unit] -= 1
            if self._missing_finals[unit] == 0:
                ready.append(unit)
        return ready

    def update(self, unit: int) -> list[int]:
        """A unit is updated. Returns the final collectives that have no other unit left."""
        complete = []
        for index in self._finals_of_unit[unit]:
            self._missing_units[index] -= 1
            if self._missing_units[index] == 0:
                complete.append(index)
        return complete

    def has_units(self, index: int) -> bool:
        """Whether updates are to come that a collective's bytes wait for."""
        return self._missing_units[index] > 0


def _calls_of(
    one: AtomCollective, layout: Layout, calls: GroupCalls, gathers: Gathers
) -> list[Call]:
    make: Callable[[Stretch], list[Call]] = calls.distribute
    if one.kind == "all_reduce":
        make = calls.all_reduce
    elif one.reduces:
        make = calls.reduce
    of_gradients = one.reduces or gathers is Gathers.GRADIENTS
    atoms = range(one.first, one.end)
    return [call for found in stretches(layout, atoms, of_gradients) for call in make(found)]


def _divide(one: AtomCollective, layout: Layout, calls: GroupCalls) -> None:
    for stretch in stretches(layout, range(one.first, one.end), of_gradients=True):
        calls.divide(stretch, is_whole=one.kind == "all_reduce")
