"""Interpreters that end with work in flight, in states that a seed chooses.

    python backend_exits.py BACKEND SEED ROUND_COUNT RANK_COUNT [KIND ...]

Each round forks ranks that end as scripts do: after their last line. A round's line on stdout is
JSON: the kinds, codes, what ranks said, and how long they took after their last line, in all and
in the backend's handlers [s].
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import gc
import json
import os
import random
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

TIMES: list[float] = []  # when the backend's handlers began, and ended
END = [-1]  # a pipe to the parent, which sees it close when this process is gone


def note_time() -> None:
    """Before the backend's handlers, and after them."""
    TIMES.append(time.monotonic())
    if len(TIMES) == 2 and END[0] >= 0:
        os.write(END[0], f"{TIMES[1] - TIMES[0]}\n".encode())


# The last to be registered is the first to be called.
atexit.register(note_time)
if "pleach" in sys.argv:
    import pleach.torch  # noqa: F401
atexit.register(note_time)

KEPT: list[Any] = []  # to the end of the interpreter
TIMEOUT = datetime.timedelta(seconds=60)


def tensor_of(rng: random.Random) -> torch.Tensor:
    """Returns a tensor that fits a landing place, takes several, or is large."""
    return torch.ones(rng.choice([3, 200_000, 3_000_000]))


def other_rank(rng: random.Random) -> int:
    """Returns another rank."""
    return rng.choice([one for one in range(dist.get_world_size()) if one != dist.get_rank()])


@contextlib.contextmanager
def unless_lost() -> Iterator[None]:
    """Another rank may have ended without a word by now, which calls tell."""
    try:
        yield
    except dist.DistBackendError as error:
        KEPT.append(error)


def in_thread(call: Callable[[], Any]) -> None:
    """Runs a call in a daemon thread, and gives it time to begin; its errors are nobody's."""

    def run() -> None:
        try:
            call()
        except Exception as error:
            KEPT.append(error)

    threading.Thread(target=run, daemon=True).start()
    time.sleep(0.1)


def nothing(rng: random.Random) -> None:
    """Ends with the group as it is."""


def destroyed(rng: random.Random) -> None:
    """Ends just after it has left."""
    dist.destroy_process_group()


def receive(rng: random.Random) -> None:
    """Ends with a receive that nothing answers."""
    dist.irecv(tensor_of(rng), other_rank(rng), tag=77)


def receive_any(rng: random.Random) -> None:
    """The same, of any source, and kept."""
    KEPT.append(dist.irecv(tensor_of(rng), tag=78))


def send(rng: random.Random) -> None:
    """Ends with sends that no receive waits for."""
    for _ in range(rng.choice([1, 20])):
        KEPT.append(dist.isend(tensor_of(rng), other_rank(rng), tag=79))


def reduce(rng: random.Random) -> None:
    """Ends with collectives in flight, of one rank or of all."""
    for _ in range(rng.choice([1, 5])):
        dist.all_reduce(tensor_of(rng), async_op=True)


def in_cycle(rng: random.Random) -> None:
    """Ends with works and tensors in a cycle."""
    cycle: dict[str, Any] = {"tensor": tensor_of(rng)}
    cycle["work"] = dist.all_reduce(cycle["tensor"], async_op=True)
    cycle["self"] = cycle
    gc.disable()


def with_callback(rng: random.Random) -> None:
    """Ends with Python's callbacks to come."""
    work = dist.all_reduce(tensor_of(rng), async_op=True)
    assert work is not None
    KEPT.append(work.get_future().then(lambda done: sum(one.sum().item() for one in done.value())))


def thread_in_receive(rng: random.Random) -> None:
    """Ends beside a thread that waits for a message."""
    tensor, source = tensor_of(rng), other_rank(rng)
    in_thread(lambda: dist.recv(tensor, source, tag=80))


def thread_in_barrier(rng: random.Random) -> None:
    """Ends beside a thread in a barrier."""
    in_thread(dist.barrier)


def thread_in_loop(rng: random.Random) -> None:
    """Ends beside a thread that runs one collective after the other."""
    tensor = tensor_of(rng)

    def loop() -> None:
        while True:
            dist.all_reduce(tensor)

    in_thread(loop)


def subgroup(rng: random.Random) -> None:
    """Ends with groups that nothing destroyed, and work in flight in one of them."""
    groups = [dist.new_group(timeout=TIMEOUT) for _ in range(2)]
    KEPT.append(dist.all_reduce(tensor_of(rng), group=groups[0], async_op=True))


def code_of_its_own(rng: random.Random) -> None:
    """Ends with a code, and a receive in flight."""
    with unless_lost():
        receive(rng)
    sys.exit(3)


def at_once(rng: random.Random) -> None:
    """Ends without a word."""
    with unless_lost():
        receive(rng)
    os._exit(4)


def error(rng: random.Random) -> None:
    """Ends with an exception, and work in flight."""
    with unless_lost():
        receive(rng)
    raise RuntimeError("meant to")


def waits(rng: random.Random) -> None:
    """Waits for a collective that the others have no part in, and tells how that ended."""
    start = time.monotonic()
    try:
        dist.all_reduce(torch.ones(2_000_000))
    except Exception as failed:
        print(f"heard after {time.monotonic() - start:.2f} s: {failed}", file=sys.stderr)


def sends(rng: random.Random) -> None:
    """Ends when what it sends has been handed over: messages, and the last collectives."""
    other = 1 - dist.get_rank()
    for number in range(4):
        dist.send(torch.full((50_000,), float(number)), other, tag=number)
    for number in range(3):
        dist.broadcast(torch.full((60_000,), float(number)), dist.get_rank())


def is_late(rng: random.Random) -> None:
    """Receives what `sends` has sent, when that one has gone."""
    other = 1 - dist.get_rank()
    time.sleep(3)
    into = torch.empty(50_000)
    for number in (2, 0, 1, 3):
        dist.recv(into, other, tag=number)
        assert bool((into == number).all())
    into = torch.empty(60_000)
    for number in range(3):
        dist.broadcast(into, other)
        assert bool((into == number).all())


KINDS: dict[str, Callable[[random.Random], None]] = {
    one.__name__: one
    for one in (
        nothing, destroyed, receive, receive_any, send, reduce, in_cycle, with_callback,
        thread_in_receive, thread_in_barrier, thread_in_loop, code_of_its_own, at_once, error,
        waits, subgroup, sends, is_late,
    )
}  # fmt: skip
CODES = {"code_of_its_own": 3, "at_once": 4, "error": 1}


def be_rank(backend: str, rank: int, kinds: list[str], seed: int, store: str) -> None:
    """What a rank of a round does; then its interpreter ends."""
    dist.init_process_group(
        backend, rank=rank, world_size=len(kinds), timeout=TIMEOUT,
        store=dist.FileStore(store, len(kinds)),
    )  # fmt: skip
    rng = random.Random(f"{seed} {rank}")
    with unless_lost():
        dist.all_reduce(torch.ones(5))
    if seed % 2 == 1:
        time.sleep(rng.choice([0, 0.05, 0.3]))
    try:
        with unless_lost():
            KINDS[kinds[rank]](rng)
    finally:
        os.write(END[0], f"{time.monotonic()}\n".encode())


def pick(seed: int, count: int, wanted: list[str]) -> list[str]:
    """Returns what each rank of a round does."""
    rng = random.Random(seed)
    if wanted:
        return [wanted[rank % len(wanted)] for rank in range(count)]
    # The others want the same, or something, of all ranks.
    alone = [one for one in KINDS if one not in ("subgroup", "sends", "is_late")]
    return ["subgroup"] * count if rng.random() < 0.1 else [rng.choice(alone) for _ in range(count)]


def main() -> None:
    """Runs the rounds; a rank returns from here to end as a script does."""
    backend, seed, rounds, count = sys.argv[1], *map(int, sys.argv[2:5])
    for number in range(seed, seed + rounds):
        kinds = pick(number, count, sys.argv[5:])
        with tempfile.TemporaryDirectory() as folder:
            ranks = []
            for rank in range(count):
                reading, writing = os.pipe()
                errors = open(f"{folder}/errors-{rank}", "w+", encoding="utf-8")  # noqa: SIM115
                sys.stdout.flush()
                process = os.fork()
                if process == 0:
                    os.dup2(errors.fileno(), 2)
                    END[0] = writing
                    be_rank(backend, rank, kinds, number, f"{folder}/store")
                    return
                os.close(writing)
                ranks.append((process, reading, errors))
            print(json.dumps(observe(number, kinds, ranks)), flush=True)


def observe(seed: int, kinds: list[str], ranks: list[tuple[int, int, Any]]) -> dict[str, Any]:
    """Waits for a round's ranks, and returns what became of them."""
    codes, said = [0] * len(ranks), []
    took, farewell = [-1.0] * len(ranks), [-1.0] * len(ranks)  # of one that says nothing
    left = {process: index for index, (process, _, _) in enumerate(ranks)}
    while left:
        process, status = os.wait()
        gone = time.monotonic()
        index = left.pop(process)
        codes[index] = os.waitstatus_to_exitcode(status)
        told = [float(word) for word in os.read(ranks[index][1], 100).split()]
        took[index] = round(gone - told[0], 3) if told else -1
        farewell[index] = round(told[1], 3) if len(told) > 1 else -1
    for _, reading, errors in ranks:
        os.close(reading)
        errors.seek(0)
        said.append(errors.read())
        errors.close()
    right = [CODES.get(kind, 0) for kind in kinds]
    return {
        "seed": seed, "kinds": kinds, "codes": codes, "right": right, "took": took,
        "farewell": farewell, "said": said,
    }  # fmt: skip


if __name__ == "__main__":
    try:
        main()
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        raise SystemExit(1) from None
