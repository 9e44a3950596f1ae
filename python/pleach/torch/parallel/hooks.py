"""Hooks that belong to one model, and not to copies of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Hook:
    """A hook that a copy of its module is without."""

    def __init__(self, function: Callable[..., None]):
        self._function = function

    def __call__(self, *arguments: Any) -> None:
        """Calls the function."""
        self._function(*arguments)

    def __deepcopy__(self, _memo: Any) -> Callable[..., None]:
        return _do_nothing

    def __reduce__(self) -> tuple[Any, ...]:
        return (_nothing, ())


def _do_nothing(*_arguments: Any) -> None:
    pass


def _nothing() -> Callable[..., None]:
    return _do_nothing
