"""Processes that are the ranks of a job, for tests: started once, used by many."""

from __future__ import annotations

import atexit
import contextlib
import datetime
import faulthandler
import multiprocessing
import os
import pathlib
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

DEADLINE_S = 60.0
# What ranks have to start, and to import PyTorch, on a machine that has other things to do.
START_S = 150.0
# In a rank: groups of the first ranks, by how many.
GROUPS: dict[int, Any] = {}


class RankPool:
    """`count` processes with a process group each of a backend; rank r runs what it is sent.

    Functions are of modules that the ranks can import. A rank that fails, ends or does not answer
    in time fails the call, and ends the pool.
    """

    def __init__(
        self,
        count: int,
        backend: str,
        environment: dict[str, str] | None = None,
        timeout_s: float = 120.0,
    ):
        self.count = count
        self._is_closed = False
        self._folder = tempfile.TemporaryDirectory()
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch.distributed"])  # imported once, for all ranks
        self._pipes: list[Connection] = []
        self.processes = []
        for rank in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve,
                args=(
                    theirs,
                    rank,
                    count,
                    backend,
                    self._folder.name,
                    environment or {},
                    timeout_s,
                ),
                daemon=True,
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(process)
        self._deadline = time.monotonic() + START_S
        self._are_ready = False

    def _get_ready(self) -> None:
        if self._are_ready:
            return
        self._are_ready = True
        answers = [self.receive(r, self._deadline - time.monotonic()) for r in range(self.count)]
        failures = [f"rank {r}: {what}" for r, (is_well, what) in enumerate(answers) if not is_well]
        if failures:
            self.close()
            raise AssertionError("\n".join(failures))

    def send(
        self,
        rank: int,
        function: Callable[..., Any],
        *arguments: Any,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """Lets a rank run something."""
        self._get_ready()
        self._pipes[rank].send((function, arguments, deadline_s))

    def receive(self, rank: int, within_s: float) -> tuple[bool, Any]:
        """Whether that went well, and what came of it: a result, or what is wrong."""
        with contextlib.suppress(EOFError, ConnectionError):
            if not self._pipes[rank].poll(max(0.0, within_s)):
                return False, f"did not answer within {within_s:.0f} s"
            received: tuple[bool, Any] = self._pipes[rank].recv()
            return received
        return False, "ended"

    def run(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        deadline_s: float = DEADLINE_S,
        ranks: Sequence[int] | None = None,
    ) -> list[Any]:
        """What `function(rank, *arguments)` returns on the ranks; all, unless some are named."""
        chosen = list(range(self.count)) if ranks is None else list(ranks)
        for rank in chosen:
            self.send(rank, function, *arguments, deadline_s=deadline_s)
        deadline = time.monotonic() + deadline_s
        results, failures = [], []
        for rank in chosen:
            is_well, result = self.receive(rank, deadline - time.monotonic())
            results.append(result)
            if not is_well:
                failures.append(f"rank {rank}: {result}")
        if failures:
            self.close()
            raise AssertionError("\n".join(failures))
        return results

    def close(self) -> None:
        """Ends the processes."""
        if self._is_closed:
            return
        self._is_closed = True
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
        deadline = time.monotonic() + 10.0
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive() and process.pid is not None:
                os.kill(process.pid, signal.SIGKILL)
                process.join()
        for pipe in self._pipes:
            pipe.close()
        self._folder.cleanup()

    @property
    def is_open(self) -> bool:
        """Whether all processes live."""
        return not self._is_closed and all(process.is_alive() for process in self.processes)


_SHARED: dict[tuple[int, str], RankPool] = {}


def shared_pool(count: int = 4, backend: str = "gloo") -> RankPool:
    """A pool that all tests of a session use; another one when that has failed."""
    pool = _SHARED.get((count, backend))
    if pool is None or not pool.is_open:
        if pool is not None:
            pool.close()
        elif not _SHARED:
            atexit.register(_close_shared)
        pool = _SHARED[count, backend] = RankPool(count, backend)
    return pool


def _close_shared() -> None:
    for pool in _SHARED.values():
        pool.close()


def _serve(
    pipe: Connection,
    rank: int,
    count: int,
    backend: str,
    folder: str,
    environment: dict[str, str],
    timeout_s: float,
) -> None:
    os.environ.update(environment)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(count))
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.FileStore(str(pathlib.Path(folder) / "store"), count)
    dist.init_process_group(
        backend,
        store=store,
        rank=rank,
        world_size=count,
        timeout=datetime.timedelta(seconds=timeout_s),
    )
    for size in range(1, count + 1):
        GROUPS[size] = dist.new_group(list(range(size)))
    pipe.send((True, None))
    while True:
        try:
            sent = pipe.recv()
        except EOFError:
            break
        if sent is None:
            break
        function, arguments, deadline_s = sent
        faulthandler.dump_traceback_later(0.9 * deadline_s)  # where it hangs
        try:
            pipe.send((True, function(rank, *arguments)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))
        faulthandler.cancel_dump_traceback_later()
    with contextlib.suppress(Exception):
        dist.destroy_process_group()
