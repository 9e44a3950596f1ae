"""What ranks do when another one is killed or stopped, fails in backward, or leaves a step out."""

from __future__ import annotations

import os
import signal
import time

import torch
import torch.distributed as dist
from parallel_cases import loss_of, make_batches, make_model, make_optimizer, share

import pleach.torch.parallel as parallel

TIMEOUT_S = 6.0
kept: list[object] = []  # what training leaves, whose threads go on


class FailureError(Exception):
    """Of a user's code."""


def train_until(rank: int, what: str) -> tuple[float, str]:
    """Trains until the last rank falls; the others: after how long they have learnt of it, and
    what they say. Who fails or leaves does nothing more, but lives."""
    group = dist.group.WORLD
    last = dist.get_world_size() - 1
    model = make_model("mlp")
    optimizer = make_optimizer("sgd", model)
    parallel.data_parallel(model, optimizer, "dear,bucket=1KiB", process_group=group)
    batches = [share(one, rank, last + 1) for one in make_batches("mlp", steps=6)]
    kept.append((model, optimizer))
    try:
        for index, batch in enumerate(batches):
            begin = time.monotonic()
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            if index == 3 and rank == last:
                fall(what, model)
                if what == "leave":
                    return 0.0, ""
            try:
                loss.backward()
            except FailureError:
                if what == "skip":
                    continue
                raise
            optimizer.step()
        model.state_dict()
    except FailureError:
        return 0.0, ""
    except RuntimeError as error:
        return time.monotonic() - begin, str(error)
    return 0.0, "nothing happened"


def fall(what: str, model: torch.nn.Module) -> None:
    """Ends or stops this process in the midst of its backward."""
    if what == "leave":
        return
    parameter = next(p for name, p in model.named_parameters() if name == "second.weight")
    if what in ("fail", "skip"):

        def fail(_gradient: torch.Tensor) -> None:
            handle.remove()
            raise FailureError

        handle = parameter.register_hook(fail)
        return
    number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[what]
    parameter.register_hook(lambda _: os.kill(os.getpid(), number))
