"""Finds the call behind an operation on a gradient that is scattered, for an error to name it.

Stock code reads gradients for its user: a second optimizer, `model.half()`. These functions look at
the frames of the call, so they are for code that is about to raise.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch


def other_optimizer(own: torch.optim.Optimizer) -> torch.optim.Optimizer | None:
    """The optimizer whose step() is running, if it is not the training's own."""
    for optimizer in _receivers("step", torch.optim.Optimizer):
        return None if optimizer is own else optimizer
    return None


def is_converting() -> bool:
    """True in a module's to(), half(), double() and the like."""
    return any(True for _ in _receivers("_apply", torch.nn.Module))


def reason_of_call(own: torch.optim.Optimizer, name: str) -> str:
    """The reason why a gradient is used, where its user has not asked for that; "": unknown.

    Args:
        own: The training's optimizer.
        name: Name of the gradient's parameter.
    """
    other = other_optimizer(own)
    if other is not None:
        kind = type(other).__name__
        return (
            f"{kind}.step() uses the gradient of {name}, and this {kind} is not the optimizer that "
            f"data_parallel returned ({type(own).__name__}): call step() of that one, or close() "
            "it and give this one to data_parallel"
        )
    if is_converting():
        return (
            f"the type or device of the gradient of {name} would change with the model's: convert "
            "the model before data_parallel, or call optimizer.close() and begin anew"
        )
    return ""


def _receivers(method: str, kind: type[Any]) -> Iterator[Any]:
    """The objects of a class whose methods of this name are running, the innermost first."""
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name == method and code.co_argcount > 0:
            receiver = frame.f_locals.get(code.co_varnames[0])
            if isinstance(receiver, kind):
                yield receiver
        frame = frame.f_back
