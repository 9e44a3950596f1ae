"""What ranks check of data parallelism beside what training makes: each function on all ranks."""

from __future__ import annotations

import copy
import datetime
import io
import json
import pathlib
import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from parallel_cases import (
    EARLY,
    distance,
    loss_of,
    make_any_parallel,
    make_batches,
    make_model,
    make_optimizer,
    make_parallel,
    share,
    train,
    values_of,
)
from rank_pool import GROUPS
from torch import nn
from torch.utils.checkpoint import checkpoint

import pleach.torch.parallel as parallel

DEAR = "dear,bucket=1KiB"


def trainer_of(optimizer: torch.optim.Optimizer) -> Any:
    """What trains."""
    return next(one for one in parallel._TRAINERS if one.optimizer is optimizer)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Any) -> None:
    optimizer.zero_grad()
    loss_of(model, batch).backward()
    optimizer.step()


def gradients_are_averages_or_nothing(rank: int, policy: str) -> None:
    """Between backward and step a gradient is the average, or raises; never the local one."""
    model, optimizer = make_parallel("mlp", "sgd", 2, policy)
    plain = make_model("mlp")
    batches = make_batches("mlp", steps=3)
    is_whole = policy.startswith("ddp")
    for batch in batches:
        optimizer.zero_grad()
        plain.zero_grad()
        loss_of(plain, batch).backward()
        loss_of(model, share(batch, rank, 2)).backward()
        for parameter, expected in zip(model.parameters(), plain.parameters(), strict=True):
            gradient = parameter.grad
            assert gradient is not None
            assert gradient.shape == parameter.shape
            assert "Gradient" in repr(gradient)
            if is_whole:
                assert torch.allclose(gradient + 0, expected.grad, atol=1e-12)
                continue
            for read in (
                lambda one: one + 1,
                lambda one: one.sum(),
                lambda one: one.clone(),
                lambda one: one.tolist(),
                lambda one: one.numpy(),
                lambda one: one.cpu().numpy(),
                lambda one: torch.isnan(one),
                lambda one: one.add_(torch.ones_like(one)),
                lambda one: one.abs().max().item(),
            ):
                with pytest.raises((RuntimeError, TypeError)):
                    read(gradient)
            with pytest.raises(RuntimeError, match="whole_gradients"):
                gradient.abs()
        with optimizer.whole_gradients():
            for parameter, expected in zip(model.parameters(), plain.parameters(), strict=True):
                assert torch.allclose(parameter.grad, expected.grad, atol=1e-12)
        optimizer.step()
        with torch.no_grad():
            for ours, theirs in zip(plain.parameters(), model.parameters(), strict=True):
                ours.copy_(theirs)
    optimizer.close()


def early_refuses(rank: int) -> None:
    """With early updates nothing can be done with gradients any more."""
    for act, message in (
        (lambda m, o: nn.utils.clip_grad_norm_(m.parameters(), 1.0), "gathers=early"),
        (lambda m, o: nn.utils.clip_grad_value_(m.parameters(), 1.0), "gathers=early"),
        (lambda m, o: torch.amp.GradScaler("cpu").unscale_(o), "unscale_|scale"),
        (lambda m, o: next(m.parameters()).grad.sum(), "gathers=early"),
        (lambda m, o: o.whole_gradients().__enter__(), "gathers=early"),
        (lambda m, o: (o.zero_grad(), o.step()), "cleared before its step: gathers=early"),
        (lambda m, o: loss_of(m, share(make_batches("mlp")[1], rank, 2)).backward(), "early"),
        (
            lambda m, o: (o.param_groups[1].update(lr=0.7), o.step()),
            "lr of group 1, from .* to 0.7",
        ),
    ):
        model, optimizer = make_parallel("mlp", "sgd", 2, EARLY)
        batches = [share(one, rank, 2) for one in make_batches("mlp", steps=4)]
        step(model, optimizer, batches[0])
        optimizer.zero_grad()
        loss_of(model, batches[1]).backward()
        with pytest.raises((RuntimeError, AssertionError), match=message):
            act(model, optimizer)
        dist.barrier(GROUPS[2])


class UsedTwice(nn.Module):
    """Recomputes a layer twice in backward; the other one's gradient comes after both."""

    def __init__(self, calls_module: bool) -> None:
        super().__init__()
        self.first = nn.Linear(7, 7)
        self.again = nn.Linear(7, 7)
        self.times = 2
        self._calls_module = calls_module

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        hidden = self.first(values)
        for _ in range(self.times):
            what = self.again if self._calls_module else self._recomputed
            hidden = checkpoint(what, hidden, use_reentrant=True)
        return hidden

    def _recomputed(self, hidden: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(hidden, self.again.weight, self.again.bias)


def early_refuses_to_recompute_what_is_updated(rank: int, calls_module: bool, message: str) -> None:
    """Which would wait for an update that waits for the rest of backward."""
    torch.manual_seed(0)
    model = UsedTwice(calls_module).double()
    model, optimizer = make_any_parallel(model, torch.optim.SGD(model.parameters(), 0.1), 2, EARLY)
    values = torch.full((3, 7), 1.0 + rank, dtype=torch.float64)

    def train_on() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            model(values).sum().backward()
            optimizer.step()

    with pytest.raises(RuntimeError, match=message):
        train_on()
    dist.barrier(GROUPS[2])


def early_refusals_reach_others(rank: int) -> None:
    """A rank that has done what is refused elsewhere does not wait until its timeout."""
    torch.manual_seed(0)
    model: Any = UsedTwice(False).double()
    model, optimizer = make_any_parallel(model, torch.optim.SGD(model.parameters(), 0.1), 2, EARLY)
    values = torch.full((3, 7), 1.0 + rank, dtype=torch.float64)

    def train_on(passes: int) -> None:
        for _ in range(passes):
            optimizer.zero_grad()
            model(values).sum().backward()
            optimizer.step()

    model.times = 1
    train_on(2)
    model.times = 1 + rank
    with pytest.raises(RuntimeError, match=r"another gradient of again.* came after it was used"):
        train_on(2)
    dist.barrier(GROUPS[2])


def refuses(rank: int) -> None:
    """What cannot be trained is named when it is asked for."""

    def made(optimizer: Any, **options: Any) -> None:
        model = make_model("mlp")
        parallel.data_parallel(model, optimizer(model), process_group=GROUPS[2], **options)

    def sgd(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), 0.1)

    class Own(torch.optim.SGD):
        pass

    for optimizer, options, message in (
        (lambda m: torch.optim.LBFGS(m.parameters()), {}, "LBFGS .* several times"),
        (lambda m: torch.optim.SparseAdam(list(m.parameters())), {}, "SparseAdam .* sparse"),
        (
            lambda m: Own(m.parameters(), 0.1),
            {"policy": EARLY},
            "Own runs its step",
        ),
        (sgd, {"gather": "all"}, "gather is 'all'"),
        (sgd, {"channel_width": 0}, "channel_width is 0"),
        (sgd, {"policy": "nonsense"}, "nonsense"),
        (sgd, {"policy": "horovod"}, "horovod"),
        (sgd, {"policy": EARLY.replace("early", "sometimes")}, "sometimes|gathers"),
        (lambda m: torch.optim.SGD(list(m.parameters())[1:], 0.1), {}, "scale takes gradients"),
        (
            lambda m: torch.optim.SGD([*m.parameters(), nn.Parameter(torch.ones(2))], 0.1),
            {},
            "not the model's",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            made(optimizer, **options)
    compiled = torch.compile(make_model("mlp"), backend="eager")
    with pytest.raises(ValueError, match="compiled as a whole"):
        parallel.data_parallel(compiled, sgd(compiled), process_group=GROUPS[2])
    _model, optimizer = make_parallel("mlp", "sgd", 2, DEAR)
    with pytest.raises(RuntimeError, match="fixed"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
    optimizer.close()


def differences_are_named(rank: int, what: str) -> str:
    """Models and optimizers that are not alike; the message on every rank."""
    model = make_model("mlp")
    if what == "shape" and rank == 1:
        model.second.weight = nn.Parameter(torch.ones(13, 32, dtype=torch.float64))
    if what == "type" and rank == 1:
        model.second.float()
    if what == "name" and rank == 1:
        model.extra = nn.Linear(2, 2)
    if what == "long" and rank == 1:
        model.register_parameter("\n\x1b[31m" + "x" * 100_000, nn.Parameter(torch.ones(1)))
    optimizer: torch.optim.Optimizer = torch.optim.SGD(
        model.parameters(), 0.1 if what != "rate" or rank == 0 else 0.2
    )
    if what == "optimizer" and rank == 1:
        optimizer = torch.optim.Adam(model.parameters(), 0.1)
    policy = DEAR if what != "policy" or rank == 0 else "ddp"
    with pytest.raises(ValueError, match="rank 1 has") as caught:
        parallel.data_parallel(model, optimizer, policy, process_group=GROUPS[2])
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000
    return str(caught.value)


def a_rate_of_one_rank_is_named(rank: int) -> str:
    """A scheduler that goes by its rank's own loss; the message on every rank."""
    model = make_model("mlp")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    parallel.data_parallel(model, optimizer, DEAR, process_group=GROUPS[2], check=True)
    inputs, *_ = make_batches("mlp", steps=1)[0]
    for turn in range(2):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        if turn == 0:
            optimizer.step()
    if rank == 1:
        optimizer.param_groups[0]["lr"] = 0.05
    with pytest.raises(ValueError, match="rank 1 has") as caught:
        optimizer.step()
    optimizer.close()
    return str(caught.value)


def ranks_begin_alike(rank: int) -> None:
    """Parameters, buffers and optimizer state come from the first rank."""
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4)).double()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    for _ in range(1 + rank):
        optimizer.zero_grad()
        model(torch.randn(6, 5, dtype=torch.float64)).square().sum().backward()
        optimizer.step()
    optimizer.zero_grad()
    parallel.data_parallel(model, optimizer, DEAR, process_group=GROUPS[2])
    held = [model.state_dict(), optimizer.state_dict()["state"]]
    gathered: list[Any] = [None, None]
    dist.all_gather_object(gathered, held, group=GROUPS[2])
    assert repr(gathered[0]) == repr(gathered[1])
    assert float(held[1][0]["step"]) == 1
    optimizer.close()


def optimizer_states_are_the_plain_ones(
    rank: int, kind: str, optimizer_name: str, count: int
) -> None:
    """state_dict() is the plain optimizer's, and what a plain one has saved is taken."""
    batches = make_batches(kind, steps=9)
    plain = make_model(kind)
    reference = make_optimizer(optimizer_name, plain)
    model, optimizer = make_parallel(kind, optimizer_name, count, DEAR)
    parts = [share(one, rank, count) for one in batches]
    train(plain, reference, batches[:3], schedules=False)
    train(model, optimizer, parts[:3], schedules=False)
    compare_states(optimizer.state_dict(), reference.state_dict())
    # A file of a plain optimizer, of another training.
    other = make_model(kind, seed=7)
    saved = make_optimizer(optimizer_name, other)
    train(other, saved, batches[3:5], schedules=False)
    file = io.BytesIO()
    torch.save([other.state_dict(), saved.state_dict()], file)
    file.seek(0)
    held = torch.load(file)
    model.load_state_dict(held[0])
    optimizer.load_state_dict(held[1])
    reloaded = make_optimizer(optimizer_name, other)
    reloaded.load_state_dict(saved.state_dict())  # which changes types
    compare_states(optimizer.state_dict(), reloaded.state_dict())
    train(model, optimizer, parts[5:], schedules=False)
    train(other, saved, batches[5:], schedules=False)
    assert distance(values_of(model), values_of(other)) <= 1e-6
    # And a plain optimizer takes ours.
    fresh = make_model(kind, seed=9)
    taker = make_optimizer(optimizer_name, fresh)
    fresh.load_state_dict(model.state_dict())
    taker.load_state_dict(optimizer.state_dict())
    train(fresh, taker, batches[:3], schedules=False)
    train(model, optimizer, parts[:3], schedules=False)
    assert distance(values_of(model), values_of(fresh)) <= 1e-6
    optimizer.close()


def compare_states(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Two optimizers' states are alike, within rounding."""
    assert list(ours["state"]) == list(theirs["state"])
    assert [group["params"] for group in ours["param_groups"]] == [
        group["params"] for group in theirs["param_groups"]
    ]
    for index, expected in theirs["state"].items():
        found = ours["state"][index]
        assert set(found) == set(expected), index
        for key, value in expected.items():
            if isinstance(value, torch.Tensor):
                assert found[key].shape == value.shape
                assert found[key].dtype == value.dtype
                assert torch.allclose(found[key], value, atol=1e-9), (index, key)
            else:
                assert found[key] == value, (index, key)


def one_rank_saves(rank: int) -> str:
    """Only the first rank asks for the optimizer's state; it learns who did not."""
    group = dist.new_group([0, 1], datetime.timedelta(seconds=3), use_local_synchronization=False)
    model = make_model("mlp")
    optimizer = make_optimizer("adam", model)
    parallel.data_parallel(model, optimizer, DEAR, process_group=group)
    step(model, optimizer, share(make_batches("mlp", steps=1)[0], rank, 2))
    begin = time.monotonic()
    message = ""
    if rank == 0:
        with pytest.raises(RuntimeError) as caught:
            optimizer.state_dict()
        message = str(caught.value)
        assert time.monotonic() - begin < 10
    return message


def models_stay_what_they_are(rank: int) -> None:
    """Keys, types, copies and files of a model are as before."""
    plain = make_model("transformer")
    model, optimizer = make_parallel("transformer", "adam", 2, DEAR)
    before = [id(parameter) for parameter in model.parameters()]
    batches = [share(one, rank, 2) for one in make_batches("transformer", steps=3)]
    for batch in batches:
        step(model, optimizer, batch)
    assert list(model.state_dict()) == list(plain.state_dict())
    assert isinstance(model, type(plain))
    assert type(model).__name__ == type(plain).__name__
    assert type(optimizer).__name__ == "Adam"
    assert isinstance(optimizer, torch.optim.Adam)
    assert [id(parameter) for parameter in model.parameters()] == before
    copied = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    step(model, optimizer, batches[0])
    for other in (copied, loaded):
        assert distance(values_of(model), values_of(other)) > 0
        loss_of(other, batches[1]).backward()  # by itself: nothing of ours is in it
        assert all(type(p.grad) is torch.Tensor for p in other.parameters() if p.grad is not None)
    optimizer.close()


def batch_norm_as_in_ddp(rank: int) -> None:
    """Statistics are each rank's own in training, and the first rank's when they are read."""

    def made() -> nn.Module:
        torch.manual_seed(3)
        return nn.Sequential(
            nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(180, 3)
        ).double()

    ours, theirs = made(), made()
    optimizers = [torch.optim.SGD(each.parameters(), 0.05, momentum=0.9) for each in (ours, theirs)]
    model, optimizers[0] = parallel.data_parallel(
        ours, optimizers[0], DEAR, process_group=GROUPS[3]
    )
    wrapped = nn.parallel.DistributedDataParallel(theirs, process_group=GROUPS[3])
    for batch in make_batches("cnn"):
        part = share(batch, rank, 3)
        step(model, optimizers[0], part)
        step(wrapped, optimizers[1], part)
    assert distance(values_of(ours), values_of(theirs)) <= 1e-12
    ours.eval()
    buffers = list(theirs.buffers())
    for buffer in buffers:
        dist.broadcast(buffer, 0, group=GROUPS[3])
    assert all(
        torch.allclose(a.double(), b.double(), atol=1e-12)
        for a, b in zip(ours.buffers(), buffers, strict=True)
    )
    optimizers[0].close()


def blocks_may_be_compiled(rank: int) -> None:
    """Compiled blocks train as others do."""
    batches = make_batches("transformer", steps=6)
    plain = make_model("transformer")
    train(plain, make_optimizer("sgd", plain), batches)
    model = make_model("transformer", seed=rank)
    model.block.compile(backend="aot_eager")
    optimizer = make_optimizer("sgd", model)
    parallel.data_parallel(model, optimizer, DEAR, process_group=GROUPS[2])
    train(model, optimizer, [share(one, rank, 2) for one in batches])
    assert distance(values_of(model), values_of(plain)) <= 1e-12
    optimizer.close()


def graphs_of_gradients_are_refused(rank: int, what: str) -> None:
    """Double backward and sparse gradients are errors, not something else."""
    model = nn.Sequential(nn.Embedding(7, 4, sparse=what == "sparse"), nn.Linear(4, 3)).double()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    parallel.data_parallel(model, optimizer, DEAR, process_group=GROUPS[2])
    inputs = torch.tensor([1, 2, 3])

    def train_twice() -> None:
        model(inputs).square().sum().backward(create_graph=what == "double")
        optimizer.step()
        model(inputs).square().sum().backward(create_graph=what == "double")

    with pytest.raises(RuntimeError, match="sparse" if what == "sparse" else "differentiate twice"):
        train_twice()


class Recorder:
    """Notes the collectives that start in a group, at the process group's level."""

    NAMES = (
        "_reduce_scatter_base",
        "_allgather_base",
        "allreduce",
        "reduce",
        "broadcast",
        "reduce_scatter_tensor_coalesced",
        "allgather_into_tensor_coalesced",
    )

    def __init__(self, group: dist.ProcessGroup):
        self.calls: list[tuple[str, int]] = []  # and the bytes of the whole
        self._kept = {name: dist.ProcessGroup.__dict__[name] for name in self.NAMES}
        for name, kept in self._kept.items():
            setattr(dist.ProcessGroup, name, self._wrapped(group, name, kept))

    def _wrapped(self, group: dist.ProcessGroup, name: str, kept: Any) -> Any:
        def call(own: dist.ProcessGroup, *arguments: Any) -> Any:
            if own.group_name == group.group_name:
                tensors = [
                    each
                    for argument in arguments
                    for each in (argument if isinstance(argument, list) else [argument])
                    if isinstance(each, torch.Tensor)
                ]
                half = len(tensors) // 2
                if name in ("_reduce_scatter_base", "reduce_scatter_tensor_coalesced"):
                    tensors = tensors[half:]
                elif name in ("_allgather_base", "allgather_into_tensor_coalesced"):
                    tensors = tensors[:half]
                self.calls.append((name, sum(each.nbytes for each in tensors)))
            return kept.__get__(own)(*arguments)

        return call

    def stop(self) -> None:
        for name, kept in self._kept.items():
            setattr(dist.ProcessGroup, name, kept)


def bytes_and_collectives(rank: int, policy: str, count: int) -> dict[str, Any]:
    """What travels in an iteration, as the process group sees it, and what the plan says."""
    model, optimizer = make_parallel("transformer", "adam", count, policy, broadcast_buffers=False)
    batches = [share(one, rank, count) for one in make_batches("transformer", steps=5)]
    for batch in batches[:2]:
        step(model, optimizer, batch)
    trainer = trainer_of(optimizer)
    trainer.synchronize()
    recorder = Recorder(trainer.groups.calls.group)
    for batch in batches[2:]:
        step(model, optimizer, batch)
    trainer.synchronize()
    recorder.stop()
    plan = trainer._built.engine.following.program.plan
    found = {
        "calls": recorder.calls,
        "plan": [(one.kind, one.first, one.end) for one in plan] * 3,
        "bytes": 3 * sum(parameter.nbytes for parameter in model.parameters()),
        "order": [one.index for one in trainer._built.engine.history().log],
    }
    optimizer.close()
    return found


def memory(rank: int) -> None:
    """Beside parameters and gradients there is a shard of each at most."""
    model, optimizer = make_parallel("transformer", "sgd", 4, DEAR)
    step(model, optimizer, share(make_batches("transformer", steps=1)[0], rank, 4))
    layout = trainer_of(optimizer)._built.layout
    parameters = sum(parameter.nbytes for parameter in model.parameters())
    held = sum(one.parameters.nbytes + one.gradients.nbytes for one in layout.buffers)
    assert held <= 2 * parameters * 1.01 + 8 * 4 * len(layout.atoms)
    starts = [(one.parameters.data_ptr(), one.parameters.nbytes) for one in layout.buffers]
    for parameter in model.parameters():
        assert any(at <= parameter.data_ptr() < at + size for at, size in starts)
    state = sum(
        value.nbytes
        for unit in trainer_of(optimizer)._built.optimizer.units
        for value in trainer_of(optimizer)._built.optimizer.state(unit).values()
        if isinstance(value, torch.Tensor)
    )
    assert state <= parameters / 4 * 1.3
    optimizer.close()


def hook_in_ddp(rank: int) -> None:
    """Stock DDP with our hook makes what it makes with its own."""
    models = [make_model("cnn", seed=5) for _ in range(2)]
    wrapped = [
        nn.parallel.DistributedDataParallel(each, process_group=GROUPS[3], bucket_cap_mb=0.001)
        for each in models
    ]
    wrapped[0].register_comm_hook(GROUPS[3], parallel.hook)
    for each, model in zip(wrapped, models, strict=True):
        optimizer = make_optimizer("nesterov", model)
        train(each, optimizer, [share(one, rank, 3) for one in make_batches("cnn", steps=6)])
    assert distance(values_of(models[0]), values_of(models[1])) <= 1e-12


def explanations(rank: int, folder: str) -> None:
    """What is explained adds up, and traces can be read."""
    model, optimizer = make_parallel("transformer", "sgd", 2, DEAR)
    batches = [share(one, rank, 2) for one in make_batches("transformer")]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for batch in batches:
            step(model, optimizer, batch)
        optimizer.synchronize()
    explanation = optimizer.explain()
    plan = trainer_of(optimizer)._built.engine.following.program.plan
    assert len(explanation.buckets) == len(plan)
    assert explanation.iterations >= 10
    for bucket in explanation.buckets:
        assert bucket.ready_s <= bucket.started_s <= bucket.finished_s
        assert bucket.exposed_s >= 0
        assert bucket.waited_for in ("gradients", "update", "policy", "channel")
    # Of single collectives, as medians are each by itself.
    for one in trainer_of(optimizer)._built.engine.history().log:
        assert one.finished_ps < 0 or 0 <= one.exposed_ps <= one.finished_ps - one.started_ps
    text = str(explanation)
    assert len(text.splitlines()) == 2 + len(plan)
    assert "reduce_scatter" in text
    theirs, ours = pathlib.Path(folder) / f"torch{rank}.json", pathlib.Path(folder) / f"{rank}.json"
    profiler.export_chrome_trace(str(theirs))
    optimizer.save_trace(ours, beside=theirs)
    events = json.loads(ours.read_text())["traceEvents"]
    own = [one for one in events if one.get("cat") == "pleach"]
    foreign = [one for one in events if one.get("ph") == "X" and one.get("cat") == "cpu_op"]
    assert own
    assert foreign
    low, high = (min(one["ts"] for one in foreign), max(one["ts"] for one in foreign))
    inside = [one for one in own if low <= one["ts"] <= high]
    assert len(inside) >= len(own) / 2, "the two traces are of one time"
    optimizer.close()


class _WithNothing(nn.Module):
    """A layer beside a parameter without elements."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.nothing = nn.Parameter(torch.zeros(0))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layer(inputs) + self.nothing.sum()


def what_was_made_before_goes_on(rank: int, policy: str, way: str) -> None:
    """A scheduler of before, an optimizer's own ways to clear and to unscale."""

    def made() -> tuple[Any, Any, Any]:
        torch.manual_seed(0)
        model = _WithNothing().double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, **{way: True})
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

    model, optimizer, scheduler = made()
    plain, plain_optimizer, plain_scheduler = made()
    group = GROUPS[2]
    model, optimizer = parallel.data_parallel(model, optimizer, policy, process_group=group)
    scalers = [torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3) for _ in range(2)]
    for index in range(6):
        generator = torch.Generator().manual_seed(index)
        batch = torch.randn(4, 5, dtype=torch.float64, generator=generator)
        factor = float("inf") if index == 3 else 1.0
        for inputs, one, its, scaler, rates in (
            (batch[2 * rank :][:2], model, optimizer, scalers[0], scheduler),
            (batch, plain, plain_optimizer, scalers[1], plain_scheduler),
        ):
            its.zero_grad(set_to_none=index % 2 == 0)
            scaler.scale(one(inputs).square().mean() * factor).backward()
            scaler.step(its)
            scaler.update()
            rates.step()
    assert scalers[0].get_scale() == scalers[1].get_scale()
    found = dict(model.named_parameters())
    for name, expected in plain.named_parameters():
        assert distance([found[name]], [expected]) <= 1e-12
    assert len(optimizer.state_dict()["state"]) >= 2  # those that have elements
    optimizer.close()


def a_step_of_the_users_own_is_refused(_rank: int) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step = lambda: None  # type: ignore
    with pytest.raises(ValueError, match="step is not its class's"):
        parallel.data_parallel(model, optimizer, process_group=GROUPS[2])
