"""Interpreters that end while operations are in flight, or threads are in calls."""
# timeout_s: 300

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jobs
import numpy as np
import pytest

import pleach

SEED = 20
COUNT = 200 if os.environ.get("PLEACH_LONG") else 20
# The longest that an exit may take, beyond what it takes without Pleach.
LONGEST_S = 1.5
STATES = Path(__file__).parent / "exit_states.py"


def plain_exit_s() -> float:
    """The longest of some exits without Pleach, which a loaded machine makes long."""
    script = "import sys, time; print(time.monotonic())"
    longest = 0.0
    for _ in range(3):
        run = subprocess.run(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, check=True, timeout=60
        )
        longest = max(longest, time.monotonic() - float(run.stdout))
    return longest


def test_interpreters_end_at_once_in_random_states() -> None:
    run = subprocess.run(
        [sys.executable, str(STATES), str(COUNT), str(SEED)],
        stdout=subprocess.PIPE,
        timeout=60 + 3 * COUNT,
        check=False,
    )
    ends: list[dict[str, Any]] = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 0
    assert len(ends) == COUNT
    limit_s = LONGEST_S + plain_exit_s()
    for one in ends:
        assert one["code"] == one["wanted"], one
        assert one["took_s"] is not None, one
        assert one["took_s"] <= limit_s, one


def script(rank: int, job: dict[str, Any], text: str) -> subprocess.Popen[str]:
    arguments = dict(job, rank=rank, rank_count=2, deadline_s=20)
    if rank != 0:
        arguments.pop("listen_descriptor")
    head = (
        "import numpy as np, pleach, time\n"
        f"endpoint = pleach.Endpoint(**{arguments})\nranks = endpoint.communicator()\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", head + text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[job["listen_descriptor"]] if rank == 0 else [],
        text=True,
    )


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_others_hear_at_once_of_a_rank_that_ends(transport: str) -> None:
    port, descriptor = pleach.listen()
    job = {"store_port": port, "listen_descriptor": descriptor, "transport": transport}
    leaves = script(
        1, job, "kept = ranks.start_receive(np.zeros(1), 0, tag=9)\nprint(time.monotonic())"
    )
    stays = script(
        0,
        job,
        "try: ranks.receive(np.zeros(1), 1, tag=9)\n"
        "except pleach.PeerLostError as error: print(time.monotonic(), error)",
    )
    os.close(descriptor)
    left, error = leaves.communicate(timeout=60)
    assert (leaves.returncode, error) == (0, "")
    heard, error = stays.communicate(timeout=60)
    assert (stays.returncode, error) == (0, "")
    heard_at, told = heard.strip().split(" ", 1)
    assert float(heard_at) - float(left) < LONGEST_S + plain_exit_s()
    assert told == "rank 1 aborted communicator 'world': rank 1 ended with work in flight"


def refusals_in_a_child(endpoint: pleach.Endpoint) -> list[tuple[str, str, float]]:
    """What a child of fork() is told, and how long that takes."""
    with endpoint.communicator() as ranks:
        ranks.barrier()
        if ranks.rank == 1:
            ranks.receive(np.zeros(1), 0, tag=1)
            return []
        operation = ranks.start_receive(np.zeros(1), 1, tag=9)
        one = np.ones(1)
        calls: dict[str, Any] = {
            "wait": operation.wait,
            "elapsed_s": lambda: operation.elapsed_s,
            "all_reduce": lambda: ranks.all_reduce(one),
            "barrier": ranks.barrier,
            "send": lambda: ranks.send(one, 1),
            "receive": lambda: ranks.receive(one, 1),
            "split": lambda: ranks.split(0),
            "shrink": ranks.shrink,
            "abort": lambda: ranks.abort("why"),
            "communicator": endpoint.communicator,
            "write_flight": lambda: endpoint.write_flight("rank-0.json"),
            "close": ranks.close,
            "leave": endpoint.close,
        }
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            told = []
            for name, call in calls.items():
                start = time.monotonic()
                try:
                    call()
                    said = ""
                except pleach.Error as error:
                    said = str(error)
                told.append((name, said, time.monotonic() - start))
            os.write(there, json.dumps(told).encode())
            os._exit(0)
        os.close(there)
        told = [tuple(one) for one in json.loads(os.read(here, 1 << 16))]
        os.waitpid(child, 0)
        ranks.send(one, 1, tag=1)
        raise RefusedError(told)


class RefusedError(Exception):
    """Ends what is in flight, too."""


def forked_calls(endpoint: pleach.Endpoint) -> list[Any]:
    try:
        return refusals_in_a_child(endpoint)
    except RefusedError as refused:
        return list(refused.args[0])
    except pleach.Error:
        return []  # rank 1, once rank 0 has ended what is in flight


def test_what_a_forked_child_may_not_do_is_refused_at_once() -> None:
    told = {name: (said, took) for name, said, took in jobs.run(2, forked_calls)[0]}
    assert len(told) == 13
    for name, (said, took) in told.items():
        assert took < 1, name
        if name in ("elapsed_s", "abort", "leave"):
            assert said == ""
        else:
            assert "is of another process, which forked this one" in said, name
