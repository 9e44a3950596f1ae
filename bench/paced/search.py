#!/usr/bin/env python3
"""Compares searches of a bucket size, over iterations that were measured at many: JSON to JSON.

    python bench/paced/search.py 'dear_bo,first=800KiB,least=32KiB,most=8MiB' < sizes.json

The input has times of iterations by size in bytes. Between two sizes an iteration takes what lies
on the line between theirs (over the sizes' logarithms). Every search has as many trials, of four
iterations each, and is run often, with another turn's times. The output has the best time so far
over the best of all, trial by trial, for each run of each search.
"""
from __future__ import annotations

import json
import math
import random
import statistics
import sys
from collections.abc import Callable, Sequence

from pleach.policy import BucketTuner

RUNS = 40
ITERATIONS = 4  # of a trial


class Iterations:
    """What iterations take, by size; a size's turns are drawn from."""

    def __init__(self, times: dict[int, list[float]], seed: int):
        self._sizes = sorted(times)
        self._times = times
        self._random = random.Random(seed)

    def _at(self, size: float, draw: Callable[[Sequence[float]], float]) -> float:
        size = min(max(size, self._sizes[0]), self._sizes[-1])
        above = next(one for one in self._sizes if one >= size)
        below = max((one for one in self._sizes if one <= size), default=above)
        share = 0.0 if above == below else math.log(size / below) / math.log(above / below)
        return (1 - share) * draw(self._times[below]) + share * draw(self._times[above])

    def once(self, size: float) -> float:
        """Seconds, as one would measure them."""
        return self._at(size, self._random.choice)

    def median(self, size: float) -> float:
        """Seconds."""
        return self._at(size, statistics.median)

    @property
    def range(self) -> tuple[float, float]:
        """The sizes that were measured."""
        return self._sizes[0], self._sizes[-1]


def bayesian(spec: str, times: Iterations, seed: int) -> list[float]:
    """The sizes that `dear_bo` tries."""
    tuner = BucketTuner(spec, seed)
    sizes: list[float] = []
    is_warm = False
    while not tuner.settled:
        if is_warm:
            sizes.append(tuner.size_bytes)
        is_warm = True  # its first window is not a trial
        size = tuner.size_bytes
        for _ in range(ITERATIONS):
            tuner.observe(round(times.once(size) * 1e12))
    return sizes


def at_random(times: Iterations, trials: int, seed: int) -> list[float]:
    """As many sizes, uniform as those of the Bayesian search are at first."""
    least, most = times.range
    draw = random.Random(seed)
    return [draw.uniform(least, most) for _ in range(trials)]


def grid(times: Iterations, trials: int) -> list[float]:
    """As many sizes at equal distances, one after the other."""
    least, most = times.range
    return [least + (most - least) * index / (trials - 1) for index in range(trials)]


def best_so_far(times: Iterations, sizes: Sequence[float]) -> list[float]:
    """What has been found after each trial, over the best of the sizes that were measured."""
    best = min(times.median(size) for size in times._times)
    found, over = math.inf, []
    for size in sizes:
        found = min(found, times.median(size) / best)
        over.append(found)
    return over


def main() -> None:
    """Reads, searches, and prints."""
    given = {int(size): turns for size, turns in json.load(sys.stdin).items()}
    searches: dict[str, list[list[float]]] = {"bayesian": [], "random": [], "grid": []}
    for seed in range(RUNS):
        times = Iterations(given, seed)
        tried = bayesian(sys.argv[1], times, seed)
        searches["bayesian"].append(best_so_far(times, tried))
        searches["random"].append(best_so_far(times, at_random(times, len(tried), seed)))
    searches["grid"].append(best_so_far(times, grid(times, len(tried))))
    print(json.dumps(searches))


if __name__ == "__main__":
    main()
