"""Short trainings in which ranks use different layers make what one process makes."""

# timeout_s: 300
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(250)  # the first one starts the ranks

import parallel_scripts as scripts  # noqa: E402
from parallel_cases import EARLY  # noqa: E402
from rank_pool import training_pool  # noqa: E402

DEAR = "dear,bucket=1KiB"


def check(script: str, policy: str, count: int, **options: object) -> None:
    found = training_pool().run(
        scripts.play_script, script, count, policy, options, ranks=range(count)
    )
    assert [wrong for wrong, _ in found] == [[]] * count
    assert len({digest for _, digest in found}) == 1


@pytest.mark.parametrize("script", list(scripts.SCRIPTS))
@pytest.mark.parametrize(
    ("policy", "options"),
    [(DEAR, {}), (DEAR, {"gather": "gradients"}), ("ddp,bucket=1KiB", {})],
    ids=["dear", "dear_gradients", "ddp"],
)
def test_scripts(script: str, policy: str, options: dict[str, str]) -> None:
    check(script, policy, 2, **options)


def test_scripts_with_early_updates() -> None:
    check("recomputed_first", EARLY, 2)
