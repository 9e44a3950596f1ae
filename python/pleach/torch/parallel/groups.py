"""Process groups of a training, which nobody else uses."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import threading
import uuid
from collections.abc import Iterator

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
        """Leaves both."""
        for group in (self.calls.group, self.exchange.group):
            dist.destroy_process_group(group)

    def destroy_later(self) -> None:
        """Leaves both some time from now, if nobody else has: for the garbage collector."""

        def leave() -> None:
            with contextlib.suppress(Exception):  # the process may end meanwhile
                self.destroy()

        threading.Thread(target=leave, name="pleach-leaving", daemon=True).start()


def make_groups(parent: dist.ProcessGroup, device: torch.device) -> Groups:
    """Makes them of a group's ranks, with its backend and its timeout. Collective.

    Args:
        parent: The group.
        device: Of the tensors that will travel.
    """
    ranks = dist.get_process_group_ranks(parent)
    # Of the device alone: "cpu:gloo,cuda:nccl" would be two backends.
    backends = dict(one.split(":") for one in dist.get_backend_config(parent).split(","))
    backend = backends[device.type]
    timeout = timeout_of(parent, device)
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
                    use_local_synchronization=True,
                    group_desc=f"pleach:{what}",
                )
            )
    return Groups(GroupCalls(made[0], device), Exchange(made[1], device), timeout.total_seconds())


def timeout_of(group: dist.ProcessGroup, device: torch.device) -> datetime.timedelta:
    """How long a group's collectives may take."""
    options = getattr(group._get_backend(device), "options", None)
    timeout: datetime.timedelta | None = getattr(options, "_timeout", None)
    return timeout or ours.timeout_of(group) or c10d.default_pg_timeout


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Gives the group that is made in the block a name.

    torch derives the name of a group that its members alone make from how many groups a process
    has, so ranks that are in different numbers of groups would wait for each other for ever.
    """
    with _NAMING:
        held = c10d._hash_ranks_to_str
        c10d._hash_ranks_to_str = lambda ranks: name
        try:
            yield
        finally:
            c10d._hash_ranks_to_str = held
