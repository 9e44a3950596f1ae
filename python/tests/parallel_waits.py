"""What ranks do when one of them does not make a collective call, leaves, or makes another one."""

from __future__ import annotations

import gc
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from parallel_cases import make_batches, make_model, make_optimizer, share

import pleach.torch.parallel as parallel
from pleach.torch.parallel import health, watching

LONGEST_S = 40.0  # for what takes a second on a machine with nothing else to do
KEPT: list[Any] = []  # trainings that have failed


class Ours:
    """A training of two steps' past, and what its calls are."""

    def __init__(self, rank: int, count: int, **options: Any):
        self.rank = rank
        self.count = count
        self.model = make_model("mlp")
        self.batches = [share(one, rank, count) for one in make_batches("mlp", steps=6)]
        plain = make_optimizer("adam", self.model)
        _, self.optimizer = parallel.data_parallel(self.model, plain, "dear,bucket=1KiB", **options)
        for _ in range(2):
            self.backward()
            self.optimizer.step()

    def backward(self) -> None:
        """One pass."""
        self.optimizer.zero_grad()
        inputs, *_ = self.batches[0]
        self.model(inputs).square().mean().backward()

    def state_dict(self) -> None:
        self.optimizer.state_dict()

    def norm(self) -> None:
        next(self.model.parameters()).grad.norm().item()  # type: ignore[union-attr]

    def clip(self) -> None:
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def whole(self) -> None:
        with self.optimizer.whole_gradients():  # type: ignore[attr-defined]
            pass

    def step(self) -> None:
        self.optimizer.step()
        self.model.state_dict()

    def unscale(self) -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        scaler.scale(torch.ones(()))
        scaler.unscale_(self.optimizer)


# A call that some ranks make alone: the words that name it.
CALLS: dict[str, tuple[Callable[[Ours], None], str]] = {
    "state_dict": (Ours.state_dict, "optimizer.state_dict()"),
    "norm": (Ours.norm, "norm()"),
    "clip": (Ours.clip, "clip_grad_norm_()"),
    "unscale": (Ours.unscale, "unscale_()"),
    "whole": (Ours.whole, "optimizer.whole_gradients()"),
    "step": (Ours.step, "state_dict()"),
    "check": (Ours.step, "optimizer.step()"),
    "costs": (lambda _: _measure(), "measure_costs()"),
}


def _measure() -> None:
    parallel.measure_costs(most_bytes=1 << 13)


def _catch(folder: str, rank: int, after_s: float) -> None:
    """Reports waits early, into a file."""
    health.REPORT_AFTER_S = after_s

    def write(line: str) -> None:
        target = pathlib.Path(folder) / f"said-{rank}"
        target.with_suffix(".part").write_text(line)
        target.with_suffix(".part").rename(target)

    watching.write = write  # type: ignore[assignment]


def _await_said(folder: str, rank: int) -> str:
    """What a rank has reported, as soon as it has."""
    path = pathlib.Path(folder) / f"said-{rank}"
    deadline = time.monotonic() + LONGEST_S
    while not path.exists():
        assert time.monotonic() < deadline, f"rank {rank} has reported nothing"
        time.sleep(0.02)
    return path.read_text()


def be_late(rank: int, what: str, folder: str, after_s: float = 0.4) -> tuple[str, float]:
    """The last rank comes to a call when the others have reported that it is missing.

    Returns:
        What this rank has reported, and how long it has waited.
    """
    count = dist.get_world_size()
    _catch(folder, rank, after_s)
    call, _ = CALLS[what]
    ours = Ours(rank, count, check=what == "check")
    ours.backward()
    begin = time.monotonic()
    if rank == count - 1:
        for other in range(count - 1):
            _await_said(folder, other)
    call(ours)
    waited_s = time.monotonic() - begin
    if what not in ("step", "check"):
        ours.optimizer.step()
    ours.optimizer.close()  # type: ignore[attr-defined]
    return ("" if rank == count - 1 else _await_said(folder, rank)), waited_s


def create_late(rank: int, folder: str) -> str:
    """The last rank comes to data_parallel when the others have reported that it is missing."""
    count = dist.get_world_size()
    _catch(folder, rank, 0.4)
    if rank == count - 1:
        for other in range(count - 1):
            _await_said(folder, other)
    Ours(rank, count).optimizer.close()  # type: ignore[attr-defined]
    return "" if rank == count - 1 else _await_said(folder, rank)


def differ(rank: int) -> str:
    """The first rank makes another call than the others, who all learn of it."""
    ours = Ours(rank, dist.get_world_size())
    KEPT.append(ours)
    ours.backward()
    try:
        if rank == 0:
            ours.norm()
        else:
            ours.whole()
    except RuntimeError as error:
        return str(error)
    return "nothing happened"


def differ_by_a_step(rank: int) -> str:
    """The first rank saves the optimizer's state, and the others go on training."""
    ours = Ours(rank, dist.get_world_size())
    KEPT.append(ours)
    try:
        if rank == 0:
            ours.state_dict()
        for _ in range(2):
            ours.backward()
            ours.step()
    except RuntimeError as error:
        return str(error)
    return "nothing happened"


def make_a_step_less(rank: int, folder: str) -> str:
    """The last rank leaves out a step, as one that skips a batch; what the others are told."""
    count = dist.get_world_size()
    _catch(folder, rank, health.REPORT_AFTER_S)
    ours = Ours(rank, count)
    ours.backward()
    if rank < count - 1:
        ours.optimizer.step()
    dist.destroy_process_group()
    return _await_said(folder, rank) if rank < count - 1 else ""


def leave(rank: int, what: str, how: str, folder: str) -> tuple[float, str]:
    """The last rank leaves while others wait in a call: how long after it they know, and what."""
    count = dist.get_world_size()
    left = pathlib.Path(folder) / "left"
    ours = Ours(rank, count)
    KEPT.append(ours)
    ours.backward()
    if rank == count - 1:
        time.sleep(0.5)
        left.with_suffix(".part").write_text(str(time.monotonic()))
        left.with_suffix(".part").rename(left)
        if how == "die":
            os._exit(7)
        ours.optimizer.close()  # type: ignore[attr-defined]
        return 0.0, ""
    try:
        CALLS[what][0](ours)
    except RuntimeError as error:
        known = time.monotonic()
        return known - float(left.read_text()), str(error)
    return 0.0, "nothing happened"


def count_leftovers(rank: int) -> list[tuple[int, int]]:
    """Descriptors and threads after each of some trainings that were closed, with no collector."""
    found = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(6):
            ours = Ours(rank, dist.get_world_size())
            ours.optimizer.state_dict()
            ours.optimizer.close()  # type: ignore[attr-defined]
            del ours
            found.append(_settled())
    finally:
        gc.enable()
    return found


def _settled() -> tuple[int, int]:
    """Descriptors and threads, when those that end have ended."""
    counts = []
    for _ in range(40):
        counts.append((len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))))
        if len(counts) > 10 and len(set(counts[-10:])) == 1:
            break
        time.sleep(0.05)
    return counts[-1]
