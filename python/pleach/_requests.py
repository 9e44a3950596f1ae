"""What a collective on arrays asks of the library: types, counts, and arrays for results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pleach import _core
from pleach._arguments import shown
from pleach.errors import InvalidArgumentError

Array = NDArray[Any]

# Of arrays and messages; `bfloat16` is that of the package ml_dtypes.
TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8")
_TO_ROOT = ("reduce", "gather")
_FROM_ROOT = ("broadcast", "scatter")
_ENDS_WITH_SHARD = ("reduce_scatter", "scatter")
_GIVES_SHARD = ("all_gather", "gather")
COLLECTIVES = (
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "broadcast",
    "reduce",
    "all_to_all",
    "gather",
    "scatter",
)


@dataclass(frozen=True)
class Ask:
    """A collective as the caller has it."""

    collective: str
    input: Array | None = None
    output: Array | None = None
    op: str = "sum"
    root: int = 0
    counts: Sequence[int] | None = None
    receive_counts: Sequence[int] | None = None
    wire: str | None = None


@dataclass(frozen=True)
class Request:
    """A collective as the library takes it, and the arrays that it reads and writes."""

    arguments: _core.CollectiveArguments
    input: Array | None
    output: Array | None


def prepared(ask: Ask, rank: int, rank_count: int) -> Request:
    """Checks arrays against each other, and makes one for the result where none is given.

    Args:
        ask: The collective.
        rank: This rank.
        rank_count: Of the communicator.

    Returns:
        The request; its output is None where this rank gets nothing.

    Raises:
        InvalidArgumentError: An array is missing, of another type or size, or not contiguous.
    """
    if ask.collective not in COLLECTIVES:
        known = ", ".join(COLLECTIVES)
        raise InvalidArgumentError(f"no collective {shown(ask.collective)}: there are {known}")
    if not 0 <= ask.root < rank_count:
        raise InvalidArgumentError(f"root: {ask.root} is not a rank from 0 to {rank_count - 1}")
    given, result = _arrays(ask, rank, rank_count)
    part = _part_count(ask, given, result, rank_count)
    _check_sizes(ask, given, result, part, rank, rank_count)
    reference = result if given is None else given
    assert reference is not None
    return Request(
        arguments=_core.CollectiveArguments(
            collective=ask.collective,
            type=type_of(reference),
            reduction=ask.op,
            wire_float32=_wire_is_float32(ask.wire, reference),
            root=ask.root,
            input=0 if given is None else given.ctypes.data,
            output=0 if result is None else result.ctypes.data,
            count=0 if ask.counts is not None else part,
            counts=None if ask.counts is None else [int(one) for one in ask.counts],
            receive_counts=(
                None if ask.receive_counts is None else [int(one) for one in ask.receive_counts]
            ),
            piece_count=0,
        ),
        input=given,
        output=result,
    )


def type_of(array: Array) -> str:
    """Returns the library's name of an array's type.

    Raises:
        InvalidArgumentError: It has none.
    """
    name = array.dtype.name
    if name not in TYPES or not array.dtype.isnative:
        raise InvalidArgumentError(f"arrays of {array.dtype} do not travel; {', '.join(TYPES)} do")
    return name


def array_of(given: object, what: str) -> Array:
    """Returns what was given, an array.

    Raises:
        InvalidArgumentError: It is something else, or its elements are Python objects.
    """
    if not isinstance(given, np.ndarray):
        raise InvalidArgumentError(f"{what}: {shown(given)} is no NumPy array")
    if given.dtype.hasobject:
        raise InvalidArgumentError(f"{what}: arrays of {given.dtype} do not travel")
    return given


def writable(given: object, what: str) -> Array:
    """Returns an array that can be written where it stands.

    Raises:
        InvalidArgumentError: As `array_of`; it is read-only, or not contiguous.
    """
    array = array_of(given, what)
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise InvalidArgumentError(f"{what}: wants a contiguous array that can be written")
    return array


def _wire_is_float32(wire: str | None, reference: Array) -> bool:
    if wire in (None, reference.dtype.name):
        return False
    if wire != "float32":
        raise InvalidArgumentError(f"wire: {shown(wire)} is neither float32 nor the arrays' type")
    return True


def _arrays(ask: Ask, rank: int, rank_count: int) -> tuple[Array | None, Array | None]:
    is_root = rank == ask.root
    gives = ask.collective not in _FROM_ROOT or is_root
    gets = ask.collective not in _TO_ROOT or is_root
    given = array_of(ask.input, "input") if gives and ask.input is not None else None
    if ask.collective == "broadcast" and gives and given is None:
        given = None if ask.output is None else array_of(ask.output, "output")
    if gives and given is None:
        raise InvalidArgumentError(f"{ask.collective}: rank {rank} gives no array")
    if given is not None and not given.flags.c_contiguous:
        given = np.ascontiguousarray(given)
    if not gets:
        return given, None
    if ask.output is not None:
        return given, writable(ask.output, "output")
    if given is None:
        raise InvalidArgumentError(f"{ask.collective}: rank {rank} has no output, and no root's")
    return given, np.empty(_result_shape(ask, given, rank, rank_count), given.dtype)


def _result_shape(ask: Ask, given: Array, rank: int, rank_count: int) -> tuple[int, ...]:
    if ask.collective in _ENDS_WITH_SHARD:
        if ask.counts is not None:
            return (_count_of(ask.counts, rank, rank_count),)
        if given.ndim > 0 and given.shape[0] % rank_count == 0:
            return (given.shape[0] // rank_count, *given.shape[1:])
        return (given.size // rank_count,)
    if ask.collective in _GIVES_SHARD:
        if ask.counts is not None:
            return (sum(ask.counts),)
        return (rank_count * given.shape[0], *given.shape[1:]) if given.ndim else (rank_count,)
    if ask.receive_counts is not None:
        return (sum(ask.receive_counts),)
    return given.shape


def _count_of(counts: Sequence[int], rank: int, rank_count: int) -> int:
    if len(counts) != rank_count:
        raise InvalidArgumentError(f"counts: {len(counts)} of them, for {rank_count} ranks")
    return counts[rank]


def _part_count(ask: Ask, given: Array | None, result: Array | None, rank_count: int) -> int:
    """Elements of the whole, or of one rank's part, as the collective counts them."""
    if ask.collective in _ENDS_WITH_SHARD:
        return result.size if result is not None else 0
    if ask.collective in _GIVES_SHARD:
        return given.size if given is not None else 0
    whole = given if given is not None else result
    assert whole is not None
    return whole.size // rank_count if ask.collective == "all_to_all" else whole.size


def _check_sizes(
    ask: Ask, given: Array | None, result: Array | None, part: int, rank: int, rank_count: int
) -> None:
    if ask.collective == "all_to_all":
        if (ask.counts is None) != (ask.receive_counts is None):
            raise InvalidArgumentError("all_to_all: has both counts and receive_counts, or none")
        wanted = (
            sum(ask.counts) if ask.counts is not None else part * rank_count,
            sum(ask.receive_counts) if ask.receive_counts is not None else part * rank_count,
        )
    elif ask.receive_counts is not None:
        raise InvalidArgumentError(f"{ask.collective}: has no receive_counts")
    elif ask.counts is None:
        wholes = part * rank_count
        wanted = (
            wholes if ask.collective in _ENDS_WITH_SHARD else part,
            wholes if ask.collective in _GIVES_SHARD else part,
        )
    elif ask.collective in _ENDS_WITH_SHARD:
        wanted = (sum(ask.counts), _count_of(ask.counts, rank, rank_count))
    elif ask.collective in _GIVES_SHARD:
        wanted = (_count_of(ask.counts, rank, rank_count), sum(ask.counts))
    else:
        raise InvalidArgumentError(f"{ask.collective}: has no counts")
    for what, array, size in (("input", given, wanted[0]), ("output", result, wanted[1])):
        if array is not None and array.size != size:
            raise InvalidArgumentError(
                f"{ask.collective}: {what} has {array.size} elements, not {size}"
            )
    if given is not None and result is not None and given.dtype != result.dtype:
        raise InvalidArgumentError(
            f"{ask.collective}: input is of {given.dtype}, output of {result.dtype}"
        )
