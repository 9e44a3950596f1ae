#!/usr/bin/env python3
"""Measures what guards cost in training: their share of a step of ResNet-18.

    python3 bench/guard_cost.py --pleach build/dev/pleach [--check]

Two ranks train a ResNet-18 on the CPU over the pleach backend, a thread each. The time in which
guards are put, asked and lifted in the training thread is added up. A plain loop waits in none of
them. With --check the exit status is 1 where the share of the median step is above 1 %. Where
PyTorch is not there it says so and measures nothing.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bench.torch_collectives import find_torch  # noqa: E402

RANKS, WARM_UP, STEPS, SAMPLES = 2, 3, 15, 16
SHARE = 0.01
DEADLINE_S = 300


class Timer:
    """Adds up the time in functions; what one calls of the others counts once."""

    def __init__(self) -> None:
        self.total_s = 0.0
        self._depth = 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        def timed(*arguments: Any, **keywords: Any) -> Any:
            self._depth += 1
            begin_s = time.perf_counter()
            try:
                return function(*arguments, **keywords)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self.total_s += time.perf_counter() - begin_s

        return timed


def measure(rank: int, folder: str, pipe: Any) -> None:
    """One rank: sends the seconds of steps, and those of guards in them."""
    import torch
    import torch.distributed as dist
    from bench.real.models import MODELS

    from pleach.torch import parallel
    from pleach.torch.parallel import finality, guard

    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", RANKS)
    dist.init_process_group("pleach", store=store, rank=rank, world_size=RANKS)
    timer = Timer()
    for kind, names in ((finality.Finality, ("put", "_lift")), (guard.Guard, ("put", "lift"))):
        for name in names:
            setattr(kind, name, timer.wrap(getattr(kind, name)))
    model = MODELS["resnet18"]
    net = model.make()
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    parallel.data_parallel(net, optimizer)
    for kind in optimizer.trainer._finality.guard._classes.values():
        kind.__torch_function__ = staticmethod(timer.wrap(kind.__torch_function__))
    told = []
    for step in range(WARM_UP + STEPS):
        inputs, labels = model.batch(SAMPLES, step * RANKS + rank)
        begin_s, timer.total_s = time.perf_counter(), 0.0
        optimizer.zero_grad()
        model.loss(net(inputs), labels).backward()
        optimizer.step()
        told.append((time.perf_counter() - begin_s, timer.total_s))
    optimizer.close()
    dist.destroy_process_group()
    pipe.send(told[WARM_UP:])


def receive(pipe: Any) -> list[tuple[float, float]]:
    """The figures of a rank; none where it failed."""
    with contextlib.suppress(EOFError):
        if pipe.poll(DEADLINE_S):
            told: list[tuple[float, float]] = pipe.recv()
            return told
    return []


def main() -> int:
    """Runs the ranks, and prints the figures as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pleach", default="build/release/pleach", help="the build to use")
    parser.add_argument("--check", action="store_true", help="hold it to its limit")
    options = parser.parse_args()
    find_torch(options)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(RANKS):
            ours, theirs = context.Pipe()
            processes.append(context.Process(target=measure, args=(rank, folder, theirs)))
            processes[-1].start()
            theirs.close()
            pipes.append(ours)
        told = [receive(pipe) for pipe in pipes]
        for process in processes:
            process.join(30)
            process.kill()
    if not all(told):
        print(f"guard_cost: a rank failed or was silent for {DEADLINE_S} s", file=sys.stderr)
        return 1
    steps = [step_s for rank in told for step_s, _ in rank]
    guards = [guard_s for rank in told for _, guard_s in rank]
    share = statistics.median(guards) / statistics.median(steps)
    print(json.dumps({
        "step_ms": round(statistics.median(steps) * 1e3, 3),
        "guards_us": round(statistics.median(guards) * 1e6, 1),
        "share": round(share, 5), "limit": SHARE,
    }))
    return 1 if options.check and share > SHARE else 0


if __name__ == "__main__":
    sys.exit(main())
