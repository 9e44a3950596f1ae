"""What collectives are measured to take, and how much longer they take than predicted."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from pleach.torch.parallel import costs
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

    naps = iter([0.0, 0.06, 0.06, 0.001, 0.06, 0.06])

    def call() -> SimpleNamespace:
        time.sleep(next(naps))
        return SimpleNamespace(wait=lambda: None)

    measured_s = costs._time(call, Alone(), torch.device("cpu"))  # type: ignore[arg-type]
    assert 0.001 <= measured_s < 0.05
