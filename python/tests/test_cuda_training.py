"""Training on a GPU over the backend; ranks share one where there are fewer."""

# timeout_s: 900
from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from gpus import gpu_count  # noqa: E402

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(gpu_count() == 0, reason="there is no GPU"),
]

import backend_training  # noqa: E402
import cuda_ranks  # noqa: E402
import parallel_checks as checks  # noqa: E402
import parallel_jobs as jobs  # noqa: E402
import parallel_planning as planning  # noqa: E402
from cuda_ranks import on_gpu  # noqa: E402
from parallel_cases import EARLY  # noqa: E402
from parallel_loops import LOOPS, OTHERS  # noqa: E402
from rank_pool import RankPool, training_pool  # noqa: E402

DEADLINE_S = 200
DEAR = "dear,bucket=1KiB"


@pytest.fixture(params=[2, 4], ids=lambda count: f"{count} ranks")
def pool(request: pytest.FixtureRequest) -> RankPool:
    return training_pool(request.param, "pleach")


@pytest.mark.parametrize(
    "what", backend_training.AS_ON_GLOO, ids=lambda function: function.__name__
)
def test_as_on_gloo(pool: RankPool, what: object) -> None:
    pool.run(on_gpu, what, deadline_s=DEADLINE_S)


def test_fully_sharded_as_on_gloo(pool: RankPool) -> None:
    pool.run(on_gpu, backend_training.fully_sharded, False, deadline_s=DEADLINE_S)


def test_mixed_precision(pool: RankPool) -> None:
    pool.run(on_gpu, cuda_ranks.mixed_precision, deadline_s=DEADLINE_S)


@pytest.mark.parametrize("kind", ["mlp", "cnn", "transformer"])
@pytest.mark.parametrize("policy", [DEAR, "ddp,bucket=1KiB", EARLY, "zero1"])
def test_policies_make_what_one_process_makes(pool: RankPool, kind: str, policy: str) -> None:
    found = pool.run(
        on_gpu,
        jobs.compare_with_whole_batch,
        *(kind, "nesterov", pool.count, "float64", policy, {"costs": None}),
        deadline_s=DEADLINE_S,
    )
    assert max(parameters for parameters, _, _ in found) <= 1e-11
    assert len({digest for _, _, digest in found}) == 1


@pytest.mark.parametrize("optimizer", ["adamw", "adafactor"])
def test_optimizers(pool: RankPool, optimizer: str) -> None:
    found = pool.run(
        on_gpu,
        jobs.compare_with_whole_batch,
        *("wide", optimizer, pool.count, "float64", "dear", {}),
        deadline_s=DEADLINE_S,
    )
    assert max(parameters for parameters, _, _ in found) <= 1e-6
    assert len({digest for _, _, digest in found}) == 1


@pytest.mark.parametrize(
    ("loop", "kind"),
    [*((loop, "mlp") for loop in LOOPS), *(("accumulate_unevenly", kind) for kind in OTHERS)],
)
def test_loops_and_models(pool: RankPool, loop: str, kind: str) -> None:
    found = pool.run(
        on_gpu,
        jobs.compare_loop,
        *(loop, kind, "nesterov", pool.count, DEAR, {"check": True}),
        deadline_s=DEADLINE_S,
    )
    within = 1e-5 if kind == "mixed" else 1e-11
    assert max(parameters for parameters, _, _ in found) <= within
    assert max(notes for _, notes, _ in found) <= 1000 * within
    assert len({digest for _, _, digest in found}) == 1


@pytest.mark.parametrize("optimizer", ["adamw", "adafactor"])
def test_states_are_the_plain_ones(pool: RankPool, optimizer: str) -> None:
    pool.run(
        on_gpu,
        checks.optimizer_states_are_the_plain_ones,
        *("transformer", optimizer, pool.count),
        deadline_s=DEADLINE_S,
    )


@pytest.mark.parametrize("check", [checks.batch_norm_as_in_ddp, checks.hook_in_ddp])
def test_beside_ddp(check: object) -> None:
    training_pool(4, "pleach").run(on_gpu, check, ranks=range(3))


def test_what_is_planned_for_a_profile() -> None:
    found = training_pool(2, "pleach").run(on_gpu, planning.auto, deadline_s=DEADLINE_S)
    assert len({policy for policy, _ in found}) == 1
    assert max(apart for _, apart in found) <= 1e-11


def test_explanations(tmp_path: Path) -> None:
    training_pool(2, "pleach").run(on_gpu, checks.explanations, str(tmp_path))
