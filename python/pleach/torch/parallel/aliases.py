"""Finds tensors that share memory with a model's parameters: views, `.data`, NumPy's bases."""

from __future__ import annotations

import dataclasses
import functools
import gc
from collections.abc import Callable, Mapping
from typing import Any

import torch


def use_count(storage: torch.UntypedStorage) -> int:
    """How many tensors, and others, hold a storage; `storage` itself counts."""
    count: int = torch._C._storage_Use_Count(storage._cdata)
    return count


# Storages that must stay where they are, by their address, while a training lasts.
_PINNED: set[int] = set()


def pin(storage: torch.UntypedStorage) -> None:
    """Refuses to move a storage to shared memory, until unpin: others use its memory too."""
    _PINNED.add(storage._cdata)
    for name in ("_share_fd_cpu_", "_share_filename_cpu_"):
        share = getattr(torch.UntypedStorage, name)
        if not hasattr(share, "pleach_refuses"):
            setattr(torch.UntypedStorage, name, _refusing(share))


def unpin(address: int) -> None:
    """Lets the storage at an address be moved again."""
    _PINNED.discard(address)


def _refusing(share: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(share)
    def call(storage: torch.UntypedStorage, *arguments: Any, **keywords: Any) -> Any:
        if storage._cdata in _PINNED:
            raise RuntimeError(
                "a parameter of a data-parallel training cannot be moved to shared memory "
                "(share_memory_(), a queue of multiprocessing): share or send a copy, such as "
                "parameter.detach().clone()"
            )
        return share(storage, *arguments, **keywords)

    call.pleach_refuses = True  # type: ignore[attr-defined]
    return call


@dataclasses.dataclass(frozen=True)
class Alias:
    """A tensor that shares a parameter's memory.

    Attributes:
        tensor: It.
        parameter: The parameter.
        name: Its name.
    """

    tensor: torch.Tensor
    parameter: torch.Tensor
    name: str

    def __str__(self) -> str:
        return (
            f"parameter {self.name} shares its memory with a tensor of shape "
            f"{tuple(self.tensor.shape)} (a view, .data, detach() or a NumPy array)"
        )


def find_aliases(parameters: Mapping[torch.nn.Parameter, str]) -> list[Alias]:
    """Tensors of Python that share memory with parameters and are none of them.

    Costs a count for each parameter, and a walk over Python's objects where a count is too high.
    What a graph of autograd alone holds does not count.
    """
    sharing: dict[int, list[tuple[torch.nn.Parameter, str]]] = {}
    storages: dict[int, torch.UntypedStorage] = {}
    for parameter, name in parameters.items():
        if parameter.numel() > 0:
            storage = parameter.untyped_storage()
            storages[storage._cdata] = storage
            sharing.setdefault(storage._cdata, []).append((parameter, name))
    suspects = {
        key: found for key, found in sharing.items() if use_count(storages[key]) > len(found) + 1
    }
    if not suspects:
        return []
    with torch._C.DisableTorchFunctionSubclass():
        return [
            Alias(one, parameter, name)
            for one in gc.get_objects()
            if issubclass(type(one), torch.Tensor)
            for parameter, name in suspects.get(_storage_of(one), ())
            if one is not parameter and _overlap(one, parameter)
        ]


def _storage_of(tensor: Any) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError, AttributeError):  # it has none
        return 0


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if two tensors of one storage may have elements in common."""
    (begin, end), (first, last) = _extent(one), _extent(other)
    return begin < last and first < end


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Where a tensor begins and ends in its storage [bytes]."""
    begin = int(tensor.storage_offset())
    if tensor.numel() == 0:
        return 0, 0
    strides = zip(tensor.shape, tensor.stride(), strict=True)
    end = begin + 1 + sum((size - 1) * int(stride) for size, stride in strides)
    return begin * tensor.element_size(), end * tensor.element_size()
