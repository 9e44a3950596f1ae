"""Loops as people write them make what they make on one process: among them all that DeAR's
published code gets wrong."""

# timeout_s: 300
from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(250)  # the first one starts the ranks

import parallel_jobs as jobs  # noqa: E402
from parallel_cases import EARLY  # noqa: E402
from parallel_loops import LOOPS, OTHERS  # noqa: E402
from rank_pool import training_pool  # noqa: E402

LONG = bool(os.environ.get("PLEACH_LONG"))
DEAR = "dear,bucket=1KiB"
# What early updates allow: gradients are used once, when they come.
EARLY_LOOPS = ["plain_steps", "zero_in_place", "two_forwards", "with_closure", "evaluate_between"]


def check(loop: str, kind: str, policy: str, count: int = 2, **options: object) -> None:
    found = training_pool().run(
        jobs.compare_loop,
        loop,
        kind,
        "nesterov",
        count,
        policy,
        {"check": True, **options},
        ranks=range(count),
    )
    within = 1e-6 if kind == "mixed" else 1e-12
    assert max(parameters for parameters, _, _ in found) <= within
    assert max(notes for _, notes, _ in found) <= 1000 * within
    assert len({digest for _, _, digest in found}) == 1


@pytest.mark.parametrize("loop", list(LOOPS))
def test_loops(loop: str) -> None:
    check(loop, "mlp", DEAR)


@pytest.mark.parametrize("kind", list(OTHERS))
def test_models(kind: str) -> None:
    check("plain_steps", kind, DEAR, count=3)
    check("accumulate", kind, DEAR)


@pytest.mark.parametrize("loop", ["never_cleared", "cleared_sometimes", "step_again"])
@pytest.mark.parametrize("policy", [DEAR, "ddp,bucket=1KiB"])
def test_what_no_rank_uses(loop: str, policy: str) -> None:
    """A gradient that is still there counts, as in plain training, and one that never was not."""
    check(loop, "alternating", policy)
    check(loop, "frozen", policy)


@pytest.mark.parametrize(
    "loop",
    ["clip_norm", "scaler", "accumulate_unevenly", "cleared_before_step", "evaluate_between"],
)
@pytest.mark.parametrize(
    ("policy", "options"), [("ddp,bucket=1KiB", {}), (DEAR, {"gather": "gradients"})]
)
def test_loops_with_whole_gradients(loop: str, policy: str, options: dict[str, str]) -> None:
    check(loop, "unused_on_some", policy, **options)


@pytest.mark.parametrize("loop", EARLY_LOOPS)
def test_loops_with_early_updates(loop: str) -> None:
    check(loop, "mlp", EARLY)


@pytest.mark.parametrize("kind", ["unused_on_some", "unused_on_all", "wandering", "checkpointed"])
def test_models_with_early_updates(kind: str) -> None:
    check("plain_steps", kind, EARLY, count=3)


if LONG:

    @pytest.mark.parametrize("loop", LOOPS)
    @pytest.mark.parametrize("kind", [*OTHERS, "transformer", "cnn"])
    @pytest.mark.parametrize(
        ("policy", "options"),
        [(DEAR, {}), ("ddp,bucket=1KiB", {}), (DEAR, {"gather": "gradients"})],
    )
    def test_everything(loop: str, kind: str, policy: str, options: dict[str, str]) -> None:
        if kind == "frozen" and loop.startswith(("clip_norm", "scaler")):
            pytest.skip("torch has no infinity norm of an empty tensor")
        check(loop, kind, policy, count=3, **options)
