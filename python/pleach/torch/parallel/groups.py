"""Process groups of a training, which nobody else uses."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from .. import backend as ours
from .exchange import Exchange
from .group_calls import GroupCalls

_NAMING = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Groups:
    """Two groups of the same ranks: what travels in one is in no order with the other.

    Attributes:
        calls: Of the plan's collectives.
        exchange: Of what ranks tell each other beside them.
        deadline_s: Of every wait.
    """

    calls: GroupCalls
    exchange: Exchange
    deadline_s: float

    def destroy(self) -> None:
        """Leaves both, where nobody has; each also where leaving the other one fails."""
        with contextlib.ExitStack() as leaving:
            for group in (self.calls.group, self.exchange.group):
                if group in c10d._world.pg_map:
                    leaving.callback(dist.destroy_process_group, group)

    def destroy_later(self) -> None:
        """Leaves both some time from now, if nobody else has: for the garbage collector."""

        def leave() -> None:
            with contextlib.suppress(Exception):  # the process may end meanwhile
                self.destroy()

        threading.Thread(target=leave, name="pleach-leaving", daemon=True).start()


def make_groups(parent: dist.ProcessGroup, device: torch.device) -> Groups:
    """Makes them of a group's ranks, with its backend, its timeout and its Options. Collective.

    Args:
        parent: The group.
        device: Of the tensors that will travel.

    Raises:
        ValueError: The group has no backend for the device.
    """
    ranks = dist.get_process_group_ranks(parent)
    # Of the device alone: "cpu:gloo,cuda:nccl" would be two backends.
    config = dist.get_backend_config(parent)
    backend = dict(one.split(":") for one in config.split(",")).get(device.type)
    if backend is None:
        raise ValueError(f"the process group has no backend for {device}: it is over {config}")
    theirs = ours.unwrapped(parent._get_backend(device))
    timeout = timeout_of(theirs)
    options = ours.options_of(theirs) if backend == "pleach" else None
    token = [uuid.uuid4().hex]
    dist.broadcast_object_list(token, group=parent, group_src=0)
    made = []
    for what in ("plan", "control"):
        with _named(f"{token[0]}/{what}"):
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
    return Groups(GroupCalls(made[0], device), Exchange(made[1], device), timeout.total_seconds())


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
    with _NAMING:
        held = c10d._hash_ranks_to_str
        thread = threading.get_ident()
        c10d._hash_ranks_to_str = lambda ranks: (
            name if threading.get_ident() == thread else held(ranks)
        )
        try:
            yield
        finally:
            c10d._hash_ranks_to_str = held
