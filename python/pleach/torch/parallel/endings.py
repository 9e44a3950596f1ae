"""Tells when works end, of whatever backend."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable

from .waits import Awaited

_Ending = tuple[Awaited, Callable[[], None]]  # a work, and what to call at its end


class Endings:
    """Calls back when works end, from some thread.

    A work's future tells. Of those that have none (Gloo's reduce_scatters) a thread waits for one
    after the other, in the order in which they were started; it exists once it is needed.
    """

    def __init__(self) -> None:
        self._waited: queue.SimpleQueue[_Ending | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def tell(self, work: Awaited, ended: Callable[[], None]) -> None:
        """Calls `ended` once, when the work has ended, well or not; at once where it has."""
        try:
            future = work.get_future()
        except RuntimeError:
            self._wait_for(work, ended)
            return
        future.add_done_callback(lambda _: ended())

    def stop(self) -> None:
        """Ends its thread, after the works that it waits for."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._waited.put(None)

    def _wait_for(self, work: Awaited, ended: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=_run, args=(self._waited,), name="pleach-endings", daemon=True
            )
            self._thread.start()
        self._waited.put((work, ended))


def _run(waited: queue.SimpleQueue[_Ending | None]) -> None:
    """What the thread does: it does not hold the endings, which may be forgotten meanwhile."""
    while (one := waited.get()) is not None:
        work, ended = one
        with contextlib.suppress(Exception):
            work.work.wait()
        ended()
        del one, work, ended  # they hold the engine
