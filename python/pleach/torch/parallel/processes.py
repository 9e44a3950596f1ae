"""Processes of ranks, and what this host knows of them."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
from typing import NamedTuple


class Process(NamedTuple):
    """A process among all hosts.

    Attributes:
        host: Names the host since its start, and the namespace of the identity; "": not known.
        identity: The process's.
        started: When it started, as its host counts.
    """

    host: str
    identity: int
    started: str

    def has_ended(self) -> bool:
        """True if it is known to have ended: it is of this host, and not there any more."""
        if not self.host or self.host != _host():
            return False
        found = _stat(self.identity)
        return found is None or found[0] in "ZX" or found[1] != self.started

    def is_stopped(self) -> bool:
        """True if it is of this host, and a signal has stopped it."""
        if not self.host or self.host != _host():
            return False
        found = _stat(self.identity)
        return found is not None and found[0] in "Tt"


def here() -> Process:
    """Returns this process."""
    return _here(os.getpid())


@functools.cache
def _here(identity: int) -> Process:
    found = _stat(identity)
    return Process("" if found is None else _host(), identity, "" if found is None else found[1])


@functools.cache
def _host() -> str:
    with contextlib.suppress(OSError):
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    return ""


def _stat(identity: int) -> tuple[str, str] | None:
    """The status letter of a process, and when it started."""
    try:
        text = pathlib.Path(f"/proc/{identity}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], fields[19]
