"""What data parallelism refuses, names, keeps and tells."""

# timeout_s: 300
from __future__ import annotations

import importlib
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(250)  # the first one starts the ranks

import parallel_checks as checks  # noqa: E402
from rank_pool import training_pool  # noqa: E402

importlib.import_module("torch._inductor.pattern_matcher")  # as compiling does: no rank has to


def run(check: Callable[..., Any], *arguments: Any, count: int = 2) -> list[Any]:
    return training_pool().run(check, *arguments, ranks=range(count))


@pytest.mark.parametrize("policy", [checks.DEAR, "ddp"])
def test_gradients_are_averages_or_nothing(policy: str) -> None:
    run(checks.gradients_are_averages_or_nothing, policy)


def test_early_updates_refuse_to_show_gradients() -> None:
    run(checks.early_refuses)
    refuse = checks.early_refuses_to_recompute_what_is_updated
    run(refuse, True, r"again.weight is needed again .* gathers=early .* use_reentrant=True")
    run(refuse, False, r"another gradient of again.\w+ came .* gathers=early .* use_reentrant=True")


def test_early_refusals_reach_other_ranks() -> None:
    run(checks.early_refusals_reach_others)


def test_what_cannot_be_trained_is_named() -> None:
    run(checks.refuses)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("shape", "rank 1 has parameter second.weight: (13, 32) torch.float64"),
        ("type", "rank 1 has parameter second.weight: (13, 31) torch.float32"),
        ("name", "rank 1 has parameter extra.weight"),
        ("long", "rank 1 has parameter \\n\\x1b[31mxxx"),
        ("rate", "'lr': 0.2"),
        ("optimizer", "rank 1 has optimizer Adam; rank 0 has optimizer SGD"),
        ("policy", "rank 1 has option policy 'ddp'; rank 0 has option policy 'dear,bucket=1KiB'"),
    ],
)
def test_the_first_difference_between_ranks_is_named(what: str, message: str) -> None:
    found = run(checks.differences_are_named, what)
    assert found[0] == found[1]
    assert message in found[0]


def test_a_rate_of_one_rank_is_named() -> None:
    """Without check each rank's shard follows its own rate, which no rank can see."""
    found = run(checks.a_rate_of_one_rank_is_named)
    assert found[0] == found[1]
    assert "'lr': 0.05" in found[0].split("; rank 0 has ")[0]
    assert "'lr': 0.1" in found[0].split("; rank 0 has ")[1]


def test_ranks_begin_alike() -> None:
    run(checks.ranks_begin_alike)


@pytest.mark.parametrize(
    ("kind", "optimizer"),
    [("transformer", "adamw"), ("cnn", "nesterov"), ("mlp", "adafactor"), ("mlp", "nadam")],
)
def test_optimizer_states_are_the_plain_ones(kind: str, optimizer: str) -> None:
    run(checks.optimizer_states_are_the_plain_ones, kind, optimizer, 3, count=3)


def test_who_does_not_save_is_named() -> None:
    messages = run(checks.one_rank_saves)
    assert messages[0].startswith("optimizer.state_dict() (parallel_checks.py:"), messages[0]
    assert "rank 1 has not come: it is at " in messages[0], messages[0]


def test_models_stay_what_they_are() -> None:
    run(checks.models_stay_what_they_are)


def test_batch_norm_is_as_in_ddp() -> None:
    run(checks.batch_norm_as_in_ddp, count=3)


def test_blocks_may_be_compiled() -> None:
    training_pool().run(checks.blocks_may_be_compiled, ranks=range(2), deadline_s=200)


@pytest.mark.parametrize("what", ["double", "sparse"])
def test_graphs_of_gradients_are_refused(what: str) -> None:
    run(checks.graphs_of_gradients_are_refused, what)


@pytest.mark.parametrize(
    ("policy", "reduction"),
    [
        (checks.DEAR, "reduce_scatter"),
        ("ddp,bucket=1KiB", "allreduce"),
    ],
)
def test_bytes_and_collectives_are_the_plans(policy: str, reduction: str) -> None:
    count = 4
    for found in run(checks.bytes_and_collectives, policy, count, count=count):
        assert len(found["calls"]) == len(found["plan"])
        factor = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
        sent = sum(
            factor[kind] * (count - 1) / count * size
            for (kind, _, _), (_, size) in zip(found["plan"], found["calls"], strict=True)
        )
        assert sent == pytest.approx(2 * (count - 1) / count * found["bytes"], rel=0.01)
        for (kind, _, _), (name, _) in zip(found["plan"], found["calls"], strict=True):
            assert name.replace("_", "").startswith(kind.replace("_", ""))
        assert found["calls"][0][0].replace("_", "").startswith(reduction.replace("_", ""))
        plan = len(found["plan"]) // 3
        assert found["order"] == list(range(plan)) * (len(found["order"]) // plan)


def test_memory() -> None:
    run(checks.memory, count=4)


def test_the_hook_in_ddp() -> None:
    run(checks.hook_in_ddp, count=3)


def test_explanations_and_traces(tmp_path: pathlib.Path) -> None:
    run(checks.explanations, str(tmp_path))


@pytest.mark.parametrize("policy", [checks.DEAR, "ddp"])
@pytest.mark.parametrize("way", ["fused", "foreach"])
def test_what_was_made_before_goes_on(policy: str, way: str) -> None:
    run(checks.what_was_made_before_goes_on, policy, way)


def test_a_step_of_the_users_own_is_refused() -> None:
    run(checks.a_step_of_the_users_own_is_refused)
