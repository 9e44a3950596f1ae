"""The thread of a process that watches over its trainings, while there are any."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Protocol

# How often it looks.
INTERVAL_S = 0.3
# Time in which the thread must end [s].
_ENDING_S = 1.2


class Watched(Protocol):
    """A training."""

    def look(self) -> None:
        """Called now and then."""


class _Watch:
    """What is watched, and the thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.watched: list[Watched] = []
        self.ended = threading.Event()
        self.thread: threading.Thread | None = None

    def run(self, ended: threading.Event) -> None:
        """Looks after everything that is watched, until nothing is."""
        while not ended.wait(INTERVAL_S):
            with self.lock:
                watched = list(self.watched)
            for one in watched:
                with contextlib.suppress(Exception):  # a training's troubles are its own
                    one.look()
            del watched


_watch = _Watch()


def watch(one: Watched) -> None:
    """Looks after it from now on."""
    with _watch.lock:
        _watch.watched.append(one)
        if _watch.thread is None:
            _watch.ended = threading.Event()
            _watch.thread = threading.Thread(
                target=_watch.run, args=(_watch.ended,), name="pleach-watch", daemon=True
            )
            _watch.thread.start()


def forget(one: Watched) -> None:
    """Looks after it no more; the thread ends with the last one."""
    with _watch.lock:
        if one in _watch.watched:
            _watch.watched.remove(one)
        thread = None
        if not _watch.watched:
            thread, _watch.thread = _watch.thread, None
            _watch.ended.set()
    if thread is not None and thread is not threading.current_thread():
        thread.join(_ENDING_S)


def write(line: str) -> None:
    """Writes a line to stderr, at once."""
    with contextlib.suppress(Exception):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def _begin_anew() -> None:
    """A child of fork() has neither the thread nor the trainings."""
    global _watch
    _watch = _Watch()


os.register_at_fork(after_in_child=_begin_anew)
