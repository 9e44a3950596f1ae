"""A rank that does not come to a collective call is named; one that has left ends it at once."""

# timeout_s: 400
from __future__ import annotations

import os
import pathlib

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(300)  # the first one starts the ranks

import parallel_waits as waits  # noqa: E402
from rank_pool import RankPool, shared_pool  # noqa: E402

LONG = bool(os.environ.get("PLEACH_LONG"))
BACKENDS = ["gloo", "pleach"]
COUNTS = [2, 3]
# Far beyond what an answer takes, far below what ranks would wait for without one.
SOON_S = 8.0
TIMEOUT_S = 50.0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("what", sorted(waits.CALLS))
def test_a_rank_that_does_not_come_is_named(
    what: str, backend: str, tmp_path: pathlib.Path
) -> None:
    for count in COUNTS if LONG or what in ("state_dict", "clip") else COUNTS[:1]:
        folder = tmp_path / str(count)
        folder.mkdir()
        pool = shared_pool(count, backend, TIMEOUT_S)
        for line, _ in pool.run(waits.be_late, what, str(folder))[:-1]:
            assert waits.CALLS[what][1] in line, line
            assert "this call is collective" in line, line
            # A training's ranks say where they are; before one they have nothing to say it by.
            place = "" if what == "costs" else ": it is at parallel_waits.py:"
            assert f"rank {count - 1} has not come{place}" in line, line
            assert line.count("has not come") == 1, line


def test_a_wait_is_reported_after_ten_seconds(tmp_path: pathlib.Path) -> None:
    pool = shared_pool(2, "gloo", TIMEOUT_S)
    (line, waited_s), _ = pool.run(waits.be_late, "state_dict", str(tmp_path), 10.0)
    assert "rank 1 has not come" in line
    assert 10.0 < waited_s < 10.0 + SOON_S


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rank_that_does_not_come_to_creation_is_named(
    backend: str, tmp_path: pathlib.Path
) -> None:
    pool = shared_pool(2, backend, TIMEOUT_S)
    line, _ = pool.run(waits.create_late, str(tmp_path))
    assert "data_parallel()" in line, line
    assert "rank 1 has not come" in line, line


@pytest.mark.parametrize("backend", BACKENDS)
def test_ranks_that_make_different_calls_are_told(backend: str) -> None:
    with RankPool(3, backend, timeout_s=TIMEOUT_S) as pool:
        for message in pool.run(waits.differ, deadline_s=SOON_S * 3):
            assert "rank 0 called the norm of a gradient (parallel_waits.py:" in message, message
            assert "rank 1 called optimizer.whole_gradients() (parallel_waits" in message, message


def test_ranks_of_which_one_makes_a_step_are_told() -> None:
    """Over Gloo they wait, which test_a_wait_is_reported_after_ten_seconds is about."""
    with RankPool(2, "pleach", timeout_s=TIMEOUT_S) as pool:
        for message in pool.run(waits.differ_by_a_step, deadline_s=SOON_S * 3):
            assert "rank 0 called optimizer.state_dict() (parallel_waits.py:" in message, message
            assert "rank 1 called " in message, message


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_last_step_that_one_rank_leaves_out_is_told(backend: str, tmp_path: pathlib.Path) -> None:
    with RankPool(3, backend, timeout_s=TIMEOUT_S) as pool:
        for told in pool.run(waits.make_a_step_less, str(tmp_path), deadline_s=SOON_S * 3)[:-1]:
            assert "ends, and its last step() is not complete" in told, told


@pytest.mark.parametrize("how", ["die", "close"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_call_ends_when_a_rank_has_left(backend: str, how: str, tmp_path: pathlib.Path) -> None:
    calls = sorted(set(waits.CALLS) - {"check", "costs"}) if LONG else ["state_dict", "step"]
    for what in calls:
        folder = tmp_path / what
        folder.mkdir()
        with RankPool(3, backend, timeout_s=TIMEOUT_S) as pool:
            pool.start(waits.leave, what, how, str(folder), ranks=[2])
            told = pool.run(waits.leave, what, how, str(folder), ranks=range(2))
            for took_s, message in told:
                assert took_s < SOON_S, message
                assert "rank 2 has left" in message, message


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_closed_training_leaves_nothing(backend: str) -> None:
    """The first one leaves what a process has once; a thread more may serve all groups later."""
    with RankPool(2, backend, timeout_s=TIMEOUT_S) as pool:
        for found in pool.run(waits.count_leftovers):
            (descriptors, threads), *_, (descriptors_now, threads_now) = found
            assert descriptors_now == descriptors, found
            assert threads_now <= threads + 1, found
