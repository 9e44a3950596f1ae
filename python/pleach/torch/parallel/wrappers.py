"""Refuses to wrap a model that is in a training already."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch


def patch_wrappers() -> None:
    """Lets DDP, and FSDP where it has been imported, refuse a model that is in a training.

    From now on, in this process. Their hooks would copy gradients that are scattered, and fail far
    from the call that is wrong.
    """
    sharded = sys.modules.get("torch.distributed.fsdp")
    kinds: list[Any] = [torch.nn.parallel.DistributedDataParallel]
    kinds += [sharded.FullyShardedDataParallel] if sharded is not None else []
    for kind in kinds:
        if not hasattr(kind.__init__, "pleach_checks"):
            kind.__init__ = _checking(kind.__init__, kind.__name__)


def is_in_training(model: torch.nn.Module) -> bool:
    """True if data_parallel was called with the model, or with a part of it."""
    return any(hasattr(type(module), "pleach_trainer") for module in model.modules())


def _checking(initialize: Callable[..., None], name: str) -> Callable[..., None]:
    @functools.wraps(initialize)
    def check_and_initialize(
        self: Any, module: torch.nn.Module, *arguments: Any, **options: Any
    ) -> None:
        if is_in_training(module):
            raise ValueError(
                f"{name}: data_parallel averages this model's gradients already; use the model as "
                "data_parallel returned it, without a wrapper, or call optimizer.close() first"
            )
        initialize(self, module, *arguments, **options)

    check_and_initialize.pleach_checks = True  # type: ignore[attr-defined]
    return check_and_initialize
