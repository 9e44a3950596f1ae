"""How the ranks of a process group find each other: by an address in the group's store."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from datetime import timedelta
from types import ModuleType

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Meeting:
    """Where a group meets.

    Attributes:
        host: Of the store that the group's first rank serves.
        port: Its port.
        descriptor: The first rank's socket, which listens there; 0 on the others.
    """

    host: str
    port: int
    descriptor: int = 0


def meet(
    store: Store, rank: int, timeout: timedelta, shim: ModuleType, options: dict[str, object]
) -> Meeting:
    """Agrees on where the group meets; every rank of it calls this.

    The first rank listens and publishes its address and options, the only things that the store
    is told.

    Args:
        store: The group's, of any kind.
        rank: This one's, in the group.
        timeout: How long the first rank is waited for.
        shim: The compiled module.
        options: What all ranks have to be given alike, by name.

    Returns:
        The place.

    Raises:
        RuntimeError: The first rank has not published it in time, or is on another host and can
            be reached by its loopback only.
        ValueError: The first rank was given other options; names the first that differs.
    """
    # A store may have served an earlier group of this name: the n-th time is not the one before.
    turn = store.add(f"pleach/turn/{rank}", 1)
    key = f"pleach/address/{turn}"
    if rank == 0:
        host = _own_address(store)
        port, descriptor = shim.listen(host, 0)
        store.set(key, f"{host}\n{port}\n{socket.gethostname()}\n{json.dumps(options)}")
        return Meeting(host, port, descriptor)
    try:
        store.wait([key], timeout)
    except RuntimeError as error:
        raise RuntimeError(
            f"pleach: rank {rank}: rank 0 of the group did not say where to meet within "
            f"{timeout.total_seconds():g} s"
        ) from error
    told = store.get(key)
    try:
        host, port_text, its_host, its_options = told.decode().split("\n")
        port = int(port_text)
        theirs = dict(json.loads(its_options))
    except ValueError:
        raise RuntimeError(
            f"pleach: rank {rank}: the group's store has {told[:60]!r} under {key}, which is no "
            "address"
        ) from None
    for name, ours in options.items():
        if theirs.get(name) != ours:
            raise ValueError(
                f"pleach: rank {rank} of the group has {name}={ours!r}, rank 0 has "
                f"{theirs.get(name)!r}: give all ranks the same"
            )
    if _is_loopback(host) and its_host != socket.gethostname():
        raise RuntimeError(
            f"pleach: rank {rank} on {socket.gethostname()}: rank 0 of the group is at {host} of "
            f"{its_host}: set PLEACH_STORE_HOST there to an address that others can reach"
        )
    return Meeting(host, port)


def _own_address(store: Store) -> str:
    """This host's address, for those who reach the group's store."""
    chosen = os.environ.get("PLEACH_STORE_HOST")
    if chosen:
        return chosen
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    if not isinstance(store, TCPStore):
        return _LOOPBACK
    try:
        (*_, theirs), *_ = socket.getaddrinfo(store.host, store.port, type=socket.SOCK_STREAM)
        family = socket.AF_INET6 if ":" in str(theirs[0]) else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(theirs)
            ours = str(probe.getsockname()[0])
    except OSError:
        return _LOOPBACK
    if _is_loopback(ours):
        return _LOOPBACK
    return ours


def _is_loopback(host: str) -> bool:
    return host.startswith("127.") or host in ("localhost", "::1")
