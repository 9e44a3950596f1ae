# timeout_s: 400
from __future__ import annotations

import os

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import backend_ranks
from rank_pool import RankPool, shared_pool


@pytest.fixture(scope="module", params=[2, 3, 4], ids=lambda count: f"{count} ranks")
def count(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def pool(count: int) -> RankPool:
    return shared_pool(count, "pleach")


@pytest.mark.parametrize("seed", [int(os.environ.get("PLEACH_TEST_SEED", "1"))])
def test_reductions_equal_gloo_by_type_operation_and_form(pool: RankPool, seed: int) -> None:
    assert pool.run(backend_ranks.reductions, seed, deadline_s=90) == [57] * pool.count


@pytest.mark.parametrize("seed", [int(os.environ.get("PLEACH_TEST_SEED", "1"))])
def test_moves_equal_gloo_by_type_and_form(pool: RankPool, seed: int) -> None:
    assert pool.run(backend_ranks.moves, seed, deadline_s=90) == [10] * pool.count


def test_lists_of_parts_may_be_uneven(pool: RankPool) -> None:
    pool.run(backend_ranks.uneven_lists)


def test_coalesced_tensors_that_lie_end_to_end_are_taken_in_place(pool: RankPool) -> None:
    pool.run(backend_ranks.adjacent_pieces)


def test_inputs_may_be_views_of_outputs(pool: RankPool) -> None:
    pool.run(backend_ranks.aliases)


def test_coalesced_tensors_may_be_of_several_types(pool: RankPool) -> None:
    pool.run(backend_ranks.mixed_pieces)


def test_any_type_is_moved(pool: RankPool) -> None:
    pool.run(backend_ranks.other_types)


def test_sparse_tensors_are_added(pool: RankPool) -> None:
    pool.run(backend_ranks.sparse_sums)


def test_what_no_rank_can_ask_for_is_refused_by_name(pool: RankPool) -> None:
    expected = [
        "AVG of Int", "SUM of Short", "BAND of Float", "PREMUL_SUM", "MAX of sparse",
        "parts of 4", "split", "tag -1",
    ]  # fmt: skip
    for said in pool.run(backend_ranks.refusals):
        for word, text in zip(expected, said, strict=True):
            assert word in text or (word == "tag -1" and "tag" in text), (word, text)
            assert "\n" not in text.strip(), text
