"""What a rank's groups have done last, in the files that torchfrtrace reads."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import torch.distributed as dist

from ._build import load_shim

_VERSION = "2.10"
# torchfrtrace knows the backends it accepts by name, and pleach is none of them.
_BACKEND = "gloo"
# What it calls the collectives that the shim calls otherwise.
_NAMES = {
    "barrier": "all_reduce_barrier",
    "all_reduce_coalesced": "allreduce_coalesced",
    "all_gather_coalesced": "ALLGATHER_coalesced",
    "recvAnySource": "recv",
}


def flight_dump(folder: str | os.PathLike[str], prefix: str = "pleach_rank_") -> Path:
    """Writes this rank's last 2,048 operations; `torchfrtrace FOLDER --prefix PREFIX` reads all's.

    Any rank may call it at any time, also of operations that have failed or do not end. The reader
    names the ranks that have not come to a collective, and both sides of a mismatch.

    Args:
        folder: Where; made if it is not there.
        prefix: Of the file's name; this rank's number in the job follows.

    Returns:
        The path of the file, which is replaced as a whole.

    Raises:
        RuntimeError: There is no process group.
        OSError: It cannot be written.
    """
    if not dist.is_initialized():
        raise RuntimeError("flight_dump: call torch.distributed.init_process_group first")
    groups = _groups()
    entries = [
        _entry(one, groups) for one in load_shim().flight_entries() if one["group"] in groups
    ]
    dump = {
        "version": _VERSION,
        "entries": entries,
        "pg_config": groups,
        "pg_status": {},
        "comm_lib_version": "pleach",
    }
    target = Path(folder) / f"{prefix}{dist.get_rank()}"
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_name(f".{target.name}.{os.getpid()}")
    made.write_bytes(pickle.dumps(dump))
    made.replace(target)
    return target


def _groups() -> dict[str, dict[str, str]]:
    """The groups over this backend, by name, as the dump's `pg_config` has them."""
    found = {}
    # A copy: a training that nobody holds any more may be leaving its groups in another thread.
    for group, name in list(dist.distributed_c10d._world.pg_names.items()):
        ranks = dist.get_process_group_ranks(group)
        if "pleach" in dist.get_backend_config(group):
            found[str(name)] = {
                "name": str(name),
                "desc": group.group_desc,
                "ranks": str([int(rank) for rank in ranks]),
            }
    return found


def _as_one(name: str, parts: list[list[int]]) -> tuple[str, list[list[int]]]:
    """A list of the ranks' parts as the one tensor that the reader expects, where they are even."""
    if all(part == parts[0] for part in parts):
        return name, [[len(parts), *parts[0]]]
    return f"{name}_v", parts


def _entry(told: dict[str, Any], groups: dict[str, dict[str, str]]) -> dict[str, Any]:
    """One operation, of what the shim tells of it."""
    group = told["group"]
    name = _NAMES.get(told["name"], told["name"])
    ranks = [int(rank) for rank in groups[group]["ranks"].strip("[]").split(",")]
    if told["is_p2p"]:
        mine = ranks.index(dist.get_rank())
        peer = max(told["peer"], 0)  # of any source: not known before it comes
        name = f"send {mine}->{peer}" if name == "send" else f"recv {mine}<-{peer}"
    sizes = {side: told[f"{side}_sizes"] for side in ("input", "output")}
    for listed, side in (("all_gather", "output"), ("reduce_scatter", "input")):
        if name == listed:
            name, sizes[side] = _as_one(name, sizes[side])
    ended = told["time_ended_ns"] or None
    return {
        "record_id": told["record_id"],
        "pg_id": list(groups).index(group),
        "process_group": (group, groups[group]["desc"]),
        "collective_seq_id": told["collective_seq_id"],
        "p2p_seq_id": told["p2p_seq_id"],
        "op_id": told["collective_seq_id"] + told["p2p_seq_id"],
        "profiling_name": f"{_BACKEND}:{name}",
        "time_created_ns": told["time_created_ns"],
        "time_discovered_started_ns": told["time_created_ns"],
        "time_discovered_completed_ns": ended,
        "duration_ms": (ended - told["time_created_ns"]) / 1e6 if ended else None,
        "input_sizes": sizes["input"],
        "output_sizes": sizes["output"],
        "input_dtypes": told["input_dtypes"],
        "output_dtypes": told["output_dtypes"],
        # An operation that failed has not completed: that is what the reader looks for.
        "state": "completed" if told["state"] == "completed" else "started",
        "retired": told["retired"],
        "timeout_ms": told["timeout_ms"],
        "is_p2p": told["is_p2p"],
        "frames": [],
    }
