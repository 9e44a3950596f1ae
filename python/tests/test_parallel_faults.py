"""A rank that falls ends every rank in time, and is named."""

# timeout_s: 300
from __future__ import annotations

import contextlib
import os
import signal

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(250)  # the first one starts the ranks

import parallel_faults as faults  # noqa: E402
from parallel_pool import RankPool  # noqa: E402

LONG = bool(os.environ.get("PLEACH_LONG"))
CASES = [("kill", "gloo"), ("stop", "pleach")]
OTHERS = [
    ("fail", "gloo"),
    ("fail", "pleach"),
    ("stop", "gloo"),
    ("leave", "gloo"),
    ("kill", "pleach"),
    ("leave", "pleach"),
]


@pytest.mark.parametrize(("what", "backend"), CASES + OTHERS if LONG else CASES)
def test_a_rank_that_falls_ends_all(what: str, backend: str) -> None:
    count = 3
    pool = RankPool(count, backend, timeout_s=faults.TIMEOUT_S)
    try:
        last = count - 1
        for rank in range(count):
            pool.send(rank, faults.train_until, what)
        for rank in range(last):
            is_well, found = pool.receive(rank, 60)
            assert is_well, found
            took_s, message = found
            assert took_s < faults.TIMEOUT_S + 6, message
            assert any(kind in message for kind in ("reduce_scatter of ", "all_gather of ")), (
                message
            )
            assert f"rank {last} does not answer" in message, message
    finally:
        with contextlib.suppress(ProcessLookupError):
            if what == "stop":
                os.kill(pool.processes[last].pid, signal.SIGKILL)
        pool.close()
    assert not any(process.is_alive() for process in pool.processes)


def test_who_leaves_out_a_step_alone_ends_all() -> None:
    """Its next gradients would be taken for what the others distribute."""
    pool = RankPool(2, "gloo", timeout_s=faults.TIMEOUT_S)
    try:
        for rank in range(2):
            pool.send(rank, faults.train_until, "skip")
        for rank in range(2):
            is_well, found = pool.receive(rank, 60)
            assert is_well, found
            assert "cleared before their step, on some ranks only" in found[1], found
    finally:
        pool.close()
