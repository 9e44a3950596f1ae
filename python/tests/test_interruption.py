"""Ctrl-C in calls that take long: KeyboardInterrupt comes soon, whatever the call does.

Calls are chosen so that they take longer than they are given. Each is interrupted by a real SIGINT.
`pytest -s` prints how long each took to end.
"""
# timeout_s: 300

from __future__ import annotations

import functools
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import jobs
import numpy as np
import pytest

import pleach
from pleach import policy

Call = Callable[[], Any]
# From the signal to the exception; half a second is promised, the rest is for a loaded machine.
LONGEST_S = 2.0


@functools.cache
def torus(size: int) -> pleach.Topology:
    return pleach.topology(f"torus:{size}x{size}")


@functools.cache
def schedule(algorithm: str, size: int) -> pleach.Schedule:
    return pleach.synthesize(torus(size), algorithm)


def profile() -> policy.TrainingProfile:
    layers = 200
    times_s = [1e-3] * layers
    return policy.profile([[4_000_000] * 4] * layers, (), 64, times_s, times_s)


def again(call: Call) -> Call:
    """What takes its time when it is called again and again."""

    def run() -> None:
        while True:
            call()

    return run


COMPUTATIONS: dict[str, Call] = {
    "topology": again(lambda: pleach.topology("torus:128x128")),
    "describe": again(lambda: pleach.describe(pleach.topology("torus:16x16,without_link=5-6"))),
    "synthesize multitree": again(lambda: pleach.synthesize(torus(32), "multitree")),
    "synthesize in_switch": again(
        lambda: pleach.synthesize(pleach.topology("fat_tree:1024"), "in_switch")
    ),
    "synthesize hierarchical": again(
        lambda: pleach.synthesize(pleach.topology("fat_tree:1024"), "hierarchical")
    ),
    "synthesize direct": again(lambda: pleach.synthesize(torus(32), "direct")),
    "synthesize auto": again(lambda: pleach.synthesize(torus(32), "auto", size="64MiB")),
    "verify": again(lambda: pleach.verify(schedule("direct", 12), torus(12))),
    "summarize": again(lambda: pleach.summarize(schedule("multitree", 16), torus(16))),
    "sequence": again(
        lambda: pleach.sequence(
            *(
                pleach.synthesize(torus(16), "multitree", collective=half)
                for half in ("reduce_scatter", "all_gather")
            ),
            "all_reduce",
        )
    ),
    "transfers": again(lambda: schedule("direct", 12).transfers),
    "simulate by flow": again(
        lambda: pleach.simulate(schedule("direct", 12), torus(12), "1GiB", segments=8, fold=False)
    ),
    "simulate by flit": again(
        lambda: pleach.simulate(schedule("multitree", 16), torus(16), "1GiB", model="flit")
    ),
    "simulate by packets": again(
        lambda: pleach.simulate(
            "in_switch", pleach.topology("fred:D"), "1GB", model="flit,router=fred"
        )
    ),
    "simulate by analytic": again(
        lambda: pleach.simulate(
            schedule("direct", 12), torus(12), "1GiB", model="analytic", segments=64
        )
    ),
    "best segments": again(
        lambda: pleach.simulate(schedule("multitree", 16), torus(16), "1GiB", segments=None)
    ),
    "compare": again(lambda: pleach.compare(torus(16), ["multitree", "direct"], ["1MiB", "1GiB"])),
    "plan by flow": again(lambda: pleach.plan(torus(16), ["1MiB", "64MiB"])),
    "plan by flit": again(lambda: pleach.plan(torus(16), ["1MiB", "64MiB"], model="flit")),
    "plan a book": again(lambda: pleach.plan_book(torus(8))),
    "train": again(
        lambda: pleach.train(
            "gpt3,layers=96", topology="torus:16x16", policy=["ddp", "dear"], costs="full"
        )
    ),
    "settle a plan": again(
        lambda: policy.settle_plan(
            "dear", profile(), policy.AlphaBeta(64, alpha="15us", bandwidth="10Gb/s")
        )
    ),
}


def interrupted_after(call: Call, delay_s: float) -> float:
    """Interrupts a call, and returns the seconds until its exception comes."""
    sent_at = [0.0]

    def interrupt() -> None:
        sent_at[0] = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(delay_s, interrupt)
    timer.start()
    try:
        call()
    except KeyboardInterrupt:
        return time.monotonic() - sent_at[0]
    finally:
        timer.cancel()
        timer.join()
    raise AssertionError(f"the call ended before {delay_s} s had passed")


# Ranks: the other one does not do its part.


def ended_by_the_others(ranks: pleach.Communicator) -> None:
    with pytest.raises(pleach.PeerLostError):
        ranks.receive(np.zeros(1), 0, tag=99)


def interrupt_operations(endpoint: pleach.Endpoint) -> dict[str, float]:
    """One after the other: they go on, and the job with them."""
    ranks = endpoint.communicator()
    if ranks.rank == 1:
        ended_by_the_others(ranks)
        return {}
    one = np.ones(2, np.float32)
    large = np.ones(1 << 22, np.float32)
    begun = ranks.start_receive(one.copy(), 1, tag=1)
    calls: dict[str, Call] = {
        "all_reduce": lambda: ranks.all_reduce(one),
        "reduce_scatter": lambda: ranks.reduce_scatter(one),
        "all_gather": lambda: ranks.all_gather(one),
        "all_to_all": lambda: ranks.all_to_all(one),
        "broadcast": lambda: ranks.broadcast(one, root=1),
        "reduce": lambda: ranks.reduce(one),
        "gather": lambda: ranks.gather(one),
        "scatter": lambda: ranks.scatter(None, one, root=1),
        "barrier": ranks.barrier,
        "send": lambda: ranks.send(large, 1, tag=2),
        "receive": lambda: ranks.receive(one, 1, tag=3),
        "receive from any": lambda: ranks.receive(one, tag=4),
        "wait": begun.wait,
        "wait with a timeout": lambda: begun.wait(60),
    }
    took = {name: interrupted_after(call, 0.05) for name, call in calls.items()}
    assert len(ranks._in_flight) >= len(calls) - 2, "they go on, with their arrays"
    ranks.abort("done")
    return took


def interrupt_setup(endpoint: pleach.Endpoint, what: str) -> dict[str, float]:
    """The job is over then, on all ranks."""
    ranks = endpoint.communicator()
    if ranks.rank == 1:
        with pytest.raises(pleach.PeerLostError, match="rank 0"):
            ranks.receive(np.zeros(1), 0, tag=99)
        if what == "shrink":
            time.sleep(1.5)
        return {}
    if what == "shrink":
        ranks.abort("so that there is something to shrink after")
    calls: dict[str, Call] = {
        "split": lambda: ranks.split(0),
        "close": ranks.close,
        "communicator": lambda: endpoint.communicator("another"),
        "shrink": ranks.shrink,
    }
    return {what: interrupted_after(calls[what], 0.2)}


def interrupt_leaving(endpoint: pleach.Endpoint) -> dict[str, float]:
    """Rank 0 serves the store until the others have left."""
    ranks = endpoint.communicator()
    ranks.close()
    if endpoint.rank == 1:
        time.sleep(2)
        return {}
    del ranks
    return {"endpoint.close": interrupted_after(endpoint.close, 0.2)}


def interrupt_starts(endpoint: pleach.Endpoint) -> int:
    """At any moment, the one after the library's start too: what has begun keeps its array."""
    size = 1 << 20  # the allocator gives so much back to the kernel
    with endpoint.communicator() as ranks:
        begun = np.zeros(1, np.int64)
        if ranks.rank == 1:
            ranks.receive(begun, 0)
            for _ in range(int(begun[0])):
                ranks.broadcast(np.full(size, 7, np.float32), root=1)
            return 0
        draw = random.Random(1)
        interrupted = 0
        try:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            for _ in range(60):
                array = np.zeros(size, np.float32)
                try:
                    signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, 2e-4))
                    ranks.start("broadcast", None, array, root=1)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    interrupted += 1
                del array
        finally:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        begun[0] = len(ranks._in_flight)
        ranks.send(begun, 1)
        while ranks._in_flight:
            time.sleep(0.01)
        return interrupted


def join_alone(rank: int) -> None:
    port, descriptor = pleach.listen()
    if rank != 0:
        os.close(descriptor)
        descriptor = 0
    pleach.Endpoint(rank, 2, store_port=port, listen_descriptor=descriptor, deadline_s=60)


def judge(took: dict[str, float]) -> None:
    for name, seconds in took.items():
        print(f"{name}: {1e3 * seconds:.0f} ms")
    assert {name: seconds for name, seconds in took.items() if seconds > LONGEST_S} == {}


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_operations_are_interrupted_and_go_on(transport: str) -> None:
    took = jobs.run(2, interrupt_operations, transport=transport)[0]
    assert len(took) == 14
    judge(took)


@pytest.mark.parametrize("what", ["split", "close", "communicator", "shrink"])
def test_what_ranks_set_up_together_is_interrupted_on_all(what: str) -> None:
    judge(jobs.run(2, interrupt_setup, what)[0])


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_starts_that_are_interrupted_keep_their_arrays(transport: str) -> None:
    assert jobs.run(2, interrupt_starts, transport=transport)[0] > 0


def test_leaving_is_interrupted() -> None:
    judge(jobs.run(2, interrupt_leaving)[0])


@pytest.mark.parametrize("rank", [0, 1])
def test_joining_is_interrupted(rank: int) -> None:
    judge({f"Endpoint of rank {rank}": interrupted_after(lambda: join_alone(rank), 0.2)})


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_computations_are_interrupted(name: str) -> None:
    for delay_s in (0.02, 0.3):
        judge({name: interrupted_after(COMPUTATIONS[name], delay_s)})


def test_what_progress_raises_ends_the_call() -> None:
    def refuse(_step: str) -> None:
        raise LookupError("enough")

    start = time.monotonic()
    with pytest.raises(LookupError, match="enough"):
        pleach.compare(torus(16), ["multitree", "direct"], ["1GiB"], progress=refuse)
    assert time.monotonic() - start < 5
