"""Progress of long calls, for the person who waits."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

Progress = Callable[[str], None]


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} pleach: {what}", file=sys.stderr, flush=True)


def progress_or_default(progress: Progress | None) -> Progress | None:
    """Returns who is told what a long call does.

    Args:
        progress: Told, where given; it runs in the calling thread.

    Returns:
        That; else one that writes lines to the standard error where that is a terminal or
        PLEACH_LOG is set; else None.
    """
    if progress is not None:
        return progress
    is_wanted = "PLEACH_LOG" in os.environ or (sys.stderr is not None and sys.stderr.isatty())
    return _say if is_wanted else None
