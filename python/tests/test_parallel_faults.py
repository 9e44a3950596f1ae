"""A rank that falls ends every rank in time, and is named."""

# timeout_s: 300
from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(250)  # the first one starts the ranks

import parallel_faults as faults  # noqa: E402
from rank_pool import RankPool  # noqa: E402

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
# Errors of the other ranks: the rank has died, or lives and does something else.
SAID = {
    "kill": "has left: its process has ended",
    "stop": "does not answer: its process is stopped",
    "fail": "has not come: it is at rank_pool.py:",
    "leave": "has not come: it is at rank_pool.py:",
}


@pytest.mark.parametrize(("what", "backend"), CASES + OTHERS if LONG else CASES)
def test_a_rank_that_falls_ends_all(what: str, backend: str) -> None:
    last = 2
    with RankPool(last + 1, backend, timeout_s=faults.TIMEOUT_S) as pool:
        pool.start(faults.train_until, what, ranks=[last])
        for took_s, message in pool.run(faults.train_until, what, ranks=range(last)):
            assert took_s < faults.TIMEOUT_S + 6, message
            assert any(kind in message for kind in ("reduce_scatter of ", "all_gather of ")), (
                message
            )
            assert f"rank {last} {SAID[what]}" in message, message
        pool.kill(last)
    assert not pool.is_open


def test_who_leaves_out_a_step_alone_ends_all() -> None:
    """Its next gradients would be taken for what the others distribute."""
    with RankPool(2, "gloo", timeout_s=faults.TIMEOUT_S) as pool:
        for _, message in pool.run(faults.train_until, "skip"):
            assert "cleared before their step, on some ranks only" in message, message
