# timeout_s: 400
from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import backend_flight
from rank_pool import RankPool


def read(folder: Path) -> str:
    """What PyTorch's reader says of the files."""
    with RankPool(1, "") as reader:
        (said,) = reader.run(backend_flight.read, str(folder))
    return said


def test_what_went_well_is_read_without_a_complaint(tmp_path: Path) -> None:
    with RankPool(2, "pleach") as pool:
        pool.run(backend_flight.go_well, str(tmp_path))
    dump = pickle.loads((tmp_path / "pleach_rank_1").read_bytes())
    assert dump["version"] == "2.10"
    names = [entry["profiling_name"] for entry in dump["entries"]]
    assert names[:3] == ["gloo:all_reduce", "gloo:all_gather", "gloo:_reduce_scatter_base"]
    assert all(entry["state"] == "completed" for entry in dump["entries"])
    assert [entry["collective_seq_id"] for entry in dump["entries"][:3]] == [1, 2, 3]
    text = read(tmp_path)
    assert "mismatch" not in text.lower()
    assert "missing" not in text.lower()


def test_a_mismatch_is_read_with_both_sides(tmp_path: Path) -> None:
    with RankPool(2, "pleach") as pool:
        pool.run(backend_flight.differ, str(tmp_path))
    text = read(tmp_path)
    assert "[[5]]" in text
    assert "[[7]]" in text


def test_who_has_not_come_is_read(tmp_path: Path) -> None:
    with RankPool(3, "pleach") as pool:
        pool.run(backend_flight.miss, str(tmp_path))
    text = read(tmp_path)
    assert "{2}" in text or "[2]" in text, text


GROUPS = """
import datetime, torch, torch.distributed as dist

dist.init_process_group("pleach", timeout=datetime.timedelta(seconds=60))
rank = dist.get_rank()
timeout = datetime.timedelta(seconds=2)
groups = [dist.new_group(ranks, timeout=timeout) for ranks in ([0, 1], [1, 2], [0, 1])]
works = []
for group, ranks, late in zip(groups, ([0, 1], [1, 2], [0, 1]), (1, 2, 1)):
    if rank in ranks:
        dist.all_reduce(torch.ones(4), group=group)
        if rank != late:
            works.append(dist.all_reduce(torch.ones(4), group=group, async_op=True))
for work in works:
    try:
        work.wait()
    except dist.DistBackendError:
        pass
dist.barrier()
"""


def test_groups_of_a_process_leave_files_of_their_own(tmp_path: Path) -> None:
    """`pleach flight` reads them one by one; the default group is well, and has none."""
    from pleach.torch._build import build_shim

    build_shim()
    (tmp_path / "train.py").write_text(GROUPS)
    folder = tmp_path / "flight"
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    subprocess.run(
        [*command, "--nproc-per-node", "3", str(tmp_path / "train.py")],
        env={**os.environ, "PLEACH_FLIGHT_FOLDER": str(folder)},
        timeout=120,
        check=True,
    )
    told = json.loads(
        subprocess.run(
            [os.environ["PLEACH"], "flight", str(folder), "--json"],
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
    )
    assert len(told["groups"]) == 3
    for group in told["groups"]:
        assert group["missing"] == []
        assert group["problems"] == []
        assert all("rank 1 did not begin" in one["message"] for one in group["failures"])
        begun = {(place["channel"], place["rank"]): place["begun"] for place in group["places"]}
        for (channel, rank), count in begun.items():
            assert count == (1 if rank == 1 else 2), (channel, begun)
    assert sum(len(group["places"]) for group in told["groups"]) == 6
