"""What the ranks of the flight recorder's tests run."""

from __future__ import annotations

import contextlib
import io
import time

import torch
import torch.distributed as dist

import pleach.torch


def go_well(rank: int, folder: str) -> None:
    """Collectives and messages of several kinds, and a subgroup's."""
    count = dist.get_world_size()
    dist.all_reduce(torch.ones(5))
    dist.all_gather([torch.empty(3) for _ in range(count)], torch.ones(3))
    dist.reduce_scatter_tensor(torch.empty(2), torch.ones(2 * count))
    dist.all_gather_into_tensor(torch.empty(2 * count), torch.ones(2))
    dist.broadcast(torch.ones(4), 1)
    dist.barrier()
    if rank == 0:
        dist.send(torch.ones(3), 1)
    elif rank == 1:
        dist.recv(torch.ones(3), 0)
    dist.all_reduce(torch.ones(1), group=dist.new_group([0, 1]))
    pleach.torch.flight_dump(folder)


def differ(rank: int, folder: str) -> None:
    """An all_reduce of different sizes."""
    dist.all_reduce(torch.ones(2))
    with contextlib.suppress(ValueError, RuntimeError):
        dist.all_reduce(torch.ones(5 + 2 * rank))
    pleach.torch.flight_dump(folder)


def miss(rank: int, folder: str) -> None:
    """An all_reduce that the last rank does not come to before the files are written."""
    dist.all_reduce(torch.ones(2))
    tensor = torch.ones(4)
    if rank != dist.get_world_size() - 1:
        work = dist.all_reduce(tensor, async_op=True)
        time.sleep(0.5)
        pleach.torch.flight_dump(folder)
        assert work is not None
        work.wait()
    else:
        pleach.torch.flight_dump(folder)
        time.sleep(1)
        dist.all_reduce(tensor)


def read(_rank: int, folder: str) -> str:
    """Returns what PyTorch's reader says of the files."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        # Imported here: it speaks to where stderr was then.
        from torch.distributed.flight_recorder import fr_trace

        fr_trace.main([folder, "--prefix", "pleach_rank_"])
    return said.getvalue()
