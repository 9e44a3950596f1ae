"""What collectives are measured to take, and how much longer they take than predicted."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from pleach.policy import AlphaBeta
from pleach.torch.parallel import costs
from pleach.torch.parallel.following import MARGIN_PERCENT, for_measured
from pleach.torch.parallel.planning import ratio_of_costs


def test_collectives_that_share_the_wire_count_once():
    """Two under way at a time take twice as long each, and are as fast as predicted together."""

    def log(*spans: tuple[int, int, int]) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(index=index, started_ps=begin * 10**9, finished_ps=end * 10**9)
            for index, begin, end in spans
        ]

    def predicted_s(index: int) -> float:
        return [0.010, 0.020][index]

    one_by_one = log((0, 0, 10), (1, 10, 30), (0, 50, 60))
    together = log((0, 0, 20), (0, 0, 20), (1, 100, 140), (1, 120, 140))
    inside = log((1, 0, 30), (0, 5, 10))
    cases = [
        ([], 1.0),
        (one_by_one, 1.0),
        (together, 1.0),
        (inside, 1.0),
        (log((0, 0, 15), (1, 15, 45)), 1.5),
        (log((0, 7, -1)), 1.0),
    ]
    for taken, ratio in cases:
        assert ratio_of_costs(taken, predicted_s) == pytest.approx(ratio), taken


def test_what_disturbs_a_measurement_is_no_cost() -> None:
    class Alone:
        def all_reduce(self, values: Any, is_maximum: bool) -> Any:
            return values

    # Trains of two: one that is not timed and one that is, four times.
    naps = iter([0.0, 0.0, 0.06, 0.06] + [0.06, 0.06, 0.001, 0.001] + 8 * [0.06])

    def call() -> SimpleNamespace:
        time.sleep(next(naps))
        return SimpleNamespace(wait=lambda: None)

    measured_s = costs._time(
        [call, call],
        1 << 20,
        Alone(),  # type: ignore[arg-type]
        torch.device("cpu"),
    )
    assert 0.001 <= measured_s < 0.05


def test_an_idle_links_burst_is_no_cost() -> None:
    """A link that lets 70,000 bytes through at once, and then a byte a microsecond."""

    class Alone:
        def all_reduce(self, values: Any, is_maximum: bool) -> Any:
            return values

    size, state = 1 << 14, {"free": 70_000.0, "at": time.perf_counter()}

    def call() -> SimpleNamespace:
        now = time.perf_counter()
        state["free"] = min(70_000.0, state["free"] + (now - state["at"]) * 1e6) - size
        state["at"] = now
        due = now + max(0.0, -state["free"] * 1e-6)
        return SimpleNamespace(wait=lambda: time.sleep(max(0.0, due - time.perf_counter())))

    measured_s = costs._time(
        [call, call],
        size,
        Alone(),  # type: ignore[arg-type]
        torch.device("cpu"),
    )
    assert measured_s > 0.5 * size * 1e-6


def test_plans_by_measured_costs_have_pieces_worth_starting_and_a_margin() -> None:
    costs_of_two = AlphaBeta(2, alpha="10us", bandwidth="100MB/s")
    cases = [
        ("dear,bucket=0", 1e-3, 1 << 20, None),
        ("work_conserving,piece=64KiB,margin=3", 1e-3, 1 << 20, None),
        ("work_conserving,gathers=early", 1e-3, 1 << 20, (150_000, 250_000)),
        ("work_conserving", 1e-9, 1 << 20, (4096, 4096)),
        ("work_conserving", 1e-3, 50_000, (50_000, 50_000)),
    ]
    for policy, least_s, total_bytes, piece in cases:
        made = for_measured(policy, least_s, total_bytes, costs_of_two)
        if piece is None:
            assert made == policy
        else:
            given, size = made.removesuffix(f",margin={MARGIN_PERCENT}").split(",piece=")
            assert given == policy
            assert piece[0] <= int(size) <= piece[1], made
    assert for_measured("work_conserving,piece=1", 1.0, 9, costs_of_two).endswith(
        f"piece=1,margin={MARGIN_PERCENT}"
    )
    assert "piece=" in for_measured("work_conserving,margin=0", 1.0, 9, costs_of_two)
