"""What ranks check of the ways in which people use models and optimizers: each on all ranks."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import gc
import pathlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from parallel_cases import (
    digest,
    distance,
    loss_of,
    make_batches,
    make_model,
    make_optimizer,
    make_parallel,
    share,
    train,
    values_of,
)
from parallel_checks import DEAR, compare_states, step
from parallel_loops import Frozen
from rank_pool import GROUPS
from torch import nn
from torch.distributed import distributed_c10d as c10d

import pleach.torch.parallel as parallel


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)


def inputs_of(count: int, steps: int) -> list[torch.Tensor]:
    """Of all ranks, a tensor a step."""
    draw = torch.Generator().manual_seed(4)
    return [torch.randn(count, 7, generator=draw, dtype=torch.float64) for _ in range(steps)]


class Counting(nn.Module):
    """Has a buffer that forward reads, and that every rank fills with values of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(7, 3, dtype=torch.float64)
        self.register_buffer("mean", torch.zeros(3, dtype=torch.float64))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        made = self.layer(values) + self.mean
        if self.training:
            with torch.no_grad():
                self.mean.lerp_(made.mean(0), 0.5)
        return made


def buffers_where_steps_are_left_out(rank: int, policy: str) -> None:
    """As in DDP, where a scaler finds infinities and leaves steps out."""
    torch.manual_seed(0)
    models = [Counting(), Counting()]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [sgd(model) for model in models]
    parallel.data_parallel(models[0], optimizers[0], policy, process_group=GROUPS[2])
    runs = [models[0], nn.parallel.DistributedDataParallel(models[1], process_group=GROUPS[2])]
    scalers = [torch.amp.GradScaler("cpu", init_scale=4.0) for _ in runs]
    for index, whole in enumerate(inputs_of(8, 6)):
        for run, optimizer, scaler in zip(runs, optimizers, scalers, strict=True):
            optimizer.zero_grad()
            factor = float("inf") if index in (1, 2, 4) and rank == 1 else 1.0
            loss = run(whole.chunk(2)[rank]).square().mean() * factor
            scaler.scale(loss).backward()
            if index == 4:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
    runs[1](whole)  # whose begin shares the buffers
    models[0](whole)
    assert distance(values_of(models[0]), values_of(models[1])) <= 1e-12
    assert distance(list(models[0].buffers()), list(models[1].buffers())) <= 1e-12
    optimizers[0].close()


def states_of_what_has_no_elements(rank: int, policy: str, optimizer_name: str) -> None:
    """Parameters without elements are in the optimizer's state, as in the plain one's."""
    plain, model = (Frozen().double() for _ in range(2))
    model.load_state_dict(plain.state_dict())
    reference, optimizer = (make_optimizer(optimizer_name, one) for one in (plain, model))
    parallel.data_parallel(model, optimizer, policy, process_group=GROUPS[2])
    batches = make_batches("mlp", steps=3)
    train(plain, reference, batches, schedules=False)
    train(model, optimizer, [share(one, rank, 2) for one in batches], schedules=False)
    compare_states(optimizer.state_dict(), reference.state_dict())
    optimizer.load_state_dict(reference.state_dict())
    compare_states(optimizer.state_dict(), reference.state_dict())
    optimizer.close()


def trained_before(rank: int, name: str, policy: str) -> tuple[float, str]:
    """Ranks have trained by themselves: the first one's values count, and its optimizer's state."""
    models = [make_model("mlp", seed=seed) for seed in (0, rank)]
    optimizers = [getattr(torch.optim, name)(one.parameters(), 0.01) for one in models]
    batches = make_batches("mlp", steps=6)
    for model, optimizer in zip(models, optimizers, strict=True):
        train(model, optimizer, batches[:2], schedules=False)
        model.scale.requires_grad_(False)
    plain, model = models
    reference, optimizer = optimizers
    parallel.data_parallel(model, optimizer, policy, process_group=GROUPS[2])
    train(plain, reference, batches[2:], schedules=False)
    train(model, optimizer, [share(one, rank, 2) for one in batches[2:]], schedules=False)
    found = distance(values_of(model), values_of(plain))
    for _ in range(2):
        compare_states(optimizer.state_dict(), reference.state_dict())
        for one in (optimizer, reference):
            one.load_state_dict(reference.state_dict())
    optimizer.close()
    return found, digest(values_of(model))


def unused_gradients_are_none(rank: int, policy: str) -> None:
    """A gradient that no rank has is None again once the ranks have agreed on it."""
    model = nn.ModuleDict({"used": nn.Linear(7, 3), "unused": nn.Linear(7, 3)}).double()
    optimizer = sgd(model)
    parallel.data_parallel(model, optimizer, policy, process_group=GROUPS[2])
    for whole in inputs_of(4, 3):
        optimizer.zero_grad()
        model["used"](whole.chunk(2)[rank]).square().mean().backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        assert float(norm) > 0
        assert model["unused"].weight.grad is None
        assert model["used"].weight.grad is not None
        optimizer.step()
    optimizer.close()


def parameters_that_change_are_refused(rank: int) -> None:
    """What would be trained wrongly is named at the next step."""

    def thaw(model: nn.Module) -> None:
        model.third.weight.requires_grad_(True)

    def cast(model: nn.Module) -> None:
        model.float()

    def resize(model: nn.Module) -> None:
        model.first.weight.data = model.first.weight.data[:, :5].clone()

    for change, message in (
        (thaw, "third.weight takes gradients, and did not"),
        (cast, "scale has type torch.float32, and had torch.float64"),
        (resize, r"first.weight has shape \(31, 5\), and had \(31, 7\)"),
    ):
        model = make_model("mlp")
        model.third.weight.requires_grad_(False)
        optimizer = make_optimizer("sgd", model)
        parallel.data_parallel(model, optimizer, DEAR, process_group=GROUPS[2])
        batches = [share(one, rank, 2) for one in make_batches("mlp", steps=2)]
        step(model, optimizer, batches[0])
        optimizer.zero_grad()
        change(model)
        with pytest.raises(RuntimeError, match=message):
            optimizer.step()
        optimizer.close()


def what_is_parallel_already(rank: int) -> None:
    """A model is in one training at a time; when that is closed it is as it was, but trained."""
    batches = make_batches("mlp", steps=9)
    parts = [share(one, rank, 2) for one in batches]
    model, optimizer = make_parallel("mlp", "sgd", 2, DEAR)
    train(model, optimizer, parts[:3], schedules=False)
    with pytest.raises(ValueError, match="model is data parallel already"):
        parallel.data_parallel(model, sgd(model), DEAR, process_group=GROUPS[2])
    with pytest.raises(ValueError, match="model is data parallel already"):
        parallel.data_parallel(nn.Sequential(model), sgd(model), DEAR, process_group=GROUPS[2])
    with pytest.raises(ValueError, match="optimizer is data parallel already"):
        parallel.data_parallel(make_model("mlp"), optimizer, DEAR, process_group=GROUPS[2])
    optimizer.close()
    with pytest.raises(RuntimeError, match="closed"):
        optimizer.step()
    kind = type(make_model("mlp"))
    assert type(model) is kind
    plain = copy.deepcopy(model)
    second, reference = (make_optimizer("nesterov", one) for one in (model, plain))
    train(model, second, batches[3:6], schedules=False)  # by itself
    train(plain, reference, batches[3:6], schedules=False)
    assert distance(values_of(model), values_of(plain)) == 0
    parallel.data_parallel(model, second, "ddp", process_group=GROUPS[2])
    train(model, second, parts[6:], schedules=False)
    train(plain, reference, batches[6:], schedules=False)
    assert distance(values_of(model), values_of(plain)) <= 1e-12
    second.close()


def forgotten_trainings_end(rank: int, policy: str) -> None:
    """Who forgets a model and its optimizer has their threads back, and with the next the groups.

    None leaves before: PyTorch's profiler may be walking through them.
    """

    def forget() -> None:
        model, optimizer = make_parallel("transformer", "adam", 2, policy)
        batches = [share(one, rank, 2) for one in make_batches("transformer", steps=2)]
        for batch in batches:
            step(model, optimizer, batch)
        loss_of(model, batches[0]).backward()  # whose gradients nobody steps with

    def held() -> tuple[int, ...]:
        gc.collect()
        threads = sum(thread.name.startswith("pleach") for thread in threading.enumerate())
        return threads, len(parallel._TRAINERS)

    make_parallel("mlp", "sgd", 2, policy)[1].close()  # takes what was forgotten before
    groups = list(c10d._world.pg_map)
    before = held()
    forget()
    walk = iter(c10d._world.pg_map)
    walked = [next(walk)]
    deadline = time.monotonic() + 40
    while any(map(int.__gt__, after := held(), before)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert all(one <= other for one, other in zip(after, before, strict=True)), (before, after)
    assert [*walked, *walk][: len(groups)] == groups
    make_parallel("mlp", "sgd", 2, policy)[1].close()
    assert list(c10d._world.pg_map) == groups
    dist.barrier(GROUPS[2])


def two_in_turns(rank: int, count: int, policy: str, way: str) -> tuple[float, str]:
    """Two models in one process: one step each in turn, or both between two steps of each."""

    def run(part: Callable[[Any], Any], is_parallel: bool) -> list[nn.Module]:
        models = [make_model("mlp", seed=3), make_model("mlp", seed=5)]
        optimizers = [
            make_optimizer(name, one) for name, one in zip(("sgd", "adamw"), models, strict=True)
        ]
        if is_parallel:
            for one, optimizer in zip(models, optimizers, strict=True):
                parallel.data_parallel(one, optimizer, policy, process_group=GROUPS[count])
        for index, batch in enumerate(make_batches("mlp", steps=8)):
            for optimizer in optimizers:
                optimizer.zero_grad()
            losses = [loss_of(model, part(batch)) for model in models]
            if way == "turns":
                for loss, optimizer in zip(losses, optimizers, strict=True):
                    loss.backward()
                    optimizer.step()
            elif way == "together":
                sum(losses).backward()
                for optimizer in optimizers[:: 1 if index % 2 else -1]:
                    optimizer.step()
            else:
                for loss in reversed(losses):
                    loss.backward()
                for optimizer in optimizers:
                    optimizer.step()
        for optimizer in optimizers if is_parallel else []:
            optimizer.synchronize()
            optimizer.close()
        return models

    ours = run(lambda batch: share(batch, rank, count), True)
    plain = run(lambda batch: batch, False)
    values = [values_of(model) for model in ours]
    found = max(distance(a, values_of(b)) for a, b in zip(values, plain, strict=True))
    return found, digest(values[0] + values[1])


def adversaries(rank: int, count: int, policy: str, way: str) -> tuple[float, str]:
    """A generator and a discriminator: each one's loss goes through the other's parameters."""

    def run(part: Callable[[torch.Tensor], torch.Tensor], is_parallel: bool) -> list[nn.Module]:
        torch.manual_seed(2)
        made = nn.Sequential(nn.Linear(7, 11), nn.Tanh(), nn.Linear(11, 5)).double()
        judge = nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 1)).double()
        models = [made, judge]
        optimizers = [torch.optim.Adam(one.parameters(), 0.01) for one in models]
        if is_parallel:
            for one, optimizer in zip(models, optimizers, strict=True):
                parallel.data_parallel(one, optimizer, policy, process_group=GROUPS[count])
        for noise, real in zip(inputs_of(12, 8), inputs_of(12, 8), strict=True):
            noise, real = part(noise), part(real)[:, :5]
            optimizers[1].zero_grad()
            fake = made(noise)
            seen = fake.detach() if way == "detached" else fake
            (judge(seen).mean() - judge(real).mean()).backward()
            optimizers[1].step()
            for parameter in judge.parameters():
                parameter.data.clamp_(-0.2, 0.2)
                parameter.requires_grad_(way != "frozen")
            optimizers[0].zero_grad()
            (-judge(made(noise)).mean()).backward()
            optimizers[0].step()
            for parameter in judge.parameters():
                parameter.requires_grad_(True)
        for optimizer in optimizers if is_parallel else []:
            optimizer.synchronize()
            optimizer.close()
        return models

    ours = run(lambda values: values.chunk(count)[rank], True)
    plain = run(lambda values: values, False)
    values = [values_of(model) for model in ours]
    found = max(distance(a, values_of(b)) for a, b in zip(values, plain, strict=True))
    return found, digest(values[0] + values[1])


def any_policy(rank: int, policy: str, count: int) -> tuple[float | str, str]:
    """How far a policy's training is from plain training, or how it is refused."""
    batches = make_batches("transformer", steps=6)
    plain = make_model("transformer")
    train(plain, make_optimizer("nesterov", plain), batches)
    try:
        model, optimizer = make_parallel("transformer", "nesterov", count, policy)
    except ValueError as error:
        return str(error), ""
    train(model, optimizer, [share(one, rank, count) for one in batches])
    values = values_of(model)
    optimizer.close()
    return distance(values, values_of(plain)), digest(values)


def any_optimizer(rank: int, name: str, options: dict[str, Any]) -> tuple[float | str, str]:
    """How far an optimizer's training is from the plain one's, or how it is refused."""
    kind = "weights" if name == "Muon" else "mlp"
    if options.get("lr") == "tensor":
        options = {**options, "lr": torch.tensor(0.003, dtype=torch.float64)}
    options = {"lr": 0.003, **options}
    batches = make_batches(kind, steps=6)
    model, plain = make_model(kind), make_model(kind)
    made = getattr(torch.optim, name)
    refused = ""
    try:
        reference = made(plain.parameters(), **options)
        train(plain, reference, batches, schedules=False)
    except (RuntimeError, AssertionError, ValueError, TypeError) as error:
        refused = str(error)
    with contextlib.ExitStack() as stack:
        try:
            optimizer = made(model.parameters(), **options)
            parallel.data_parallel(model, optimizer, DEAR, process_group=GROUPS[2])
            stack.callback(optimizer.close)
            train(model, optimizer, [share(one, rank, 2) for one in batches], schedules=False)
        except (RuntimeError, AssertionError, ValueError, TypeError) as error:
            return f"{error} | {refused}", ""
        assert not refused, f"plain training says {refused}"
        return distance(values_of(model), values_of(plain)), digest(values_of(model))


def lazy_layers_are_named(rank: int) -> None:
    """Layers that have no shape yet."""
    model = nn.Sequential(nn.Linear(7, 5), nn.LazyLinear(3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(ValueError, match=r"1.weight has no shape yet"):
        parallel.data_parallel(model, optimizer, process_group=GROUPS[2])


def resident_bytes(what: str) -> int:
    """Memory that this process has (`VmRSS`), or has had since it was asked to forget (`VmHWM`)."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(what))
    return int(line.split()[1]) * 1024


def memory_beside_ddp(rank: int, policy: str, count: int) -> tuple[int, int, int]:
    """Bytes of a model, and the most that its training takes by DDP, and by data_parallel."""
    peaks: dict[bool, int] = {}
    for is_ddp in (True, False, True, False):  # the first ones load what is loaded once
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        before = resident_bytes("VmRSS")
        model = nn.Sequential(*[nn.Linear(1024, 1024, bias=False) for _ in range(8)])
        size = sum(one.nbytes for one in model.parameters())
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        run: nn.Module = model
        if is_ddp:
            run = nn.parallel.DistributedDataParallel(model, process_group=GROUPS[count])
        else:
            parallel.data_parallel(model, optimizer, policy, process_group=GROUPS[count])
        for _ in range(3):
            optimizer.zero_grad()
            run(torch.ones(2, 1024)).sum().backward()
            optimizer.step()
        if not is_ddp:
            optimizer.close()
        peaks[is_ddp] = resident_bytes("VmHWM") - before
        dist.barrier(GROUPS[count])
        del run, model, optimizer
    return size, peaks[True], peaks[False]
