"""The backend `pleach` of torch.distributed: its options, and how a group's is made."""

from __future__ import annotations

import atexit
import multiprocessing.util
import os
import re
import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist

from ._build import load_shim, loaded_shim
from .rendezvous import Member, agree_on_carrier, meet

_MOST_TIMEOUT = timedelta(days=300)

_processes: set[int] = set()  # that have made groups: a child of fork() leaves none of its parent's


@dataclass
class Options:
    """What may be chosen for a group: `init_process_group("pleach", pg_options=Options(...))`.

    Attributes:
        transport: `tcp`, `shm`, `host`, `auto`; auto's choice unless PLEACH_TRANSPORT names one.
        book: A file, a book of `pleach plan` or a schedule; else PLEACH_BOOK's, or what rank 0
            plans. Rank 0's is taken, whatever the others give.
        landing_places: Segments that may be under way on a connection; 0 is the default.
        place_bytes: The largest segment [bytes]; 0 is the default.
        chunk_bytes: Of what a GPU's tensors are cut into on their way [bytes]; 0 is the default.
    """

    transport: str = ""
    book: str = ""
    landing_places: int = 0
    place_bytes: int = 0
    chunk_bytes: int = 0


def create_backend(distributed_options: Any, backend_options: Any = None) -> Any:
    """Creates the backend of one process group: torch.distributed calls it on the group's ranks.

    Args:
        distributed_options: torch's `_DistributedBackendOptions`.
        backend_options: An `Options`, or None.

    Returns:
        A `torch._C._distributed_c10d.Backend`.

    Raises:
        ImportError: The backend cannot be compiled against this PyTorch.
        TypeError: The options are not an `Options`.
        ValueError: Rank 0 was given other options, the book apart; or what one of them says is
            nothing that there is.
        RuntimeError: The ranks do not find each other in time; names who is missing.
    """
    options = Options() if backend_options is None else backend_options
    if not isinstance(options, Options):
        raise TypeError(
            f"pleach: pg_options is a {type(options).__name__}: it is a pleach.torch.Options"
        )
    shim = load_shim()
    timeout = min(distributed_options.timeout, _MOST_TIMEOUT)
    timeout_ms = max(1, int(timeout.total_seconds() * 1000))
    transport = options.transport or os.environ.get("PLEACH_TRANSPORT", "")
    global_ranks = list(distributed_options.global_ranks_in_group)
    wanted = shim.JoinOptions()
    wanted.name = distributed_options.group_id
    wanted.rank = distributed_options.group_rank
    wanted.book = options.book
    wanted.landing_places = options.landing_places
    wanted.place_bytes = options.place_bytes
    wanted.chunk_bytes = options.chunk_bytes
    wanted.carrier = shim.CarrierKey(
        global_ranks or list(range(distributed_options.group_size)), timeout_ms, transport
    )
    alike: dict[str, object] = {
        "transport": transport,
        "landing_places": options.landing_places,
        "place_bytes": options.place_bytes,
        "chunk_bytes": options.chunk_bytes,
    }
    member = Member(
        distributed_options.store, wanted.rank, distributed_options.group_size, timeout, alike
    )
    held = shim.hold_carriers(wanted.carrier)
    wanted.shared = agree_on_carrier(member, held.names)
    if not wanted.shared:
        place = meet(member, shim)
        wanted.place = shim.CarrierPlace(
            f"{wanted.name}:{place.token}",
            wanted.name,
            wanted.rank,
            place.host,
            place.port,
            place.descriptor,
            _flight_folder(wanted.name if global_ranks else ""),
        )
    _processes.add(os.getpid())
    return shim.create(options=wanted, held=held, global_ranks=global_ranks)


def _flight_folder(group: str) -> str:
    """Returns where the endpoint that a group is made with leaves its flight file.

    Args:
        group: Its name; "" is the default group, whose files are where those of a job are.
    """
    folder = os.environ.get("PLEACH_FLIGHT_FOLDER", "")
    if not folder or not group:
        return folder
    return str(Path(folder) / ("group-" + re.sub(r"[^A-Za-z0-9_.-]", "_", group)))


def unwrapped(backend: Any) -> Any:
    """Returns the backend itself, which TORCH_DISTRIBUTED_DEBUG=DETAIL puts another in front of."""
    return getattr(backend, "wrapped_pg", backend)


def options_of(backend: Any) -> Options:
    """Returns what a backend was created with; the transport may be PLEACH_TRANSPORT's.

    Args:
        backend: What `create_backend` has returned.

    Raises:
        TypeError: It is another one.
    """
    return Options(**load_shim().options(backend))


def timeout_of(backend: Any) -> timedelta:
    """Returns how long what is called now may take, which torch tells of its own backends alone.

    Args:
        backend: What `create_backend` has returned.
    """
    return timedelta(milliseconds=load_shim().timeout_ms(backend))


def transport_of(group: dist.ProcessGroup | None = None) -> str:
    """Returns what a group's messages travel by: `shm`, `tcp`, ...

    Args:
        group: The default group unless given.

    Raises:
        RuntimeError: There is no process group.
        TypeError: Its backend is another one, for whichever device.
    """
    if group is None and not dist.is_initialized():
        raise RuntimeError("transport_of: call torch.distributed.init_process_group first")
    chosen = group if group is not None else dist.group.WORLD
    assert chosen is not None
    for device in chosen._device_types:
        backend = unwrapped(chosen._get_backend(device))
        if backend.name() == "pleach":
            return str(load_shim().transport(backend))
    raise TypeError(
        f"transport_of: the group is over {dist.get_backend_config(chosen)}, not over pleach"
    )


def _end_process() -> None:
    """Leaves the groups, so that a process that exits first ends no other's work.

    Threads of Python that are in a call then stay there until the process is gone: all of them are
    daemons.
    """
    shim = loaded_shim()
    if shim is not None and os.getpid() in _processes:
        shim.end_process()


def _end_child() -> None:
    """The same in a process of multiprocessing, which waits for its threads later than this."""
    if os.getpid() in _processes and multiprocessing.parent_process() is not None:
        threading._shutdown()  # type: ignore[attr-defined]
        _end_process()


atexit.register(_end_process)
# Processes of multiprocessing that were forked do not get to the other.
multiprocessing.util.Finalize(None, _end_child, exitpriority=0)
