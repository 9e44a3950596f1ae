"""Progress of long calls, for the person who waits."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

Progress = Callable[[str], None]

_INTERVAL_S = 5.0


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} pleach: {what}", file=sys.stderr, flush=True)


def _is_wanted() -> bool:
    return "PLEACH_LOG" in os.environ or (sys.stderr is not None and sys.stderr.isatty())


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
    return _say if _is_wanted() else None


@contextlib.contextmanager
def busy_with(what: str) -> Iterator[None]:
    """Says every five seconds, where `progress_or_default` would say it, that work goes on."""
    if not _is_wanted():
        yield
        return
    ended = threading.Event()
    begin = time.monotonic()

    def repeat() -> None:
        while not ended.wait(_INTERVAL_S):
            _say(f"{what}: {time.monotonic() - begin:.0f} s so far")

    teller = threading.Thread(target=repeat, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
