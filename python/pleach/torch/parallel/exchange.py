"""What ranks tell each other beside the plan: small, in program order, in a group of its own.

Every call but `agree` begins with a record of one size from every rank, which names the call. So
ranks that make different calls learn which, and no backend gets two sizes of one collective: Gloo
ends the process for that.
"""

from __future__ import annotations

import concurrent.futures
import pickle
import struct
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch._utils import _flatten_dense_tensors, _take_tensors, _unflatten_dense_tensors

from .calling import call_of
from .engine import Agreement
from .health import Health
from .waits import Awaited, watched

# Tensors that are broadcast together, at most.
COALESCED_BYTES = 32 << 20
# A record: the call, how many bytes follow, and so many numbers.
_NUMBERS = 14
_RECORD = struct.Struct(f"<Qq{_NUMBERS}d")


class Exchange:
    """The control group of a training. Its methods are collective, in one order on all ranks."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device):
        """Of a group that nothing else uses; tensors that travel in it lie on `device`."""
        self.rank = group.rank()
        self.size = group.size()
        self._device = device
        self._watched = watched(group, device)

    @property
    def health(self) -> Health:
        """Of the group's ranks."""
        assert self._watched.health is not None
        return self._watched.health

    @property
    def group(self) -> dist.ProcessGroup:
        """The group, until it is let go."""
        return self._watched.group

    def let_go(self) -> dist.ProcessGroup | None:
        """Gives the group away, once."""
        return self._watched.let_go()

    def _meet(
        self, numbers: Sequence[float] = (), size_bytes: int = 0, what: str = ""
    ) -> list[tuple[int, list[float]]]:
        """Returns every rank's size and numbers, when all have come to the same call.

        Raises:
            RuntimeError: Ranks make different calls, or one has failed or left; names them.
        """
        padded = [*numbers, *[0.0] * (_NUMBERS - len(numbers))]
        packed = bytearray(_RECORD.pack(_signature(what, len(numbers)), size_bytes, *padded))
        found = self._gather(torch.frombuffer(packed, dtype=torch.uint8).to(self._device))
        records = [_RECORD.unpack(bytes(one.tolist())) for one in found.cpu()]
        if any(record[0] != records[0][0] for record in records):
            raise RuntimeError(self.health.disagreement())
        return [(record[1], list(record[2 : 2 + len(numbers)])) for record in records]

    def _gather(self, own: torch.Tensor) -> torch.Tensor:
        """Every rank's bytes, a row each."""
        gathered = own.new_empty(self.size * own.numel())
        options = c10d.AllgatherOptions()
        options.asyncOp = True
        self._watched.start_explained(
            lambda: self.group._allgather_base(gathered, own, options)
        ).wait()
        return gathered.view(self.size, own.numel())

    def send_first(self, tensor: torch.Tensor) -> Awaited:
        """Begins to overwrite a tensor with that of the first rank."""
        options = c10d.BroadcastOptions()
        options.rootRank = 0
        options.asyncOp = True
        return self._watched.start_explained(lambda: self.group.broadcast([tensor], options))

    def call_roll(self, what: str) -> None:
        """Returns when all ranks have come to this call, which has a name.

        Raises:
            RuntimeError: One has made another call, has failed or has left; names it.
        """
        self._meet(what=what)

    def agree(
        self,
        own: Agreement,
        note: Callable[[Agreement], None],
        fail: Callable[[BaseException], None],
    ) -> concurrent.futures.Future[Agreement]:
        """Joins what the ranks have found, and tells it, or why not, from any thread."""
        flags = torch.tensor(
            [*own.used, *own.late, own.proposes], dtype=torch.uint8, device=self._device
        )
        options = c10d.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX  # type: ignore[assignment]
        options.asyncOp = True
        work = self._watched.start_explained(lambda: self.group.allreduce([flags], options))
        agreed: concurrent.futures.Future[Agreement] = concurrent.futures.Future()

        def tell(done: Any) -> None:
            try:
                done.wait()
                values = [bool(each) for each in flags.tolist()]
            except Exception as error:
                agreed.set_exception(error)
                fail(error)
                return
            members = len(own.used)
            agreement = Agreement(values[:members], values[members:-1], values[-1])
            agreed.set_result(agreement)
            note(agreement)

        work.get_future().add_done_callback(tell)
        return agreed

    def all_reduce(self, values: torch.Tensor, is_maximum: bool) -> torch.Tensor:
        """The sum, or the maximum, over the ranks; a new tensor where the values were."""
        own = values.detach()
        is_small = own.is_floating_point() and own.numel() <= _NUMBERS
        if is_small and self._device.type == "cpu":
            rows = [row for _, row in self._meet(own.flatten().tolist())]
            every = torch.tensor(rows, dtype=torch.float64)
            found = every.amax(0) if is_maximum else every.sum(0)
            return found.to(own.dtype).reshape(own.shape).to(own.device)
        if self._device.type == "cpu":  # elsewhere the host would have to wait for the device
            self._meet()
        joined = own.to(self._device, copy=True)
        options = c10d.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX if is_maximum else dist.ReduceOp.SUM  # type: ignore
        options.asyncOp = True
        self._watched.start_explained(lambda: self.group.allreduce([joined], options)).wait()
        return joined.to(own.device)

    def gather_objects(self, own: object) -> list[Any]:
        """What every rank gives, by rank. Pickled: small things."""
        packed = bytearray(pickle.dumps(own))
        sizes = [size for size, _ in self._meet(size_bytes=len(packed))]
        longest = torch.zeros(max(sizes), dtype=torch.uint8)
        longest[: len(packed)] = torch.frombuffer(packed, dtype=torch.uint8)
        found = self._gather(longest.to(self._device)).cpu().numpy()
        return [pickle.loads(row[:size].tobytes()) for row, size in zip(found, sizes, strict=True)]

    def broadcast_object(self, own: object) -> Any:
        """What the first rank gives."""
        packed = bytearray(pickle.dumps(own)) if self.rank == 0 else bytearray()
        size, _ = self._meet(size_bytes=len(packed))[0]
        sent = (
            torch.frombuffer(packed, dtype=torch.uint8)
            if packed
            else torch.empty(size, dtype=torch.uint8)
        )
        sent = sent.to(self._device)
        self.send_first(sent).wait()
        return pickle.loads(sent.cpu().numpy().tobytes())

    def share(self, make: Callable[[], Any]) -> Any:
        """What the first rank makes, of which it alone knows how.

        Raises:
            ValueError: It cannot; on all ranks.
        """
        outcome: tuple[bool, Any] = (False, "")
        if self.rank == 0:
            try:
                outcome = True, make()
            except (ValueError, NotImplementedError) as error:
                outcome = False, str(error)
        is_well, made = self.broadcast_object(outcome)
        if not is_well:
            raise ValueError(made)
        return made

    def agree_on_success(self, check: Callable[[], None]) -> None:
        """Runs what may fail on some ranks only.

        Raises:
            ValueError: It has; on all ranks, which say where.
        """
        own = ""
        try:
            check()
        except ValueError as error:
            own = str(error)
        found = self.gather_objects(own)
        if own and all(each == own for each in found):
            raise ValueError(own)
        for rank, each in enumerate(found):
            if each:
                raise ValueError(f"rank {rank}: {each}")

    def broadcast(self, tensors: list[torch.Tensor]) -> None:
        """Overwrites the tensors with those of the first rank."""
        self._meet()
        for some in _take_tensors(tensors, COALESCED_BYTES):
            copy = _flatten_dense_tensors([tensor.contiguous() for tensor in some])
            self.send_first(as_bytes(copy)).wait()
            if self.rank == 0:
                continue
            likes = [tensor.contiguous() for tensor in some]
            for tensor, value in zip(some, _unflatten_dense_tensors(copy, likes), strict=True):
                tensor.copy_(value)


def as_bytes(flat: torch.Tensor) -> torch.Tensor:
    """The memory of a tensor as bytes, which backends send whatever its type is."""
    return flat.resolve_conj().resolve_neg().view(torch.uint8)


def _signature(what: str, number_count: int) -> int:
    """Tells calls apart: by their name, or the function that asks, for gradients the user's."""
    if what:
        return zlib.crc32(what.encode())
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    asking = frame.f_code.co_name
    user = call_of().name if asking == "all_reduce" else ""
    return zlib.crc32(f"{asking} {user} {number_count}".encode())
