"""Runs operations of this library outside of the modes that the user's thread is in."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import TypeVar

import torch

_Made = TypeVar("_Made")


def run_plainly(function: Callable[[], _Made]) -> _Made:
    """Runs a function, and returns its result.

    FakeTensorMode, inference mode, `torch.func` and traces belong to a thread. If this one is in
    any, another thread runs the function.
    """
    if not _has_modes():
        return function()
    stream = torch.accelerator.current_stream() if torch.accelerator.is_available() else None

    def run() -> _Made:
        if stream is not None:  # a thread has its own current device and stream
            torch.accelerator.set_stream(stream)
        return function()

    with concurrent.futures.ThreadPoolExecutor(1, "pleach-plainly") as thread:
        return thread.submit(run).result()


def _has_modes() -> bool:
    return bool(
        torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._get_tracing_state() is not None
        or torch.is_inference_mode_enabled()
    )
