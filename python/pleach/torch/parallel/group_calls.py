"""Collectives of atoms over a process group, whatever its backend."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .layout import Layout
from .waits import watched

# Backends that divide a sum by the number of ranks themselves.
AVERAGING = frozenset({"pleach", "nccl", "gloo"})

# Types whose largest number is so small that a sum of gradients may be beyond it, though their
# average is not. Dividing others first would cost a pass over memory.
DIVIDED_BEFORE = frozenset({torch.float16})

Call = Callable[[], Any]  # starts a collective; gives its Work


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Atoms that lie one behind the other in one flat tensor.

    Attributes:
        whole: All of them, 1-D.
        shares: By atom, the elements of each rank, one behind the other.
    """

    whole: torch.Tensor
    shares: tuple[tuple[int, ...], ...]

    def atoms(self) -> list[torch.Tensor]:
        """Each atom, 1-D."""
        return list(self.whole.split([sum(shares) for shares in self.shares]))

    def parts(self, rank: int) -> list[torch.Tensor]:
        """By atom: a rank's share of it, 1-D."""
        return [
            atom.narrow(0, sum(shares[:rank]), shares[rank])
            for atom, shares in zip(self.atoms(), self.shares, strict=True)
        ]

    def as_real(self) -> Stretch:
        """The same memory in numbers that every backend adds: complex ones are pairs."""
        if not self.whole.is_complex():
            return self
        shares = tuple(tuple(2 * share for share in atom) for atom in self.shares)
        return Stretch(torch.view_as_real(self.whole).view(-1), shares)

    def are_equal(self) -> bool:
        """Whether all ranks have as much of each atom."""
        return all(len(set(shares)) == 1 for shares in self.shares)


def stretches(layout: Layout, atoms: range, of_gradients: bool) -> list[Stretch]:
    """The memory of consecutive atoms: a stretch of every buffer that has some of them."""
    found = []
    for index, buffer in enumerate(layout.buffers):
        own = [layout.atoms[atom] for atom in atoms if layout.atoms[atom].buffer == index]
        if own:
            flat = buffer.gradients if of_gradients else buffer.parameters
            begin, end = own[0].place, own[-1].place + own[-1].size
            found.append(Stretch(flat[begin:end], tuple(atom.shares for atom in own)))
    return found


def _counted(
    make: Callable[[GroupCalls, Stretch], list[Call]],
) -> Callable[[GroupCalls, Stretch], list[Call]]:
    """Collectives whose starts are counted, and whose works end when a rank has left."""

    @functools.wraps(make)
    def made(self: GroupCalls, stretch: Stretch) -> list[Call]:
        return [functools.partial(self._watched.start, call) for call in make(self, stretch)]

    return made


class GroupCalls:
    """Makes collectives ready to be started many times. Starting them is for one thread a time."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device):
        """Of a group that nobody else uses: all ranks start the same ones in one order."""
        self._watched = watched(group, device)
        self.rank = group.rank()
        self.size = group.size()
        self.averages = group._get_backend(device).name() in AVERAGING

    @property
    def group(self) -> dist.ProcessGroup:
        """The group, until it is let go."""
        return self._watched.group

    def let_go(self) -> dist.ProcessGroup | None:
        """Gives the group away, once."""
        return self._watched.let_go()

    @_counted
    def reduce(self, stretch: Stretch) -> list[Call]:
        """Every rank's share becomes the average (or the sum), in place."""
        stretch = stretch.as_real()
        operation = self._operation(stretch)
        atoms, parts = stretch.atoms(), stretch.parts(self.rank)
        if not stretch.are_equal():
            return [
                self._reduce_to(atom, owner_of(shares), operation)
                for atom, shares in zip(atoms, stretch.shares, strict=True)
            ]
        options = c10d.ReduceScatterOptions()
        options.reduceOp = operation
        options.asyncOp = True
        if len(atoms) == 1:
            return [lambda: self.group._reduce_scatter_base(parts[0], atoms[0], options)]
        return [lambda: self.group.reduce_scatter_tensor_coalesced(parts, atoms, options)]

    @_counted
    def distribute(self, stretch: Stretch) -> list[Call]:
        """Every rank gets the others' shares, in place."""
        stretch = stretch.as_real()
        atoms, parts = stretch.atoms(), stretch.parts(self.rank)
        if not stretch.are_equal():
            return [
                self._broadcast(atom, owner_of(shares))
                for atom, shares in zip(atoms, stretch.shares, strict=True)
            ]
        options = c10d.AllgatherOptions()
        options.asyncOp = True
        if len(atoms) == 1:
            return [lambda: self.group._allgather_base(atoms[0], parts[0], options)]
        return [lambda: self.group.allgather_into_tensor_coalesced(atoms, parts, options)]

    @_counted
    def all_reduce(self, stretch: Stretch) -> list[Call]:
        """Everything becomes the average (or the sum), in place."""
        stretch = stretch.as_real()
        options = c10d.AllreduceOptions()
        options.reduceOp = self._operation(stretch)
        options.asyncOp = True
        return [lambda: self.group.allreduce([stretch.whole], options)]

    def divide_before(self, gradients: torch.Tensor) -> None:
        """Divides this rank's gradients by the number of ranks, where their sum may overflow."""
        if gradients.dtype in DIVIDED_BEFORE:
            gradients.div_(self.size)

    def divide(self, stretch: Stretch, is_whole: bool) -> None:
        """Makes averages of this rank's sums, where the backend has not."""
        if not self.averages and stretch.whole.dtype not in DIVIDED_BEFORE:
            for part in [stretch.whole] if is_whole else stretch.parts(self.rank):
                part.div_(self.size)

    def _operation(self, stretch: Stretch) -> Any:
        is_sum = not self.averages or stretch.whole.dtype in DIVIDED_BEFORE
        return dist.ReduceOp.SUM if is_sum else dist.ReduceOp.AVG

    def _reduce_to(self, atom: torch.Tensor, owner: int, operation: Any) -> Call:
        options = c10d.ReduceOptions()
        options.reduceOp = operation
        options.rootRank = owner
        options.asyncOp = True
        return lambda: self.group.reduce([atom], options)

    def _broadcast(self, atom: torch.Tensor, owner: int) -> Call:
        options = c10d.BroadcastOptions()
        options.rootRank = owner
        options.asyncOp = True
        return lambda: self.group.broadcast([atom], options)


def owner_of(shares: Sequence[int]) -> int:
    """The rank that an atom is whole on."""
    return max(range(len(shares)), key=lambda rank: shares[rank])
