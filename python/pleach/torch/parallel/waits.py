"""Works that are waited for with an eye on the ranks that they need."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from .aborting import Sockets
from .health import Health

# A wait looks for trouble each time that so much has passed.
SLICE_S = 0.2
_SLICE = datetime.timedelta(seconds=SLICE_S)
# A wait that was cut short raises, as that of a work that has failed; only the time tells them
# apart, as a work may end in between.
_ALMOST_S = 0.9 * SLICE_S

_groups: dict[str, WatchedGroup] = {}  # by name


class WatchedGroup:
    """A process group whose collectives are counted, and waited for while all ranks are there.

    Attributes:
        started: Collectives that this rank has started in it.
        health: Of its ranks; None: nothing is known of them.
    """

    def __init__(
        self,
        group: dist.ProcessGroup,
        health: Health | None,
        device: torch.device,
        sockets: Sockets | None = None,
    ):
        """Watches nothing where there is no `health`; `sockets` are to be shut down if it fails."""
        self._group: dist.ProcessGroup | None = group
        self.sockets = sockets or Sockets()
        self.started = 0
        self.health = health
        self.is_on_host = device.type == "cpu"
        if health is not None:
            health.groups.append(self)

    @property
    def group(self) -> dist.ProcessGroup:
        """The group itself, of which nothing else of a training keeps hold."""
        if self._group is None:
            raise RuntimeError("this training was closed")
        return self._group

    def let_go(self) -> dist.ProcessGroup | None:
        """Gives the group away, once."""
        group, self._group = self._group, None
        return group

    def start(self, call: Callable[[], Any]) -> Awaited:
        """Starts a collective, which gives its work.

        Raises:
            RuntimeError: The group has failed.
        """
        self.started += 1
        return Awaited(call(), self)

    def start_explained(self, call: Callable[[], Any]) -> Awaited:
        """The same, for a caller that waits: it may take a second to learn what has failed.

        Raises:
            RuntimeError: The group has failed; names the rank behind it.
        """
        try:
            return self.start(call)
        except RuntimeError as error:
            if self.health is None:
                raise
            raise self.health.explained(error) from error


def watch_group(
    group: dist.ProcessGroup,
    health: Health,
    device: torch.device,
    sockets: Sockets | None = None,
) -> None:
    """Lets `watched` find the health of a group's ranks, until `leave_group`."""
    _groups[group.group_name] = WatchedGroup(group, health, device, sockets)


def leave_group(name: str) -> Sockets:
    """Forgets a group; gives its sockets."""
    found = _groups.pop(name, None)
    return Sockets() if found is None else found.sockets


def watched(group: dist.ProcessGroup, device: torch.device) -> WatchedGroup:
    """Returns what counts a group's collectives."""
    return _groups.get(group.group_name) or WatchedGroup(group, None, device)


class Awaited:
    """A work of torch's, whose `wait` ends when a rank that it needs has left.

    Attributes:
        work: torch's.
    """

    __slots__ = ("_group", "work")

    def __init__(self, work: Any, group: WatchedGroup):
        """Of a work that has been started in the group."""
        self.work = work
        self._group = group

    def get_future(self) -> Any:
        """See torch.distributed.Work."""
        return self.work.get_future()

    def is_completed(self) -> bool:
        """See torch.distributed.Work."""
        return bool(self.work.is_completed())

    def wait(self, what: str = "the other ranks") -> None:
        """Returns when the work has ended.

        Args:
            what: It waits for, in words.

        Raises:
            RuntimeError: It has failed, or a rank has failed or left that it needs; names it.
        """
        health = self._group.health
        if health is None:
            self.work.wait()
        elif not self._ends_soon(health):
            with health.waiting(what):
                while not self._ends_soon(health):
                    health.check()

    def _ends_soon(self, health: Health) -> bool:
        """Waits for a slice; True if it has ended well."""
        begin_s = time.monotonic()
        try:
            if self._group.is_on_host:
                self.work.wait(_SLICE)
            elif self._is_on_its_way():
                self.work.wait()
            else:
                return False
        except RuntimeError as error:
            if self._group.is_on_host and time.monotonic() - begin_s > _ALMOST_S:
                return False  # one that has failed raises at once the next time
            raise health.explained(error) from error
        return True

    def _is_on_its_way(self) -> bool:
        """Waits for the host's part of a work of an accelerator, whose wait(timeout) does more."""
        try:
            future = self.work.get_future()
        except RuntimeError:  # it has none
            return True
        ended = threading.Event()
        future.add_done_callback(lambda _: ended.set())
        return ended.wait(SLICE_S)


def run_watched(task: Callable[[], None], health: Health, what: str) -> None:
    """Runs a task that blocks and cannot be cut short, in a thread, while all ranks are there.

    Args:
        task: It.
        health: Of the ranks that it waits for.
        what: It waits for, in words.

    Raises:
        RuntimeError: A rank has failed or left; the thread is left behind.
        Exception: What the task has raised.
    """
    failures: list[BaseException] = []

    def run() -> None:
        try:
            task()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="pleach-joining", daemon=True)
    thread.start()
    with health.waiting(what):
        while thread.is_alive():
            thread.join(SLICE_S)
            if thread.is_alive():
                health.check()
    for failure in failures:
        raise failure
