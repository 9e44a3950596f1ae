"""Processes that are the ranks of a job, for tests: started once, used by many."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import pathlib
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

DEADLINE_S = 60.0
# How long who did not answer has to write where it is, before it is ended.
_STACK_S = 1.0


class RankPool:
    """`count` processes with a process group each; rank r runs what it is sent.

    Functions are of modules that the ranks can import. A rank that fails, ends or does not answer
    in time fails the call, and ends the pool. Use it as a context, or call `close()`.

    Attributes:
        count: Of ranks.
        processes: By rank.
    """

    def __init__(
        self,
        count: int,
        backend: str,
        environment: dict[str, str] | None = None,
        timeout_s: float = DEADLINE_S,
    ):
        """Starts the ranks; they form the group while the caller goes on.

        Args:
            count: Of ranks.
            backend: Of torch.distributed: "gloo", "pleach", "cpu:pleach,cuda:nccl". "" makes no
                group: functions make their own in the folder that `folder()` tells.
            environment: Set in the ranks before PyTorch is imported.
            timeout_s: Of the process group.
        """
        if "pleach" in backend:
            # Which takes longer than ranks wait for each other. Not imported with this module: the
            # ranks set their environment before PyTorch is.
            from pleach.torch._build import build_shim

            build_shim()
        self.count = count
        self._is_closed = False
        self._folder = tempfile.TemporaryDirectory()
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self.processes: list[BaseProcess] = []
        for rank in range(count):
            ours, theirs = context.Pipe()
            place = (rank, count, backend, self._folder.name, timeout_s)
            process = context.Process(
                target=_serve, args=(theirs, place, environment or {}), daemon=True
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(process)

    def __enter__(self) -> RankPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def folder(self) -> pathlib.Path:
        """Returns a folder of the pool's own, which goes with it."""
        return pathlib.Path(self._folder.name)

    def run(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        deadline_s: float = DEADLINE_S,
        ranks: Sequence[int] | None = None,
    ) -> list[Any]:
        """Calls `function(rank, *arguments)` on the ranks, at once.

        Args:
            function: Of a module.
            arguments: Can be pickled.
            deadline_s: How long the ranks have, together.
            ranks: Those that call it; all unless given.

        Returns:
            What it returned, in the order of `ranks`.

        Raises:
            AssertionError: A rank failed; has the traceback of each that did.
        """
        chosen = list(range(self.count)) if ranks is None else list(ranks)
        self.start(function, *arguments, ranks=chosen)
        deadline = time.monotonic() + deadline_s
        results: list[Any] = []
        failures: list[str] = []
        for rank in chosen:
            answer = self._answer(rank, deadline, deadline_s)
            if isinstance(answer, str):
                failures.append(answer)
            else:
                results.append(answer[0])
        if failures:
            self.close()
            raise AssertionError("\n".join(failures))
        return results

    def start(self, function: Callable[..., Any], *arguments: Any, ranks: Sequence[int]) -> None:
        """Calls it as `run` does, on ranks whose answer nobody waits for."""
        for rank in ranks:
            self._pipes[rank].send((function, arguments))

    def close(self) -> None:
        """Ends the processes; in order if they answer."""
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

    def _answer(self, rank: int, deadline: float, deadline_s: float) -> tuple[Any] | str:
        """What the rank returned, or a text that says how it failed."""
        pipe = self._pipes[rank]
        is_there = False
        with contextlib.suppress(EOFError, ConnectionError):
            is_there = pipe.poll(max(0.0, deadline - time.monotonic()))
            if is_there:
                is_well, result = pipe.recv()
                return (result,) if is_well else f"rank {rank}:\n{result}"
        if is_there:
            self.processes[rank].join(1.0)
            return f"rank {rank} ended with {self.processes[rank].exitcode}"
        return f"rank {rank} did not answer within {deadline_s} s:\n{self._stacks(rank)}"

    def _stacks(self, rank: int) -> str:
        """Where the rank's threads are."""
        pid = self.processes[rank].pid
        if pid is None or not self.processes[rank].is_alive():
            return ""
        os.kill(pid, signal.SIGUSR1)
        time.sleep(_STACK_S)
        with contextlib.suppress(OSError):
            return (self.folder() / f"stacks-{rank}").read_text()
        return ""


def _serve(
    pipe: Connection, place: tuple[int, int, str, str, float], environment: dict[str, str]
) -> None:
    rank, count, backend, folder, timeout_s = place
    os.environ.update(environment)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(count))
    stacks = (pathlib.Path(folder) / f"stacks-{rank}").open("w")
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    failed = None
    if backend:
        store = dist.FileStore(str(pathlib.Path(folder) / "store"), count)
        try:
            dist.init_process_group(
                backend,
                store=store,
                rank=rank,
                world_size=count,
                timeout=timedelta(seconds=timeout_s),
            )
        except BaseException:
            failed = traceback.format_exc()
    while True:
        try:
            sent = pipe.recv()
        except EOFError:
            break
        if sent is None:
            break
        if failed is not None:
            pipe.send((False, failed))
            continue
        function, arguments = sent
        try:
            pipe.send((True, function(rank, *arguments)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))
    with contextlib.suppress(Exception):
        dist.destroy_process_group()


class Pools:
    """Pools by their arguments, each used until it is broken; `close()` ends them all."""

    def __init__(self) -> None:
        self._pools: dict[tuple[Any, ...], RankPool] = {}

    def get(
        self,
        count: int,
        backend: str,
        environment: dict[str, str] | None = None,
        timeout_s: float = DEADLINE_S,
    ) -> RankPool:
        """Returns an open pool, as `RankPool` takes it, that an earlier call may have used."""
        key = (count, backend, tuple(sorted((environment or {}).items())), timeout_s)
        pool = self._pools.get(key)
        if pool is None or not pool.is_open:
            pool = self._pools[key] = RankPool(count, backend, environment, timeout_s)
        return pool

    def close(self) -> None:
        """Ends all of them."""
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
