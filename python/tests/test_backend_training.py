# timeout_s: 400
from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import backend_groups
import backend_training
from rank_pool import RankPool, shared_pool


@pytest.fixture(params=[2, 4], ids=lambda count: f"{count} ranks")
def pool(request: pytest.FixtureRequest) -> RankPool:
    return shared_pool(request.param, "pleach")


@pytest.mark.parametrize(
    "what", backend_training.AS_ON_GLOO, ids=lambda function: function.__name__
)
def test_as_on_gloo(pool: RankPool, what: object) -> None:
    pool.run(what)


@pytest.mark.parametrize("own_memory", [False, True])
def test_fully_sharded_as_on_gloo(pool: RankPool, own_memory: bool) -> None:
    pool.run(backend_training.fully_sharded, own_memory)


def test_debug_level_detail_names_a_mismatch() -> None:
    with RankPool(2, "", {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}) as pool:
        pool.run(backend_groups.hands_on_options, str(pool.folder()), 2)
        for said in pool.run(backend_training.debugged, str(pool.folder()), 2):
            assert "Detected mismatch between collectives" in said
