"""Leaves trainings that are not closed when their process ends, or destroys its groups."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterable
from typing import Protocol

from . import watching
from .groups import Groups, destroy_forgotten


class Training(Protocol):
    """A trainer."""

    @property
    def groups(self) -> Groups | None:
        """Its groups; None: it was closed."""

    def close(self) -> None:
        """Ends it, when what is under way has ended."""


def end_all(trainings: Iterable[Training], why: str) -> None:
    """Ends trainings, each once, and what is left of forgotten ones.

    It takes little time if other ranks do not come to what is under way.

    A process that ends by an exception tells the others at once. Otherwise the collectives that
    others have come to are waited for, as they need this rank's part.

    Args:
        trainings: They.
        why: The reason, for the ranks that still wait.
    """
    found = [(one, one.groups) for one in trainings if one.groups is not None]
    for _, groups in found:
        if failure_of_end():
            groups.health.break_off()
            groups.health.leave(why)
        else:
            groups.health.announce()
    for one, groups in found:
        has_failed = groups.health.is_broken  # which has been reported
        try:
            one.close()
        except Exception as error:  # it has failed, or others do not come any more
            groups.health.break_off()
            if not has_failed:
                watching.write(
                    f"pleach: rank {groups.health.rank} ends, and its last step() is not complete"
                    f"{_why_incomplete(error)}: {error}"
                )
        with contextlib.suppress(Exception):
            groups.destroy(why)
    destroy_forgotten()


def _why_incomplete(error: BaseException) -> str:
    """What is known beside an error: others who do not come have made fewer steps."""
    is_late = isinstance(error, TimeoutError) or isinstance(error.__cause__, TimeoutError)
    return ", as all ranks must make the same steps" if is_late else ""


def reason_of_end() -> str:
    """Why this process ends."""
    failure = failure_of_end()
    return f"its process ends: {failure}" if failure else "its process ends"


def failure_of_end() -> str:
    """The exception that ends this process, with its line; "": none does."""
    # multiprocessing ends a child inside of the exception's handler.
    failure = sys.exc_info()[1] or getattr(sys, "last_value", None)
    if isinstance(failure, SystemExit):
        failure = failure.__context__
    if failure is None:
        return ""
    told = "".join(traceback.format_exception_only(type(failure), failure)).strip()
    frames = traceback.extract_tb(failure.__traceback__)
    if not frames:
        return told
    return f"{told} ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"
