"""Tells who is still there when communication has failed."""

from __future__ import annotations

import contextlib
import datetime
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

# What ranks that live are given to say so. They look for others' failures once a second.
PATIENCE_S = 4.0


class Health:
    """What ranks report in their group's store, in whose order nothing else is.

    One rank's failure becomes all ranks', and a rank that reports none does not answer.
    """

    def __init__(self, group: dist.ProcessGroup):
        """Of a group's ranks."""
        store: Any = c10d._world.pg_map[group][1]
        self._store = store
        with contextlib.suppress(Exception):
            self._store = store.clone()  # so that nobody's wait keeps us from asking
        self._rank = group.rank()
        self._size = group.size()

    def _key(self, rank: int) -> str:
        return f"pleach/failed/{rank}"

    def report(self, what: str) -> None:
        """Tells the others that this rank has failed, of what."""
        with contextlib.suppress(Exception):
            self._store.set(self._key(self._rank), what)
            self._store.set("pleach/failed", f"rank {self._rank}: {what}")

    def others(self) -> str | None:
        """The failure that some rank has reported.

        Raises:
            RuntimeError: The store does not answer.
        """
        if not self._store.check(["pleach/failed"]):
            return None
        return str(self._store.get("pleach/failed").decode())

    def missing(self) -> str:
        """Which ranks have not reported a failure in due time, in words; "": none."""
        keys = [self._key(rank) for rank in range(self._size)]
        try:
            with contextlib.suppress(RuntimeError):  # stores have several kinds of them
                self._store.wait(keys, datetime.timedelta(seconds=PATIENCE_S))
            silent = [rank for rank, key in enumerate(keys) if not self._store.check([key])]
        except RuntimeError:
            return "the store does not answer"
        if not silent:
            return ""
        one = len(silent) == 1
        names = ", ".join(map(str, silent))
        return f"rank{'' if one else 's'} {names} {'does' if one else 'do'} not answer"
