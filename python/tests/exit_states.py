"""Interpreters that end in random states: with operations in flight, and threads in calls.

    python exit_states.py COUNT SEED

One process imports the package once and forks the two ranks of every job; each is in a state of its
own, ends after a random time, and its interpreter with it. Prints a JSON line for each rank: its
state, its exit code and the one that it asked for, and the seconds from the end of its last
statement until the process was gone.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pleach

DEADLINE_S = 20.0
# An exit that takes longer is tried again.
LONGEST_S = 1.5
ATTEMPTS = 4
TRANSPORTS = ("shm", "tcp", "tcp,sockets=2", "host")
State = Callable[[pleach.Communicator, random.Random], Any]
# Objects that live until the interpreter ends.
KEPT: list[Any] = []
# The process's own descriptors of standard streams, for what is told while it ends.
NULL = os.open(os.devnull, os.O_WRONLY)


def daemon(run: Callable[[], Any]) -> None:
    def quiet() -> None:
        # The other rank may leave first.
        with contextlib.suppress(pleach.Error):
            run()

    threading.Thread(target=quiet, daemon=True).start()


def receive_in_flight(ranks: pleach.Communicator, draw: random.Random) -> None:
    KEPT.extend(
        ranks.start_receive(np.zeros(draw.choice([1, 1 << 20])), 1 - ranks.rank, tag=9)
        for _ in range(draw.randint(1, 5))
    )


def send_in_flight(ranks: pleach.Communicator, draw: random.Random) -> None:
    KEPT.append(ranks.start_send(np.ones(draw.choice([1, 1 << 20])), 1 - ranks.rank, tag=8))


def collective_in_flight(ranks: pleach.Communicator, draw: random.Random) -> None:
    size = draw.choice([1, 1 << 10, 1 << 22])
    KEPT.append(ranks.start("all_reduce", np.ones(size, np.float32)))


def forgotten_in_flight(ranks: pleach.Communicator, draw: random.Random) -> None:
    ranks.start("all_reduce", np.ones(1 << 20, np.float32))


def cycle_in_flight(ranks: pleach.Communicator, draw: random.Random) -> None:
    class Cycle:
        pass

    cycle: Any = Cycle()
    cycle.kept = (ranks, ranks.start("all_reduce", np.ones(1 << 20, np.float32)), cycle)


def exit_within(ranks: pleach.Communicator, draw: random.Random) -> None:
    with ranks:
        KEPT.append(ranks.start_receive(np.zeros(1), 1 - ranks.rank, tag=9))
        sys.exit(0)


def daemon_receives(ranks: pleach.Communicator, draw: random.Random) -> None:
    daemon(lambda: ranks.receive(np.zeros(1), 1 - ranks.rank, tag=9))


def daemon_loops(ranks: pleach.Communicator, draw: random.Random) -> None:
    def loop() -> None:
        while True:
            ranks.all_reduce(np.ones(draw.choice([1, 1 << 16]), np.float32))

    daemon(loop)


def daemon_splits(ranks: pleach.Communicator, draw: random.Random) -> None:
    daemon(lambda: ranks.split(0))


def daemon_joins(ranks: pleach.Communicator, draw: random.Random) -> None:
    port, descriptor = pleach.listen()
    daemon(
        lambda: pleach.Endpoint(
            0, 2, store_port=port, listen_descriptor=descriptor, deadline_s=DEADLINE_S
        )
    )


def daemon_simulates(ranks: pleach.Communicator, draw: random.Random) -> None:
    torus = pleach.topology("torus:16x16")
    daemon(lambda: pleach.simulate("multitree", torus, "1GiB", model=draw.choice(["flow", "flit"])))


def two_daemons(ranks: pleach.Communicator, draw: random.Random) -> None:
    for state in draw.sample(LEAVING, 2):
        if state.__name__.startswith("daemon"):
            state(ranks, draw)


def nothing(ranks: pleach.Communicator, draw: random.Random) -> None:
    KEPT.append(ranks)


LEAVING: list[State] = [
    receive_in_flight,
    send_in_flight,
    collective_in_flight,
    forgotten_in_flight,
    cycle_in_flight,
    exit_within,
    daemon_receives,
    daemon_loops,
    daemon_splits,
    daemon_joins,
    daemon_simulates,
    two_daemons,
    nothing,
]


# These end when the other rank does.
def thread_receives(ranks: pleach.Communicator, draw: random.Random) -> None:
    def run() -> None:
        with contextlib.suppress(pleach.Error):
            ranks.receive(np.zeros(1), 1 - ranks.rank, tag=9)
        mark_end()

    threading.Thread(target=run).start()


def reduces_at_exit(ranks: pleach.Communicator, draw: random.Random) -> None:
    def run() -> None:
        with contextlib.suppress(pleach.Error):
            ranks.all_reduce(np.ones(1 << 10, np.float32))
        mark_end()

    atexit.register(run)


FOLLOWING: list[State] = [thread_receives, reduces_at_exit]


def mark_end() -> None:
    os.write(REPORT[0], f"{time.monotonic()}\n".encode())


# The descriptor that the end is told on.
REPORT = [-1]


def be_rank(rank: int, job: dict[str, Any], state: State, seed: int, wanted: int) -> None:
    """Ends the interpreter, by returning or by SystemExit."""
    draw = random.Random(seed)
    try:
        endpoint = pleach.Endpoint(rank=rank, rank_count=2, deadline_s=DEADLINE_S, **job)
        ranks = endpoint.communicator()
        if draw.random() < 0.5:
            ranks.all_reduce(np.ones(3, np.float32))
        if draw.random() < 0.5:
            KEPT.extend((endpoint, ranks))
        try:
            state(ranks, draw)
        finally:
            time.sleep(draw.choice([0, 0, 0.01, 0.1]) * draw.random())
            mark_end()
    except pleach.Error:
        mark_end()  # the other rank has left before
    if wanted != 0:
        sys.exit(wanted)


def start_rank(rank: int, job: dict[str, Any], state: State, seed: int) -> dict[str, Any] | None:
    """Forks a rank. Returns what is known of it; None in the rank, which goes on to its end."""
    wanted = 0 if state is exit_within else random.Random(seed).choice([0, 0, 3])
    here, there = os.pipe()
    child = os.fork()
    if child != 0:
        os.close(there)
        return {"process": child, "state": state.__name__, "wanted": wanted, "report": here}
    os.dup2(NULL, 2)
    REPORT[0] = there
    be_rank(rank, job, state, seed, wanted)
    return None


def start_job(draw: random.Random) -> list[dict[str, Any]] | None:
    states = [draw.choice(LEAVING), draw.choice([*LEAVING, *LEAVING, *FOLLOWING])]
    draw.shuffle(states)
    port, descriptor = pleach.listen()
    transport = draw.choice(TRANSPORTS)
    ranks = []
    for rank, state in enumerate(states):
        job: dict[str, Any] = {"store_port": port, "transport": transport}
        if rank == 0:
            job["listen_descriptor"] = descriptor
        started = start_rank(rank, job, state, draw.randrange(1 << 30))
        if started is None:
            return None
        ranks.append({**started, "rank": rank, "transport": transport})
    os.close(descriptor)
    return ranks


def watch(ranks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Waits until they are gone, and returns what they did."""
    left = {one["process"]: one for one in ranks}
    while left:
        child, status = os.wait()
        gone = time.monotonic()
        if child not in left:
            continue
        one = left.pop(child)
        ends = os.read(one["report"], 4096).decode().split()
        os.close(one.pop("report"))
        one["code"] = os.waitstatus_to_exitcode(status)
        one["took_s"] = round(gone - float(ends[-1]), 3) if ends else None
    return ranks


def is_late(ranks: list[dict[str, Any]]) -> bool:
    well = all(one["code"] == one["wanted"] and one["took_s"] is not None for one in ranks)
    return well and any(one["took_s"] > LONGEST_S for one in ranks)


def main() -> None:
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    for job in range((count + 1) // 2):
        # A loaded machine makes an exit long once; a state that does so does it every time.
        for _ in range(ATTEMPTS):
            ranks = start_job(random.Random(f"{seed}/{job}"))
            if ranks is None:
                return  # a rank, whose interpreter ends now
            if not is_late(watch(ranks)):
                break
        for one in ranks:
            print(json.dumps({**one, "job": job}), flush=True)


if __name__ == "__main__":
    main()
