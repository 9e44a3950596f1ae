"""Short trainings in which ranks use different layers make what one process makes."""

# timeout_s: 300
from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(250)  # the first one starts the ranks

import parallel_scripts as scripts  # noqa: E402
from parallel_cases import EARLY, OWNERS  # noqa: E402
from rank_pool import training_pool  # noqa: E402

LONG = bool(os.environ.get("PLEACH_LONG"))
DEAR = "dear,bucket=1KiB"


def check(script: str, policy: str, count: int, **options: object) -> None:
    found = training_pool().run(
        scripts.play_script, script, count, policy, options, ranks=range(count)
    )
    assert [wrong for wrong, _ in found] == [[]] * count
    assert len({digest for _, digest in found}) == 1


@pytest.mark.parametrize("script", list(scripts.SCRIPTS))
def test_scripts(script: str) -> None:
    check(script, DEAR, 2)
    check(script, "ddp,bucket=1KiB", 3 if LONG else 2)
    if LONG:
        check(script, DEAR, 3, gather="gradients")
        check(script, OWNERS, 3)


@pytest.mark.parametrize("script", scripts.EARLY_SCRIPTS)
def test_scripts_with_early_updates(script: str) -> None:
    check(script, EARLY, 3 if LONG else 2)
