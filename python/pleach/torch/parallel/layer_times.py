"""How long each layer computes, forward and backward, from marks at gates and gradients."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from .clocks import Clock


@dataclasses.dataclass(frozen=True)
class LayerTimes:
    """Seconds of an iteration, by layer."""

    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]

    def scaled(self, forward_s: float, backward_s: float) -> LayerTimes:
        """The same shares of other totals."""

        def share(times: Sequence[float], total: float) -> tuple[float, ...]:
            own = sum(times)
            return tuple(one * total / own if own > 0 else 0.0 for one in times)

        return LayerTimes(share(self.forward_s, forward_s), share(self.backward_s, backward_s))


class LayerTimer:
    """Collects the marks of iterations, and makes times of them afterwards.

    A layer's forward lasts from its gate to the next one, its backward from when the gradients of
    the layers behind it were complete to when its own are. A layer that an iteration does not reach
    takes no time in it.
    """

    patience = 100  # iterations that it is worth to wait for times in

    def __init__(self, layers: int, clock: Clock):
        self._layers = layers
        self._clock = clock
        self._iterations: list[tuple[list[Any], Any, list[Any]]] = []
        self._restart()

    def _restart(self) -> None:
        self._entered: list[Any] = [None] * self._layers
        self._left: list[Any] = [None] * self._layers
        self._order: list[int] = []
        self._end: Any = None  # of forward
        self._complete: list[Any] = [None] * self._layers

    def enter(self, layer: int) -> None:
        """Forward has come to a layer's gate: what went before has ended."""
        mark = self._clock.now()
        if self._order:
            self._left[self._order[-1]] = mark
        self._order.append(layer)

    def begin(self, layer: int) -> None:
        """It is let in."""
        if self._entered[layer] is None:
            self._entered[layer] = self._clock.now()

    def end_forward(self) -> None:
        """Forward has ended."""
        self._end = self._clock.now()
        if self._order:
            self._left[self._order[-1]] = self._end

    def complete(self, layer: int) -> None:
        """All of a layer's gradients are there."""
        self._complete[layer] = self._clock.now()

    def end_iteration(self) -> None:
        """Backward has ended."""
        if self._end is not None and self._order:
            spans = [(self._entered[layer], self._left[layer]) for layer in range(self._layers)]
            self._iterations.append((spans, self._end, self._complete))
        self._restart()

    @property
    def count(self) -> int:
        """Iterations that were seen wholly."""
        return len(self._iterations)

    def times(self) -> LayerTimes:
        """The medians over the iterations, of which there is one at least; waits for the device."""
        self._clock.wait()
        forwards: list[list[float]] = []
        backwards: list[list[float]] = []
        for spans, end, complete in self._iterations:
            forwards.append(
                [
                    0.0 if begin is None or left is None else self._clock.seconds(begin, left)
                    for begin, left in spans
                ]
            )
            ends = [0.0 if mark is None else self._clock.seconds(end, mark) for mark in complete]
            own, latest = [0.0] * self._layers, 0.0
            for layer in reversed(range(self._layers)):
                own[layer] = max(0.0, ends[layer] - latest)
                latest = max(latest, ends[layer])
            backwards.append(own)
        return LayerTimes(_medians(forwards), _medians(backwards))


def _medians(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(statistics.median(column) for column in zip(*rows, strict=True))
