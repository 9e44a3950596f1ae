"""Data parallelism over the backend pleach: its memory, its averages and its coalesced calls."""

# timeout_s: 300
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(250)  # the first one starts the ranks

import parallel_checks as checks  # noqa: E402
import parallel_jobs as jobs  # noqa: E402
import parallel_uses as uses  # noqa: E402
from parallel_cases import EARLY  # noqa: E402
from rank_pool import RankPool, training_pool  # noqa: E402

COUNT = 3
DEAR = "dear,bucket=1KiB"


def pool() -> RankPool:
    return training_pool(COUNT, "pleach")


@pytest.mark.parametrize("kind", ["cnn", "transformer"])
@pytest.mark.parametrize("policy", [DEAR, "ddp,bucket=1KiB", EARLY, "zero1"])
def test_training(kind: str, policy: str) -> None:
    found = pool().run(
        jobs.compare_with_whole_batch, kind, "nesterov", COUNT, "float64", policy, {"costs": None}
    )
    assert max(parameters for parameters, _, _ in found) <= 1e-12
    assert len({digest for _, _, digest in found}) == 1


@pytest.mark.parametrize("loop", ["clip_norm", "scaler", "accumulate_unevenly", "evaluate_between"])
def test_loops(loop: str) -> None:
    found = pool().run(
        jobs.compare_loop, loop, "unused_on_some", "nesterov", COUNT, DEAR, {"check": True}
    )
    assert max(parameters for parameters, _, _ in found) <= 1e-12
    assert max(notes for _, notes, _ in found) <= 1e-9


def test_optimizers_of_whole_tensors() -> None:
    found = pool().run(jobs.compare_with_whole_batch, "weights", "muon", COUNT, "float64", DEAR, {})
    assert max(parameters for parameters, _, _ in found) <= 1e-6
    assert len({digest for _, _, digest in found}) == 1


@pytest.mark.parametrize("policy", [DEAR, "ddp,bucket=1KiB"])
def test_bytes_and_collectives(policy: str) -> None:
    for found in pool().run(checks.bytes_and_collectives, policy, COUNT):
        assert len(found["calls"]) == len(found["plan"])


def test_the_hook_in_ddp() -> None:
    pool().run(checks.hook_in_ddp)


def test_states() -> None:
    pool().run(checks.optimizer_states_are_the_plain_ones, "transformer", "adamw", COUNT)


@pytest.mark.parametrize("policy", ["dear", "zero1"])
def test_memory_is_no_more_than_ddps_and_a_shard(policy: str) -> None:
    """As the kernel counts it. (Gloo's scatters and gathers copy what they move.)"""
    for size, theirs, ours in pool().run(uses.memory_beside_ddp, policy, COUNT):
        assert ours <= theirs + size / COUNT, (size, theirs, ours)
