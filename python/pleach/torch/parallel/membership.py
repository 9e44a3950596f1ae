"""Finds the parameters that a model gets after its training began."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch


class Membership:
    """The parameters that a model has. Where no module holds others than before, none is new."""

    def __init__(self, model: torch.nn.Module):
        """Takes the present ones for known."""
        self._model = model
        self._known = set(model.parameters())
        self._held: list[tuple[Mapping[str, Any], list[Any]]] = []
        self._note()

    def new(self) -> dict[torch.nn.Parameter, str]:
        """The parameters that are new since the last call, with their names."""
        if all(_is_same(holder, before) for holder, before in self._held):
            return {}
        self._note()
        found = {one: name for name, one in self._model.named_parameters()}
        new = {one: name for one, name in found.items() if one not in self._known}
        self._known.update(new)
        return new

    def _note(self) -> None:
        """Remembers what every module holds: its modules and parameters."""
        self._held = [
            (holder, list(holder.values()))
            for module in self._model.modules()
            for holder in (module._modules, module._parameters)
        ]


def _is_same(holder: Mapping[str, Any], before: list[Any]) -> bool:
    return len(holder) == len(before) and all(map(operator.is_, holder.values(), before))
