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


# What was too long before is slept less the next time, up to here [s].
MOST_CARRIED_S = 0.1


class _Clock:
    """Lets computation take its time in sum, though no single sleep ends when it should.

    What the thread itself does between two layers counts as computation, too: on an accelerator it
    would be hidden, since layers are launched ahead. Waiting there does not.
    """

    def __init__(self) -> None:
        self._carried_s = 0.0
        self._worked_s = time.thread_time()

    def begin(self) -> float:
        """A layer begins to compute; the time."""
        self._carried_s += max(0.0, time.thread_time() - self._worked_s)
        return time.perf_counter()

    def compute(self, duration_s: float, begin_s: float) -> None:
        """Returns so long after `begin_s`, less what was too long before."""
        deadline = begin_s + duration_s - min(self._carried_s, MOST_CARRIED_S)
        left = deadline - time.perf_counter()
        if left > 0:
            time.sleep(left)
        self._carried_s = max(0.0, time.perf_counter() - deadline)
        self._worked_s = time.thread_time()


_CLOCK = _Clock()


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: torch.Tensor, layer: Any, begins: list[float], *parameters: torch.Tensor
    ) -> Any:
        ctx.layer = layer
        ctx.begins = begins
        ctx.shapes = [(parameter.shape, parameter.device) for parameter in parameters]
        begin = _CLOCK.begin()
        begins.append(begin)
        for parameter in parameters:
            parameter[:1].sum()  # read, as by what a layer computes
        _CLOCK.compute(layer.forward_s, begin)
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        begin = _CLOCK.begin()
        ctx.begins.append(begin)
        own = [torch.full(shape, 1e-3, device=device) for shape, device in ctx.shapes]
        _CLOCK.compute(ctx.layer.backward_s, begin)
        return (gradients[0], None, None, *own)


class _Module(torch.nn.Module):
    def __init__(self, layer: PacedLayer, begins: list[float]):
        super().__init__()
        self.layer = layer
        self.begins = begins
        self.tensors = torch.nn.ParameterList(
            torch.nn.Parameter(torch.zeros(size)) for size in layer.tensors
        )

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = _Sleep.apply(  # type: ignore[no-untyped-call]
            values, self.layer, self.begins, *self.tensors
        )
        return result


class PacedModel(torch.nn.Module):
    """The layers, one after the other; its input and output are one number.

    Attributes:
        begins: When forward began of each layer, then backward from the last one on, iteration by
            iteration; of time.perf_counter. Whoever wants to know them clears it before.
    """

    def __init__(self, layers: Sequence[PacedLayer]):
        super().__init__()
        self.begins: list[float] = []
        self.layers = torch.nn.ModuleList(_Module(layer, self.begins) for layer in layers)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            values = layer(values)
        return values


def paced_loss(model: torch.nn.Module) -> torch.Tensor:
    """What backward begins at."""
    result: torch.Tensor = model(torch.ones(1, requires_grad=True))
    return result.sum()
