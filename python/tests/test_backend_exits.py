# timeout_s: 900
"""Interpreters that end with work in flight, in random states."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

LONG = os.environ.get("PLEACH_LONG") == "1"
# Beyond what an interpreter takes by itself; the machine may be loaded.
MOST_FAREWELL_S = 1.5 if LONG else 2.5


def rounds(seed: int, count: int, ranks: int, *kinds: str) -> list[dict[str, Any]]:
    """Returns what `backend_exits.py` tells of its rounds."""
    script = Path(__file__).with_name("backend_exits.py")
    told = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), "pleach",
         *map(str, (seed, count, ranks)), *kinds],
        capture_output=True,
        text=True,
        timeout=60 + 20 * count,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    assert len(lines) == count, told.stderr
    return lines


def check(told: dict[str, Any]) -> None:
    """Holds a round to its codes, and to the time that the backend may take."""
    assert told["codes"] == told["right"], told
    assert max(told["farewell"]) < MOST_FAREWELL_S, told
    for kind, said in zip(told["kinds"], told["said"], strict=True):
        lines = [line for line in said.splitlines() if "heard after" not in line]
        assert not lines or kind == "error", told


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    from pleach.torch._build import build_shim

    build_shim()


@pytest.mark.timeout(4000 if LONG else 400)
def test_interpreters_end_with_work_in_flight() -> None:
    seed = int(os.environ.get("PLEACH_SEED", "1"))
    for told in rounds(seed, 100 if LONG else 8, 2):
        check(told)
    for told in rounds(seed + 1000, 100 if LONG else 7, 3):
        check(told)


@pytest.mark.parametrize("kind", ["nothing", "receive", "error", "thread_in_receive", "destroyed"])
def test_the_others_hear_at_once_that_a_rank_has_left(kind: str) -> None:
    (told,) = rounds(2, 1, 3, "waits", kind, "waits")
    check(told)
    for said in (told["said"][0], told["said"][2]):
        assert "rank 1 has left the job" in said or "rank 1 was lost" in said, told
        assert float(said.split("heard after ")[1].split(" s")[0]) < MOST_FAREWELL_S


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_what_a_rank_has_sent_arrives_after_it_has_left(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLEACH_TRANSPORT", transport)
    for first in (0, 1):
        (told,) = rounds(2 * first, 1, 2, *(["sends", "is_late"][:: 1 - 2 * first]))
        check(told)


CHILDREN = """
import datetime, multiprocessing, os, sys, time
from concurrent.futures import ThreadPoolExecutor
import torch, torch.distributed as dist
import pleach.torch

def child(rank, folder):
    store = dist.FileStore(folder + "/store", 2)
    timeout = datetime.timedelta(seconds=60)
    dist.init_process_group("pleach", rank=rank, world_size=2, store=store, timeout=timeout)
    pool = ThreadPoolExecutor()
    pool.submit(dist.all_reduce, torch.ones(100_000)).result()
    dist.irecv(torch.ones(3), 1 - rank)
    if rank == 1:
        sys.exit(3)
    pool.submit(time.sleep, 0.2)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    ranks = [context.Process(target=child, args=(rank, sys.argv[2])) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(60)
    print([rank.exitcode for rank in ranks])
    os._exit(0)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_end_with_their_own_codes(method: str, tmp_path: Path) -> None:
    (tmp_path / "children.py").write_text(CHILDREN)
    told = subprocess.run(
        [sys.executable, "-W", "ignore", str(tmp_path / "children.py"), method, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert told.stdout.strip() == "[0, 3]", told.stderr
    assert told.stderr == ""
