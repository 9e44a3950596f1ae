"""Communicators: collectives and messages among ranks, on NumPy arrays.

    with pleach.Endpoint() as endpoint, endpoint.communicator() as ranks:
        total = ranks.all_reduce(np.ones(4, np.float32))

Under `pleach launch`, torchrun, mpirun or srun, which tell who is which rank.
"""

from __future__ import annotations

import atexit
import math
import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pleach import _core
from pleach._arguments import in_one_line
from pleach._requests import Ask, array_of, prepared, writable
from pleach.errors import DeadlineError, Error, InvalidArgumentError

# Before the interpreter ends this rank leaves its jobs: what others of its threads are in then
# would be ended with them, and what ends later would find no interpreter.
atexit.register(_core.end_process)
os.register_at_fork(after_in_child=_core.forget_calls)

ANY_RANK = -1
_FOREVER = -1
_MOST_BYTES = 1 << 62
_MOST_S = 1e9


@in_one_line
def empty(
    shape: SupportsIndex | Sequence[SupportsIndex], dtype: DTypeLike = np.float32
) -> NDArray[Any]:
    """Makes an array of zeros that other ranks of the host may read where it stands.

    Collectives on such arrays copy less. It is freed with the last view of it.

    Args:
        shape: Of the array.
        dtype: Of its elements.

    Returns:
        The array.
    """
    kind = np.dtype(dtype)
    if kind.hasobject:
        raise InvalidArgumentError(f"dtype: arrays of {kind} do not travel")
    given = (shape,) if isinstance(shape, SupportsIndex) else shape
    sizes = tuple(operator.index(size) for size in given)
    if any(size < 0 for size in sizes):
        raise InvalidArgumentError(f"shape: {sizes} has a negative size")
    size_bytes = math.prod(sizes) * kind.itemsize
    if size_bytes > _MOST_BYTES:
        raise InvalidArgumentError(f"shape: {sizes} of {kind} takes over 2^62 bytes")
    return _core.allocate(size_bytes).view(kind).reshape(sizes)


def _milliseconds(time_s: float | None, otherwise: int) -> int:
    if time_s is None:
        return otherwise
    if not 0 <= time_s <= _MOST_S:
        raise InvalidArgumentError(f"a time of {time_s} s is not from 0 to {_MOST_S}")
    return max(1, round(time_s * 1000))


@dataclass(frozen=True)
class Received:
    """A message that has come."""

    size_bytes: int
    source: int


class _Handle:
    """What only one object may hold: it ends what is in flight when it goes."""

    def __reduce_ex__(self, _protocol: Any) -> Any:
        """Refuses to be copied or pickled."""
        raise TypeError(f"a pleach.{type(self).__name__} cannot be copied or pickled")


class Operation(_Handle):
    """Something that has been started. Its arrays are its own until it is done."""

    def __init__(self, core: _core.Operation, result: Any) -> None:
        self._core = core
        self._result = result

    @property
    def is_done(self) -> bool:
        """Whether it is done, well or not; moves on what can move without waiting."""
        return self._core.test()

    @in_one_line
    def wait(self, timeout_s: float | None = None) -> Any:
        """Waits until it is done.

        Args:
            timeout_s: How long at most; None: until the endpoint's deadline ends it.

        Returns:
            The array of a collective's result, None where this rank gets none; what a receive has
            `Received`; None for others.

        Raises:
            DeadlineError: It goes on after that long; or a rank did not answer.
            PeerLostError: A rank is gone.
        """
        if not self._core.wait(_milliseconds(timeout_s, _FOREVER)):
            raise DeadlineError(f"not done after {timeout_s} s; it goes on")
        return Received(*self._core.received()) if self._result is Received else self._result

    @property
    def elapsed_s(self) -> float | None:
        """From its start until it was found to be done; None before that."""
        started_ns, finished_ns = self._core.times_ns()
        return None if finished_ns == 0 else (finished_ns - started_ns) / 1e9


class Communicator(_Handle):
    """A view of a job for all of its ranks, or some. They all call in the same order."""

    def __init__(self, core: _core.Communicator) -> None:
        self._core: _core.Communicator | None = core
        self.rank: int = core.rank
        self.rank_count: int = core.rank_count

    @in_one_line
    def start(
        self,
        collective: str,
        input: NDArray[Any] | None = None,
        output: NDArray[Any] | None = None,
        *,
        op: str = "sum",
        root: int = 0,
        counts: Sequence[int] | None = None,
        receive_counts: Sequence[int] | None = None,
        wire: str | None = None,
    ) -> Operation:
        """Starts a collective, which the functions of that name wait for.

        Args:
            collective: `all_reduce`, `reduce_scatter`, `all_gather`, `broadcast`, `reduce`,
                `all_to_all`, `gather`, `scatter`.
            input: What this rank gives; left alone until the operation is done.
            output: Where its result goes; may be `input`. None: a new array.
            op: `sum`, `product`, `min`, `max`, `average`, `band`, `bor`, `bxor`.
            root: Of a collective that has one.
            counts: Elements of each rank's part, where they differ; of an all_to_all, that this
                rank sends to each.
            receive_counts: Of an all_to_all: that it receives from each.
            wire: `float32`: half types that are reduced travel so, and are rounded once.

        Returns:
            The operation; its `wait` returns the output.

        Raises:
            InvalidArgumentError: Arrays that do not fit each other, or a type that does not travel.
        """
        ask = Ask(collective, input, output, op, root, counts, receive_counts, wire)
        request = prepared(ask, self.rank, self.rank_count)
        started = self._open().start(request.arguments, request.input, request.output)
        return Operation(started, request.output)

    def all_reduce(
        self,
        input: NDArray[Any],
        output: NDArray[Any] | None = None,
        *,
        op: str = "sum",
        wire: str | None = None,
    ) -> NDArray[Any]:
        """Reduces the ranks' arrays; all get the result. Arguments: those of `start`."""
        return self._array(self.start("all_reduce", input, output, op=op, wire=wire))

    def reduce_scatter(
        self,
        input: NDArray[Any],
        output: NDArray[Any] | None = None,
        *,
        op: str = "sum",
        counts: Sequence[int] | None = None,
        wire: str | None = None,
    ) -> NDArray[Any]:
        """Reduces the ranks' arrays; each gets its part along the first axis."""
        started = self.start("reduce_scatter", input, output, op=op, counts=counts, wire=wire)
        return self._array(started)

    def all_gather(
        self,
        input: NDArray[Any],
        output: NDArray[Any] | None = None,
        *,
        counts: Sequence[int] | None = None,
    ) -> NDArray[Any]:
        """Joins the ranks' parts along the first axis; all get the whole."""
        return self._array(self.start("all_gather", input, output, counts=counts))

    def all_to_all(
        self,
        input: NDArray[Any],
        output: NDArray[Any] | None = None,
        *,
        counts: Sequence[int] | None = None,
        receive_counts: Sequence[int] | None = None,
    ) -> NDArray[Any]:
        """Sends each rank its part of `input`; gets one of each, in the order of the ranks."""
        started = self.start(
            "all_to_all", input, output, counts=counts, receive_counts=receive_counts
        )
        return self._array(started)

    def broadcast(self, array: NDArray[Any], root: int = 0) -> NDArray[Any]:
        """Writes the root's array into those of the others, and returns it."""
        return self._array(self.start("broadcast", output=array, root=root))

    def reduce(
        self,
        input: NDArray[Any],
        output: NDArray[Any] | None = None,
        *,
        op: str = "sum",
        root: int = 0,
        wire: str | None = None,
    ) -> NDArray[Any] | None:
        """Reduces the ranks' arrays; the root gets the result, the others None."""
        result: NDArray[Any] | None = self.start(
            "reduce", input, output, op=op, root=root, wire=wire
        ).wait()
        return result

    def gather(
        self,
        input: NDArray[Any],
        output: NDArray[Any] | None = None,
        *,
        root: int = 0,
        counts: Sequence[int] | None = None,
    ) -> NDArray[Any] | None:
        """Joins the ranks' parts along the first axis; the root gets the whole."""
        result: NDArray[Any] | None = self.start(
            "gather", input, output, root=root, counts=counts
        ).wait()
        return result

    def scatter(
        self,
        input: NDArray[Any] | None,
        output: NDArray[Any] | None = None,
        *,
        root: int = 0,
        counts: Sequence[int] | None = None,
    ) -> NDArray[Any]:
        """Gives each rank its part of the root's array; all but the root bring an `output`."""
        return self._array(self.start("scatter", input, output, root=root, counts=counts))

    def barrier(self) -> None:
        """Waits until all ranks have come."""
        Operation(self._open().barrier(), None).wait()

    @in_one_line
    def start_send(
        self,
        message: NDArray[Any],
        target: int,
        *,
        tag: int = 0,
        deadline_s: float | None = None,
    ) -> Operation:
        """Starts to send a message, of any type.

        Args:
            message: Left alone until the operation is done.
            target: The rank that receives it.
            tag: At least 0; messages of one source, target and tag come in order.
            deadline_s: Until both have called; None: the endpoint's.

        Returns:
            The operation.
        """
        sent = np.ascontiguousarray(array_of(message, "message"))
        started = self._open().send(
            sent.ctypes.data, sent.nbytes, target, tag, _milliseconds(deadline_s, 0), sent
        )
        return Operation(started, None)

    @in_one_line
    def start_receive(
        self,
        buffer: NDArray[Any],
        source: int = ANY_RANK,
        *,
        tag: int = 0,
        deadline_s: float | None = None,
    ) -> Operation:
        """Starts to receive a message of at most the buffer's size.

        Args:
            buffer: Where it goes.
            source: The rank that sends it, or ANY_RANK.
            tag: As `start_send` has it.
            deadline_s: The same.

        Returns:
            The operation, whose `wait` returns what has come.
        """
        writable(buffer, "buffer")
        started = self._open().receive(
            buffer.ctypes.data, buffer.nbytes, source, tag, _milliseconds(deadline_s, 0), buffer
        )
        return Operation(started, Received)

    def send(
        self,
        message: NDArray[Any],
        target: int,
        *,
        tag: int = 0,
        deadline_s: float | None = None,
    ) -> None:
        """Sends a message; arguments: those of `start_send`."""
        self.start_send(message, target, tag=tag, deadline_s=deadline_s).wait()

    def receive(
        self,
        buffer: NDArray[Any],
        source: int = ANY_RANK,
        *,
        tag: int = 0,
        deadline_s: float | None = None,
    ) -> Received:
        """Receives a message; arguments: those of `start_receive`."""
        received = self.start_receive(buffer, source, tag=tag, deadline_s=deadline_s).wait()
        assert isinstance(received, Received)
        return received

    @in_one_line
    def split(self, color: int, key: int = 0) -> Communicator | None:
        """Makes a communicator for each colour, of the ranks that give it, by key and rank.

        Returns:
            This rank's; None where its colour is negative.
        """
        part = self._open().split(color, key)
        return None if part is None else Communicator(part)

    def shrink(self) -> Communicator:
        """Makes one of the ranks that live, after a failure. They all call it."""
        return Communicator(self._open().shrink())

    @in_one_line
    def abort(self, reason: str) -> None:
        """Ends all that is in flight, on every rank, which is told the reason."""
        self._open().abort(reason)

    def close(self) -> None:
        """Leaves in order, with all ranks. Refused while operations are in flight.

        Raises:
            Error: The communicator has failed; it is closed then, and says so once.
        """
        if self._core is None:
            return
        try:
            self._core.close()
        except Error:
            if not self._core.in_flight():
                self._core = None
            raise
        self._core = None

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        core, self._core = self._core, None
        if core is not None:
            ends_well = isinstance(error, SystemExit) and not error.code
            core.abandon(f"raised {type(error).__name__}: {error}", may_end=ends_well)

    def _open(self) -> _core.Communicator:
        if self._core is None:
            raise InvalidArgumentError("the communicator is closed")
        return self._core

    @property
    def _in_flight(self) -> list[tuple[object, object]]:
        """Input and output of each operation in flight, which the library keeps."""
        return [] if self._core is None else self._core.in_flight()

    def _array(self, operation: Operation) -> NDArray[Any]:
        result = operation.wait()
        assert isinstance(result, np.ndarray)
        return result


class Endpoint(_Handle):
    """This rank's end of a job."""

    @in_one_line
    def __init__(
        self,
        rank: int = 0,
        rank_count: int = 0,
        *,
        store_host: str | None = None,
        store_port: int = 0,
        listen_descriptor: int = 0,
        job: str | None = None,
        secret: str | None = None,
        transport: str | None = None,
        deadline_s: float | None = None,
    ) -> None:
        """Joins the job.

        Args:
            rank: This rank, where `rank_count` is given.
            rank_count: 0: the starter (`pleach launch`, torchrun, mpirun, srun) tells by
                environment variables who is which rank and where the store is.
            store_host: Where rank 0 serves the store, and the others look for it; None: 127.0.0.1.
            store_port: The same.
            listen_descriptor: Of rank 0: a socket of `listen` to serve on, which is taken over.
            job: Ranks of different jobs do not hear each other.
            secret: Of the job's ranks alone; None: what PLEACH_SECRET says.
            transport: `auto`, `shm`, `tcp`, `tcp,sockets=2`, `host`; None: auto.
            deadline_s: Of every wait; None: 30 s.

        Raises:
            DeadlineError: A rank did not come in time; the message names it.
        """
        self._core: _core.Endpoint | None = _core.Endpoint(
            _core.EndpointArguments(
                rank_count=rank_count,
                rank=rank,
                store_host=store_host,
                store_port=store_port,
                listen_descriptor=listen_descriptor,
                job=job,
                secret=secret,
                transport=transport,
                deadline_ms=_milliseconds(deadline_s, 0),
            )
        )
        self.rank: int = self._core.rank
        self.rank_count: int = self._core.rank_count
        self.transport: str = self._core.transport

    @in_one_line
    def communicator(
        self,
        name: str | None = None,
        *,
        ranks: Sequence[int] | None = None,
        book: str | os.PathLike[str] | None = None,
        landing_places: int = 0,
        place_bytes: int = 0,
    ) -> Communicator:
        """Makes a communicator, with all of its ranks.

        Args:
            name: Distinct groups of the same ranks differ in it.
            ranks: Of the job, in the order of their ranks here; None: all.
            book: A file of rank 0, a book or a schedule: what is run. None: what PLEACH_BOOK
                names, or what rank 0 plans.
            landing_places: Per connection; 0: 4.
            place_bytes: 0: 256 KiB.

        Returns:
            The communicator; close it, or use it in a `with` statement.
        """
        return Communicator(
            self._open().communicator(
                name=name,
                ranks=None if ranks is None else list(ranks),
                landing_places=landing_places,
                place_bytes=place_bytes,
                book=None if book is None else os.fspath(book),
            )
        )

    @in_one_line
    def write_flight(self, path: str | os.PathLike[str]) -> None:
        """Writes this rank's last operations, as `pleach flight` reads them: FOLDER/rank-R.json."""
        self._open().write_flight(os.fspath(path))

    def close(self) -> None:
        """Leaves the job, once the last communicator and operation over it has gone too."""
        core, self._core = self._core, None
        if core is not None:
            core.close()

    def _open(self) -> _core.Endpoint:
        if self._core is None:
            raise InvalidArgumentError("the endpoint is closed")
        return self._core

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@in_one_line
def listen(host: str = "127.0.0.1", port: int = 0) -> tuple[int, int]:
    """Makes a socket for rank 0 to serve the store on.

    Args:
        host: Where.
        port: 0: a free one.

    Returns:
        The port, and the descriptor for `Endpoint(listen_descriptor=...)`.
    """
    return _core.listen(host, port)
