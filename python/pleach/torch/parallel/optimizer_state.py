"""The optimizer's state, gathered from the ranks that have it, as the plain one would have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .exchange import Exchange
from .group_calls import GroupCalls, Stretch
from .layout import Layout, dense_strides
from .updates import UnitOptimizer, flat, is_per_element

# What an entry is, and its type or its value.
Entry = tuple[bool, Any]


def gather_state(
    optimizer: UnitOptimizer, layout: Layout, exchange: Exchange, calls: GroupCalls
) -> dict[int, dict[str, Any]]:
    """Whole states, by member. Collective.

    Args:
        optimizer: Of this rank's units, with nothing under way.
        layout: Where parameters lie.
        exchange: Tells what there is.
        calls: Of the exchange's group.

    Returns:
        New tensors, in the shapes of their parameters; nothing of members without a state.
    """
    own: dict[int, dict[str, Entry]] = {}
    for unit in optimizer.units:
        for key, value in optimizer.state(unit).items():
            entry = (
                (True, value.dtype) if is_per_element(key, value, unit.values) else (False, value)
            )
            own.setdefault(unit.member, {})[key] = entry
    entries: dict[int, dict[str, Entry]] = {}
    for given in exchange.gather_objects(own):
        for member, state in given.items():
            entries.setdefault(member, {}).update(
                {key: entry for key, entry in state.items() if key not in entries.get(member, {})}
            )
    states: dict[int, dict[str, Any]] = {
        member: {key: value for key, (is_element, value) in state.items() if not is_element}
        for member, state in entries.items()
    }
    found = {
        (key, dtype)
        for state in entries.values()
        for key, (is_element, dtype) in state.items()
        if is_element
    }
    for key, dtype in sorted(found, key=str):
        members = [member for member, state in entries.items() if state.get(key) == (True, dtype)]
        for member, value in _gather_entry(optimizer, layout, calls, key, dtype, members).items():
            states[member][key] = value
    return states


def _gather_entry(
    optimizer: UnitOptimizer,
    layout: Layout,
    calls: GroupCalls,
    key: str,
    dtype: torch.dtype,
    members: list[int],
) -> dict[int, torch.Tensor]:
    """One entry of all members that have it: through flat memory like that of the parameters."""
    buffers = [torch.zeros_like(buffer.parameters, dtype=dtype) for buffer in layout.buffers]
    for unit in optimizer.units:
        value = optimizer.state(unit).get(key)
        if unit.member in members and value is not None:
            place = layout.place(unit.member)
            into = buffers[place.buffer][place.begin + unit.begin :][: unit.values.numel()]
            into.copy_(flat(value, unit.values))
    for index, buffer in enumerate(buffers):
        shares = tuple(atom.shares for atom in layout.atoms if atom.buffer == index)
        for call in calls.distribute(Stretch(buffer, shares)):
            call().wait()
    return {
        member: layout.view(buffers[layout.place(member).buffer], member).clone()
        for member in members
    }


def gather_member(
    layout: Layout,
    calls: GroupCalls,
    member: int,
    dtype: torch.dtype,
    parts: Sequence[tuple[int, torch.Tensor]],
) -> torch.Tensor:
    """One entry of one member. Collective.

    Args:
        layout: Where parameters lie.
        calls: Of a group whose ranks all call it.
        member: The member.
        dtype: Of the entry.
        parts: This rank's, each with the element of the member that it begins at.

    Returns:
        A new tensor in the member's shape.
    """
    place, parameter = layout.place(member), layout.members[member].parameter
    atoms = [layout.atoms[index] for index in layout.atoms_by_member()[member]]
    begin, end = atoms[0].place, atoms[-1].place + atoms[-1].size
    whole = torch.zeros(end - begin, dtype=dtype, device=parameter.device)
    for first, part in parts:
        into = whole[place.begin + first - begin :][: part.numel()]
        into.copy_(flat(part, part))
    for call in calls.distribute(Stretch(whole, tuple(atom.shares for atom in atoms))):
        call().wait()
    return whole.as_strided(parameter.shape, dense_strides(parameter), place.begin - begin).clone()
