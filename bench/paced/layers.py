"""Models whose layers take a given time, around real tensors and real collectives.

A layer sleeps for what it would compute, so that ranks which share cores do not slow each other
down: what is measured is when communication happens, and what it costs.
"""
from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from bench.paced.job import PacedLayer


# What sleeping overshoots is slept less the next time, up to here [s].
MOST_CARRIED_S = 0.02


class _Clock:
    """Lets computation take its time in sum, though no single sleep ends when it should."""

    def __init__(self) -> None:
        self._carried_s = 0.0

    def compute(self, duration_s: float, begin_s: float) -> None:
        """Returns so long after `begin_s`, less what was too long before."""
        deadline = begin_s + duration_s - self._carried_s
        left = deadline - time.perf_counter()
        if left > 0:
            time.sleep(left)
        self._carried_s = min(max(0.0, time.perf_counter() - deadline), MOST_CARRIED_S)


_CLOCK = _Clock()


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: torch.Tensor, layer: Any, *parameters: torch.Tensor
    ) -> Any:
        ctx.layer = layer
        ctx.shapes = [(parameter.shape, parameter.device) for parameter in parameters]
        begin = time.perf_counter()
        for parameter in parameters:
            parameter[:1].sum()  # read, as by what a layer computes
        _CLOCK.compute(layer.forward_s, begin)
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        begin = time.perf_counter()
        own = [torch.full(shape, 1e-3, device=device) for shape, device in ctx.shapes]
        _CLOCK.compute(ctx.layer.backward_s, begin)
        return (gradients[0], None, *own)


class _Module(torch.nn.Module):
    def __init__(self, layer: PacedLayer):
        super().__init__()
        self.layer = layer
        self.tensors = torch.nn.ParameterList(
            torch.nn.Parameter(torch.zeros(size)) for size in layer.tensors
        )

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = _Sleep.apply(  # type: ignore[no-untyped-call]
            values, self.layer, *self.tensors
        )
        return result


class PacedModel(torch.nn.Module):
    """The layers, one after the other; its input and output are one number."""

    def __init__(self, layers: Sequence[PacedLayer]):
        super().__init__()
        self.layers = torch.nn.ModuleList(_Module(layer) for layer in layers)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            values = layer(values)
        return values
