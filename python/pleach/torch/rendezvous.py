"""How the ranks of a process group find each other: by an address in the group's store."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import ModuleType
from typing import TypeVar

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

_Value = TypeVar("_Value")

# Between two looks into the store.
_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.001, 0.1
_LOOPBACK = "127.0.0.1"
# Groups of the same ranks share endpoints when they have so many: threads that wait in a few groups
# at once then wake each other less.
_ENDPOINTS = 3


@dataclass(frozen=True)
class Meeting:
    """Where a group meets.

    Attributes:
        host: Of the store that the group's first rank serves.
        port: Its port.
        token: Random; tells this meeting from others that had the address before.
        descriptor: The first rank's socket, which listens there; 0 on the others.
    """

    host: str
    port: int
    token: str
    descriptor: int = 0


@dataclass(frozen=True)
class Member:
    """A rank of a process group that is made.

    Attributes:
        store: The group's, of any kind.
        rank: This one's, in the group.
        count: The group's ranks.
        timeout: How long others are waited for.
        alike: What all ranks have to be given alike, by name.
    """

    store: Store
    rank: int
    count: int
    timeout: timedelta
    alike: dict[str, object]

    def read(self, key: str, parse: Callable[[str], _Value], what: str) -> _Value:
        """Returns a value of the store, as `parse` reads it.

        Raises:
            RuntimeError: It has not come in time, and `what` says who has not done what; or it is
                nothing that `parse` takes.
        """
        deadline_s = time.monotonic() + self.timeout.total_seconds()
        pause_s = _LEAST_PAUSE_S
        while not self.store.check([key]):  # its wait() would let no signal through
            if time.monotonic() > deadline_s:
                raise RuntimeError(
                    f"pleach: rank {self.rank}: {what} within {self.timeout.total_seconds():g} s"
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)
        told = bytes(self.store.get(key))
        try:
            return parse(told.decode())
        except (ValueError, TypeError, KeyError, RecursionError):
            shown = repr(told[:60]).removeprefix("b")
            raise RuntimeError(
                f"pleach: rank {self.rank}: the group's store has {shown} under {key}, which no "
                "rank of the group writes there"
            ) from None

    def turn(self, what: str) -> int:
        """Returns how often this rank has come to that in this store: the n-th keys are apart."""
        # A store may have served an earlier group of this name.
        return int(self.store.add(f"pleach/turn/{what}/{self.rank}", 1))

    def check_alike(self, first: dict[str, object]) -> None:
        """Compares what this rank was given with what the first rank was given.

        Raises:
            ValueError: Something differs; names the first.
        """
        for name, ours in self.alike.items():
            if first.get(name) != ours:
                raise ValueError(
                    f"pleach: rank {self.rank} of the group has {name}={ours!r}, rank 0 has "
                    f"{first.get(name)!r}: give all ranks the same"
                )


def agree_on_carrier(member: Member, held: list[str]) -> str:
    """Agrees on an endpoint that the group shares with others; every rank of it calls this.

    The first rank offers those that it holds, the others answer with those of them that they hold
    too, and the first rank takes the first that all hold, or none. It alone decides, once all have
    answered, and each rank keeps what it has answered until the decision: so all take the same, and
    it is there. Where the first rank holds few nobody answers.

    Args:
        member: This rank.
        held: Names of the carriers that this rank keeps alive for it.

    Returns:
        The name of the carrier; "": a new one is made.

    Raises:
        RuntimeError: A rank has not come in time.
        ValueError: The first rank was given other options; names the first that differs.
    """
    if member.rank == 0 and len(held) < _ENDPOINTS:
        held = []
    if member.count == 1:
        return held[0] if held else ""
    turn = member.turn("carrier")
    offer, answer, choice = (f"pleach/{key}/{turn}" for key in ("offer", "answer", "choice"))
    if member.rank > 0:
        names, alike = member.read(
            offer, _parse_offer, "rank 0 of the group did not say which endpoint it may share"
        )
        member.check_alike(alike)
        if not names:
            return ""
        common = [name for name in names if name in held]
        member.store.set(f"{answer}/{member.rank}", json.dumps(common))
        choices = ["", *common]
        return member.read(
            choice,
            lambda text: choices[choices.index(text)],
            "rank 0 of the group did not choose an endpoint",
        )
    member.store.set(offer, json.dumps({"names": held, "alike": member.alike}))
    for rank in range(1, member.count) if held else ():
        theirs = member.read(
            f"{answer}/{rank}",
            lambda text: _names(json.loads(text)),
            f"rank {rank} of the group did not say which endpoint it may share",
        )
        held = [name for name in held if name in theirs]
    chosen = held[0] if held else ""
    member.store.set(choice, chosen)
    return chosen


def meet(member: Member, shim: ModuleType) -> Meeting:
    """Agrees on where the group meets; every rank of it calls this.

    The first rank listens and publishes its address and options.

    Args:
        member: This rank.
        shim: The compiled module.

    Returns:
        The place.

    Raises:
        RuntimeError: The first rank has not published it in time, or is on another host and can
            be reached by its loopback only.
        ValueError: The first rank was given other options; names the first that differs.
    """
    key = f"pleach/address/{member.turn('address')}"
    if member.rank == 0:
        host = _own_address(member.store)
        port, descriptor = shim.listen(host, 0)
        token = secrets.token_hex(8)
        own = json.dumps(member.alike)
        member.store.set(key, f"{host}\n{port}\n{token}\n{socket.gethostname()}\n{own}")
        return Meeting(host, port, token, descriptor)
    place, its_host, theirs = member.read(
        key, _parse_place, "rank 0 of the group did not say where to meet"
    )
    member.check_alike(theirs)
    if _is_loopback(place.host) and its_host != socket.gethostname():
        raise RuntimeError(
            f"pleach: rank {member.rank} on {socket.gethostname()}: rank 0 of the group is at "
            f"{place.host} of {its_host}: set PLEACH_STORE_HOST there to an address that others "
            "can reach"
        )
    return place


def _names(found: object) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise TypeError("no list of names")
    return found


def _options(found: object) -> dict[str, object]:
    if not isinstance(found, dict):
        raise TypeError("no options")
    return found


def _parse_offer(text: str) -> tuple[list[str], dict[str, object]]:
    """The names of the first rank's carriers, and what it was given."""
    offer = _options(json.loads(text))
    return _names(offer["names"]), _options(offer["alike"])


def _parse_place(text: str) -> tuple[Meeting, str, dict[str, object]]:
    """Where the group meets, the name of the first rank's host, and what it was given."""
    host, port_text, token, its_host, options = text.split("\n")
    port = int(port_text)
    if not 0 < port < 1 << 16 or not (host + its_host).isprintable():
        raise ValueError("no address")
    return Meeting(host, port, token), its_host, _options(json.loads(options))


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
