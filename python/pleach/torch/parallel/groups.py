"""Process groups of a training, which nobody else uses."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from .. import backend as ours
from .aborting import Sockets, abort
from .exchange import Exchange
from .group_calls import GroupCalls
from .health import Health
from .waits import leave_group, run_watched, watch_group

_NAMING = threading.Lock()
# How long a thread waits for another one's group. One that a left rank holds up may keep it.
NAMING_S = 300.0
# How long a group that was aborted may take to end its threads, before it is left to them.
DROP_S = 0.5
_made: dict[str, int] = {}  # by name of a parent: trainings that were begun
_forgotten: list[Groups] = []  # of trainings that are gone


@dataclasses.dataclass(frozen=True)
class Groups:
    """Two groups of the same ranks: what travels in one is in no order with the other.

    Attributes:
        calls: Of the plan's collectives.
        exchange: Of what ranks tell each other beside them.
        health: Of the ranks.
        deadline_s: Of every wait.
    """

    calls: GroupCalls
    exchange: Exchange
    health: Health
    deadline_s: float

    def destroy(self, why: str = "it closed its training") -> None:
        """Leaves both, once; each also where leaving the other one fails.

        Args:
            why: Told to the ranks that still wait.
        """
        self.health.leave(why)
        held = [one.let_go() for one in (self.calls, self.exchange)]
        with contextlib.ExitStack() as leaving:
            for _ in held:
                leaving.callback(_leave_last, held, self.health.is_broken)

    def destroy_later(self) -> None:
        """Tells the other ranks soon, and leaves both at `destroy_forgotten`.

        For the garbage collector, which comes at any time: PyTorch may be walking through its
        groups, in this thread or another.
        """

        def leave() -> None:
            with contextlib.suppress(Exception):  # the process may end meanwhile
                self.health.leave("it forgot its training")

        _forgotten.append(self)
        threading.Thread(target=leave, name="pleach-leaving", daemon=True).start()


def destroy_forgotten() -> None:
    """Leaves the groups of forgotten trainings: where this thread may change PyTorch's groups."""
    with contextlib.suppress(IndexError):  # another thread has taken the last one
        while _forgotten:
            groups = _forgotten.pop()
            with contextlib.suppress(Exception):  # no training uses them any more
                groups.destroy()


def _leave_last(held: list[dist.ProcessGroup | None], aborts: bool) -> None:
    """Takes the last of some groups out of a list, and destroys it.

    The caller holds no other reference to it. Gloo's destructor waits for what is under way, which
    may miss that its connection has ended: another thread runs it, for as long as the group's
    timeout then.
    """
    last = [held.pop()]
    if last[0] is None:
        return
    _leave(last[0], aborts)
    if aborts:
        thread = threading.Thread(target=last.clear, name="pleach-dropping", daemon=True)
        thread.start()
        thread.join(DROP_S)


def _leave(group: dist.ProcessGroup, aborts: bool) -> None:
    """Destroys a group, if the user has not destroyed all of them."""
    sockets = leave_group(group.group_name)
    if group not in c10d._world.pg_map:
        return
    if aborts:
        abort(group, sockets)
    dist.destroy_process_group(group)


def make_groups(parent: dist.ProcessGroup, device: torch.device) -> Groups:
    """Makes them of a group's ranks, with its backend, its timeout and its Options. Collective.

    Args:
        parent: The group.
        device: Of the tensors that will travel.

    Raises:
        ValueError: The group has no backend for the device.
        RuntimeError: A rank has not come in time, or has left.
    """
    destroy_forgotten()
    ranks = dist.get_process_group_ranks(parent)
    # Of the device alone: "cpu:gloo,cuda:nccl" would be two backends.
    config = dist.get_backend_config(parent)
    backend = dict(one.split(":") for one in config.split(",")).get(device.type)
    if backend is None:
        raise ValueError(f"the process group has no backend for {device}: it is over {config}")
    theirs = ours.unwrapped(parent._get_backend(device))
    timeout = timeout_of(theirs)
    options = ours.options_of(theirs) if backend == "pleach" else None
    made: list[dist.ProcessGroup] = []
    sockets = [Sockets(), Sockets()]

    def make() -> None:
        if device.type != "cpu" and device.index is not None:  # each thread has a device of its own
            torch.get_device_module(device).set_device(device)
        for what, own in zip(("plan", "control"), sockets, strict=True):
            with _named(f"{token}/{what}"), own.watch(backend == "gloo"):
                made.append(
                    dist.new_group(
                        ranks,
                        timeout,
                        backend,
                        pg_options=options,
                        use_local_synchronization=True,
                        group_desc=f"pleach:{what}",
                    )
                )

    with watched_parent(parent, device) as exchange:
        token = exchange.gather_objects(uuid.uuid4().hex)[0]  # all ranks have come
        run_watched(make, exchange.health, "the groups of the training")
        health = Health(made[1])
    for group, own in zip(made, sockets, strict=True):
        watch_group(group, health, device, own)
    return Groups(
        GroupCalls(made[0], device), Exchange(made[1], device), health, timeout.total_seconds()
    )


@contextlib.contextmanager
def watched_parent(parent: dist.ProcessGroup, device: torch.device) -> Iterator[Exchange]:
    """In its `with` block, waits in a user's group end when a rank has left. Collective.

    Args:
        parent: The group.
        device: Of the tensors that will travel.
    """
    name = parent.group_name
    _made[name] = _made.get(name, 0) + 1
    health = Health(parent, _made[name])
    watch_group(parent, health, device)
    try:
        yield Exchange(parent, device)
    except BaseException as error:
        health.leave(f"{type(error).__name__}: {error}")
        raise
    finally:
        leave_group(name)
        health.leave("it has gone on")


def timeout_of(backend: Any) -> datetime.timedelta:
    """How long the collectives of a group's backend may take."""
    if backend.name() == "pleach":
        return ours.timeout_of(backend)
    options = getattr(backend, "options", None)
    timeout: datetime.timedelta | None = getattr(options, "_timeout", None)
    return timeout or c10d.default_pg_timeout


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Gives the group that is made in the block a name.

    torch derives the name of a group that its members alone make from how many groups a process
    has, so ranks that are in different numbers of groups would wait for each other for ever.
    """
    if not _NAMING.acquire(timeout=NAMING_S):
        raise TimeoutError(f"another thread has been making a group for {NAMING_S:g} s")
    try:
        held = c10d._hash_ranks_to_str
        thread = threading.get_ident()
        c10d._hash_ranks_to_str = lambda ranks: (
            name if threading.get_ident() == thread else held(ranks)
        )
        try:
            yield
        finally:
            c10d._hash_ranks_to_str = held
    finally:
        _NAMING.release()


os.register_at_fork(after_in_child=_forgotten.clear)  # they are the parent's
