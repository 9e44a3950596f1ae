"""Tells when works end, of whatever backend."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any


class Endings:
    """Calls back when works end, from some thread.

    A work's future tells. Of those that have none (Gloo's reduce_scatters) a thread waits for one
    after the other, in the order in which they were started; it exists once it is needed.
    """

    def __init__(self) -> None:
        self._waited: queue.SimpleQueue[tuple[Any, Callable[[], None]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def tell(self, work: Any, ended: Callable[[], None]) -> None:
        """Calls `ended` once, when the work has ended, well or not; at once where it has."""
        try:
            future = work.get_future()
        except RuntimeError:
            self._wait_for(work, ended)
            return
        future.add_done_callback(lambda _: ended())

    def stop(self) -> None:
        """Ends its thread, after the works that it waits for."""
        if self._thread is not None:
            self._waited.put(None)

    def _wait_for(self, work: Any, ended: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="pleach-endings", daemon=True)
            self._thread.start()
        self._waited.put((work, ended))

    def _run(self) -> None:
        while (one := self._waited.get()) is not None:
            work, ended = one
            with contextlib.suppress(Exception):
                work.wait()
            ended()
            del one, work, ended  # which hold whoever is told
