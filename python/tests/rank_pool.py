"""Processes that are the ranks of a job, for tests: started once, used by many."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pathlib
import random
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from rank_server import RankServer

from pleach.torch._build import build_shim  # with pleach.torch: no rank has to import it

DEADLINE_S = 60.0
# How long who did not answer has to write where it is, before it is ended.
_STACK_S = 1.0
_LOG_CHARACTERS = 16_000  # the stacks of some threads
# In a rank of a pool that has them: groups of the first ranks, by how many.
GROUPS: dict[int, Any] = {}

_servers: list[RankServer] = []


def server() -> RankServer:
    """Returns what ranks are forked from, which knows what was imported at the first call."""
    if not _servers:
        _servers.append(RankServer())
    return _servers[0]


class _Place(NamedTuple):
    """What a rank is told of itself."""

    rank: int
    count: int
    backend: str
    environment: dict[str, str]
    timeout_s: float
    has_groups: bool
    folder: str


class RankPool:
    """`count` processes with a process group each; rank r runs what it is sent.

    Functions are of modules that are imported when the tests begin. A rank that fails, ends or
    does not answer in time fails the call, and ends the pool. Use it as a context, or call
    `close()`.

    Attributes:
        count: Of ranks.
    """

    def __init__(
        self,
        count: int,
        backend: str,
        environment: dict[str, str] | None = None,
        timeout_s: float = DEADLINE_S,
        has_groups: bool = False,
    ):
        """Starts the ranks; they form the group while the caller goes on.

        Args:
            count: Of ranks.
            backend: Of torch.distributed: "gloo", "pleach", "cpu:pleach,cuda:nccl". "" makes no
                group: functions make their own in the folder that `folder()` tells.
            environment: Set in the ranks after PyTorch is imported.
            timeout_s: Of the process group.
            has_groups: Whether the ranks have `GROUPS`.
        """
        if "pleach" in backend:
            build_shim()  # which takes longer than ranks wait for each other
        self.count = count
        self._is_closed = False
        self._folder = tempfile.TemporaryDirectory()
        self._ranks = []
        for rank in range(count):
            place = _Place(
                rank, count, backend, environment or {}, timeout_s, has_groups, self._folder.name
            )
            self._ranks.append(server().fork(_serve, place, log=self._log(rank)))

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
            AssertionError: A rank failed; has the traceback of each that did, and what it wrote.
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
            self.close(within_s=0.0)
            raise AssertionError("\n".join(failures))
        return results

    def start(self, function: Callable[..., Any], *arguments: Any, ranks: Sequence[int]) -> None:
        """Calls it as `run` does, on ranks whose answer nobody waits for."""
        for rank in ranks:
            with contextlib.suppress(BrokenPipeError):  # it has ended, as `run` tells
                self._ranks[rank].pipe.send((function, arguments))

    def kill(self, rank: int) -> None:
        """Ends a rank at once, stopped or not."""
        self._ranks[rank].signal(signal.SIGKILL)

    def close(self, within_s: float = 10.0) -> None:
        """Ends the processes; in order if they end in time."""
        if self._is_closed:
            return
        self._is_closed = True
        for rank in self._ranks:
            with contextlib.suppress(OSError):
                rank.pipe.send(None)
        deadline = time.monotonic() + within_s
        for rank in self._ranks:
            rank.close(max(0.0, deadline - time.monotonic()))
        self._folder.cleanup()

    @property
    def is_open(self) -> bool:
        """Whether all processes live."""
        return not self._is_closed and all(rank.exit_code() is None for rank in self._ranks)

    def _log(self, rank: int) -> pathlib.Path:
        return self.folder() / f"rank-{rank}.log"

    def _answer(self, rank: int, deadline: float, deadline_s: float) -> tuple[Any] | str:
        """What the rank returned, or a text that says how it failed."""
        its = self._ranks[rank]
        with contextlib.suppress(EOFError, ConnectionError):
            if its.pipe.poll(max(0.0, deadline - time.monotonic())):
                is_well, result = its.pipe.recv()
                return (result,) if is_well else f"rank {rank}:\n{result}{self._said(rank)}"
            its.signal(signal.SIGUSR1)
            its.exit_code(_STACK_S)  # which it does not end for
            return f"rank {rank} did not answer within {deadline_s} s:\n{self._said(rank)}"
        return f"rank {rank} ended with {its.exit_code(1.0)}{self._said(rank)}"

    def _said(self, rank: int) -> str:
        """The end of what the rank wrote."""
        with contextlib.suppress(OSError):
            text = self._log(rank).read_text(errors="replace")[-_LOG_CHARACTERS:]
            return f"\nrank {rank} wrote:\n{text}" if text else ""
        return ""


_shared: dict[tuple[Any, ...], RankPool] = {}


def shared_pool(
    count: int,
    backend: str,
    timeout_s: float = DEADLINE_S,
    has_groups: bool = False,
) -> RankPool:
    """Returns a pool that all tests of a session use; another one when that has failed."""
    key = (count, backend, timeout_s, has_groups)
    pool = _shared.get(key)
    if pool is None or not pool.is_open:
        if pool is not None:
            pool.close()
        pool = _shared[key] = RankPool(count, backend, None, timeout_s, has_groups)
    return pool


def training_pool(count: int = 4, backend: str = "gloo") -> RankPool:
    """Returns a shared pool whose ranks have `GROUPS`."""
    return shared_pool(count, backend, has_groups=True)


def close_all() -> None:
    """Ends the shared pools, and what their ranks were forked from."""
    for pool in _shared.values():
        pool.close()
    _shared.clear()
    while _servers:
        _servers.pop().close()


def _serve(pipe: Connection, place: _Place) -> None:
    """A rank's life."""
    faulthandler.enable(all_threads=True)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    random.seed()
    os.environ.update(place.environment)
    os.environ.update(RANK=str(place.rank), WORLD_SIZE=str(place.count))
    torch.set_num_threads(1)
    dist.set_debug_level_from_env()
    failed = None
    if place.backend:
        try:
            _join(place)
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
            pipe.send((True, function(place.rank, *arguments)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))
    with contextlib.suppress(Exception):
        dist.destroy_process_group()


def _join(place: _Place) -> None:
    """Makes the groups."""
    dist.init_process_group(
        place.backend,
        store=dist.FileStore(str(pathlib.Path(place.folder) / "store"), place.count),
        rank=place.rank,
        world_size=place.count,
        timeout=timedelta(seconds=place.timeout_s),
    )
    for size in range(1, place.count + 1) if place.has_groups else ():
        GROUPS[size] = dist.new_group(list(range(size)))
