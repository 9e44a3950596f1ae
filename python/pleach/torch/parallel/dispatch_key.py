"""Marks tensors: every operation of PyTorch on one, from Python or C++, waits for it first.

PyTorch's dispatcher has a key for extensions, DeferredInit, that PyTorch itself does not use. An
operation on a tensor with this key runs the fallback here. Code that reads the memory of a tensor
without an operation is not seen.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

_NAME = "DeferredInit"
_KEY: Any = torch._C._dispatch_key_parse(_NAME)
_KEYS: Any = torch._C.DispatchKeySet(_KEY)
_PYTHON: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.Python)


class _Seed(torch.Tensor):
    """The only kind of tensor that can be made with a key of one's choice."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, *_arguments: Any) -> Any:
        raise NotImplementedError(func)


def below() -> Any:
    """In its `with` block this thread's operations use marked tensors like others.

    What it returns can be entered once.
    """
    return torch._C._ExcludeDispatchKeyGuard(_KEYS)


def is_marked(tensor: torch.Tensor) -> bool:
    """True if operations on a tensor wait."""
    return bool(torch._C._dispatch_keys(tensor).has(_KEY))


@functools.cache
def watch(await_tensors: Callable[[Any], object], await_all: Callable[[], None]) -> None:
    """Operations on marked tensors wait, from now on.

    If another extension has this key, `marked` gives tensors without a mark.

    Args:
        await_tensors: Called with an operation's arguments. Returns when those that are marked no
            longer are, or raises.
        await_all: Called where some still are. Returns when no tensor is marked.
    """

    def wait_and_run(operation: Any, *arguments: Any, **keywords: Any) -> Any:
        await_tensors((arguments, keywords))
        leaves = torch.utils._pytree.tree_leaves((arguments, keywords))
        if _are_marked(leaves):
            await_all()
        if _are_marked(leaves):
            raise RuntimeError(
                "a tensor is used whose data is not final with lazy=True, whose training has "
                "failed, or that was made of such data: call optimizer.synchronize() before"
            )
        return operation(*arguments, **keywords)

    library = torch.library.Library("_", "IMPL")
    with contextlib.suppress(RuntimeError):
        library.fallback(wait_and_run, _NAME)
        _LIBRARIES.append(library)


def _are_marked(leaves: Sequence[Any]) -> bool:
    return any(isinstance(leaf, torch.Tensor) and is_marked(leaf) for leaf in leaves)


_LIBRARIES: list[torch.library.Library] = []  # which hold the fallback: one, or none


def marked(values: torch.Tensor) -> torch.Tensor:
    """A tensor on the memory of another, marked if possible."""
    if not _LIBRARIES or values.layout is not torch.strided:
        return values.detach()
    with torch.no_grad(), below():
        return (
            _template(values.dtype, values.device)
            .detach()
            .set_(values.untyped_storage(), values.storage_offset(), values.shape, values.stride())
        )


@functools.cache
def _template(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A marked tensor without elements."""
    seed = torch.Tensor._make_wrapper_subclass(
        _Seed, (0,), dtype=dtype, device=device, _extra_dispatch_keys=_KEYS
    )
    with torch.inference_mode(False):
        made = torch.empty(0, dtype=dtype, device=device)
    with torch._C._ExcludeDispatchKeyGuard(_KEYS | _PYTHON), contextlib.suppress(RuntimeError):
        made.data = seed
    return made
