"""The backend on tensors of a GPU; ranks share one where there are fewer."""

# timeout_s: 900
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from gpus import gpu_count  # noqa: E402

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(gpu_count() == 0, reason="there is no GPU"),
]

import backend_groups  # noqa: E402
import backend_ranks  # noqa: E402
import cuda_ranks  # noqa: E402
from cuda_ranks import on_gpu  # noqa: E402
from rank_pool import RankPool, shared_pool  # noqa: E402

DEADLINE_S = 200
SCRIPT = """
import torch
import torch.distributed as dist

dist.init_process_group("pleach")
tensor = torch.ones(1000, device="cuda")
dist.all_reduce(tensor)
assert tensor.tolist() == [dist.get_world_size()] * 1000
dist.barrier()
print(f"rank {dist.get_rank()} is well", flush=True)
torch.cuda._sleep(100_000_000)
dist.all_reduce(tensor, async_op=True)
"""


@pytest.fixture(params=[2, 4], ids=lambda count: f"{count} ranks")
def pool(request: pytest.FixtureRequest) -> RankPool:
    return shared_pool(request.param, "pleach")


def test_reductions_equal_gloo_by_type_operation_and_form(pool: RankPool) -> None:
    assert pool.run(on_gpu, backend_ranks.reductions, 1, deadline_s=DEADLINE_S) == [57] * pool.count


def test_moves_equal_gloo_by_type_and_form(pool: RankPool) -> None:
    assert pool.run(on_gpu, backend_ranks.moves, 1, deadline_s=DEADLINE_S) == [10] * pool.count


@pytest.mark.parametrize(
    "what",
    [
        backend_ranks.uneven_lists,
        backend_ranks.adjacent_pieces,
        backend_ranks.aliases,
        backend_ranks.mixed_pieces,
        backend_ranks.other_types,
        backend_groups.messages,
        backend_groups.batched,
        backend_groups.objects,
        backend_groups.works,
        backend_groups.waits_in_callbacks,
        backend_groups.forgotten,
        backend_groups.subgroups,
        backend_groups.waits_at_most,
        cuda_ranks.sizes,
        cuda_ranks.late_writes_are_seen,
        cuda_ranks.results_are_waited_for,
        cuda_ranks.streams_in_turns,
        cuda_ranks.memory_is_kept,
        cuda_ranks.large_messages,
    ],
    ids=lambda function: function.__name__,
)
def test_that_goes_well(pool: RankPool, what: object) -> None:
    pool.run(on_gpu, what, deadline_s=DEADLINE_S)


@pytest.mark.parametrize("seed", [int(os.environ.get("PLEACH_TEST_SEED", "1"))])
def test_operations_in_any_order(pool: RankPool, seed: int) -> None:
    pool.run(on_gpu, cuda_ranks.in_any_order, seed, 150, deadline_s=DEADLINE_S)


def test_a_rank_that_is_late_is_named(pool: RankPool) -> None:
    late = pool.count - 1
    for said, _ in pool.run(on_gpu, backend_groups.late_in_group, late)[:-1]:
        assert f"rank {late}" in said
        assert "\n" not in said.strip()


def test_a_mismatch_names_both_sides(pool: RankPool) -> None:
    for said in pool.run(on_gpu, backend_groups.mismatched):
        assert "5" in said
        assert "7" in said
        assert "\n" not in said.strip()


def test_an_abort_ends_what_is_in_flight(pool: RankPool) -> None:
    for said in pool.run(on_gpu, backend_groups.aborted):
        assert "abort" in said


def test_a_device_that_is_late_is_told(pool: RankPool) -> None:
    for said in pool.run(on_gpu, cuda_ranks.device_that_is_late):
        assert "its device has not written what it reads" in said or "rank 0" in said
        assert "\n" not in said.strip()


def test_what_is_in_the_wrong_place_is_refused(pool: RankPool) -> None:
    expected = [*["tensors on several devices"] * 4, "on the CPU", "AVG of Int", "memory of cuda"]
    for said in pool.run(on_gpu, cuda_ranks.refusals):
        for word, text in zip(expected, said, strict=True):
            assert word in text
            assert "\n" not in text.strip(), text


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="2.13 tells that"
)
def test_a_stream_that_is_captured_is_refused(pool: RankPool) -> None:
    for said in pool.run(on_gpu, cuda_ranks.captured):
        assert "a stream that is being captured is not supported" in said


def test_a_script_that_ends_with_work_in_flight(tmp_path: Path) -> None:
    """It knows nothing of Pleach but its name, and leaves no group."""
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    told = subprocess.run(
        [*command, "--nproc-per-node", "2", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("is well") == 2


def test_groups_of_devices() -> None:
    with RankPool(2, "") as pool:
        for backends, ours in (
            ("cpu:gloo,cuda:pleach", "pleach"),
            ("cpu:pleach,cuda:gloo", "gloo"),
        ):
            found = pool.run(on_gpu, cuda_ranks.of_one_device, str(pool.folder()), 2, backends)
            assert set(found) == {ours}


def test_a_group_is_left_with_work_in_flight() -> None:
    with RankPool(2, "") as pool:
        pool.run(on_gpu, cuda_ranks.leaves_with_work_in_flight, str(pool.folder()), 2)
