"""Where parameters and gradients lie: flat buffers, cut into atoms that ranks share.

The flat space is all tensors, one behind the other, in the order in which forward first reads
them. It is cut into atoms: whole small tensors, or parts of large ones. A collective moves whole
atoms, and every atom is divided among all ranks, so that a new plan of collectives moves no state.
Tensors of one type and device lie in one buffer, so an atom is a stretch of one buffer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import weakref
from collections.abc import Callable, Iterable, Sequence

import torch

from pleach.policy import cut_atoms, own_atoms

from .aliases import pin, unpin, use_count
from .dispatch_key import marked

# Allocates a flat buffer: elements, type, device.
Allocator = Callable[[int, torch.dtype, torch.device], torch.Tensor]

# Of tensors on accelerators, whose kernels read vectors.
ALIGNMENT_BYTES = 16


@dataclasses.dataclass(frozen=True)
class Member:
    """A parameter of the flat space.

    Attributes:
        name: As the model calls it.
        parameter: The tensor that the model computes with; it stays the same object.
        layer: The gate that its first reader stands behind, from 0 in forward order.
        group: The group of the optimizer that it is in.
    """

    name: str
    parameter: torch.nn.Parameter
    layer: int
    group: int


@dataclasses.dataclass(frozen=True)
class Part:
    """Elements [begin, begin + length) of a member, and where they lie in its buffer."""

    member: int
    begin: int
    length: int
    place: int


@dataclasses.dataclass(frozen=True)
class Atom:
    """A stretch of a buffer that collectives move as one.

    Attributes:
        buffer: Its index.
        place: Where it begins there [elements].
        shares: Elements of each rank, one behind the other; they add up to its size, in which the
            parts may leave up to a share's rounding unused at the end.
        parts: What it holds, one behind the other, in order.
    """

    buffer: int
    place: int
    shares: tuple[int, ...]
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Elements, those that fill it up too."""
        return sum(self.shares)

    def share(self, rank: int) -> tuple[int, int]:
        """Where a rank's share begins and ends in the buffer [elements]."""
        begin = self.place + sum(self.shares[:rank])
        return begin, begin + self.shares[rank]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a member begins: in which buffer, at which element."""

    buffer: int
    begin: int


class Buffer:
    """Flat memory of one type on one device: of the parameters, and as much of their gradients.

    Attributes:
        parameters: 1-D, for collectives and updates.
        exposed: The same memory by a storage of its own, which the model's parameters are views
            of. So the uses of that storage show if others have views.
    """

    def __init__(self, size: int, dtype: torch.dtype, device: torch.device, allocate: Allocator):
        self.parameters = allocate(size, dtype, device)
        self.parameters.zero_()
        self._allocate = allocate
        self._gradients: torch.Tensor | None = None
        self.exposed = self.parameters
        with contextlib.suppress(RuntimeError, BufferError):  # a device that DLPack does not know
            self.exposed = torch.utils.dlpack.from_dlpack(self.parameters.view(torch.uint8)).view(
                dtype
            )
        self._storage: torch.UntypedStorage | None = self.exposed.untyped_storage()
        self._uses = 0
        pin(self._storage)
        self._unpin = weakref.finalize(self, unpin, self._storage._cdata)

    @property
    def gradients(self) -> torch.Tensor:
        """Memory for gradients, from when it is first asked for."""
        if self._gradients is None:
            like = self.parameters
            self._gradients = self._allocate(like.numel(), like.dtype, like.device).zero_()
        return self._gradients

    def release(self) -> None:
        """Leaves the exposed memory to the parameters: training has ended."""
        self._unpin()
        self.exposed, self._storage = torch.empty(0), None

    def note_uses(self) -> None:
        """Remembers how many tensors share the exposed storage now."""
        assert self._storage is not None
        self._uses = use_count(self._storage)

    def has_aliases(self) -> bool:
        """True if more tensors share the exposed storage than note_uses found."""
        return self._storage is not None and use_count(self._storage) > self._uses


@dataclasses.dataclass(frozen=True)
class Rules:
    """How the flat space is cut.

    Attributes:
        rank_count: Among whom every atom is divided.
        keeps_tensors: No tensor is cut, and an atom is one rank's alone: for optimizers that need
            whole tensors.
    """

    rank_count: int
    keeps_tensors: bool


# A cut part of a tensor has at least this for every rank, and this part of the model at least: each
# is updated by itself, which takes some 100 us of Python however small it is.
LEAST_SHARE_BYTES = 16 * 1024
MOST_CUTS = 96
# Where nothing is cut.
WHOLE_BYTES = 1 << 62
# Tensors of one layer are joined up to this for every rank.
JOINED_SHARE_BYTES = 4 * 1024


def dense_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """The strides of a tensor that fills a stretch of memory, or else those of a contiguous one."""
    sizes_by_stride = sorted(
        (stride, size)
        for stride, size in zip(tensor.stride(), tensor.shape, strict=True)
        if size != 1
    )
    expected = 1
    for stride, size in sizes_by_stride:
        if stride != expected:
            return torch.empty(tensor.shape, device="meta").stride()
        expected *= size
    return tensor.stride()


class Layout:
    """The flat space of a model, on one rank.

    Creation copies nothing; `adopt` makes the parameters views of the buffers.
    """

    def __init__(
        self,
        members: Sequence[Member],
        rules: Rules,
        allocate: Allocator,
        before: Layout | None = None,
    ):
        """Cuts the flat space.

        Args:
            members: In forward order, their layers ascending; those without elements come last.
            rules: How.
            allocate: Gives memory for the buffers.
            before: A layout that the parameters are in. Where all of them have the same places it
                shares its memory, and adopt() moves nothing.
        """
        self.members = tuple(members)
        self.rules = rules
        self._views: list[torch.Tensor] = []  # by member: its values, for the model
        self._hidden: list[torch.Tensor] = []  # by member: in its place
        self._nans: dict[tuple[torch.dtype, torch.device], torch.Tensor] = {}
        # By member, and its strides: a user may give it others.
        self._shapes = [(one.parameter.shape, dense_strides(one.parameter)) for one in members]
        self._types = [self._key(member) for member in range(len(members))]
        self._keys: list[tuple[torch.dtype, torch.device]] = []
        self._sizes: list[int] = []
        self.atoms = tuple(self._cut())
        # Who has no elements goes with the last atom, wherever that is.
        last = self.atoms[-1]
        self._places = dict.fromkeys(range(len(members)), Place(last.buffer, last.place))
        for atom in self.atoms:
            for part in atom.parts:
                if part.begin == 0:
                    self._places[part.member] = Place(atom.buffer, part.place)
        self.shares_memory = before is not None and before._is_like(self)
        if before is not None and self.shares_memory:
            self.buffers: list[Buffer] = before.buffers
            self._views = before._views
        else:
            self.buffers = [
                Buffer(size, dtype, device, allocate)
                for size, (dtype, device) in zip(self._sizes, self._keys, strict=True)
            ]

    def _is_like(self, other: Layout) -> bool:
        """True if all parameters are where they would be in another layout."""
        return (
            (self._keys, self._sizes, self._shapes) == (other._keys, other._sizes, other._shapes)
            and self._places == other._places
            and all(
                one.parameter is two.parameter and one.parameter.data_ptr() == view.data_ptr()
                for one, two, view in zip(self.members, other.members, self._views, strict=True)
            )
        )

    def _cut(self) -> Iterable[Atom]:
        """Cuts at the ends of tensors, and in large ones where shares stay whole."""
        held = [member for member in self.members if member.parameter.numel() > 0]
        sizes = [one.parameter.numel() * one.parameter.element_size() for one in held]
        # Multiples of it are whole elements of every type, as many for each rank.
        quantum = 16 * self.rules.rank_count
        least = max(self.rules.rank_count * LEAST_SHARE_BYTES, sum(sizes) // MOST_CUTS, quantum)
        if self.rules.keeps_tensors:
            least = WHOLE_BYTES
        keys = [self._key(member) for member in range(len(held))]
        self._keys = list(dict.fromkeys(keys))
        self._sizes = [0] * len(self._keys)
        atom_bytes = cut_atoms(
            sizes,
            [member.layer for member in held],
            quantum,
            least,
            buffers=[self._keys.index(key) for key in keys],
            join_bytes=self.rules.rank_count * JOINED_SHARE_BYTES,
        )
        owners = own_atoms(atom_bytes, self.rules.rank_count)
        for parts, owner in zip(self._parts_of_atoms(atom_bytes), owners, strict=True):
            yield self._place(parts, owner)

    def _parts_of_atoms(self, atom_bytes: Sequence[int]) -> Iterable[list[tuple[int, int, int]]]:
        """By atom: members, and which of their elements; all of one buffer."""
        member, begin = 0, 0
        for left in atom_bytes:
            parts: list[tuple[int, int, int]] = []
            while left > 0:
                tensor = self.members[member].parameter
                length = min(left // tensor.element_size(), tensor.numel() - begin)
                parts.append((member, begin, length))
                left -= length * tensor.element_size()
                begin += length
                if begin == tensor.numel():
                    member, begin = member + 1, 0
            yield parts

    def _key(self, member: int) -> tuple[torch.dtype, torch.device]:
        tensor = self.members[member].parameter
        return tensor.dtype, tensor.device

    def _place(self, parts: list[tuple[int, int, int]], owner: int) -> Atom:
        """Gives an atom its place at the end of its buffer, and its shares to ranks."""
        key = self._key(parts[0][0])
        buffer = self._keys.index(key)
        place = end = self._sizes[buffer]
        placed = []
        for member, begin, length in parts:
            placed.append(Part(member, begin, length, end))
            end += length
        ranks = self.rules.rank_count
        granule = self._granule(*key)
        if self.rules.keeps_tensors:
            size = math.ceil((end - place) / granule) * granule
            shares = tuple(size if rank == owner else 0 for rank in range(ranks))
        else:
            granule = math.lcm(granule, ranks)
            share = math.ceil((end - place) / granule) * granule // ranks
            shares = (share,) * ranks
        self._sizes[buffer] = place + sum(shares)
        return Atom(buffer, place, shares, tuple(placed))

    @staticmethod
    def _granule(dtype: torch.dtype, device: torch.device) -> int:
        """Elements whose multiples atoms have, so that the next one is aligned."""
        return 1 if device.type == "cpu" else max(1, ALIGNMENT_BYTES // dtype.itemsize)

    def place(self, member: int) -> Place:
        """Where a member lies; it is in one stretch."""
        return self._places[member]

    def view(self, flat: torch.Tensor, member: int) -> torch.Tensor:
        """A member in its shape, of memory that is like its buffer."""
        shape, strides = self._shapes[member]
        return flat.as_strided(shape, strides, flat.storage_offset() + self.place(member).begin)

    def parameter(self, member: int) -> torch.Tensor:
        """A member's values in its buffer, in its shape."""
        return self._own(self.buffers[self.place(member).buffer].parameters, member)

    def gradient(self, member: int) -> torch.Tensor:
        """A member's gradients in its buffer, in its shape."""
        return self._own(self.buffers[self.place(member).buffer].gradients, member)

    def _own(self, flat: torch.Tensor, member: int) -> torch.Tensor:
        """A view; of a type of its own where it has no elements."""
        view = self.view(flat, member)
        return view if view.numel() > 0 else view.to(self.members[member].parameter.dtype)

    @torch.no_grad()
    def adopt(self) -> None:
        """Makes every parameter a view of its buffer, with the values that it has."""
        if self.shares_memory:
            return
        self._views += [
            self._own(self.buffers[self.place(index).buffer].exposed, index)
            for index in range(len(self.members))
        ]
        for member, view in zip(self.members, self._views, strict=True):
            member.parameter.data = view.copy_(member.parameter)
        for buffer in self.buffers:
            buffer.note_uses()

    def hidden(self) -> Sequence[torch.Tensor]:
        """By member: NaN in its shape, marked, to have in the place of its values."""
        if not self._hidden:
            self._hidden = [marked(self._nan(index)) for index in range(len(self.members))]
        return self._hidden

    def value(self, member: int) -> torch.Tensor:
        """What a member has as `data` where its values are not hidden."""
        return self._views[member]

    def check_hidden(self) -> None:
        """Nothing was written in the place of values that were hidden.

        Raises:
            RuntimeError: Something was, on a CPU.
        """
        for (_, device), nan in self._nans.items():
            if device.type == "cpu" and (value := nan.item()) == value:  # which NaN is not
                nan.fill_(math.nan)
                raise RuntimeError(
                    "a parameter was written to between step() and the next forward by code that "
                    "PyTorch does not see, and its values were lost: call optimizer.synchronize() "
                    "before it"
                )

    def _nan(self, member: int) -> torch.Tensor:
        key = self._key(member)
        if key not in self._nans:
            self._nans[key] = torch.full((), math.nan, dtype=key[0], device=key[1])
        return self._nans[key].expand(self._shapes[member][0])

    def release(self) -> None:
        """Leaves their memory to the parameters: training has ended."""
        self._views.clear()
        for buffer in self.buffers:
            buffer.release()

    def has_aliases(self) -> bool:
        """True if tensors other than the parameters share their memory: views, NumPy arrays."""
        return any(buffer.has_aliases() for buffer in self.buffers)

    @torch.no_grad()
    def take_moved(self) -> None:
        """Takes the values of parameters whose `data` somebody has replaced, and adopts them again.

        Raises:
            RuntimeError: One has another shape or type, or is on another device.
        """
        for index, (member, view) in enumerate(zip(self.members, self._views, strict=False)):
            parameter = member.parameter
            if parameter.is_set_to(view):
                continue
            self.check_type(index)
            # A copy first: it may be a view of the same memory, transposed.
            parameter.data = view.copy_(parameter.clone())

    def check_types(self) -> None:
        """Parameters have the shapes, types and devices that they had at creation.

        Raises:
            RuntimeError: One has others.
        """
        for index in range(len(self.members)):
            self.check_type(index)

    def check_type(self, member: int) -> None:
        """The same of one parameter."""
        parameter, (dtype, device) = self.members[member].parameter, self._types[member]
        for what, before, now in (
            ("type", dtype, parameter.dtype),
            ("device", device, parameter.device),
            ("shape", tuple(self._shapes[member][0]), tuple(parameter.shape)),
        ):
            if before != now:
                raise RuntimeError(
                    f"parameter {self.members[member].name} has {what} {now}, and had {before} "
                    "when data_parallel was called: change the model before data_parallel, or call "
                    "optimizer.close() and begin anew"
                )
        if getattr(parameter, "grad_dtype", None) not in (None, dtype):
            raise RuntimeError(
                f"parameter {self.members[member].name} has grad_dtype {parameter.grad_dtype}: its "
                f"gradient is averaged in the parameter's type, {dtype}; set grad_dtype to None"
            )

    def tensor_bytes(self) -> list[list[int]]:
        """By layer: bytes of its tensors, with what fills atoms up behind them."""
        sizes = [0] * len(self.members)
        for atom in self.atoms:
            element = self.members[atom.parts[0].member].parameter.element_size()
            for part in atom.parts:
                sizes[part.member] += part.length * element
            used = sum(part.length for part in atom.parts)
            sizes[atom.parts[-1].member] += (atom.size - used) * element
        layers: list[list[int]] = [[] for _ in range(self.layer_count)]
        for member, size in zip(self.members, sizes, strict=True):
            if size > 0:
                layers[member.layer].append(size)
        return layers

    def members_by_layer(self) -> list[list[int]]:
        """By layer: its members."""
        members: list[list[int]] = [[] for _ in range(self.layer_count)]
        for index, member in enumerate(self.members):
            members[member.layer].append(index)
        return members

    def lines(self) -> list[str]:
        """Everything that ranks compare, a line each."""
        return [f"{member.name} in layer {member.layer}" for member in self.members] + [
            f"atom {index}: {atom.shares} of buffer {atom.buffer} at {atom.place}"
            for index, atom in enumerate(self.atoms)
        ]

    def atom_bytes(self) -> list[int]:
        """Sizes of the atoms, in order; they add up to all tensors' bytes."""
        return [
            atom.size * self.members[atom.parts[0].member].parameter.element_size()
            for atom in self.atoms
        ]

    @property
    def layer_count(self) -> int:
        """Gates of the flat space."""
        return self.members[-1].layer + 1 if self.members else 0

    def atoms_by_member(self) -> list[list[int]]:
        """By member: the atoms that hold something of it, or that it goes with, in order."""
        atoms: list[list[int]] = [[] for _ in self.members]
        for index, atom in enumerate(self.atoms):
            for part in atom.parts:
                atoms[part.member].append(index)
        return [each or [len(self.atoms) - 1] for each in atoms]
