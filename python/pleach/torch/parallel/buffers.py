"""The first rank's buffers (running means, counts) become every rank's after a step."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from typing import Any

import torch

from . import dispatch_key
from .exchange import Exchange, as_bytes
from .guard import Guard, GuardedSet
from .plainly import run_plainly


def is_plain(tensor: torch.Tensor) -> bool:
    """True for a dense tensor, whose elements lie in memory one by one."""
    return tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_nested


def _version(tensor: torch.Tensor) -> tuple[int, int]:
    """Changes with the tensor's values: its identity, and its version."""
    return id(tensor), tensor._version


# Uses of a storage that one tensor has: the tensor's, and that of the object that counts.
UNSHARED_USES = 2


@dataclasses.dataclass(frozen=True)
class _Sent:
    """Buffers of one type on their way: this rank's, the flat copy that travels, its work."""

    buffers: list[torch.Tensor]
    copy: torch.Tensor
    work: Any


class SharedBuffers:
    """Those of a model. Sent at a step, and taken before they are read or written."""

    def __init__(self, model: torch.nn.Module, exchange: Exchange, guard: Guard | None):
        """Shares the buffers of a model, which are alike on all ranks.

        Args:
            model: The model.
            exchange: Among the ranks.
            guard: Makes uses of a buffer wait; its await_value() calls take(). None: nothing does,
                and what is written between a step and the next forward is lost.
        """
        self._model = model
        self._exchange = exchange
        self._guard = guard
        self._sent: list[_Sent] = []
        self._guarded = GuardedSet([])
        self._failure: Exception | None = None
        self._lock = threading.RLock()
        # Versions of the buffers that are not sent. They are alike, and have to stay as they are.
        self._fixed = {
            name: _version(buffer) for name, buffer in model.named_buffers() if not is_plain(buffer)
        }

    @torch.no_grad()
    def give(self) -> None:
        """Begins to send them, those of one type together; collective."""
        with self._lock:
            self._give()

    def check(self) -> None:
        """The buffers that are not sent are as they were.

        Raises:
            RuntimeError: One has been changed.
        """
        for name, buffer in self._model.named_buffers():
            if not is_plain(buffer) and _version(buffer) != self._fixed.get(name):
                raise RuntimeError(
                    f"buffer {name} has changed, and is not dense: ranks share dense buffers "
                    "alone; pass broadcast_buffers=False, or keep it as it was at data_parallel"
                )

    def _give(self) -> None:
        self.take()
        by_type: dict[torch.dtype, list[torch.Tensor]] = {}
        for buffer in self._model.buffers():
            if is_plain(buffer) and buffer.numel() > 0:
                by_type.setdefault(buffer.dtype, []).append(buffer)
        for buffers in by_type.values():
            # A copy of one buffer too: this rank may write to it before it has left.
            copy = torch.cat([buffer.reshape(-1) for buffer in buffers])
            work = self._exchange.send_first(as_bytes(copy))
            self._sent.append(_Sent(buffers, copy, work))
        if self._guard is not None and self._exchange.rank != 0:  # the first rank's are final
            buffers = [buffer for sent in self._sent for buffer in sent.buffers]
            self._guarded = self._guarded.renewed(buffers)
            # No guard protects the values of another tensor with the same memory.
            is_shared = self._guarded.is_shared(UNSHARED_USES)
            if is_shared or not self._guard.put(buffers, self._guarded.placeholders):
                self.take()

    def take(self) -> None:
        """Takes what has been sent, and lifts the guards. From any thread.

        Raises:
            Exception: It has failed, now or before. The guards stay.
        """
        with self._lock:  # another thread may be taking them
            if self._failure is not None:
                raise self._failure
            sent, self._sent = self._sent, []
            try:
                run_plainly(lambda: self._copy(sent))
            except Exception as error:
                self._failure = error
                raise
            self._lift()

    def close(self) -> None:
        """Takes what has been sent. Lifts the guards if that fails, too."""
        with self._lock:
            try:
                if self._failure is None:
                    self.take()
            finally:
                self._lift()

    def _lift(self) -> None:
        if self._guard is not None:
            self._guard.lift(self._guarded.tensors, self._guarded.values)

    @torch.no_grad()
    def _copy(self, sent: Sequence[_Sent]) -> None:
        for one in sent:
            one.work.wait()
        for one in sent:
            if self._exchange.rank == 0:
                continue
            values = one.copy.split([buffer.numel() for buffer in one.buffers])
            with dispatch_key.below(), torch._C.DisableTorchFunctionSubclass():  # guarded still
                for buffer, value in zip(one.buffers, values, strict=True):
                    buffer.copy_(value.view(buffer.shape))
