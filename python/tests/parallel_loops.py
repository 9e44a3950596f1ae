"""Training loops as people write them; each runs on one process, and on the ranks of a job."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from parallel_cases import (
    FEW_STEPS,
    distance,
    largest,
    loss_of,
    make_batches,
    make_model,
    make_optimizer,
    values_of,
)
from torch import nn
from torch.utils.checkpoint import checkpoint

Batch = Sequence[torch.Tensor]


class Run:
    """One training: on a part of every batch, or, plain, on all of it."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, rank: int, count: int):
        self.model = model
        self.optimizer = optimizer
        self.rank = rank
        self.count = count
        self.noted: list[torch.Tensor] = []  # to be equal in plain training

    @property
    def is_plain(self) -> bool:
        return self.count == 1

    def part(self, batch: Batch) -> list[torch.Tensor]:
        return [each.chunk(self.count)[self.rank] for each in batch]

    def note(self, value: torch.Tensor | float) -> None:
        self.noted.append(torch.as_tensor(value, dtype=torch.float64).detach().clone())

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        if hasattr(self.optimizer, "no_sync"):
            made: contextlib.AbstractContextManager[None] = self.optimizer.no_sync()
            return made
        return contextlib.nullcontext()

    def backward(self, batch: Batch, factor: float = 1.0) -> None:
        (loss_of(self.model, self.part(batch)) * factor).backward()


def plain_steps(run: Run, batches: Sequence[Batch], **clear: bool) -> None:
    for batch in batches[:FEW_STEPS]:
        run.optimizer.zero_grad(**clear)
        run.backward(batch)
        run.optimizer.step()


def zero_in_place(run: Run, batches: Sequence[Batch]) -> None:
    plain_steps(run, batches, set_to_none=False)


def never_cleared(run: Run, batches: Sequence[Batch]) -> None:
    for batch in batches[:6]:
        run.backward(batch)
        run.optimizer.step()


def cleared_sometimes(run: Run, batches: Sequence[Batch]) -> None:
    for index, batch in enumerate(batches[:9]):
        if index % 3 == 0:
            run.optimizer.zero_grad(set_to_none=index % 2 == 0)
        run.backward(batch)
        run.optimizer.step()


def clip_norm(run: Run, batches: Sequence[Batch]) -> None:
    for index, batch in enumerate(batches[:FEW_STEPS]):
        run.optimizer.zero_grad()
        run.backward(batch)
        kind = 2.0 if index % 3 else float("inf")
        run.note(nn.utils.clip_grad_norm_(run.model.parameters(), 0.3, norm_type=kind))
        run.optimizer.step()


def clip_norm_foreach(run: Run, batches: Sequence[Batch]) -> None:
    for batch in batches[:FEW_STEPS]:
        run.optimizer.zero_grad()
        run.backward(batch)
        norm = nn.utils.get_total_norm(
            [p.grad for p in run.model.parameters() if p.grad is not None]
        )
        run.note(norm)
        nn.utils.clip_grads_with_norm_(run.model.parameters(), 0.3, norm)
        run.optimizer.step()


def passes_after_clipping(run: Run, batches: Sequence[Batch]) -> None:
    """More comes on top of averages that have been looked at; every second time they are again."""
    for index in range(0, 18, 3):
        run.optimizer.zero_grad()
        for batch in batches[index : index + 2]:
            run.backward(batch)
            run.note(nn.utils.clip_grad_norm_(run.model.parameters(), 0.3))
        if index % 2:
            run.backward(batches[index + 2])
        run.optimizer.step()


def steps_left_out(run: Run, batches: Sequence[Batch]) -> None:
    """As where a scaler finds an infinite gradient, but that nothing is cleared."""
    for index, batch in enumerate(batches[:12]):
        run.backward(batch)
        run.note(nn.utils.clip_grad_norm_(run.model.parameters(), 0.3))
        if index % 3 == 2:
            run.optimizer.step()


def cleared_before_step(run: Run, batches: Sequence[Batch]) -> None:
    """Averages are set to zero or taken away, some or all, looked at before and after or not."""
    for index, batch in enumerate(batches[:10]):
        run.optimizer.zero_grad()
        run.backward(batch)
        is_looked_at, sets_to_none, clears_all = index & 1, index & 2, index % 5 == 4
        if is_looked_at:
            run.note(nn.utils.clip_grad_norm_(run.model.parameters(), 0.3))
        for number, parameter in enumerate(run.model.parameters()):
            if parameter.grad is not None and (clears_all or number % 2):
                if sets_to_none:
                    parameter.grad = None
                else:
                    parameter.grad.zero_()
        if index % 3 == 2:
            run.backward(batches[0])
        if is_looked_at:
            run.note(nn.utils.clip_grad_norm_(run.model.parameters(), 0.2))
        run.optimizer.step()


def clip_value(run: Run, batches: Sequence[Batch]) -> None:
    for batch in batches[:FEW_STEPS]:
        run.optimizer.zero_grad()
        run.backward(batch)
        nn.utils.clip_grad_value_(run.model.parameters(), 0.01)
        run.optimizer.step()


def scaler(run: Run, batches: Sequence[Batch]) -> None:
    made = torch.amp.GradScaler(
        torch.get_default_device().type, init_scale=2.0**10, growth_interval=3
    )
    for index, batch in enumerate(batches[:FEW_STEPS]):
        run.optimizer.zero_grad()
        loss = loss_of(run.model, run.part(batch))
        if index == 5 and run.rank == run.count - 1:
            loss = loss * float("inf")
        made.scale(loss).backward()
        made.unscale_(run.optimizer)
        if index % 2:
            run.note(nn.utils.clip_grad_norm_(run.model.parameters(), 0.3) if index != 5 else 0.0)
        made.step(run.optimizer)
        made.update()
        run.note(made.get_scale())


def scaler_alone(run: Run, batches: Sequence[Batch]) -> None:
    made = torch.amp.GradScaler(
        torch.get_default_device().type, init_scale=2.0**10, growth_interval=4
    )
    for index, batch in enumerate(batches[:12]):
        run.optimizer.zero_grad()
        loss = loss_of(run.model, run.part(batch))
        if index == 7 and run.rank == 0:  # one element's gradient, which is in one rank's shard
            loss = loss + next(run.model.parameters()).flatten()[0] * float("inf")
        made.scale(loss).backward()
        made.step(run.optimizer)
        made.update()
        run.note(made.get_scale())


def accumulate(run: Run, batches: Sequence[Batch]) -> None:
    for first in range(0, 18, 3):
        run.optimizer.zero_grad()
        for batch in batches[first : first + 3]:
            run.backward(batch, 1 / 3)
        run.optimizer.step()


def accumulate_without_sync(run: Run, batches: Sequence[Batch]) -> None:
    for first in range(0, 16, 4):
        run.optimizer.zero_grad()
        with run.no_sync():
            for batch in batches[first : first + 3]:
                run.backward(batch, 1 / 4)
        run.backward(batches[first + 3], 1 / 4)
        run.optimizer.step()


def accumulate_unevenly(run: Run, batches: Sequence[Batch]) -> None:
    """How many passes a step has changes, more and less."""
    first = 0
    for passes in (1, 3, 2, 1, 4, 4, 1):
        run.optimizer.zero_grad()
        for batch in batches[first : first + passes]:
            run.backward(batch, 1 / passes)
        run.optimizer.step()
        first += passes


def two_forwards(run: Run, batches: Sequence[Batch]) -> None:
    for batch in batches[:FEW_STEPS]:
        run.optimizer.zero_grad()
        part = run.part(batch)
        loss = loss_of(run.model, part) + loss_of(run.model, [part[0] * 0.5, part[1]])
        with torch.no_grad():
            loss_of(run.model, part)
        loss.backward()
        run.optimizer.step()


def twice_through_one_graph(run: Run, batches: Sequence[Batch]) -> None:
    for batch in batches[:8]:
        run.optimizer.zero_grad()
        loss = loss_of(run.model, run.part(batch))
        loss.backward(retain_graph=True)
        (loss * 0.5).backward()
        run.optimizer.step()


def discard_a_pass(run: Run, batches: Sequence[Batch]) -> None:
    """A pass whose gradients are cleared before any step."""
    for index, batch in enumerate(batches[:12]):
        run.optimizer.zero_grad()
        run.backward(batch)
        if index % 4 == 2:
            run.optimizer.zero_grad(set_to_none=index % 8 == 2)
            run.backward(batches[0])
        run.optimizer.step()


def with_closure(run: Run, batches: Sequence[Batch]) -> None:
    for batch in batches[:8]:

        def closure(batch: Batch = batch) -> torch.Tensor:
            run.optimizer.zero_grad()
            loss = loss_of(run.model, run.part(batch))
            loss.backward()
            return loss

        run.optimizer.step(closure)


def settings_change(run: Run, batches: Sequence[Batch]) -> None:
    """Rates, decay and momentum change between steps, by hand and by a scheduler."""
    scheduler = torch.optim.lr_scheduler.LambdaLR(run.optimizer, lambda step: 1 / (1 + step % 5))
    for index, batch in enumerate(batches[:FEW_STEPS]):
        run.optimizer.zero_grad()
        run.backward(batch)
        run.optimizer.param_groups[1]["weight_decay"] = 0.01 * index
        run.optimizer.step()
        for group in run.optimizer.param_groups:
            group["lr"] = 1e9  # for nobody: the step has been taken
        scheduler.step()


def evaluate_between(run: Run, batches: Sequence[Batch]) -> None:
    """What is read between steps is new: by eval, no_grad, state_dict, parameters(), copies."""
    for index, batch in enumerate(batches[:FEW_STEPS]):
        run.optimizer.zero_grad()
        run.backward(batch)
        run.optimizer.step()
        way = index % 5
        if way == 0:
            with torch.no_grad():
                run.note(loss_of(run.model, batches[0]))
        elif way == 1:
            run.model.eval()
            run.note(loss_of(run.model, batches[0]))
            run.model.train()
        elif way == 2:
            run.note(sum(value.double().sum() for value in run.model.state_dict().values()))
        elif way == 3:
            run.note(sum(value.detach().double().sum() for value in run.model.parameters()))
        else:
            with torch.inference_mode():
                run.note(loss_of(run.model, batches[0]))


def replace_gradients(run: Run, batches: Sequence[Batch]) -> None:
    """Gradients of somebody's own, the same on all ranks."""
    for index, batch in enumerate(batches[:6]):
        run.optimizer.zero_grad()
        run.backward(batch)
        if index % 2:
            for number, parameter in enumerate(run.model.parameters()):
                if parameter.grad is not None:
                    parameter.grad = torch.full_like(parameter.detach(), 0.01 * number)
        run.optimizer.step()


def look_at_gradients(run: Run, batches: Sequence[Batch]) -> None:
    for batch in batches[:6]:
        run.optimizer.zero_grad()
        run.backward(batch)
        optimizer: Any = run.optimizer
        with contextlib.nullcontext() if run.is_plain else optimizer.whole_gradients():
            for parameter in run.model.parameters():
                if parameter.grad is not None:
                    run.note(parameter.grad.double().square().sum())
                    parameter.grad.mul_(0.5)
        run.optimizer.step()


def step_again(run: Run, batches: Sequence[Batch]) -> None:
    """Steps without a backward between them, whose gradients are there or not."""
    for index, batch in enumerate(batches[:6]):
        run.optimizer.zero_grad(set_to_none=index % 2 == 0)
        run.backward(batch)
        run.optimizer.step()
        if index % 3:
            run.optimizer.step()
        if index % 3 == 2:
            run.optimizer.zero_grad()
            run.optimizer.step()


def freeze_and_thaw(run: Run, batches: Sequence[Batch]) -> None:
    """Parameters take no gradients for a while, their last one cleared or not."""
    modules = list(run.model.children())
    for index, batch in enumerate(batches[:12]):
        if index % 3 == 0:
            for module in modules:
                module.requires_grad_(True)
            modules[index // 3 % 2].requires_grad_(False)
        if index % 2 == 0:
            run.optimizer.zero_grad()
        run.backward(batch)
        run.optimizer.step()


class InterruptionError(Exception):
    """What a loop catches."""


def interrupted(run: Run, batches: Sequence[Batch]) -> None:
    """Forward or backward fails on all ranks, and the loop goes on with the next batch."""
    *_, middle, _ = [one for one in run.model.modules() if isinstance(one, nn.Linear)]
    fails = ""

    def in_forward(*_: object) -> None:
        if fails == "forward":
            raise InterruptionError

    def in_backward(_gradient: torch.Tensor) -> None:
        if fails == "backward":
            raise InterruptionError

    middle.register_forward_hook(in_forward)
    middle.weight.register_hook(in_backward)
    for index, batch in enumerate(batches[:14]):
        fails = {0: "backward", 3: "forward", 5: "backward", 6: "backward", 9: "forward"}.get(
            index, ""
        )
        if index != 6:  # where a part of a pass is left from before
            run.optimizer.zero_grad()
        try:
            run.backward(batch)
        except InterruptionError:
            continue
        run.optimizer.step()


def replace_values(run: Run, batches: Sequence[Batch]) -> None:
    """Parameters are written to, or given other memory."""
    for index, batch in enumerate(batches[:9]):
        run.optimizer.zero_grad()
        run.backward(batch)
        run.optimizer.step()
        for number, parameter in enumerate(run.model.parameters()):
            if index % 3 == 0:
                parameter.data = parameter.data * 0.9 + 0.01 * number
            elif index % 3 == 1:
                parameter.data.clamp_(-0.5, 0.5)


def penalties(run: Run, batches: Sequence[Batch]) -> None:
    """The loss reads parameters itself, after forward and before it."""
    for batch in batches[:8]:
        run.optimizer.zero_grad()
        values = list(run.model.parameters())
        before = values[0].square().sum() * 0.01
        loss = loss_of(run.model, run.part(batch))
        (before + loss + sum(value.abs().sum() for value in values) * 0.001).backward()
        run.optimizer.step()


def hooks_of_their_own(run: Run, batches: Sequence[Batch]) -> None:
    """Hooks of modules and tensors, which change gradients, and of optimizers."""
    calls: list[str] = []

    def halve(_module: nn.Module, inputs: Any, _outputs: Any) -> Any:
        calls.append("backward")
        return tuple(None if one is None else one * 0.5 for one in inputs)

    linears = [one for one in run.model.modules() if isinstance(one, nn.Linear)]
    linears[-1].register_full_backward_hook(halve)
    linears[-1].register_full_backward_pre_hook(lambda *_: calls.append("before"))
    linears[0].weight.register_hook(lambda gradient: gradient * 0.5)
    linears[0].weight.register_post_accumulate_grad_hook(lambda _: calls.append("accumulated"))
    run.optimizer.register_step_pre_hook(lambda *_: calls.append("pre"))
    run.optimizer.register_step_post_hook(lambda *_: calls.append("post"))
    plain_steps(run, batches[:6])
    for kind in ("backward", "before", "accumulated", "pre", "post"):
        run.note(calls.count(kind))


def average_weights(run: Run, batches: Sequence[Batch]) -> None:
    """Averages of weights as torch.optim.swa_utils makes them."""
    averages = torch.optim.swa_utils
    models = [
        averages.AveragedModel(run.model),
        averages.AveragedModel(run.model, multi_avg_fn=averages.get_ema_multi_avg_fn(0.9)),
    ]
    for batch in batches[:6]:
        run.optimizer.zero_grad()
        run.backward(batch)
        run.optimizer.step()
        for model in models:
            model.update_parameters(run.model)
    for model in models:
        with torch.no_grad():
            run.note(loss_of(model, batches[0]))


def clip_replaced(run: Run, batches: Sequence[Batch]) -> None:
    """Some gradients are somebody's own when all are clipped."""
    for index, batch in enumerate(batches[:6]):
        run.optimizer.zero_grad()
        run.backward(batch)
        for number, parameter in enumerate(run.model.parameters()):
            if parameter.grad is not None and number % 2:
                parameter.grad = torch.full_like(parameter.detach(), 0.01 * number)
        norm = nn.utils.clip_grad_norm_(run.model.parameters(), 0.1, foreach=index % 2 == 0)
        run.note(norm)
        run.optimizer.step()


LOOPS: dict[str, Callable[[Run, Sequence[Batch]], None]] = {
    made.__name__: made
    for made in (
        plain_steps,
        zero_in_place,
        never_cleared,
        cleared_sometimes,
        clip_norm,
        clip_norm_foreach,
        passes_after_clipping,
        steps_left_out,
        cleared_before_step,
        clip_value,
        scaler,
        scaler_alone,
        accumulate,
        accumulate_without_sync,
        accumulate_unevenly,
        two_forwards,
        twice_through_one_graph,
        discard_a_pass,
        with_closure,
        settings_change,
        evaluate_between,
        replace_gradients,
        look_at_gradients,
        step_again,
        freeze_and_thaw,
        interrupted,
        replace_values,
        penalties,
        hooks_of_their_own,
        average_weights,
        clip_replaced,
    )
}


class Checkpointed(nn.Module):
    """Recomputes its middle in backward."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.first = nn.Linear(7, 31)
        self.second = nn.Sequential(nn.Linear(31, 31), nn.Tanh(), nn.Linear(31, 13))
        self.third = nn.Linear(13, 3)
        self._reentrant = reentrant

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(values))
        hidden = checkpoint(self.second, hidden, use_reentrant=self._reentrant)
        hidden = checkpoint(lambda one: torch.tanh(one) * 2, hidden, use_reentrant=self._reentrant)
        return self.third(hidden)


class Branches(nn.Module):
    """Uses what a sample's first value says: one branch, another, or none of both."""

    def __init__(self, everywhere: bool) -> None:
        super().__init__()
        self.first = nn.Linear(7, 11)
        self.left = nn.Linear(11, 11)
        self.right = nn.Linear(11, 11)
        self.never = nn.Linear(3, 3)
        self.last = nn.Linear(11, 3)
        self._everywhere = everywhere

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(values))
        rows = []
        for row, value in zip(hidden, values[:, 0], strict=True):
            if self._everywhere or bool(value > 1):
                row = self.left(row)
            if not self._everywhere and bool(value < -1.2):
                row = self.right(row)
            rows.append(row)
        return self.last(torch.stack(rows))


class Wandering(nn.Module):
    """Comes to its layers in another order in every pass, and reads some outside of theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(9, 3)
        self.middles = nn.ModuleList(nn.Linear(9, 9) for _ in range(4))
        self.first = nn.Linear(7, 9)
        self.passes = 0

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(values)) + self.middles[3].bias + self.last.weight.mean()
        order = list(range(4))
        shift = self.passes % 4
        self.passes += self.training and torch.is_grad_enabled()
        for index in order[shift:] + order[:shift]:
            hidden = torch.tanh(self.middles[index](hidden))
        return self.last(hidden) + hidden[:, :7] @ self.first.weight.t()[:, :3]


class Mixed(nn.Module):
    """Parameters of three types."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(7, 31, dtype=torch.float32)
        self.second = nn.Linear(31, 13, dtype=torch.float64)
        self.third = nn.Linear(13, 3, dtype=torch.float32)
        self.scale = nn.Parameter(torch.ones(3, dtype=torch.float64))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(values.float()))
        hidden = torch.tanh(self.second(hidden.double()))
        return self.third(hidden.float()).double() * self.scale


class Frozen(nn.Module):
    """Some of it takes no gradients, and one parameter is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(7, 13)
        self.first.weight.requires_grad_(False)
        self.last = nn.Linear(13, 3)
        self.empty = nn.Parameter(torch.zeros(0, 3))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(values))) + self.empty.sum()


class Alternating(nn.Module):
    """Uses one layer in a pass, and another one in the next."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(7, 9)
        self.middles = nn.ModuleList(nn.Linear(9, 9) for _ in range(3))
        self.last = nn.Linear(9, 3)
        self.passes = 0

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(values))
        hidden = torch.tanh(self.middles[self.passes % 2](hidden))
        self.passes += self.training and torch.is_grad_enabled()
        return self.last(hidden)


class Parametrized(nn.Module):
    """Weights that are computed of parameters, in both of torch's ways."""

    def __init__(self) -> None:
        super().__init__()
        kinds = nn.utils.parametrizations
        self.first = kinds.weight_norm(nn.Linear(7, 11))
        self.second = kinds.spectral_norm(nn.Linear(11, 9))
        self.third = kinds.orthogonal(nn.Linear(9, 9))
        self.last = nn.utils.weight_norm(nn.Linear(9, 3))  # deprecated: by a hook before forward

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.second(torch.relu(self.first(values))))
        return self.last(self.third(hidden)) + 0.01 * self.second.weight.mean()


class Shared(nn.Module):
    """One parameter in two modules, and one module in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Linear(7, 9, bias=False)
        self.block = nn.Linear(9, 9)
        self.again = self.block
        self.head = nn.Linear(9, 7, bias=False)
        self.head.weight = nn.Parameter(torch.zeros(7, 9))
        self.out = nn.Linear(7, 9, bias=False)
        self.out.weight = self.embedding.weight
        self.last = nn.Linear(9, 3)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.again(torch.tanh(self.block(self.embedding(values)))))
        return self.last(self.out(self.head(hidden) + values))


class Lazy(nn.Module):
    """Lazy layers, whose shapes are known since a first batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LazyLinear(9)
        self.last = nn.LazyLinear(3)
        self(torch.zeros(1, 7))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(values)))


OTHERS: dict[str, Callable[[], nn.Module]] = {
    "checkpointed": lambda: Checkpointed(False),
    "checkpointed_reentrant": lambda: Checkpointed(True),
    "unused_on_some": lambda: Branches(False),
    "unused_on_all": lambda: Branches(True),
    "wandering": Wandering,
    "mixed": Mixed,
    "frozen": Frozen,
    "alternating": Alternating,
    "parametrized": Parametrized,
    "shared": Shared,
    "lazy": Lazy,
}


def make(kind: str, seed: int = 0) -> nn.Module:
    """A model of the cases, or one of these, in float64 but for mixed ones."""
    if kind not in OTHERS:
        return make_model(kind, seed=seed)
    torch.manual_seed(seed)
    model = OTHERS[kind]()
    return model if kind == "mixed" else model.double()


def run_plain(loop: str, kind: str, optimizer: str) -> Run:
    """What training on whole batches makes."""
    model = make(kind)
    run = Run(model, make_optimizer(optimizer, model), 0, 1)
    LOOPS[loop](run, make_batches(kind if kind in ("cnn", "transformer") else "mlp"))
    return run


def differences(run: Run, plain: Run) -> tuple[float, float]:
    """The largest of parameters, and of what was noted, as a part of it."""
    noted = zip(run.noted, plain.noted, strict=True)
    return (
        distance(values_of(run.model), values_of(plain.model)),
        largest((a - b) / b.abs().clamp(min=1e-9) for a, b in noted),
    )
