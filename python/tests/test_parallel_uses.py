"""Data parallelism as people use it: several models, changes midway, every policy and optimizer."""

# timeout_s: 300
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(250)  # the first one starts the ranks

import parallel_uses as uses  # noqa: E402
from parallel_cases import OWNERS  # noqa: E402
from rank_pool import training_pool  # noqa: E402

LONG = bool(os.environ.get("PLEACH_LONG"))
DEAR = "dear,bucket=1KiB"
DDP = "ddp,bucket=1KiB"


def run(check: Callable[..., Any], *arguments: Any, count: int = 2) -> list[Any]:
    return training_pool().run(check, *arguments, ranks=range(count))


def are_close(found: list[tuple[float, str]]) -> None:
    assert max(distance for distance, _ in found) <= 1e-12
    assert len({digest for _, digest in found}) == 1


@pytest.mark.parametrize("policy", [DEAR, DDP])
def test_buffers_are_as_in_ddp_where_steps_are_left_out(policy: str) -> None:
    run(uses.buffers_where_steps_are_left_out, policy)


@pytest.mark.parametrize(
    ("policy", "optimizer"), [(DEAR, "adamw"), (OWNERS, "radam"), (DDP, "nesterov")]
)
def test_states_of_what_has_no_elements(policy: str, optimizer: str) -> None:
    run(uses.states_of_what_has_no_elements, policy, optimizer)


@pytest.mark.parametrize(("name", "policy"), [("NAdam", DDP), ("Adagrad", DEAR)])
def test_what_was_trained_before(name: str, policy: str) -> None:
    are_close(run(uses.trained_before, name, policy))


@pytest.mark.parametrize("policy", [DEAR, DDP])
def test_unused_gradients_are_none(policy: str) -> None:
    run(uses.unused_gradients_are_none, policy)


def test_parameters_that_change_are_refused() -> None:
    run(uses.parameters_that_change_are_refused)


def test_lazy_layers_are_named() -> None:
    run(uses.lazy_layers_are_named)


def test_what_is_parallel_already() -> None:
    run(uses.what_is_parallel_already)


@pytest.mark.parametrize("policy", [DEAR, DDP])
def test_forgotten_trainings_end(policy: str) -> None:
    run(uses.forgotten_trainings_end, policy)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("way", ["turns", "together", "crosswise"])
def test_two_models(count: int, way: str) -> None:
    are_close(run(uses.two_in_turns, count, DEAR, way, count=count))


@pytest.mark.parametrize("way", ["detached", "through", "frozen"])
@pytest.mark.parametrize(("policy", "count"), [(DEAR, 4), (DDP, 2)])
def test_adversaries(policy: str, count: int, way: str) -> None:
    are_close(run(uses.adversaries, count, policy, way, count=count))


@pytest.mark.parametrize(
    "policy",
    [
        "byte_scheduler", "ddp", "dear", "dear,bucket=1KiB,halves=reduce_broadcast", "dear_bo",
        "fsdp", "horovod", "lancet", "mg_wfbp", "mg_wfbp,merge=optimal", "p3", "prophet",
        "sequential", "wfbp", "work_conserving", "work_conserving,gathers=early", "zero1",
        "work_conserving,collectives=any",
    ],
)  # fmt: skip
@pytest.mark.parametrize("count", [1, 2, 3, 4] if LONG else [2])
def test_every_policy_trains_or_is_refused_by_name(policy: str, count: int) -> None:
    found = run(uses.any_policy, policy, count, count=count)
    if isinstance(found[0][0], str):
        assert len({message for message, _ in found}) == 1
        assert policy.split(",")[0] in found[0][0]
        assert "\n" not in found[0][0]
    else:
        are_close(found)


OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"foreach": True}) for name in (
        "SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "ASGD",
        "RMSprop", "Rprop", "Adafactor")),
    *((name, {"fused": True}) for name in ("SGD", "Adam", "AdamW", "Adagrad")),
    *((name, {"capturable": True}) for name in (
        "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adadelta", "ASGD", "RMSprop", "Rprop")),
    *((name, {"differentiable": True}) for name in ("SGD", "AdamW")),
    ("Adam", {"lr": "tensor"}),
    ("SGD", {"lr": "tensor", "momentum": 0.9}),
    ("Adam", {"amsgrad": True, "maximize": True, "fused": True}),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.9}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    ("Muon", {"nesterov": False}),
    ("LBFGS", {}),
    ("SparseAdam", {}),
]  # fmt: skip


def test_every_optimizer_trains_or_is_refused_by_name() -> None:
    for name, options in OPTIMIZERS:
        found = run(uses.any_optimizer, name, options)
        if isinstance(found[0][0], str):
            assert name in found[0][0], (name, options)
            assert "\n" not in found[0][0]
            assert name in ("LBFGS", "SparseAdam") or {"capturable", "differentiable"} & {*options}
        else:
            within = 1e-6 if name in ("Muon", "Adafactor") else 1e-10
            assert max(distance for distance, _ in found) <= within, (name, options)
            assert len({digest for _, digest in found}) == 1
