"""What ranks run on a GPU: what they run on the host, and what only a device with streams has."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from backend_groups import said_by
from torch.nn.parallel import DistributedDataParallel

SLEEP_CYCLES = 100_000_000  # of a clock between one and two GHz


def on_gpu(rank: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Runs what makes tensors on PyTorch's default device, with a GPU as that.

    Ranks share a GPU where there are fewer.
    """
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    with device:
        return function(rank, *arguments)


def part_of(rank: int, length: int, dtype: torch.dtype) -> torch.Tensor:
    """Small whole numbers, of which every type holds all sums exactly."""
    return ((torch.arange(length) * (2 * rank + 1)) % 7 - 3).to(dtype)


def sizes(rank: int) -> None:
    """Collectives of one element to tens of MiB, against what one process makes."""
    count = dist.get_world_size()
    for length in (1, 2, 3, 17, 4099, 1_000_003, 8_388_611):
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32):
            if length > 1_000_003 and dtype not in (torch.float32, torch.bfloat16):
                continue
            parts = [part_of(one, length, dtype) for one in range(count)]
            what = f"{dtype} of {length}"
            tensor = parts[rank].clone()
            dist.all_reduce(tensor)
            assert torch.equal(tensor, torch.stack(parts).sum(0, dtype=dtype)), what
            tensor = parts[rank].clone()
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
            assert torch.equal(tensor, torch.stack(parts).amax(0)), what
            tensor = parts[rank].clone()
            dist.broadcast(tensor, count - 1)
            assert torch.equal(tensor, parts[-1]), what
            moved(rank, count, parts, what)


def moved(rank: int, count: int, parts: list[torch.Tensor], what: str) -> None:
    """all_gather, reduce_scatter and all_to_all of these parts, one a rank."""
    length, dtype = parts[0].numel(), parts[0].dtype
    whole = torch.empty(count * length, dtype=dtype)
    dist.all_gather_into_tensor(whole, parts[rank])
    assert torch.equal(whole, torch.cat(parts)), what
    outputs = [torch.empty_like(one) for one in parts]
    dist.all_gather(outputs, parts[rank])
    assert torch.equal(torch.cat(outputs), torch.cat(parts)), what
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter_tensor(mine, torch.cat([one + rank for one in parts]))
    assert torch.equal(mine, parts[rank] * count + sum(range(count))), what
    exchanged = torch.empty_like(whole)
    dist.all_to_all_single(exchanged, torch.cat([parts[rank] + one for one in range(count)]))
    assert torch.equal(exchanged, torch.cat([one + rank for one in parts])), what


def late_writes_are_seen(rank: int) -> None:
    """A collective reads what a stream was given before the call, however late that is done."""
    count = dist.get_world_size()
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            for length in (1, 4099, 3_000_001):
                tensor = torch.full((length,), -1.0)
                torch.cuda._sleep(SLEEP_CYCLES * (1 + rank % 2))
                tensor.fill_(rank)
                begun = time.monotonic()
                work = dist.all_reduce(tensor, async_op=True)
                assert work is not None
                assert not work.is_completed()
                called_s = time.monotonic() - begun
                work.wait()
                assert called_s < time.monotonic() - begun
                found = tensor.clone()  # no synchronization between
                tensor.fill_(-1)
                assert bool((found == sum(range(count))).all())


def results_are_waited_for(rank: int) -> None:
    """What a stream is given after wait() reads the results, also where they are late.

    Copies from the host to the device are in an order: a large one holds up that of the results.
    """
    count = dist.get_world_size()
    large = torch.empty(1 << 28, dtype=torch.uint8, device="cpu", pin_memory=True)
    into = torch.empty(1 << 28, dtype=torch.uint8)
    beside, reader = torch.cuda.Stream(), torch.cuda.Stream()
    for length in (3, 65_537, 1_000_003):
        tensor = torch.full((length,), float(rank))
        torch.cuda.synchronize()
        with torch.cuda.stream(beside):
            for _ in range(3):
                into.copy_(large, non_blocking=True)
        work = dist.all_reduce(tensor, async_op=True)
        assert work is not None
        with torch.cuda.stream(reader):
            work.wait()
            found = tensor.clone()
            assert bool((found == sum(range(count))).all())
        torch.cuda.synchronize()
        work.wait()


def streams_in_turns(rank: int) -> None:
    """Collectives of several streams, the first the latest; they keep their order."""
    count = dist.get_world_size()
    started = []
    for turn in range(6):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            tensor = torch.full((10_007 * (turn + 1),), -1.0)
            torch.cuda._sleep(SLEEP_CYCLES // (turn + 1))
            tensor.fill_(rank + turn)
            started.append((stream, tensor, dist.all_reduce(tensor, async_op=True)))
    host = torch.full((3,), float(rank), device="cpu")
    dist.all_reduce(host)  # after all of them
    assert host.tolist() == [sum(range(count))] * 3
    for turn, (stream, tensor, work) in reversed(list(enumerate(started))):
        with torch.cuda.stream(stream):
            assert work is not None
            work.wait()
            assert bool((tensor == sum(range(count)) + turn * count).all())


def memory_is_kept(rank: int) -> None:
    """Tensors that nobody keeps are read and written before their memory is another's."""
    count = dist.get_world_size()
    length = 65_537
    outputs = [torch.empty(length * count) for _ in range(30)]
    works = []
    for turn, output in enumerate(outputs):
        mine = torch.full((length,), float(rank + turn))
        works.append(dist.all_gather_into_tensor(output, mine, async_op=True))
        del mine
        torch.full((length,), -1.0)  # would take its place
    for turn, (work, output) in enumerate(zip(works, outputs, strict=True)):
        assert work is not None
        work.wait()
        expected = torch.arange(count).repeat_interleave(length) + turn
        assert torch.equal(output, expected.float())
    kept = []
    for _ in range(30):
        dist.all_reduce(torch.ones(length), async_op=True)  # and the Work goes, too
        kept.append(torch.full((length,), 7.0))
    dist.barrier()
    torch.cuda.synchronize()
    assert all(bool((one == 7).all()) for one in kept)


def large_messages(rank: int) -> None:
    """Messages of all sizes around, some written late, and back to the device in order."""
    count = dist.get_world_size()
    to, source = (rank + 1) % count, (rank - 1) % count
    for length in (1, 3, 1_000_003, 8_388_611):
        mine, into = torch.full((length,), -1.0), torch.full((length,), -1.0)
        torch.cuda._sleep(SLEEP_CYCLES // 4)
        mine.copy_(part_of(rank, length, torch.float32))
        works = [dist.isend(mine, to), dist.irecv(into, source)]
        for work in works:
            assert work is not None
            work.wait()
        assert torch.equal(into, part_of(source, length, torch.float32))
    if rank == 0:
        dist.send(torch.full((5,), 3.0), 1)
    elif rank == 1:
        into = torch.empty(5)
        dist.recv(into, 0)
        assert into.tolist() == [3.0] * 5


def in_any_order(rank: int, seed: int, step_count: int) -> None:
    """Collectives that are written late, on any stream, and waited for on any other, later."""
    count = dist.get_world_size()
    shared, own = random.Random(seed), random.Random(seed * 100 + rank)
    streams = [torch.cuda.Stream() for _ in range(3)]
    pending: list[tuple[str, int, int, torch.Tensor, list[Any]]] = []

    def finish(name: str, length: int, turn: int, output: torch.Tensor, works: list[Any]) -> None:
        with torch.cuda.stream(own.choice(streams)):
            for work in works:
                work.wait()
            found = output.clone()
            output.fill_(-1)
            assert torch.equal(found, expected_of(name, length, turn, rank, count)), (name, length)

    for turn in range(step_count):
        name = shared.choice(["sum", "root", "gather", "scatter", "exchange", "message"])
        length = shared.choice([1, 3, 257, 4099, 300_007, 1_500_001])
        with torch.cuda.stream(own.choice(streams)):
            if own.random() < 0.3:
                torch.cuda._sleep(own.randrange(SLEEP_CYCLES // 10))
            pending.append((name, length, turn, *start_one(name, length, turn, rank, count)))
        while len(pending) > own.randrange(6):
            finish(*pending.pop(own.randrange(len(pending))))
    while pending:
        finish(*pending.pop())


def start_one(
    name: str, length: int, turn: int, rank: int, count: int
) -> tuple[torch.Tensor, list[Any]]:
    """What one operation of `in_any_order` writes to, and its works."""
    mine = part_of(rank + turn, length, torch.float32)
    others = torch.cat([mine + one for one in range(count)])
    if name == "sum":
        return mine, [dist.all_reduce(mine, async_op=True)]
    if name == "root":
        return mine, [dist.broadcast(mine, turn % count, async_op=True)]
    if name == "message":
        into = torch.full((length,), -1.0)
        sent = dist.isend(mine, (rank + 1) % count)
        return into, [dist.irecv(into, (rank - 1) % count), sent]
    if name == "scatter":
        into = torch.full((length,), -1.0)
        return into, [dist.reduce_scatter_tensor(into, others, async_op=True)]
    into = torch.full((length * count,), -1.0)
    if name == "gather":
        return into, [dist.all_gather_into_tensor(into, mine, async_op=True)]
    return into, [dist.all_to_all_single(into, others, async_op=True)]


def expected_of(name: str, length: int, turn: int, rank: int, count: int) -> torch.Tensor:
    """What one operation of `in_any_order` makes."""
    parts = [part_of(one + turn, length, torch.float32) for one in range(count)]
    if name == "sum":
        return torch.stack(parts).sum(0)
    if name == "root":
        return parts[turn % count]
    if name == "message":
        return parts[rank - 1]
    if name == "scatter":
        return torch.stack(parts).sum(0) + rank * count
    return torch.cat(parts if name == "gather" else [one + rank for one in parts])


def device_that_is_late(rank: int) -> str:
    """Returns what is said where rank 0's device does not write in time; then all is well."""
    count = dist.get_world_size()
    group = dist.new_group(timeout=timedelta(seconds=2))
    tensor = torch.ones(1000)
    dist.all_reduce(tensor, group=group)
    dist.barrier()
    if rank == 0:
        for _ in range(80):
            torch.cuda._sleep(SLEEP_CYCLES)
        tensor.fill_(1)
    said = said_by(lambda: dist.all_reduce(tensor, group=group))
    torch.cuda.synchronize()
    tensor.fill_(rank)
    dist.all_reduce(tensor)
    assert bool((tensor == sum(range(count))).all())
    return said


def refusals(rank: int) -> list[str]:
    """Returns what is said of tensors that are in the wrong place; none of it reaches another."""
    count = dist.get_world_size()
    here, host = torch.ones(4), torch.ones(4, device="cpu")
    group = dist.group.WORLD
    assert group is not None
    backend = group._get_backend(here.device)
    said = [
        said_by(lambda: dist.all_gather_into_tensor(torch.empty(4 * count), host)),
        said_by(lambda: dist.reduce_scatter_tensor(host, torch.ones(4 * count))),
        said_by(lambda: dist.all_gather([here, *[host] * (count - 1)], here)),
        said_by(
            lambda: dist.all_to_all_single(torch.empty(4 * count), torch.ones(4 * count).cpu())
        ),
        said_by(lambda: dist.all_reduce(here.to_sparse())),
        said_by(lambda: dist.all_reduce(here.int(), dist.ReduceOp.AVG)),
        said_by(lambda: backend.allocate_tensor(4, dtype=torch.float32, device=here.device)),
    ]
    dist.barrier()
    return said


def captured(rank: int) -> str:
    """Returns what is said of a collective on a stream that is captured; then all is well."""
    tensor = torch.ones(5)
    dist.all_reduce(tensor)
    graph = torch.cuda.CUDAGraph()
    said = ""
    with torch.cuda.graph(graph):
        tensor += 1
        said = said_by(lambda: dist.all_reduce(tensor))
    dist.barrier()
    return said


def of_one_device(rank: int, folder: str, count: int, backends: str) -> str:
    """Makes a group that names backends by device; returns that of the GPU."""
    store = dist.FileStore(f"{folder}/{backends.replace(':', '-')}", count)
    dist.init_process_group(backends, store=store, rank=rank, world_size=count)
    for device in ("cpu", "cuda"):
        tensor = torch.full((1001,), float(rank), device=device)
        dist.all_reduce(tensor)
        assert bool((tensor == sum(range(count))).all())
    group = dist.group.WORLD
    assert group is not None
    name = group._get_backend(torch.device("cuda")).name()
    dist.destroy_process_group()
    return name


def leaves_with_work_in_flight(rank: int, folder: str, count: int) -> None:
    """Destroys a group that a device is still writing for, and makes another one."""
    for turn in range(2):
        store = dist.FileStore(f"{folder}/leaving-{turn}", count)
        dist.init_process_group("pleach", store=store, rank=rank, world_size=count)
        tensor = torch.ones(100_003)
        torch.cuda._sleep(SLEEP_CYCLES)
        dist.all_reduce(tensor, async_op=True)
        dist.destroy_process_group()
    torch.cuda.synchronize()


def mixed_precision(rank: int) -> None:
    """DDP bound to its device, in bfloat16 by autocast: as on a copy that averages by itself."""
    count = dist.get_world_size()

    def make() -> torch.nn.Module:
        torch.manual_seed(3)
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 10)
        )

    whole = torch.randn(4 * count, 3, 8, 8, generator=torch.Generator("cuda").manual_seed(1))
    plain, alone = make(), make()
    device = next(plain.parameters()).device
    model = DistributedDataParallel(plain, device_ids=[device.index])
    optimizers = [torch.optim.SGD(each.parameters(), 0.05) for each in (model, alone)]
    for _ in range(5):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(whole.chunk(count)[rank]).float().square().mean()
            losses = [alone(part).float().square().mean() for part in whole.chunk(count)]
        optimizers[0].zero_grad()
        optimizers[1].zero_grad()
        loss.backward()
        (torch.stack(losses).sum() / count).backward()
        for optimizer in optimizers:
            optimizer.step()
    for one, other in zip(plain.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
