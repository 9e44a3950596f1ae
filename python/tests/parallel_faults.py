"""What ranks do when another one is killed, stopped or leaves a step out."""

from __future__ import annotations

import os
import signal
import time

import torch
import torch.distributed as dist
from parallel_cases import loss_of, make_batches, make_model, make_optimizer, share

import pleach.torch.parallel as parallel

TIMEOUT_S = 6.0


def train_until(rank: int, what: str) -> tuple[float, str]:
    """Trains until the last rank is killed, stopped, or leaves; the others: after how long they
    have learnt of it, and what they say."""
    group = dist.group.WORLD
    last = dist.get_world_size() - 1
    model = make_model("mlp")
    optimizer = make_optimizer("sgd", model)
    parallel.data_parallel(model, optimizer, "dear,bucket=1KiB", process_group=group)
    batches = [share(one, rank, last + 1) for one in make_batches("mlp", steps=6)]
    try:
        for index, batch in enumerate(batches):
            begin = time.monotonic()
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            if index == 3 and rank == last:
                fall(what, model)
                if what == "leave":
                    return 0.0, ""
            loss.backward()
            optimizer.step()
        model.state_dict()
    except RuntimeError as error:
        return time.monotonic() - begin, str(error)
    return 0.0, "nothing happened"


def fall(what: str, model: torch.nn.Module) -> None:
    """Ends or stops this process in the midst of its backward."""
    if what == "leave":
        return
    number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[what]
    parameter = next(p for name, p in model.named_parameters() if name == "second.weight")
    parameter.register_hook(lambda _: os.kill(os.getpid(), number))
