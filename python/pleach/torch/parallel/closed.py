"""A training that was closed."""

from __future__ import annotations

from typing import Any


class ClosedTraining:
    """Takes the place of a trainer, whose optimizer is still held: it has nothing of it any more.

    An optimizer's class refers to its trainer, and only the garbage collector frees a class.
    """

    groups = model = optimizer = None

    def close(self) -> None:
        """Does nothing: it was closed."""

    def synchronize(self) -> None:
        """Does nothing: parameters are those of after the last step."""

    def __getattr__(self, name: str) -> Any:
        """Refuses what else a trainer can do."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(f"{name}: this training was closed")


def forget(trainer: object) -> None:
    """Lets go of everything that a closed trainer has."""
    trainer.__class__ = ClosedTraining
    trainer.__dict__.clear()
