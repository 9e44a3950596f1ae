"""Names the call that a thread is in, from its stack, once something is wrong or slow."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from types import FrameType
from typing import NamedTuple

import torch

_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
# Files of a user are those outside these folders.
_LIBRARIES = (
    _OURS,
    os.path.realpath(_OURS) + os.sep,
    os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), ""),
)
_STANDARD = tuple(
    os.path.join(sysconfig.get_paths()[kind], "") for kind in ("stdlib", "platstdlib")
)
# Functions of PyTorch and of the standard library that only pass a call on.
_PASSES_ON = frozenset(
    {"__enter__", "__exit__", "decorate_context", "inner", "fun", "__call__", "_fn"}
)
_FORWARD = frozenset({"_call_impl", "_wrapped_call_impl"})
_OF_OPTIMIZER = frozenset(
    {
        "close",
        "load_state_dict",
        "state_dict",
        "step",
        "synchronize",
        "whole_gradients",
        "zero_grad",
    }
)


class Call(NamedTuple):
    """A call that a thread is in.

    Attributes:
        name: The function that the user's code calls: `optimizer.step()`, `forward`; or "".
        place: The line of the user's code: `train.py:42`.
    """

    name: str
    place: str

    def __str__(self) -> str:
        """Both, in words."""
        return f"{self.name} ({self.place})" if self.name and self.place else self.name


NO_CALL = Call("", "")


def call_of(thread: int | None = None) -> Call:
    """Returns the call that a thread of this process is in.

    Args:
        thread: Its identity; None: the caller.
    """
    frame: FrameType | None = sys._getframe(1)
    if thread is not None and thread != threading.get_ident():
        frame = sys._current_frames().get(thread)
    inner: list[FrameType] = []
    while frame is not None and _is_library(frame.f_code.co_filename):
        inner.append(frame)
        frame = frame.f_back
    if frame is None:  # a thread of a library's own
        return NO_CALL
    place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
    return Call(_name(list(reversed(inner))), place)


def main_call() -> Call:
    """Returns the call that the main thread is in."""
    return call_of(threading.main_thread().ident)


def _is_library(path: str) -> bool:
    if path.startswith("<") or path.startswith(_LIBRARIES):
        return True
    return path.startswith(_STANDARD) and "site-packages" not in path


def _name(frames: list[FrameType]) -> str:
    """The first function that does more than to pass a call on; frames are the user's first."""
    for frame in frames:
        code = frame.f_code
        if code.co_name in _FORWARD:
            return "forward"
        if "wrap" in code.co_name or code.co_name in _PASSES_ON:
            continue
        if code.co_filename.startswith(_STANDARD) and "site-packages" not in code.co_filename:
            continue
        is_ours = code.co_filename.startswith(_LIBRARIES[:2])
        if is_ours and getattr(frame.f_locals.get("cls"), "__name__", "") == "PartialNorm":
            return "the norm of a gradient"
        if is_ours and code.co_name == "__torch_dispatch__":
            is_state = getattr(frame.f_locals.get("cls"), "__name__", "") == "StateShard"
            kind = "an entry of optimizer.state" if is_state else "a gradient"
            return f"{_operation(frame.f_locals.get('func'))} of {kind}"
        if is_ours and code.co_name in _OF_OPTIMIZER:
            return f"optimizer.{code.co_name}()"
        return f"{code.co_name}()"
    return ""


def _operation(function: object) -> str:
    name = str(function).removeprefix("aten.").split(".")[0]
    return {"_local_scalar_dense": "item()", "linalg_vector_norm": "norm()"}.get(name, name)
