"""What ranks tell each other beside the plan: small, in program order, in a group of its own."""

from __future__ import annotations

import collections
import concurrent.futures
import datetime
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from .engine import Agreement

# Tensors that are broadcast together, at most.
COALESCED_BYTES = 32 << 20


class Exchange:
    """The control group of a training. Its methods are collective, in one order on all ranks."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device):
        """Of a group that nobody else uses; tensors that travel in it lie on `device`."""
        self.group = group
        self.rank = group.rank()
        self.size = group.size()
        self._device = device
        self._roll_calls = 0
        self._roll_keys: collections.deque[str] = collections.deque()  # this rank's, in the store

    def call_roll(self, what: str, deadline_s: float) -> None:
        """Returns when all ranks have come to this call.

        Raises:
            RuntimeError: Some have not come within the deadline; names them.
        """
        self._roll_calls += 1
        _, store = c10d._world.pg_map[self.group]
        keys = [f"pleach/{what}/{self._roll_calls}/{rank}" for rank in range(self.size)]
        store.set(keys[self.rank], "1")
        self._roll_keys.append(keys[self.rank])
        if len(self._roll_keys) > 2:  # all have come to the last call, so nobody waits for this one
            store.delete_key(self._roll_keys.popleft())
        try:
            store.wait(keys, datetime.timedelta(seconds=deadline_s))
        except RuntimeError as error:  # stores have several kinds of them
            missing = [rank for rank, key in enumerate(keys) if not store.check([key])]
            if not missing:
                raise
            raise RuntimeError(
                f"{what}: ranks {missing} did not call it within {deadline_s:g} s; all must"
            ) from error

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
        work = self.group.allreduce([flags], options)
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
        joined = values.detach().to(self._device, copy=True)
        operation = dist.ReduceOp.MAX if is_maximum else dist.ReduceOp.SUM
        dist.all_reduce(joined, operation, group=self.group)
        return joined.to(values.device)

    def gather_objects(self, own: object) -> list[Any]:
        """What every rank gives, by rank. Pickled: small things."""
        gathered: list[Any] = [None] * self.size
        dist.all_gather_object(gathered, own, group=self.group)
        return gathered

    def broadcast_object(self, own: object) -> Any:
        """What the first rank gives."""
        held = [own]
        dist.broadcast_object_list(held, group=self.group, group_src=0)
        return held[0]

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
        if tensors:
            torch._C._distributed_c10d._broadcast_coalesced(self.group, tensors, COALESCED_BYTES, 0)
