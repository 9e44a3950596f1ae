"""Hooks that belong to one model, and not to copies of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Hook:
    """A hook that a copy of its module is without.

    The hooks of a compiled module are compiled with it: what this one calls is left out, as it
    waits, and shares what it reads with other threads.
    """

    def __init__(self, function: Callable[..., None]):
        self._function: Callable[..., None] = torch.compiler.disable(function)

    def __call__(self, *arguments: Any) -> None:
        """Calls the function."""
        self._function(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name == "__name__":  # torch.jit.script compiles a module's hooks, by their names
            raise AttributeError(
                "a module of a data-parallel training has no script: call torch.jit.script before "
                "data_parallel, or after optimizer.close()"
            )
        raise AttributeError(name)

    def __deepcopy__(self, _memo: Any) -> Callable[..., None]:
        return _do_nothing

    def __reduce__(self) -> tuple[Any, ...]:
        return (_nothing, ())


def _do_nothing(*_arguments: Any) -> None:
    pass


def _nothing() -> Callable[..., None]:
    return _do_nothing
