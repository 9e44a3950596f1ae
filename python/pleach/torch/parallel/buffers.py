"""The first rank's buffers (running means, counts) become everybody's after every step."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from .exchange import Exchange


class SharedBuffers:
    """Those of a model. Sent at a step, and taken when somebody may read them."""

    def __init__(self, model: torch.nn.Module, exchange: Exchange):
        """Of a model whose buffers are alike on all ranks."""
        self._model = model
        self._exchange = exchange
        self._sent: list[tuple[list[torch.Tensor], torch.Tensor, Any]] = []

    @torch.no_grad()
    def give(self) -> None:
        """Begins to send them, those of one type together; collective."""
        self.take()
        by_type: dict[torch.dtype, list[torch.Tensor]] = {}
        for buffer in self._model.buffers():
            if buffer.numel() > 0 and buffer.layout is torch.strided:
                by_type.setdefault(buffer.dtype, []).append(buffer)
        for buffers in by_type.values():
            copy = _flatten_dense_tensors([buffer.contiguous() for buffer in buffers])
            work = dist.broadcast(copy, group=self._exchange.group, group_src=0, async_op=True)
            self._sent.append((buffers, copy, work))

    @torch.no_grad()
    def take(self) -> None:
        """Takes what has been sent."""
        sent, self._sent = self._sent, []
        for buffers, copy, work in sent:
            work.wait()
            if self._exchange.rank == 0:
                continue
            values = _unflatten_dense_tensors(copy, [buffer.contiguous() for buffer in buffers])
            for buffer, value in zip(buffers, values, strict=True):
                buffer.copy_(value)
