"""What the ranks of the backend's tests run: the same on Pleach and on Gloo, compared.

Tensors are made on PyTorch's default device, which may be a GPU; what Gloo is given is the host's.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

REDUCED = {
    torch.float32: ("SUM", "AVG", "PRODUCT", "MIN", "MAX"),
    torch.float64: ("SUM", "AVG", "PRODUCT", "MIN", "MAX"),
    torch.float16: ("SUM", "AVG", "PRODUCT", "MIN", "MAX"),
    torch.bfloat16: ("SUM", "AVG", "PRODUCT", "MIN", "MAX"),
    torch.int8: ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"),
    torch.uint8: ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"),
    torch.int32: ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"),
    torch.int64: ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"),
    torch.bool: ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"),
    torch.complex64: ("SUM", "AVG"),
}
MOVED = [*REDUCED]  # what Gloo moves; Pleach moves more

_gloo: list[dist.ProcessGroup] = []


def gloo() -> dist.ProcessGroup:
    """Returns a Gloo group of the same ranks, made when it is first asked for."""
    if not _gloo:
        _gloo.append(dist.new_group(backend="gloo"))
    return _gloo[0]


def filled(shape: tuple[int, ...], dtype: torch.dtype, rank: int, seed: int) -> torch.Tensor:
    """Returns small whole numbers, of which every type holds all sums and products exactly."""
    generator = torch.Generator().manual_seed(seed * 1000 + rank)
    numbers = torch.randint(-3, 4, shape, generator=generator, device="cpu")
    numbers = numbers.to(torch.get_default_device())
    if dtype == torch.bool:
        return numbers > 0
    if dtype == torch.uint8:
        return (numbers + 3).to(dtype)
    if dtype.is_complex:
        return torch.complex(numbers.float(), numbers.flip(0).float()).to(dtype)
    return numbers.to(dtype)


def size(seed: int) -> int:
    """Returns a count of elements: often odd, sometimes fewer than ranks, sometimes none."""
    chooser = random.Random(seed)
    return chooser.choice([0, 1, 2, 3, 7, 13, 101, 1009, 4099, 65537, chooser.randrange(1, 3000)])


def assert_same(ours: Any, theirs: Any, what: str) -> None:
    """Compares tensors, or lists of them: exactly, but for what was divided."""
    if isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs), what
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other, what)
        return
    ours, theirs = ours.cpu(), theirs.cpu()
    if ours.dtype == torch.bool:  # Gloo adds the bytes: 1 + 1 is 2
        ours, theirs = ours.view(torch.uint8) != 0, theirs.view(torch.uint8) != 0
    tolerance = 1e-2 if "AVG" in what else 0.0
    torch.testing.assert_close(
        ours, theirs, rtol=tolerance, atol=tolerance, msg=lambda m: f"{what}: {m}"
    )


def on_both(what: str, call: Callable[..., Any], *arguments: Any) -> None:
    """Calls with either group; what comes of it has to be the same."""
    with torch.device("cpu"):
        theirs = call(gloo(), *arguments)
    ours = call(dist.group.WORLD, *arguments)
    assert_same(ours, theirs, what)


def reductions(rank: int, seed: int) -> int:
    """all_reduce by every type and operation, and each with two of the other forms in turn."""
    count = dist.get_world_size()
    forms = (
        all_reduced_strided,
        reduced,
        coalesced_reduced,
        scattered_list,
        scattered_tensor,
        coalesced_scattered,
    )
    done = 0
    for dtype, names in REDUCED.items():
        for name in names:
            done += 1
            op = getattr(dist.ReduceOp, name)
            length = size(seed * 100 + done)
            root = done % count
            what = f"{dtype} {name} of {length}"
            turn = (2 * done + seed) % len(forms)
            for form in (all_reduced, forms[turn], forms[turn - 1]):
                if dtype.is_complex and form in (coalesced_scattered, coalesced_reduced):
                    continue  # Gloo does not know the type there
                on_both(f"{form.__name__} {what}", form, rank, dtype, op, length, root, seed)
    return done


def all_reduced(group, rank, dtype, op, length, root, seed):
    tensor = filled((length,), dtype, rank, seed)
    dist.all_reduce(tensor, op, group=group)
    return tensor


def all_reduced_strided(group, rank, dtype, op, length, root, seed):
    """Strided on Pleach; Gloo reduces a copy in order."""
    tensor = filled((3, length), dtype, rank, seed).t()
    if group is gloo():
        tensor = tensor.contiguous()
    dist.all_reduce(tensor, op, group=group)
    return tensor.contiguous()


def reduced(group, rank, dtype, op, length, root, seed):
    tensor = filled((length, 2), dtype, rank, seed)
    work = dist.reduce(tensor, root, op, group=group, async_op=True)
    work.wait()
    return tensor if rank == root else []


def coalesced_reduced(group, rank, dtype, op, length, root, seed):
    tensors = [filled((length + extra,), dtype, rank, seed + extra) for extra in range(3)]
    options = dist.AllreduceCoalescedOptions()
    options.reduceOp = op
    group.allreduce_coalesced(tensors, options).wait()
    return tensors


def scattered_list(group, rank, dtype, op, length, root, seed):
    inputs = [filled((length,), dtype, rank, seed + to) for to in range(group.size())]
    output = torch.empty_like(inputs[0])
    dist.reduce_scatter(output, inputs, op, group=group)
    return output


def scattered_tensor(group, rank, dtype, op, length, root, seed):
    whole = filled((length * group.size(),), dtype, rank, seed)
    output = torch.empty(length, dtype=dtype)
    work = dist.reduce_scatter_tensor(output, whole, op, group=group, async_op=True)
    work.wait()
    return output


def coalesced_scattered(group, rank, dtype, op, length, root, seed):
    sizes = [length + extra for extra in (0, 5, 1)]
    wholes = [filled((one * group.size(),), dtype, rank, seed + one) for one in sizes]
    outputs = [torch.empty(one, dtype=dtype) for one in sizes]
    if group is gloo():
        for output, whole in zip(outputs, wholes, strict=True):
            dist.reduce_scatter_tensor(output, whole, op, group=group)
        return outputs
    options = dist.ReduceScatterOptions()
    options.reduceOp = op
    group.reduce_scatter_tensor_coalesced(outputs, wholes, options).wait()
    return outputs


def moves(rank: int, seed: int) -> int:
    """Every collective that only moves, by every type, in every form."""
    count = dist.get_world_size()
    for number, dtype in enumerate(MOVED):
        length = size(seed * 100 + number)
        root = number % count
        what = f"{dtype} of {length}"
        for form in (
            broadcast,
            gathered_list,
            gathered_tensor,
            gathered_strided,
            coalesced_gathered,
            exchanged_evenly,
            exchanged_unevenly,
            exchanged_lists,
        ):
            on_both(f"{form.__name__} {what}", form, rank, dtype, length, root, seed)
    return len(MOVED)


def broadcast(group, rank, dtype, length, root, seed):
    tensor = filled((length, 3), dtype, rank, seed)
    dist.broadcast(tensor, root, group=group)
    return tensor


def gathered_list(group, rank, dtype, length, root, seed):
    outputs = [torch.empty(length, dtype=dtype) for _ in range(group.size())]
    dist.all_gather(outputs, filled((length,), dtype, rank, seed), group=group)
    return outputs


def gathered_tensor(group, rank, dtype, length, root, seed):
    output = torch.empty(length * group.size(), dtype=dtype)
    dist.all_gather_into_tensor(output, filled((length,), dtype, rank, seed), group=group)
    return output


def gathered_strided(group, rank, dtype, length, root, seed):
    whole = torch.empty(group.size(), length, 2, dtype=dtype)
    outputs = [whole[one, :, 0] for one in range(group.size())]
    mine = filled((length, 2), dtype, rank, seed)[:, 1]
    if group is gloo():
        outputs = [one.contiguous() for one in outputs]
        mine = mine.contiguous()
    dist.all_gather(outputs, mine, group=group)
    return [one.contiguous() for one in outputs]


def coalesced_gathered(group, rank, dtype, length, root, seed):
    sizes = [length + extra for extra in (1, 0, 7)]
    inputs = [filled((one,), dtype, rank, seed + one) for one in sizes]
    outputs = [torch.empty(one * group.size(), dtype=dtype) for one in sizes]
    if group is gloo():
        for output, mine in zip(outputs, inputs, strict=True):
            dist.all_gather_into_tensor(output, mine, group=group)
    else:
        group.allgather_into_tensor_coalesced(outputs, inputs).wait()
    return outputs


def gathered_at(group, rank, dtype, length, root, seed):
    outputs = [torch.empty(length, dtype=dtype) for _ in range(group.size())]
    mine = filled((length,), dtype, rank, seed)
    dist.gather(mine, outputs if rank == root else None, root, group=group)
    return outputs if rank == root else []


def scattered_from(group, rank, dtype, length, root, seed):
    inputs = [filled((length,), dtype, one, seed) for one in range(group.size())]
    output = torch.empty(length, dtype=dtype)
    dist.scatter(output, inputs if rank == root else None, root, group=group)
    return output


def exchanged_evenly(group, rank, dtype, length, root, seed):
    mine = filled((length * group.size(), 2), dtype, rank, seed)
    output = torch.empty_like(mine)
    dist.all_to_all_single(output, mine, group=group)
    return output


def exchanged_unevenly(group, rank, dtype, length, root, seed):
    # What a rank sends to another: known to both, different for all pairs, sometimes nothing.
    rows = [
        [(7 * one + 3 * two + length) % 5 for two in range(group.size())]
        for one in range(group.size())
    ]
    sends = rows[rank]
    receives = [row[rank] for row in rows]
    mine = filled((sum(sends), 3), dtype, rank, seed)
    output = torch.empty((sum(receives), 3), dtype=dtype)
    dist.all_to_all_single(output, mine, receives, sends, group=group)
    return output


def exchanged_lists(group, rank, dtype, length, root, seed):
    lengths = [(length + one) % 11 for one in range(group.size())]
    inputs = [filled((one + rank,), dtype, rank, seed + one) for one in lengths]
    outputs = [torch.empty(lengths[rank] + one, dtype=dtype) for one in range(group.size())]
    if group is gloo():  # which has no list form
        output = torch.empty(sum(one.numel() for one in outputs), dtype=dtype)
        dist.all_to_all_single(
            output,
            torch.cat(inputs),
            [one.numel() for one in outputs],
            [one.numel() for one in inputs],
            group=group,
        )
        return list(output.split([one.numel() for one in outputs]))
    dist.all_to_all(outputs, inputs, group=group)
    return outputs


def uneven_lists(rank: int) -> None:
    """Parts of different sizes, which Gloo refuses."""
    count = dist.get_world_size()
    lengths = [5 * one + 2 for one in range(count)]
    parts = [filled((length,), torch.float64, one, 3) for one, length in enumerate(lengths)]
    outputs = [torch.empty(length, dtype=torch.float64) for length in lengths]
    dist.all_gather(outputs, parts[rank])
    assert_same(outputs, parts, "uneven all_gather")
    inputs = [
        filled((length,), torch.float64, rank, 10 + one) for one, length in enumerate(lengths)
    ]
    output = torch.empty(lengths[rank], dtype=torch.float64)
    dist.reduce_scatter(output, inputs)
    expected = sum(filled((lengths[rank],), torch.float64, one, 10 + rank) for one in range(count))
    assert_same(output, expected, "uneven reduce_scatter")


def adjacent_pieces(rank: int) -> None:
    """Coalesced forms of tensors that lie end to end, in place, as sharded training has them."""
    count = dist.get_world_size()
    sizes = [3, 1, 8]
    group = dist.group.WORLD
    whole = torch.empty(sum(sizes) * count)
    wholes = list(whole.split([one * count for one in sizes]))
    shards = [
        one.narrow(0, rank * length, length) for one, length in zip(wholes, sizes, strict=True)
    ]
    for shard in shards:
        shard.fill_(rank)
    group.allgather_into_tensor_coalesced(wholes, shards).wait()
    for one, length in zip(wholes, sizes, strict=True):
        expected = torch.arange(count).repeat_interleave(length).float()
        assert_same(one, expected, "all_gather in place")
    for one in wholes:
        one.copy_(torch.arange(one.numel()) + rank)
    group.reduce_scatter_tensor_coalesced(shards, wholes).wait()
    for shard, length in zip(shards, sizes, strict=True):
        first = torch.arange(rank * length, (rank + 1) * length)
        assert_same(shard, (first * count + sum(range(count))).float(), "reduce_scatter in place")


def aliases(rank: int) -> None:
    """Inputs that are views of the outputs, at their place in them and elsewhere."""
    count = dist.get_world_size()
    for step, offset in ((0, 0), (0, 1), (1, 0)):  # the first's place, a shifted one, its own
        begins = [3 * step * one + offset for one in range(count)]
        whole = torch.arange(3.0 * count) + 100 * rank
        parts = [torch.arange(3.0) + begins[one] + 100 * one for one in range(count)]
        dist.all_gather(list(whole.chunk(count)), whole[begins[rank] : begins[rank] + 3])
        assert_same(whole, torch.cat(parts), f"all_gather from {begins}")
        whole = torch.arange(2.0 * count)
        place = whole.narrow(0, 2 * step * rank + offset, 2)
        dist.reduce_scatter_tensor(place, whole)
        assert_same(place, torch.arange(2.0 * rank, 2.0 * rank + 2) * count, "reduce_scatter")
    whole = torch.arange(2.0 * count) + 10 * rank
    expected = torch.cat([torch.arange(2.0 * rank, 2.0 * rank + 2) + 10 * o for o in range(count)])
    dist.all_to_all_single(whole, whole)
    assert_same(whole, expected, "all_to_all in place")


def mixed_pieces(rank: int) -> None:
    """Coalesced forms of tensors of several types."""
    count = dist.get_world_size()
    group = dist.group.WORLD
    inputs = [torch.full((2,), float(rank)), torch.full((3,), rank), torch.full((1,), rank + 0.5)]
    outputs = [torch.empty(one.numel() * count, dtype=one.dtype) for one in inputs]
    group.allgather_into_tensor_coalesced(outputs, inputs).wait()
    assert outputs[1].tolist() == [one for one in range(count) for _ in range(3)]
    assert outputs[2].tolist() == [one + 0.5 for one in range(count)]


def other_types(rank: int) -> None:
    """What Gloo does not move."""
    count = dist.get_world_size()
    for dtype in (
        torch.int16,
        torch.complex64,
        torch.complex128,
        torch.float8_e4m3fn,
        torch.uint16,
    ):
        mine = torch.full((5,), rank + 1).to(dtype)
        outputs = [torch.empty(5, dtype=dtype) for _ in range(count)]
        dist.all_gather(outputs, mine)
        for one, output in enumerate(outputs):
            expected = torch.full((5,), one + 1).to(dtype)
            assert torch.equal(output.view(torch.uint8), expected.view(torch.uint8)), dtype
        outputs = [torch.empty(5, dtype=dtype) for _ in range(count)]
        dist.gather(mine, outputs if rank == 0 else None, 0)
        back = torch.empty(5, dtype=dtype)
        dist.scatter(back, outputs if rank == 0 else None, 0)
        assert torch.equal(back.view(torch.uint8), mine.view(torch.uint8)), dtype


def sparse_sums(rank: int) -> None:
    """Sums of sparse tensors of other entries on every rank, some of none."""
    for dtype in (torch.float32, torch.float64, torch.int64):
        shape = (7, 5, 3)
        places = torch.tensor([[rank, 6, 6], [0, 4, rank % 5]])[:, : 3 * (rank != 1)]
        values = filled((places.shape[1], 3), dtype, rank, 4)
        tensor = torch.sparse_coo_tensor(places, values, shape)
        dense = tensor.to_dense()
        dist.all_reduce(tensor)
        dist.all_reduce(dense)
        assert torch.equal(tensor.to_dense(), dense), dtype


def refusals(rank: int) -> list[str]:
    """Returns what is said of what no rank can ask for; none of it reaches another rank."""
    tensor = torch.ones(4)
    asked = [
        lambda: dist.all_reduce(torch.ones(4, dtype=torch.int32), dist.ReduceOp.AVG),
        lambda: dist.all_reduce(torch.ones(4, dtype=torch.int16)),
        lambda: dist.all_reduce(tensor, dist.ReduceOp.BAND),
        lambda: dist.all_reduce(tensor, dist._make_nccl_premul_sum(2.0)),
        lambda: dist.all_reduce(tensor.to_sparse(), dist.ReduceOp.MAX),
        lambda: dist.all_gather_into_tensor(torch.empty(3), tensor),
        lambda: dist.all_to_all_single(
            torch.empty(4), tensor, [1] * dist.get_world_size(), [9] * dist.get_world_size()
        ),
        lambda: dist.send(tensor, (rank + 1) % dist.get_world_size(), tag=-1),
    ]
    said = []
    for ask in asked:
        try:
            ask()
        except Exception as error:
            said.append(str(error))
        else:
            said.append("")
    dist.barrier()
    return said
