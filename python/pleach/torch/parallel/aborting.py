"""Ends what is under way in a process group, so that no rank waits for it, whatever its backend.

Gloo has no abort: what is under way lasts for the group's timeout, and the group's destructor waits
for it. Works that end while Python ends call back into it, and Python then ends the process by a
signal. So the sockets of such a group are shut down, and Gloo takes its peers for gone.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

import torch.distributed as dist


class Sockets:
    """The connections of a group: those that a process has made while it made the group."""

    def __init__(self) -> None:
        self._made: dict[int, str] = {}  # by descriptor: names of sockets

    @contextlib.contextmanager
    def watch(self, is_wanted: bool) -> Iterator[None]:
        """Takes the sockets that come into being in the `with` block, if they are wanted."""
        if not is_wanted:
            yield
            return
        before = _open_sockets()
        try:
            yield
        finally:
            self._made |= {
                descriptor: name
                for descriptor, name in _open_sockets().items()
                if before.get(descriptor) != name
            }

    def shut_down(self) -> None:
        """Ends the connections that are still there."""
        there = _open_sockets()
        for descriptor, name in self._made.items():
            if there.get(descriptor) != name:
                continue
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as one:
                if one.family in (socket.AF_INET, socket.AF_INET6):
                    one.getpeername()  # raises for one that listens
                    one.shutdown(socket.SHUT_RDWR)


def _open_sockets() -> dict[int, str]:
    found: dict[int, str] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/self/fd/{name}")
                if target.startswith("socket:"):
                    found[int(name)] = target
    return found


def abort(group: dist.ProcessGroup, sockets: Sockets) -> None:
    """Ends what is under way in a group.

    Args:
        group: The group.
        sockets: Its own, where its backend cannot end it.
    """
    with contextlib.suppress(RuntimeError):
        group.abort()
    sockets.shut_down()
