"""Models and optimizers of random training loops, as users of PyTorch write them.

All values are float64. Forward depends on the inputs, on parameters, on buffers and on
`model.turn`, which the loop sets to the number of the iteration.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

INPUTS, OUTPUTS, TOKENS, LENGTH = 6, 5, 40, 4
Closure = Callable[[], torch.Tensor] | None
Groups = list[dict[str, Any]]


class Model(nn.Module):
    """Has buffers that forward reads: a factor, and what is added to the outputs."""

    takes_tokens = False
    # torch does not pickle parametrized modules.
    is_pickled = True
    # functorch takes no checkpoints.
    is_transformed = True

    def __init__(self) -> None:
        super().__init__()
        self.turn = 0
        self.register_buffer("factor", torch.ones(()))
        self.register_buffer("shift", torch.linspace(-0.2, 0.2, OUTPUTS))

    def body(self, values: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.body(values) * self.factor + self.shift


class Wide(Model):
    """One wide hidden layer, and a scalar parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.first = nn.Linear(INPUTS, 3000)
        self.second = nn.Linear(3000, OUTPUTS)

    def body(self, values: torch.Tensor) -> torch.Tensor:
        return self.second(0.1 * torch.tanh(self.first(values * self.scale)))


class Deep(Model):
    """A sequence of layers with norms."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(INPUTS, 64),
            nn.LayerNorm(64),
            nn.GELU(),
            nn.Linear(64, 300),
            nn.SiLU(),
            nn.Linear(300, 64),
            nn.PReLU(64),
        )
        self.head = nn.Linear(64, OUTPUTS)

    def body(self, values: torch.Tensor) -> torch.Tensor:
        return self.head(self.trunk(values))


class FixedNorm(Model):
    """Batch norm with fixed statistics, as users who fine-tune have it: train() leaves it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(INPUTS, 1500)
        self.norm = nn.BatchNorm1d(1500)
        self.norm.running_mean.copy_(torch.linspace(-0.1, 0.1, 1500))
        self.norm.running_var.copy_(torch.linspace(0.5, 1.5, 1500))
        self.last = nn.Linear(1500, OUTPUTS)
        self.train()

    def train(self, mode: bool = True) -> FixedNorm:
        super().train(mode)
        self.norm.eval()
        return self

    def body(self, values: torch.Tensor) -> torch.Tensor:
        return self.last(0.1 * functional.softplus(self.norm(self.first(values))))


class Tied(Model):
    """The decoder has the weight of the embedding."""

    takes_tokens = True

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 24)
        self.hidden = nn.Sequential(nn.Linear(24, 900), nn.Softsign(), nn.Linear(900, 24))
        self.decoder = nn.Linear(24, TOKENS)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.decoder.weight = self.embedding.weight

    def body(self, values: torch.Tensor) -> torch.Tensor:
        hidden = self.hidden(self.embedding(values)).mean(1)
        return self.decoder(hidden)[:, :OUTPUTS]


class Parts(Model):
    """A dictionary of parts, with an odd layer that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        online = nn.Sequential(nn.Linear(INPUTS, 2000), nn.Softsign(), nn.Linear(2000, 16))
        self.parts = nn.ModuleDict(
            {"online": online, "mixer": nn.Linear(16, 16), "head": nn.Linear(16, OUTPUTS)}
        )

    def body(self, values: torch.Tensor) -> torch.Tensor:
        hidden = self.parts["online"](values)
        for _ in range(2):
            hidden = torch.tanh(self.parts["mixer"](hidden))
        return self.parts["head"](hidden)


class Late(Model):
    """Later iterations read a layer for the first time, and a bias where it was not read."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(INPUTS, 1200)
        self.extra = nn.Linear(INPUTS, 1200)
        self.inner = nn.Linear(1200, INPUTS)
        self.last = nn.Linear(INPUTS, OUTPUTS)

    def body(self, values: torch.Tensor) -> torch.Tensor:
        if self.turn >= 2:
            values = values + self.inner.bias
        hidden = 0.1 * torch.tanh(self.first(values))
        if self.turn >= 3:
            hidden = hidden + 0.05 * self.extra(values)
        return self.last(torch.tanh(self.inner(hidden)))


class Normalised(Model):
    """A layer whose weight torch computes from a norm and a direction."""

    is_pickled = False

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.weight_norm(nn.Linear(INPUTS, 1200))
        self.second = nn.Linear(1200, 30)
        self.last = nn.Linear(30, OUTPUTS)

    def body(self, values: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.second(torch.tanh(self.first(values)))))


class Raw(Model):
    """Parameters in containers of their own, read by functions."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterDict(
            {"into": torch.randn(1800, INPUTS) * 0.4, "out": torch.randn(OUTPUTS, 1800) * 0.02}
        )
        self.biases = nn.ParameterList([torch.zeros(1800), torch.zeros(OUTPUTS)])
        self.gain = nn.Linear(INPUTS, 1)

    def body(self, values: torch.Tensor) -> torch.Tensor:
        hidden = functional.linear(values, self.weights["into"], self.biases[0])
        out = functional.linear(0.1 * torch.tanh(hidden), self.weights["out"], self.biases[1])
        return out * (1 + torch.tanh(self.gain(values)))


class Filters(Model):
    """Convolutions over a line."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.Conv1d(1, 100, 3, padding=1)
        self.norm = nn.GroupNorm(4, 100)
        self.narrow = nn.Conv1d(100, 20, 3)
        self.last = nn.Linear(20 * (INPUTS - 2), OUTPUTS)

    def body(self, values: torch.Tensor) -> torch.Tensor:
        values = functional.silu(self.norm(self.filters(values.unsqueeze(1))))
        return self.last(torch.tanh(self.narrow(values)).flatten(1))


class Recurrent(Model):
    """A recurrent layer, which refers to its weights in a list of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(1, 12)
        self.memory = nn.LSTM(12, 40, batch_first=True)
        self.last = nn.Linear(40, OUTPUTS)

    def body(self, values: torch.Tensor) -> torch.Tensor:
        found, _ = self.memory(torch.tanh(self.into(values.unsqueeze(2))))
        return self.last(found[:, -1])


class Attention(Model):
    """A block of a transformer; biases of keys would have no gradients but rounding."""

    takes_tokens = True

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 16)
        self.block = nn.TransformerEncoderLayer(
            16, 2, 400, dropout=0.0, batch_first=True, bias=False
        )
        self.last = nn.Linear(16, OUTPUTS)

    def body(self, values: torch.Tensor) -> torch.Tensor:
        return self.last(self.block(self.embedding(values)).mean(1))


class Checkpointed(Model):
    """Backward computes a part of forward again."""

    is_transformed = False

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(INPUTS, 900), nn.Softsign(), nn.Linear(900, 20))
        self.last = nn.Linear(20, OUTPUTS)

    def body(self, values: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(checkpoint(self.trunk, values, use_reentrant=False)))


MODELS: dict[str, type[Model]] = {
    each.__name__: each
    for each in (
        Wide,
        Deep,
        FixedNorm,
        Tied,
        Parts,
        Late,
        Normalised,
        Raw,
        Filters,
        Recurrent,
        Attention,
        Checkpointed,
    )
}


def make_model(kind: str, seed: int) -> Model:
    """A model with seeded values."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[kind]().double()


# ------------------------------------------------------------------------------ optimizers


class CountsInGroup(torch.optim.Optimizer):
    """Keeps its counter in its groups."""

    def __init__(self, groups: Groups, lr: float):
        super().__init__(groups, {"lr": lr, "k": 0})

    @torch.no_grad()
    def step(self, closure: Closure = None) -> Any:
        loss = call(closure)
        for group in self.param_groups:
            group["k"] += 1
            for parameter in with_gradients(group):
                parameter.add_(parameter.grad, alpha=-group["lr"] / group["k"])
        return loss


class CountsItself(torch.optim.Optimizer):
    """Keeps its counter on itself, and writes through `data`."""

    def __init__(self, groups: Groups, lr: float):
        super().__init__(groups, {"lr": lr, "momentum": 0.9})
        self.count = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("count", 0)  # which torch does not copy

    def step(self, closure: Closure = None) -> Any:
        loss = call(closure)
        self.count += 1
        for group in self.param_groups:
            for parameter in with_gradients(group):
                state = self.state[parameter]
                if "sum" not in state:
                    state["sum"] = torch.zeros_like(parameter.data)
                state["sum"].mul_(group["momentum"]).add_(parameter.grad.data)
                rate = group["lr"] / math.sqrt(self.count)
                parameter.data.add_(state["sum"], alpha=-rate)
        return loss


class GlobalNorm(torch.optim.Optimizer):
    """Divides by the norm over all gradients."""

    def __init__(self, groups: Groups, lr: float):
        super().__init__(groups, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Closure = None) -> Any:
        loss = call(closure)
        every = [p for group in self.param_groups for p in with_gradients(group)]
        norm = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in every]))
        for group in self.param_groups:
            for parameter in with_gradients(group):
                parameter.sub_(group["lr"] * parameter.grad / (norm + 0.1))
        return loss


class Lars(torch.optim.Optimizer):
    """Scales a tensor's update by the norms of its values and of its gradient."""

    def __init__(self, groups: Groups, lr: float):
        super().__init__(groups, {"lr": lr, "momentum": 0.8})

    @torch.no_grad()
    def step(self, closure: Closure = None) -> Any:
        loss = call(closure)
        for group in self.param_groups:
            for parameter in with_gradients(group):
                state = self.state[parameter]
                state["step"] = state.get("step", 0) + 1
                trust = (parameter.norm() + 0.1) / (parameter.grad.norm() + 0.1)
                before = state.get("momentum_buffer", torch.zeros_like(parameter))
                state["momentum_buffer"] = before * group["momentum"] + trust * parameter.grad
                parameter.add_(state["momentum_buffer"], alpha=-group["lr"])
        return loss


class CentredAdam(torch.optim.Adam):
    """Takes the mean of each row out of the gradient, then does as Adam."""

    def step(self, closure: Closure = None) -> Any:
        loss = call(closure)
        for group in self.param_groups:
            for parameter in with_gradients(group):
                if parameter.grad.dim() > 1:
                    parameter.grad.sub_(0.5 * parameter.grad.mean(-1, keepdim=True))
        super().step()
        return loss


class WarmSGD(torch.optim.SGD):
    """Sets its own rate, and keeps values within a range."""

    def step(self, closure: Closure = None) -> Any:
        loss = call(closure)
        for group in self.param_groups:
            group["turns"] = group.get("turns", 0) + 1
            group["lr"] = 0.05 * min(1.0, group["turns"] / 3)
        super().step()
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.clamp_(-1.5, 1.5)
        return loss


def call(closure: Closure) -> Any:
    """What the closure returns, if there is one."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def with_gradients(group: dict[str, Any]) -> Iterator[nn.Parameter]:
    """The parameters of a group that have a gradient."""
    return (parameter for parameter in group["params"] if parameter.grad is not None)


def _from(module: str, name: str, **options: Any) -> Callable[[Groups], torch.optim.Optimizer]:
    """Makes an optimizer of a module that may not be installed."""
    return lambda groups: getattr(importlib.import_module(module), name)(groups, **options)


def _torch(name: str, **options: Any) -> Callable[[Groups], torch.optim.Optimizer]:
    return _from("torch.optim", name, **options)


OPTIMIZERS: dict[str, Callable[[Groups], torch.optim.Optimizer]] = {
    "sgd": _torch("SGD", lr=0.1),
    "momentum": _torch("SGD", lr=0.05, momentum=0.9, dampening=0.1),
    "nesterov": _torch("SGD", lr=0.03, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": _torch("Adam", lr=0.004),
    "amsgrad": _torch("Adam", lr=0.004, amsgrad=True, weight_decay=0.01),
    "adamw": _torch("AdamW", lr=0.004, weight_decay=0.1),
    "adamax": _torch("Adamax", lr=0.004),
    "adagrad": _torch("Adagrad", lr=0.005, lr_decay=0.1),
    "adadelta": _torch("Adadelta", lr=1.0),
    "rmsprop": _torch("RMSprop", lr=0.001, alpha=0.9, momentum=0.5, centered=True),
    "nadam": _torch("NAdam", lr=0.004),
    "radam": _torch("RAdam", lr=0.004),
    "asgd": _torch("ASGD", lr=0.05),
    "adafactor": _torch("Adafactor", lr=0.02),
    "muon": _torch("Muon", lr=0.02),
    "counts_in_group": _from(__name__, "CountsInGroup", lr=0.1),
    "counts_itself": _from(__name__, "CountsItself", lr=0.05),
    "global_norm": _from(__name__, "GlobalNorm", lr=0.1),
    "lars": _from(__name__, "Lars", lr=0.01),
    "centred_adam": _from(__name__, "CentredAdam", lr=0.004),
    "warm_sgd": _from(__name__, "WarmSGD", lr=0.02, momentum=0.7),
    "sgd_schedule_free": _from("schedulefree", "SGDScheduleFree", lr=0.2, warmup_steps=2),
    "adamw_schedule_free": _from("schedulefree", "AdamWScheduleFree", lr=0.02, weight_decay=0.01),
    "prodigy": _from("prodigyopt", "Prodigy", d0=1e-3),
    "lion": _from("lion_pytorch", "Lion", lr=0.003, weight_decay=0.1),
}
THIRD_PARTY = {
    "sgd_schedule_free": "schedulefree",
    "adamw_schedule_free": "schedulefree",
    "prodigy": "prodigyopt",
    "lion": "lion_pytorch",
}
# These want one rate for all groups, or set it themselves.
ONE_RATE = ("prodigy", "warm_sgd")
# These take schedulers: they read the rate that a scheduler writes.
UNSCHEDULED = ("warm_sgd", "asgd", "sgd_schedule_free", "adamw_schedule_free")
# These fill their state when they are made, and fail without it.
EARLY_STATE = ("adagrad",)


def make_groups(model: nn.Module, optimizer: str, layout: str) -> Groups:
    """The parameters in groups: `one`, `by_shape`, or `by_part`."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if layout == "by_shape":
        chosen = [[p for _, p in named if p.dim() >= 2], [p for _, p in named if p.dim() < 2]]
    elif layout == "by_part":
        parts: dict[str, list[nn.Parameter]] = {}
        for name, parameter in named:
            parts.setdefault(name.split(".")[0], []).append(parameter)
        chosen = list(parts.values())
    else:
        chosen = [[p for _, p in named]]
    return [{"params": each} for each in chosen if each]


def make_optimizer(model: nn.Module, kind: str, layout: str) -> torch.optim.Optimizer:
    """An optimizer; later groups have smaller rates where it takes several.

    Muon takes matrices only: all others of the model are frozen, for good.
    """
    if kind == "muon":
        for parameter in model.parameters():
            parameter.requires_grad_(parameter.dim() == 2)
    made = OPTIMIZERS[kind](make_groups(model, kind, layout))
    if kind not in ONE_RATE:
        for index, group in enumerate(made.param_groups):
            group["lr"] *= 0.8**index
    return made
