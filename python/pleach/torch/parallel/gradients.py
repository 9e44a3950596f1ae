"""What `parameter.grad` is between backward() and step(): the average over all ranks, in shards.

Where gradients are scattered, no rank has a whole one. Its stand-in answers what stock loops ask of
gradients (norms for clipping, scaling, checks for infinities) from the shards of all ranks, and
refuses to be read otherwise, in a line that says how it can be: a local gradient in its place
would be silently wrong.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

import torch

from .misuse import is_converting

aten = torch.ops.aten
_UNSCALE = aten._amp_foreach_non_finite_check_and_unscale_.default


class Source(Protocol):
    """Whoever has the averaged gradients. Its methods are collective but for `shards`, `whole`."""

    def finish(self) -> None:
        """Returns when this rank's share of all averages is in place."""

    def is_whole(self) -> bool:
        """Whether every rank has whole gradients."""

    def shards(self, member: int) -> list[torch.Tensor]:
        """This rank's parts of a gradient, flat."""

    def whole(self, member: int) -> torch.Tensor:
        """A gradient in its shape, of which only the shards are averaged unless it is whole."""

    def all_reduce(self, values: torch.Tensor, is_maximum: bool) -> torch.Tensor:
        """The sum, or the maximum, over the ranks; a new tensor."""

    def clear(self, member: int) -> None:
        """Sets a gradient to zero."""

    def find_infinities(self) -> None:
        """Told that some gradient is infinite: the step will be left out, on all ranks."""

    def why_unreadable(self, member: int) -> str:
        """Why a gradient cannot be read whole, and what can be done, in one line; "": it can."""

    def why_untouchable(self, member: int) -> str:
        """Why nothing can be done with it, likewise."""

    def check_type(self, member: int) -> None:
        """Raises if its parameter has another type than at creation."""

    def reason_of_call(self, member: int) -> str:
        """Why it is used, where its user has not asked for that, in one line; "": unknown."""


class AveragedGradient(torch.Tensor):
    """Stands for a gradient that is averaged and scattered. One per parameter, used again."""

    member: int
    _source: weakref.ref[Source]  # autograd holds gradients out of the garbage collector's sight

    @property
    def source(self) -> Source:
        """Whoever has it."""
        source = self._source()
        if source is None:
            raise RuntimeError("the training that this gradient was of is no more")
        return source

    @staticmethod
    def __new__(cls, source: Source, member: int, like: torch.Tensor) -> AveragedGradient:
        """Stands for the gradient of `like`, whose shape, type and device it has."""
        made = torch.Tensor._make_wrapper_subclass(
            cls, like.shape, strides=like.stride(), dtype=like.dtype, device=like.device
        )
        made._source = weakref.ref(source)
        made.member = member
        return made

    def __init__(self, source: Source, member: int, like: torch.Tensor):
        """See `__new__`."""

    def refuse(self, operation: str, reason: str) -> NoReturn:
        """Raises an error, for a reason that the source gives, or for what the caller does."""
        raise RuntimeError(self.source.reason_of_call(self.member) or f"{operation} of {reason}")

    def numpy(self, *, force: bool = False) -> Any:
        """As of any tensor, where every rank has whole gradients."""
        return self._read("numpy()").numpy(force=force)

    def tolist(self) -> Any:
        """As of any tensor, likewise."""
        return self._read("tolist()").tolist()

    def data_ptr(self) -> int:
        """As of any tensor, likewise."""
        return self._read("data_ptr()").data_ptr()

    def share_memory_(self) -> Any:
        """As of any tensor, likewise."""
        return self._read("share_memory_()").share_memory_()

    def __array__(self, *arguments: Any, **keywords: Any) -> Any:
        """As of any tensor, likewise."""
        return self._read("numpy()").__array__(*arguments, **keywords)

    def __dlpack__(self, *arguments: Any, **keywords: Any) -> Any:
        """As of any tensor, likewise."""
        return self._read("__dlpack__()").__dlpack__(*arguments, **keywords)

    def __deepcopy__(self, memo: Any) -> Any:
        """As of any tensor, likewise."""
        return self._read("deepcopy()").__deepcopy__(memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As of any tensor, likewise."""
        return self._read("a file").__reduce_ex__(protocol)

    def _read(self, operation: str) -> torch.Tensor:
        """The whole gradient, for what is no operation of PyTorch."""
        source, member = self.source, self.member
        reason = source.why_untouchable(member) or source.why_unreadable(member)
        if reason:
            self.refuse(operation, reason)
        source.finish()
        return source.whole(member)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"AveragedGradient(shape={tuple(self.shape)}, dtype={self.dtype})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        first = _first_of(args)
        if func in (aten.detach.default, aten.alias.default):
            return first
        if func in (aten.zero_.default, aten._foreach_zero_.default):
            for one in args[0] if isinstance(args[0], (list, tuple)) else [args[0]]:
                if isinstance(one, AveragedGradient):
                    one.source.clear(one.member)
                else:
                    one.zero_()
            return first if func is aten.zero_.default else None
        first.source.check_type(first.member)
        if func is aten._to_copy.default and _is_only_arranged(kwargs, first):
            return first
        reason = first.source.why_untouchable(first.member)
        if not reason and func not in _SHARDED:
            reason = first.source.why_unreadable(first.member)
        if reason:
            first.refuse(_name(func), reason)
        first.source.finish()
        if first.source.is_whole():
            made = _on_whole(func, args, kwargs, first)
        else:
            made = _SHARDED[func](func, args, kwargs)
        if func is _UNSCALE and bool(args[1]):
            first.source.find_infinities()
        return made


def _first_of(args: Sequence[Any]) -> AveragedGradient:
    for argument in args:
        each = argument if isinstance(argument, (list, tuple)) else [argument]
        for one in each:
            if isinstance(one, AveragedGradient):
                return one
    raise AssertionError("an operation on averaged gradients has one")


def _is_only_arranged(keywords: dict[str, Any], like: AveragedGradient) -> bool:
    """True where a module is converted to another memory format, which a stand-in has none of."""
    return (
        keywords.get("memory_format") is not None
        and keywords.get("dtype") in (None, like.dtype)
        and keywords.get("device") in (None, like.device)
        and is_converting()
    )


def _name(func: Any) -> str:
    return str(func._schema.name).split("::")[-1]


def _held(gradient: torch.Tensor) -> list[torch.Tensor]:
    if not isinstance(gradient, AveragedGradient):  # somebody's own, the same on all ranks
        return [gradient]
    source = gradient.source
    return [source.whole(gradient.member)] if source.is_whole() else source.shards(gradient.member)


def _on_whole(func: Any, args: Sequence[Any], kwargs: dict[str, Any], first: Any) -> Any:
    """Does what was asked with the whole gradients; what works in place gives the stand-in."""
    unwrapped = torch.utils._pytree.tree_map_only(
        AveragedGradient, lambda one: one.source.whole(one.member), (tuple(args), kwargs)
    )
    result = func(*unwrapped[0], **unwrapped[1])
    writes = [each for each in func._schema.arguments if each.alias_info is not None]
    return first if result is not None and writes and writes[0].alias_info.is_write else result


def _in_place(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """An operation on each element by itself, with scalars: on every shard."""
    gradient = args[0]
    if any(isinstance(each, torch.Tensor) and each.numel() != 1 for each in args[1:]):
        gradient.refuse(_name(func), gradient.source.why_unreadable(gradient.member))
    for shard in _held(gradient):
        func(shard, *args[1:], **kwargs)
    return gradient


def _vector_norm(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The norm of all elements, as a part that waits to be summed with those of other ranks."""
    gradient = args[0]
    order = float(args[1] if len(args) > 1 else kwargs.get("ord", kwargs.get("p", 2)))
    dimensions = args[2] if len(args) > 2 else kwargs.get("dim")
    if dimensions or not (order > 0):
        gradient.refuse(_name(func), gradient.source.why_unreadable(gradient.member))
    dtype = (kwargs.get("dtype") or gradient.dtype).to_real()
    return PartialNorm.of(gradient.source, [_held(gradient)], order, dtype, gradient.device)


def _foreach_norm(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    of_one = aten.linalg_vector_norm.default
    return [
        _vector_norm(of_one, [one, *args[1:]], kwargs)
        if isinstance(one, AveragedGradient)
        else of_one(one, *args[1:], **kwargs)
        for one in args[0]
    ]


def _foreach_in_place(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The same on every element of every gradient, with one scalar for all."""
    gradients, *others = args
    if any(isinstance(each, (list, tuple)) for each in others):
        first = _first_of(args)
        first.refuse(_name(func), first.source.why_unreadable(first.member))
    shards = [shard for one in gradients for shard in _held(one) if shard.numel() > 0]
    if shards:
        func(shards, *others, **kwargs)


def _unscale(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """GradScaler's: multiplies all shards, and tells all ranks of infinities in any."""
    gradients, found, factor = args
    shards = [shard for gradient in gradients for shard in _held(gradient) if shard.numel() > 0]
    if shards:
        func(shards, found, factor)
    found.copy_(_first_of(args).source.all_reduce(found, is_maximum=True))


_SHARDED: dict[Any, Callable[[Any, Sequence[Any], dict[str, Any]], Any]] = {
    aten.linalg_vector_norm.default: _vector_norm,
    aten.norm.Scalar: _vector_norm,
    aten.norm.ScalarOpt_dim: _vector_norm,
    _UNSCALE: _unscale,
    **dict.fromkeys(
        (
            aten.mul_.Tensor,
            aten.mul_.Scalar,
            aten.div_.Tensor,
            aten.div_.Scalar,
            aten.neg_.default,
            aten.clamp_.default,
            aten.clamp_min_.default,
            aten.clamp_max_.default,
            aten.nan_to_num_.default,
        ),
        _in_place,
    ),
    aten._foreach_norm.Scalar: _foreach_norm,
    **dict.fromkeys(
        (
            aten._foreach_mul_.Tensor,
            aten._foreach_mul_.Scalar,
            aten._foreach_div_.Scalar,
            aten._foreach_clamp_min_.Scalar,
            aten._foreach_clamp_max_.Scalar,
        ),
        _foreach_in_place,
    ),
}


class PartialNorm(torch.Tensor):
    """Norms of gradients, or of several, of which every rank has computed its part.

    Stacks of them stay so, and the norm of a stack takes one exchange: what clip_grad_norm_ does.
    Anything else that is done with them exchanges first.
    """

    source: Source
    powers: torch.Tensor  # 1-D, float64: this rank's sums of powers, or its maxima
    order: float

    @staticmethod
    def __new__(
        cls,
        source: Source,
        powers: torch.Tensor,
        order: float,
        shape: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
    ) -> PartialNorm:
        """Has that shape and type, and computes them when it is asked to."""
        made = torch.Tensor._make_wrapper_subclass(
            cls, torch.Size(shape), dtype=dtype, device=device
        )
        made.source, made.powers, made.order = source, powers, order
        return made

    def __init__(self, *_args: Any) -> None:
        """See `__new__`."""

    @classmethod
    def of(
        cls,
        source: Source,
        tensors: Sequence[Sequence[torch.Tensor]],
        order: float,
        dtype: torch.dtype,
        device: torch.device,
    ) -> PartialNorm:
        """The norm of each list's elements on this rank."""
        powers = torch.zeros(len(tensors), dtype=torch.float64, device=device)
        for index, parts in enumerate(tensors):
            for part in filter(torch.Tensor.numel, parts):
                wide = _wide(dtype).to_complex() if part.is_complex() else _wide(dtype)
                norm = torch.linalg.vector_norm(part, order, dtype=wide).double()
                if math.isinf(order):
                    powers[index] = torch.maximum(powers[index], norm)
                else:
                    powers[index] += norm**order
        return cls(source, powers, order, (), dtype, device)

    def resolve(self) -> torch.Tensor:
        """The norms over all ranks. Collective."""
        powers = self.source.all_reduce(self.powers, math.isinf(self.order))
        norms = powers if math.isinf(self.order) else powers ** (1 / self.order)
        return norms.reshape(self.shape).to(self.dtype)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is aten.stack.default and all(isinstance(one, PartialNorm) for one in args[0]):
            parts: list[PartialNorm] = list(args[0])
            powers = torch.cat([one.powers for one in parts])
            first = parts[0]
            if all(one.order == first.order and one.shape == () for one in parts):
                dtype = functools.reduce(torch.promote_types, (one.dtype for one in parts))
                return cls(first.source, powers, first.order, (len(parts),), dtype, first.device)
        if func is aten._to_copy.default and not (set(kwargs) - {"dtype", "device"}):
            one = args[0]
            return cls(
                one.source,
                one.powers,
                one.order,
                one.shape,
                kwargs.get("dtype") or one.dtype,
                kwargs.get("device") or one.device,
            )
        if func is aten.linalg_vector_norm.default and isinstance(args[0], PartialNorm):
            one, order = args[0], float(args[1] if len(args) > 1 else 2)
            if order == one.order and len(args) <= 2:
                total = one.powers.max() if math.isinf(order) else one.powers.sum()
                return cls(one.source, total.reshape(1), order, (), one.dtype, one.device).resolve()
        resolved = torch.utils._pytree.tree_map_only(
            PartialNorm, PartialNorm.resolve, (tuple(args), kwargs)
        )
        return func(*resolved[0], **resolved[1])


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32
