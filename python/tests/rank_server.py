"""Forks the ranks of tests from one process that has imported PyTorch, and runs no other thread."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

_ANSWER_S = 60.0


class RankServer:
    """A fork of this process, as it is; each rank is a fork of that one.

    What this process has imported, no rank imports again. It has to have one thread: a fork has
    none but the one that forks, and waits forever for what another one had locked.
    """

    def __init__(self) -> None:
        tasks = pathlib.Path("/proc/self/task").iterdir()
        names = [(task / "comm").read_text().strip() for task in tasks]
        if len(names) != 1:
            raise RuntimeError(f"ranks cannot be forked where {len(names)} threads run: {names}")
        self._pipe, theirs = Pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._pipe.close()
            _leave(_fork_when_asked, theirs)
        theirs.close()

    def fork(self, function: Callable[..., None], *arguments: Any, log: pathlib.Path) -> Forked:
        """Forks a process that calls `function(pipe, *arguments)`, and writes to `log` only."""
        ours, theirs = Pipe()
        self._pipe.send((function, arguments, str(log)))
        send_handle(self._pipe, theirs.fileno(), self._pid)
        theirs.close()
        return Forked(self, self._answer(), ours)

    def exit_code(self, pid: int, within_s: float) -> int | None:
        """How a process ended, minus the signal if by one; None if it has not."""
        self._pipe.send((pid, within_s))
        code: int | None = self._answer(within_s)
        return code

    def close(self) -> None:
        """Ends it, and what it has forked; both end with this process too."""
        self._pipe.close()
        os.waitpid(self._pid, 0)

    def _answer(self, more_s: float = 0.0) -> Any:
        if not self._pipe.poll(_ANSWER_S + more_s):
            raise RuntimeError(f"the process that forks ranks did not answer in {_ANSWER_S} s")
        return self._pipe.recv()


class Forked:
    """A process that a server has forked.

    Attributes:
        pid: Its own until `exit_code` has told that it ended.
        pipe: To it.
    """

    def __init__(self, server: RankServer, pid: int, pipe: Connection):
        self.pid = pid
        self.pipe = pipe
        self._server = server
        self._exit_code: int | None = None

    def exit_code(self, within_s: float = 0.0) -> int | None:
        """How it ended, minus the signal if by one; None if it has not."""
        if self._exit_code is None:
            self._exit_code = self._server.exit_code(self.pid, within_s)
        return self._exit_code

    def signal(self, number: signal.Signals) -> None:
        """Sends it one, unless it is known to have ended."""
        if self._exit_code is None:
            os.kill(self.pid, number)

    def close(self, within_s: float) -> None:
        """Waits for its end, and kills it if that does not come."""
        if self.exit_code(within_s) is None:
            self.signal(signal.SIGKILL)
            self.exit_code(10.0)
        self.pipe.close()


def _fork_when_asked(pipe: Connection) -> None:
    """The server's life."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's, which the tests' process handles
    living: set[int] = set()
    while True:
        try:
            asked = pipe.recv()
        except EOFError:
            for pid in living:
                os.kill(pid, signal.SIGKILL)
            return
        if isinstance(asked[0], int):
            code = _exit_code(*asked)
            if code is not None:
                living.remove(asked[0])
            pipe.send(code)
            continue
        function, arguments, log = asked
        handle = recv_handle(pipe)
        pid = os.fork()
        if pid == 0:
            pipe.close()
            _leave(_begin, function, arguments, log, Connection(handle))
        os.close(handle)
        living.add(pid)
        pipe.send(pid)


def _begin(function: Callable[..., None], arguments: Any, log: str, pipe: Connection) -> None:
    """What a forked process does first: its words go to the log."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)
    os.close(file)
    import sys

    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    try:
        function(pipe, *arguments)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()


def _leave(function: Callable[..., None], *arguments: Any) -> None:
    """Calls it, and ends this process without what the one that it is a fork of does at its end."""
    code = 1
    try:
        function(*arguments)
        code = 0
    except BaseException:
        with contextlib.suppress(OSError):
            os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _exit_code(pid: int, within_s: float) -> int | None:
    deadline = time.monotonic() + within_s
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.005)
