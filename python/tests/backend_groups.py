"""What the ranks of the tests of groups, messages and failures run."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import random
import signal
import threading
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

import pleach.torch


def said_by(call: Any) -> str:
    """Returns the error that a call ends with; "" where it ends well."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def messages(rank: int) -> None:
    """Messages to the next rank, around: both ways of waiting, tags out of order, any source."""
    count = dist.get_world_size()
    to, source = (rank + 1) % count, (rank - 1) % count
    for length in (0, 1, 1000, 300_001):
        out, into = torch.full((length,), float(rank)), torch.empty(length)
        works = [dist.isend(out, to), dist.irecv(into, source)]
        for work in works:
            assert work is not None
            work.wait()
        assert torch.equal(into, torch.full((length,), float(source)))
    first, second = torch.full((3,), 1), torch.full((3,), 2)
    sent = [dist.isend(first, to, tag=5), dist.isend(second, to, tag=6)]
    into = torch.empty(3, dtype=torch.int64)
    dist.recv(into, source, tag=6)
    assert into.tolist() == [2, 2, 2]
    dist.recv(into, source, tag=5)
    assert into.tolist() == [1, 1, 1]
    for work in sent:
        assert work is not None
        work.wait()
    if rank != 0:
        dist.send(torch.tensor([rank]), 0, tag=9)
        return
    seen = set()
    for _ in range(count - 1):
        one = torch.empty(1, dtype=torch.int64)
        seen.add(dist.recv(one, tag=9))
        assert one.item() in seen
    assert seen == set(range(1, count))


def batched(rank: int) -> None:
    """Sends and receives of a batch in an order that blocks if they are taken one by one."""
    count = dist.get_world_size()
    peers = [one for one in range(count) if one != rank]
    length = 400_000  # waits for its receive
    into = {one: torch.empty(length) for one in peers}
    operations = [dist.P2POp(dist.isend, torch.full((length,), float(rank)), one) for one in peers]
    operations += [dist.P2POp(dist.irecv, into[one], one) for one in reversed(peers)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    for one in peers:
        assert torch.equal(into[one], torch.full((length,), float(one)))


def objects(rank: int) -> None:
    """Collectives of objects."""
    count = dist.get_world_size()
    gathered: list[Any] = [None] * count
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank})
    assert gathered == [{"rank": one, "text": "x" * one} for one in range(count)]
    shared = [("plan", rank), rank]
    dist.broadcast_object_list(shared, 1)
    assert shared == [("plan", 1), 1]
    own: list[Any] = [None]
    dist.scatter_object_list(own, list(range(10, 10 + count)) if rank == 0 else None, 0)
    assert own == [10 + rank]
    at_root: list[Any] | None = [None] * count if rank == count - 1 else None
    dist.gather_object(rank, at_root, count - 1)
    assert at_root is None or at_root == list(range(count))


def works(rank: int) -> None:
    """What a Work tells, and its future."""
    count = dist.get_world_size()
    tensor = torch.full((5,), float(rank))
    work = dist.all_reduce(tensor, async_op=True)
    assert work is not None
    future = work.get_future().then(lambda done: done.value()[0] * 2)
    assert work.wait(timedelta(seconds=20))
    assert work.is_completed()
    assert work.is_success()
    assert torch.equal(work.result()[0], tensor)
    total = sum(range(count))
    assert torch.equal(future.wait(), torch.full((5,), 2.0 * total))
    again = work.get_future().wait()
    assert again[0].data_ptr() == tensor.data_ptr()
    outputs = [torch.empty(2) for _ in range(count)]
    gathered = dist.all_gather(outputs, torch.full((2,), float(rank)), async_op=True)
    assert gathered is not None
    assert [one[0].item() for one in gathered.get_future().wait()] == list(range(count))
    numbers = [dist.all_reduce(tensor, async_op=True) for _ in range(3)]
    for one in reversed(numbers):
        assert one is not None
        one.wait()


def waits_in_callbacks(rank: int) -> None:
    """Callbacks of futures that start and wait for collectives, as PowerSGD's hook does."""
    count = dist.get_world_size()
    futures = []
    for number in range(4):
        work = dist.all_reduce(torch.full((3,), float(number)), async_op=True)
        assert work is not None

        def again(done: Any) -> torch.Tensor:
            inner = dist.all_reduce(done.value()[0], async_op=True)
            assert inner is not None
            return inner.get_future().wait()[0]

        futures.append(work.get_future().then(again))
        futures[-1].wait()
    for number, future in enumerate(futures):
        assert torch.equal(future.wait(), torch.full((3,), float(number * count * count)))


def forgotten(rank: int) -> None:
    """Works that nobody keeps, with memory that has to be copied back."""
    tensors = [torch.full((1001, 2), float(rank)).t() for _ in range(50)]
    for tensor in tensors:
        dist.all_reduce(tensor, async_op=True)
    dist.barrier()
    deadline = time.monotonic() + 20
    total = float(sum(range(dist.get_world_size())))
    for tensor in tensors:
        while not bool((tensor == total).all()):
            assert time.monotonic() < deadline
            time.sleep(0.001)


def subgroups(rank: int) -> None:
    """Groups of some ranks, overlapping, in an order of their own."""
    count = dist.get_world_size()
    pairs = [[one, (one + 1) % count] for one in range(count)] if count > 2 else [[0, 1]]
    groups = [dist.new_group(pair) for pair in pairs]
    mine = [group for group, pair in zip(groups, pairs, strict=True) if rank in pair]
    total = torch.ones(3)
    started = [dist.all_reduce(torch.ones(3), group=group, async_op=True) for group in mine]
    for work in reversed(started):
        assert work is not None
        work.wait()
        assert work.result()[0].tolist() == [2, 2, 2]
    alone = dist.new_group([rank], use_local_synchronization=True)
    dist.all_reduce(total, group=alone)
    assert total.tolist() == [1, 1, 1]
    dist.barrier(group=alone)
    for group in mine:
        dist.destroy_process_group(group)
    dist.all_reduce(total)
    assert total[0].item() == count


def destroyed_in_any_order(rank: int) -> float:
    """Returns how long it takes to destroy groups, in an order of each rank's own [s]."""
    groups = [dist.new_group() for _ in range(4)]
    into = torch.empty(1)
    for group in groups:
        dist.all_reduce(torch.ones(1), group=group)
    dropped = dist.irecv(into, (rank + 1) % dist.get_world_size(), group=groups[0])
    assert dropped is not None
    begun = time.monotonic()
    for group in groups if rank == 0 else reversed(groups):
        dist.destroy_process_group(group)
    return time.monotonic() - begun


def backend_object(rank: int) -> None:
    """What torch refuses for backends that it does not know is there on the object."""
    group = dist.group.WORLD
    assert group is not None
    backend = group._get_backend(torch.device("cpu"))
    assert backend.name() == "pleach"
    assert dist.get_backend() == "pleach"
    backend._set_sequence_number_for_group()
    before = backend._get_sequence_number_for_group()
    dist.barrier()
    assert backend._get_sequence_number_for_group() == before + 1
    cpu = torch.device("cpu")
    block = backend.allocate_tensor(1000, dtype=torch.float32, device=cpu)
    block.fill_(rank)
    dist.all_reduce(block)
    assert block[7].item() == sum(range(dist.get_world_size()))
    assert backend.supports_tensor_alloc(torch.device("cpu"))
    for size in (2**62 + 1, 2**47, -1):
        assert "elements of Float" in said_by(
            lambda size=size: backend.allocate_tensor(size, dtype=torch.float32, device=cpu)
        )


def monitored(rank: int, late: int) -> str:
    """Returns what a monitored barrier says that one rank does not come to."""
    group = dist.new_group(timeout=timedelta(seconds=30))
    assert group is not None
    backend = group._get_backend(torch.device("cpu"))
    backend.monitored_barrier(timedelta(seconds=20))
    if rank == late:
        time.sleep(2)
        return ""
    return said_by(lambda: backend.monitored_barrier(timedelta(seconds=1), wait_all_ranks=True))


def late_in_group(rank: int, late: int) -> tuple[str, float]:
    """Returns what a group with a timeout says of a rank that does not come, and after how long."""
    group = dist.new_group(timeout=timedelta(seconds=2))
    dist.all_reduce(torch.ones(3), group=group)
    dist.barrier()
    begun = time.monotonic()
    if rank == late:
        time.sleep(4)
        return "", 0.0
    said = said_by(lambda: dist.all_reduce(torch.ones(3), group=group))
    return said, time.monotonic() - begun


def with_new_timeout(rank: int, late: int, before_s: float, after_s: float) -> list[str]:
    """Returns what is said of a rank that is late, by collectives that nobody waits for and that
    somebody does, where the group's timeout has changed."""
    group = dist.new_group(timeout=timedelta(seconds=before_s))
    assert group is not None
    group._get_backend(torch.device("cpu")).set_timeout(timedelta(seconds=after_s))
    tensors = [torch.ones(3), torch.ones(3)]
    if rank == late:
        time.sleep(3)
        return [
            said_by(functools.partial(dist.all_reduce, tensor, group=group)) for tensor in tensors
        ]
    works = [dist.all_reduce(tensor, group=group, async_op=True) for tensor in tensors]
    time.sleep(4)  # nobody waits
    deadline = time.monotonic() + 60
    while not all(work is not None and work.is_completed() for work in works):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return [said_by(work.wait) for work in works if work is not None]


def waits_at_most(rank: int) -> list[str]:
    """Returns what wait(timeout) says before the last rank comes; then all is well."""
    last = dist.get_world_size() - 1
    tensor = torch.ones(3)
    said = []
    dist.barrier()
    if rank == last:
        time.sleep(1)
    work = dist.all_reduce(tensor, async_op=True)
    assert work is not None
    if rank != last:
        said.append(said_by(lambda: work.wait(timedelta(milliseconds=100))))
    work.wait()
    assert tensor.tolist() == [last + 1] * 3
    return said


def mismatched(rank: int) -> str:
    """Returns what is said where rank 1 asks for other elements than the others."""
    group = dist.new_group(timeout=timedelta(seconds=20))
    length = 7 if rank == 1 else 5
    return said_by(lambda: dist.all_reduce(torch.ones(length), group=group))


def aborted(rank: int) -> str:
    """Returns what is said of an operation that rank 0 aborts."""
    group = dist.new_group(timeout=timedelta(seconds=30))
    assert group is not None
    backend = group._get_backend(torch.device("cpu"))
    dist.barrier(group=group)
    if rank == 0:
        time.sleep(0.3)
        backend.abort()
        return said_by(lambda: dist.all_reduce(torch.ones(3), group=group))
    work = dist.all_reduce(torch.ones(3), group=group, async_op=True)
    assert work is not None
    return said_by(work.wait)


def lose(rank: int, victim: int, how: int) -> tuple[str, float]:
    """Returns what is said, and after how long, when a rank is killed or stopped in the middle."""
    dist.barrier()
    tensor = torch.ones(100_000)
    begun = time.monotonic()
    for number in range(1000):
        if rank == victim and number == 20:
            os.kill(os.getpid(), how)
        said = said_by(lambda: dist.all_reduce(tensor))
        if said:
            return said, time.monotonic() - begun
    return "", time.monotonic() - begun


def held_by_process() -> tuple[int, int]:
    """Returns how many descriptors and threads this process has."""
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def transport_used(_rank: int) -> str:
    """Returns the transport of the default group."""
    return pleach.torch.transport_of()


def many_groups(rank: int, count: int) -> tuple[int, int]:
    """Returns how many descriptors and threads groups take that have all been used.

    Half of the groups that fail or are left in between end none of the others.
    """
    dist.all_reduce(torch.ones(3))
    before = held_by_process()
    groups = [dist.new_group(timeout=timedelta(seconds=300)) for _ in range(count)]
    for group in groups:
        dist.all_reduce(torch.ones(3), group=group)
    after = held_by_process()
    for number, group in enumerate(groups):
        if number % 4 == 1:
            dist.destroy_process_group(group)
        elif number % 4 == 3 and rank == 0:
            assert group is not None
            group._get_backend(torch.device("cpu")).abort()
    for number, group in enumerate(groups):
        if number % 4 == 3:
            assert "rank 0 aborted" in said_by(
                functools.partial(dist.all_reduce, torch.ones(3), group=group)
            )
        elif number % 2 == 0:
            total = torch.ones(50_000)
            dist.all_reduce(total, group=group)
            assert total[-1].item() == dist.get_world_size()
    another = dist.new_group(timeout=timedelta(seconds=300))
    dist.all_reduce(torch.ones(3), group=another)
    return after[0] - before[0], after[1]


def abort_within_messages(rank: int, rounds: int) -> None:
    """Groups that share endpoints go on while others of them are aborted in large operations."""
    groups = [dist.new_group(timeout=timedelta(seconds=300)) for _ in range(rounds + 6)]
    for group in groups:
        dist.all_reduce(torch.ones(3), group=group)
    chooser = random.Random(rank)
    for number in range(rounds):
        group = groups.pop()
        assert group is not None
        with contextlib.suppress(RuntimeError):  # it was aborted
            work = dist.all_reduce(torch.ones(4_000_000), group=group, async_op=True)
            assert work is not None
            if rank == number % 2:
                time.sleep(chooser.random() * 0.01)
                group._get_backend(torch.device("cpu")).abort()
            work.wait()
        for other in groups[:6]:
            total = torch.arange(200_003, dtype=torch.float64) + rank
            dist.all_reduce(total, group=other)
            assert torch.equal(total, 2 * torch.arange(200_003, dtype=torch.float64) + 1)


def interrupt(rank: int) -> dict[str, float]:
    """Returns how long after Ctrl-C the first rank's calls end, to which others come late."""
    tensor = torch.ones(3)
    calls: dict[str, Any] = {
        "all_reduce": lambda group: dist.all_reduce(tensor, group=group),
        "barrier": lambda group: dist.barrier(group=group),
        "all_gather": lambda group: dist.all_gather([tensor, tensor.clone()], tensor, group=group),
        "recv": lambda group: dist.recv(tensor, 1, group=group),
        "wait": lambda group: dist.all_reduce(tensor, group=group, async_op=True).wait(),
        "new_group": lambda _: dist.new_group(),
    }
    groups = [dist.new_group() for _ in calls]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    took_s = {}
    for (name, call), group in zip(calls.items(), groups, strict=True):
        if rank == 0:
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            begin_s = time.monotonic()
            try:
                call(group)
            except KeyboardInterrupt:
                took_s[name] = time.monotonic() - begin_s - 0.2
            timer.join()
        dist.barrier()
    signal.signal(signal.SIGINT, before)
    return took_s


def end_callbacks(_rank: int) -> tuple[int, int]:
    """Returns this process's threads before and after callbacks that ran at once."""

    def before_all_end(future: Any) -> Any:
        time.sleep(0.05)
        return future.value()

    dist.all_reduce(torch.ones(3))
    before = settled()
    works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(8)]
    for future in [work.get_future().then(before_all_end) for work in works if work is not None]:
        future.wait()
    return before[1], settled(before)[1]


def made_without_collection(rank: int, rounds: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns descriptors and threads before and after groups that nothing collects."""
    kept: list[Any] = []

    def make_one() -> None:
        group = dist.new_group(timeout=timedelta(seconds=77))
        assert group is not None
        work = dist.all_reduce(torch.ones(300_000), group=group, async_op=True)
        assert work is not None
        work.wait()
        kept.append([group, group._get_backend(torch.device("cpu")), work, kept])
        dist.destroy_process_group(group)

    gc.disable()
    try:
        make_one()  # what is made once stays
        before = settled()
        for _ in range(rounds):
            make_one()
        return before, settled(before)
    finally:
        gc.enable()


def settled(wanted: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """Returns what the process holds when it holds no more than that, or after some seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        held = held_by_process()
        if all(one <= other for one, other in zip(held, wanted, strict=True)):
            break
        if wanted == (0, 0) and time.monotonic() > deadline - 7:
            break
        time.sleep(0.05)
    return held


def join_again(rank: int, folder: str, count: int) -> None:
    """Makes and destroys the default group several times in one process."""
    for turn in range(3):
        store = dist.FileStore(f"{folder}/again-{turn % 2}", count)
        dist.init_process_group("pleach", store=store, rank=rank, world_size=count)
        tensor = torch.ones(2)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [count, count]
        dist.destroy_process_group()


def device_backends(rank: int, folder: str, count: int) -> str:
    """Makes a group that names the backend by device."""
    store = dist.FileStore(f"{folder}/device", count)
    dist.init_process_group("cpu:pleach,cuda:gloo", store=store, rank=rank, world_size=count)
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [count, count]
    name = dist.group.WORLD._get_backend(torch.device("cpu")).name()
    dist.destroy_process_group()
    return name


def hands_on_options(rank: int, folder: str, count: int) -> None:
    """Makes groups as a training does: all that was chosen for their parent holds for them."""
    import pleach.torch
    from pleach.torch.backend import options_of, unwrapped
    from pleach.torch.parallel.groups import make_groups

    chosen = pleach.torch.Options(transport="tcp", landing_places=3, chunk_bytes=12_345)
    dist.init_process_group(
        "pleach",
        store=dist.FileStore(f"{folder}/options", count),
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=50),
        pg_options=chosen,
    )
    assert dist.group.WORLD is not None
    cpu = torch.device("cpu")
    made = make_groups(dist.group.WORLD, cpu)
    assert made.deadline_s == 50
    for group in (made.calls.group, made.exchange.group):
        assert options_of(unwrapped(group._get_backend(cpu))) == chosen
        assert pleach.torch.transport_of(group) == "tcp"
    assert "no backend for xpu:0: it is over" in said_by(
        lambda: make_groups(dist.group.WORLD, torch.device("xpu:0"))
    )
    made.destroy()
    made.destroy()  # nobody needs to know who was first
    dist.destroy_process_group()
    assert "init_process_group first" in said_by(pleach.torch.transport_of)


def never_comes(rank: int, folder: str, count: int) -> tuple[str, float]:
    """Returns what is said where the last rank never makes the group."""
    if rank == count - 1:
        return "", 0.0
    store = dist.FileStore(f"{folder}/never", count)
    begun = time.monotonic()
    said = said_by(
        lambda: dist.init_process_group(
            "pleach", store=store, rank=rank, world_size=count, timeout=timedelta(seconds=3)
        )
    )
    return said, time.monotonic() - begun


STOP = int(signal.SIGSTOP)
KILL = int(signal.SIGKILL)
