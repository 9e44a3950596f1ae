"""Random training loops equal one process, whatever they read, write, hook, copy and average."""

# timeout_s: 300
from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(250)  # the first one starts the ranks

import random_loop_jobs as jobs  # noqa: E402
from random_loops import is_available, make_loop, single_thread  # noqa: E402
from rank_pool import training_pool  # noqa: E402

LONG = bool(os.environ.get("PLEACH_LONG"))
SEEDS = range(0, 100, 1 if LONG else 4)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """The plain runs share the machine with ranks."""
    with single_thread():
        yield


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("backend", ["pleach", "gloo"])
def test_equals_one_process(backend: str, seed: int) -> None:
    loop = make_loop(seed)
    if not is_available(loop):
        pytest.skip(f"{loop.optimizer} is not installed")
    found = jobs.compare(training_pool(2, backend), seed, 2, "dear", {})
    assert not found, "\n".join([str(loop), *found])


if LONG:

    @pytest.mark.timeout(900)
    def test_loops_notice_what_is_not_final() -> None:
        assert jobs.report(list(SEEDS), 2, "pleach", "dear", {"lazy": True}, False) >= 30
