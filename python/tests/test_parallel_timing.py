"""Delays, races, and plans that change while training runs."""

# timeout_s: 300
from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(250)  # the first one starts the ranks

import parallel_timing as timing  # noqa: E402
from parallel_cases import EARLY  # noqa: E402
from rank_pool import training_pool  # noqa: E402

LONG = bool(os.environ.get("PLEACH_LONG"))
# A hundred seeds where there is time; the same in slices.
SEEDS = range(100) if LONG else range(0, 100, 10)


@pytest.mark.parametrize("policy", ["dear,bucket=1KiB", "ddp,bucket=1KiB", EARLY])
def test_delays_change_no_bit(policy: str) -> None:
    found = training_pool().run(
        timing.bits_under_delays, policy, [None, *SEEDS], 2, ranks=range(2), deadline_s=300
    )
    assert {bits for each in found for bits in each} == {found[0][0]}


def test_only_forward_waits() -> None:
    for times in training_pool().run(timing.only_forward_waits, ranks=range(2)):
        # 50 ms a collective, one at a time: neither backward nor step waits for any.
        assert times["backward"] < 0.04, times
        assert times["step"] < 0.04, times
        # The first layer waits for 4 reductions and its gather, the last for 3 gathers more.
        assert 0.15 < times["first"] < times["last"] - 0.12, times


def test_a_search_changes_plans_on_all_ranks_at_once() -> None:
    found = training_pool().run(timing.a_search_changes_plans, ranks=range(3))
    assert found[0] == found[1] == found[2]
    specs = [spec for spec, _, _ in found[0]]
    assert specs == ["dear,bucket=1024", "dear,bucket=4096"]
    assert found[0][0][2] > found[0][1][2]


def test_drift_makes_a_new_plan() -> None:
    found = training_pool().run(timing.drift_makes_a_new_plan, ranks=range(2))
    assert found[0] == found[1]
    assert len(found[0]) == 1
    assert "instead of" in found[0][0]


@pytest.mark.parametrize("policy", ["dear,bucket=1KiB", "ddp", EARLY])
def test_no_step_is_lost(policy: str) -> None:
    found = training_pool().run(timing.stands_after, policy, ranks=range(2))
    assert max(found) <= 1e-12


def test_streams_wait_for_each_other() -> None:
    assert min(training_pool().run(timing.streams_wait_for_each_other, ranks=range(2))) > 10


def test_accumulation_reduces_once() -> None:
    for more_than_the_plan in training_pool().run(timing.accumulation_reduces_once, ranks=range(2)):
        assert more_than_the_plan == [0, 0]


def test_agreements_are_of_their_iteration() -> None:
    assert max(training_pool().run(timing.late_agreement, ranks=range(2))) <= 1e-12
