"""What random training loops do between steps, besides plain reads and writes."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from random_loop_models import EARLY_STATE
from random_loop_values import REFERENCES, measure, ramp, read, write
from torch import nn
from torch.nn import functional
from torch.optim import swa_utils

BEFORE, CREATED = -2, -1  # of `since`: before the wrapper, and right after it
AFTER_STEP, BEFORE_STEP = "after step", "before step"


class Action(NamedTuple):
    """One thing that a loop does again and again.

    Attributes:
        kind: Of `KINDS`.
        target: Name of a module, parameter or buffer; empty where the kind wants none.
        style: How it reads or writes.
        amount: A little less than 1.
        since: The iteration after whose step it takes what it holds; or BEFORE, CREATED.
        moments: Iterations, and places in them.
    """

    kind: str
    target: str
    style: str
    amount: float
    since: int
    moments: tuple[tuple[int, str], ...]

    def __str__(self) -> str:
        places = {place for _, place in self.moments}
        turns = ",".join(str(turn) for turn, _ in self.moments)
        held = {BEFORE: "before creation", CREATED: "creation"}.get(self.since, str(self.since))
        target = f" of {self.target}" if self.target else ""
        return (
            f"{self.kind}{target} [{self.style} {self.amount}] since {held},"
            f" in {turns} {'/'.join(sorted(places))}"
        )


class Kind(NamedTuple):
    """A kind of action.

    Attributes:
        act: Called with the run and the action at its moments.
        begin: Called once, at `since`, if there is something to hold.
        wants: Of a target: layer, linear, weighted, part, parameter, buffer, whole.
        styles: "read", "write", or none.
        earliest: The first `since`.
        places: Where it may be.
        traits: `swaps` gives parameters other memory; `aliases` holds some; `pickles` modules;
            `resets` the optimizer's state; `hooks` modules; `transforms` the model by functorch.
    """

    act: Callable[[Any, Action], None]
    begin: Callable[[Any, Action], Any] | None = None
    wants: str = "whole"
    styles: str = ""
    earliest: int = CREATED
    places: tuple[str, ...] = (AFTER_STEP,)
    traits: frozenset[str] = frozenset()


KINDS: dict[str, Kind] = {}


def kind(
    wants: str = "whole",
    styles: str = "",
    begin: Callable[[Any, Action], Any] | None = None,
    earliest: int = CREATED,
    places: tuple[str, ...] = (AFTER_STEP,),
    traits: str = "",
) -> Callable[[Callable[[Any, Action], None]], Callable[[Any, Action], None]]:
    """Puts a function into `KINDS`, under its name."""

    def enter(act: Callable[[Any, Action], None]) -> Callable[[Any, Action], None]:
        name = act.__name__.replace("_", " ")
        KINDS[name] = Kind(act, begin, wants, styles, earliest, places, frozenset(traits.split()))
        return act

    return enter


def _enter_references() -> None:
    """Reads and writes of everything that can be referred to, at once and held."""

    def read_now(run: Any, action: Action) -> None:
        run.note(read(REFERENCES[action.kind.split(": ")[1]][2](run, action.target), action.style))

    def read_held(run: Any, action: Action) -> None:
        run.note(read(run.kept[action], action.style))

    def write_now(run: Any, action: Action) -> None:
        values = REFERENCES[action.kind.split(": ")[1]][2](run, action.target)
        write(values, action.style, action.amount)

    def write_held(run: Any, action: Action) -> None:
        write(run.kept[action], action.style, action.amount)

    def take(run: Any, action: Action) -> Any:
        return REFERENCES[action.kind.split(": ")[1]][2](run, action.target)

    both = (AFTER_STEP, BEFORE_STEP)
    for name, (wants, is_alias, _) in REFERENCES.items():
        earliest = CREATED if is_alias or name == "group" else BEFORE
        traits = frozenset({"aliases"} if is_alias else ())
        KINDS[f"read: {name}"] = Kind(read_now, None, wants, "read", CREATED, both)
        KINDS[f"write: {name}"] = Kind(write_now, None, wants, "write", CREATED, both)
        KINDS[f"read held: {name}"] = Kind(read_held, take, wants, "read", earliest, both, traits)
        KINDS[f"write held: {name}"] = Kind(
            write_held, take, wants, "write", earliest, both, traits
        )


_enter_references()


def _part(run: Any, action: Action) -> nn.Module:
    module: nn.Module = run.model.get_submodule(action.target)
    return module


def _clones(values: Any) -> list[torch.Tensor]:
    return [value.detach().clone() for value in values]


# ------------------------------------------------------------------------------ reads


@kind("weighted", "read", places=(AFTER_STEP, BEFORE_STEP))
def read_weight_attribute(run: Any, action: Action) -> None:
    weight = _part(run, action).weight
    run.note(read([weight if weight.is_leaf else weight.detach()], action.style))


@kind("part", begin=lambda run, action: _clones(_part(run, action).parameters()))
def distance_from_start(run: Any, action: Action) -> None:
    pairs = zip(_part(run, action).parameters(), run.kept[action], strict=True)
    run.note(sum(float((now - then).norm().detach()) for now, then in pairs))


@kind("part")
def vector_of_parameters(run: Any, action: Action) -> None:
    run.note(measure(nn.utils.parameters_to_vector(_part(run, action).parameters())))


@kind("part")
def total_norm(run: Any, action: Action) -> None:
    run.note(float(nn.utils.get_total_norm(list(_part(run, action).parameters())).detach()))


@kind("part", begin=lambda run, action: list(_part(run, action).parameters()), earliest=BEFORE)
def foreach_of_held(run: Any, action: Action) -> None:
    norms = torch._foreach_norm(run.kept[action])
    run.note(sum(float(norm.detach()) * (i + 1) for i, norm in enumerate(norms)))


@kind("linear")
def call_layer(run: Any, action: Action) -> None:
    layer = _part(run, action)
    with torch.no_grad():
        run.note(measure(layer(torch.full((2, layer.in_features), 0.3, dtype=torch.float64))))


@kind("linear")
def functional_linear(run: Any, action: Action) -> None:
    layer = _part(run, action)
    inputs = torch.full((2, layer.in_features), 0.3, dtype=torch.float64)
    run.note(measure(functional.linear(inputs, layer.weight, layer.bias)))


@kind("linear")
def vmap_over_layer(run: Any, action: Action) -> None:
    layer = _part(run, action)
    inputs = torch.full((2, layer.in_features), 0.3, dtype=torch.float64)
    outputs = torch.func.vmap(lambda x: functional.linear(x, layer.weight, layer.bias))(inputs)
    run.note(measure(outputs))


@kind()
def evaluate(run: Any, action: Action) -> None:
    run.note(run.evaluate(run.model))


@kind()
def evaluate_in_inference_mode(run: Any, action: Action) -> None:
    run.note(run.evaluate(run.model, torch.inference_mode))


@kind()
def forward_in_training_mode(run: Any, action: Action) -> None:
    with torch.no_grad():
        run.note(measure(run.model(run.probe)))


@kind()
def functional_call(run: Any, action: Action) -> None:
    values = {name: p.detach() * action.amount for name, p in run.model.named_parameters()}
    with torch.no_grad():
        run.note(measure(torch.func.functional_call(run.model, values, (run.probe,))))


@kind(traits="transforms")
def function_gradient(run: Any, action: Action) -> None:
    values = {name: p.detach() for name, p in run.model.named_parameters()}

    def loss(given: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.func.functional_call(run.model, given, (run.probe,)).square().mean()

    found = torch.func.grad(loss)(values)
    run.note(sum(measure(found[name]) * (i + 1) for i, name in enumerate(sorted(found))))


@kind()
def penalty_gradient(run: Any, action: Action) -> None:
    every = [p for p in run.model.parameters() if p.requires_grad]
    found = torch.autograd.grad(sum(p.square().sum() for p in every), every)
    run.note(sum(measure(each) * (i + 1) for i, each in enumerate(found)))


@kind("part")
def probe_gradient(run: Any, action: Action) -> None:
    chosen = [p for p in _part(run, action).parameters() if p.requires_grad]
    if chosen:
        loss = run.model(run.probe).square().mean()
        found = torch.autograd.grad(loss, chosen, allow_unused=True)
        run.note(sum(measure(g) * (i + 1) for i, g in enumerate(found) if g is not None))


@kind(begin=lambda run, action: dict(run.model.named_parameters()), earliest=BEFORE)
def functional_call_with_held(run: Any, action: Action) -> None:
    with torch.no_grad():
        run.note(measure(torch.func.functional_call(run.model, run.kept[action], (run.probe,))))


@kind("part")
def stack_with_copy(run: Any, action: Action) -> None:
    part = _part(run, action)
    parameters, _ = torch.func.stack_module_state([part, copy.deepcopy(part)])
    run.note(sum(measure(each) * (i + 1) for i, each in enumerate(parameters.values())))


@kind("linear", begin=lambda run, action: nn.Sequential(_part(run, action)), earliest=BEFORE)
def call_wrapper_of_layer(run: Any, action: Action) -> None:
    wrapper = run.kept[action]
    with torch.no_grad():
        inputs = torch.full((2, wrapper[0].in_features), 0.3, dtype=torch.float64)
        run.note(measure(wrapper(inputs)))


@kind("part", begin=lambda run, action: nn.ModuleList([_part(run, action)]), earliest=BEFORE)
def state_dict_of_wrapper(run: Any, action: Action) -> None:
    found = run.kept[action].state_dict()
    run.note(sum(measure(each) * (i + 1) for i, each in enumerate(found.values())))


@kind(
    "part",
    "read",
    begin=lambda run, action: copy.copy(_part(run, action)),
    earliest=BEFORE,
    traits="pickles",
)
def shallow_copy(run: Any, action: Action) -> None:
    run.note(read(run.kept[action].parameters(), action.style))


@kind()
def buffers_of_model(run: Any, action: Action) -> None:
    run.note(sum(measure(b) * (i + 1) for i, b in enumerate(run.model.buffers())))


# ------------------------------------------------------------------------------ copies and files


def _sum_of(module: nn.Module) -> float:
    return sum(measure(p) * (i + 1) for i, p in enumerate(module.parameters()))


@kind("part")
def deepcopy_part(run: Any, action: Action) -> None:
    run.note(_sum_of(copy.deepcopy(_part(run, action))))


@kind()
def deepcopy_model(run: Any, action: Action) -> None:
    copied = copy.deepcopy(run.model)
    run.note(_sum_of(copied))
    run.note(run.evaluate(copied))


@kind(begin=lambda run, action: copy.deepcopy(run.model), earliest=BEFORE)
def copy_stays_as_it_was(run: Any, action: Action) -> None:
    run.note(_sum_of(run.kept[action]))
    run.note(run.evaluate(run.kept[action]))


@kind("part", traits="pickles")
def pickle_part(run: Any, action: Action) -> None:
    run.note(_sum_of(pickle.loads(pickle.dumps(_part(run, action)))))


def _through_file(value: Any, weights_only: bool = False) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=weights_only)


@kind("part", traits="pickles")
def save_part(run: Any, action: Action) -> None:
    run.note(_sum_of(_through_file(_part(run, action))))


@kind(traits="pickles")
def save_model(run: Any, action: Action) -> None:
    run.note(_sum_of(_through_file(run.model)))


@kind("part")
def save_state_dict_of_part(run: Any, action: Action) -> None:
    found = _through_file(_part(run, action).state_dict(), weights_only=True)
    run.note(sum(measure(each) * (i + 1) for i, each in enumerate(found.values())))


@kind()
def save_state_dict_of_model(run: Any, action: Action) -> None:
    found = _through_file(run.model.state_dict(), weights_only=True)
    run.note(sum(measure(each) * (i + 1) for i, each in enumerate(found.values())))


def _checkpoint(run: Any, action: Action) -> Any:
    return _through_file({"model": run.model.state_dict(), "optimizer": run.optimizer.state_dict()})


@kind(begin=_checkpoint)
def roll_back(run: Any, action: Action) -> None:
    if run.turn == action.moments[-1][0]:
        run.model.load_state_dict(run.kept[action]["model"])
        run.optimizer.load_state_dict(copy.deepcopy(run.kept[action]["optimizer"]))


# ------------------------------------------------------------------------------ averages, targets


def _begin_average(run: Any, action: Action) -> Any:
    source = _part(run, action) if action.target else run.model
    return swa_utils.AveragedModel(
        source, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.5), use_buffers=action.amount > 0.9
    )


@kind("part", begin=_begin_average, earliest=BEFORE)
def averaged_part(run: Any, action: Action) -> None:
    run.kept[action].update_parameters(_part(run, action))
    run.note(_sum_of(run.kept[action]))


@kind(begin=_begin_average, earliest=BEFORE)
def averaged_model(run: Any, action: Action) -> None:
    run.kept[action].update_parameters(run.model)
    run.note(_sum_of(run.kept[action]))
    run.note(run.evaluate(run.kept[action]))


@kind(begin=lambda run, action: swa_utils.AveragedModel(run.model))
def stochastic_weight_average(run: Any, action: Action) -> None:
    run.kept[action].update_parameters(run.model)
    run.note(_sum_of(run.kept[action]))


def _begin_lists(run: Any, action: Action) -> Any:
    held = list(_part(run, action).parameters())
    return held, _clones(held)


@kind("part", begin=_begin_lists, earliest=BEFORE)
def average_by_hand(run: Any, action: Action) -> None:
    held, means = run.kept[action]
    with torch.no_grad():
        for mean, parameter in zip(means, held, strict=True):
            mean.lerp_(parameter, 0.3)
    run.note(sum(measure(mean) for mean in means))


@kind("part", begin=_begin_lists, earliest=BEFORE)
def average_by_foreach(run: Any, action: Action) -> None:
    held, means = run.kept[action]
    with torch.no_grad():
        torch._foreach_lerp_(means, held, 0.3)
    run.note(sum(measure(mean) for mean in means))


@kind("part", begin=_begin_lists, earliest=BEFORE)
def swap_in_average(run: Any, action: Action) -> None:
    held, means = run.kept[action]
    with torch.no_grad():
        for mean, parameter in zip(means, held, strict=True):
            mean.mul_(0.7).add_(parameter.data, alpha=0.3)
        backups = _clones(held)
        for mean, parameter in zip(means, held, strict=True):
            parameter.copy_(mean)
        run.note(run.evaluate(run.model))
        for backup, parameter in zip(backups, held, strict=True):
            parameter.copy_(backup)


@kind("part", begin=_begin_lists, earliest=BEFORE)
def look_ahead(run: Any, action: Action) -> None:
    held, slow = run.kept[action]
    with torch.no_grad():
        for mean, parameter in zip(slow, held, strict=True):
            mean.add_(parameter - mean, alpha=0.5)
            parameter.copy_(mean)


@kind("part", begin=lambda run, action: copy.deepcopy(_part(run, action)), earliest=BEFORE)
def target_loads_state(run: Any, action: Action) -> None:
    run.kept[action].load_state_dict(_part(run, action).state_dict())
    run.note(_sum_of(run.kept[action]))


@kind("part", begin=lambda run, action: copy.deepcopy(_part(run, action)), earliest=BEFORE)
def target_moves_softly(run: Any, action: Action) -> None:
    pairs = zip(run.kept[action].parameters(), _part(run, action).parameters(), strict=True)
    for target, online in pairs:
        target.data.copy_(0.1 * online.data + 0.9 * target.data)
    run.note(_sum_of(run.kept[action]))


def _begin_teacher(run: Any, action: Action) -> Any:
    run.teacher = copy.deepcopy(run.model).requires_grad_(False)


@kind(begin=_begin_teacher, earliest=BEFORE)
def teacher_follows(run: Any, action: Action) -> None:
    with torch.no_grad():
        for mine, online in zip(run.teacher.parameters(), run.model.parameters(), strict=True):
            mine.lerp_(online, 0.4)


# ------------------------------------------------------------------------------ writes


@kind("part", begin=lambda run, action: list(_part(run, action).parameters()), earliest=BEFORE)
def foreach_writes_held(run: Any, action: Action) -> None:
    with torch.no_grad():
        torch._foreach_mul_(run.kept[action], action.amount)


@kind("parameter", traits="swaps")
def clone_data(run: Any, action: Action) -> None:
    parameter = run.model.get_parameter(action.target)
    parameter.data = parameter.data.clone()


@kind("parameter", traits="swaps")
def other_data(run: Any, action: Action) -> None:
    parameter = run.model.get_parameter(action.target)
    parameter.data = parameter.data * action.amount


@kind("part", traits="swaps")
def vector_to_parameters(run: Any, action: Action) -> None:
    parameters = list(_part(run, action).parameters())
    vector = nn.utils.parameters_to_vector(parameters).detach()
    nn.utils.vector_to_parameters(vector * action.amount, parameters)


@kind("part")
def load_state_into_part(run: Any, action: Action) -> None:
    part = _part(run, action)
    part.load_state_dict({name: v * action.amount for name, v in part.state_dict().items()})


@kind()
def load_state_into_model(run: Any, action: Action) -> None:
    state = run.model.state_dict()
    run.model.load_state_dict({name: v.clone() * action.amount for name, v in state.items()})


@kind("part", "write")
def apply_function(run: Any, action: Action) -> None:
    def change(module: nn.Module) -> None:
        write(module.parameters(recurse=False), action.style, action.amount)

    _part(run, action).apply(change)


@kind("part")
def cast_as_it_is(run: Any, action: Action) -> None:
    _part(run, action).to("cpu").double()


def _freezable(run: Any, action: Action) -> list[nn.Parameter]:
    chosen = [p for p in _part(run, action).parameters() if p.requires_grad]
    others = {p for p in run.model.parameters() if p.requires_grad} - set(chosen)
    return chosen if others else []


@kind("part")
def freeze_and_thaw(run: Any, action: Action) -> None:
    if action in run.kept:
        for parameter in run.kept.pop(action):
            parameter.requires_grad_(True)
    else:
        run.kept[action] = _freezable(run, action)
        for parameter in run.kept[action]:
            parameter.requires_grad_(False)


@kind("part", places=(AFTER_STEP,))
def perturb_and_restore(run: Any, action: Action) -> None:
    """Forward and backward run on other weights, as in sharpness-aware training."""
    with torch.no_grad():
        for parameter in _part(run, action).parameters():
            parameter.add_(0.05)
    run.restore += _part(run, action).parameters()


@kind("parameter", begin=lambda run, action: None)
def prune(run: Any, action: Action) -> None:
    parameter = run.model.get_parameter(action.target)
    mask = torch.ones_like(parameter)
    mask.view(-1)[::3] = 0
    with torch.no_grad():
        parameter.mul_(mask)


@kind("buffer")
def assign_buffer(run: Any, action: Action) -> None:
    owner, _, name = action.target.rpartition(".")
    module = run.model.get_submodule(owner)
    setattr(module, name, getattr(module, name) * action.amount)


@kind("buffer")
def multiply_buffer(run: Any, action: Action) -> None:
    run.model.get_buffer(action.target).mul_(action.amount)


# ------------------------------------------------------------------------------ optimizer


def _numbers(group: dict[str, Any]) -> list[float]:
    found = []
    for key in sorted(group):
        value = group[key]
        for each in value if isinstance(value, tuple) else [value]:
            if isinstance(each, int | float | torch.Tensor):
                found.append(float(each))
    return found


@kind(places=(AFTER_STEP, BEFORE_STEP))
def read_settings(run: Any, action: Action) -> None:
    for group in run.optimizer.param_groups:
        run.note(sum(x * (i + 1) for i, x in enumerate(_numbers(group))))


@kind(places=(AFTER_STEP, BEFORE_STEP))
def set_rate(run: Any, action: Action) -> None:
    for group in run.optimizer.param_groups:
        group["lr"] *= action.amount


@kind()
def set_weight_decay(run: Any, action: Action) -> None:
    for group in run.optimizer.param_groups:
        if "weight_decay" in group and "d0" not in group:
            group["weight_decay"] += 0.01


@kind()
def optimizer_state_dict(run: Any, action: Action) -> None:
    found = run.optimizer.state_dict()
    for index in sorted(found["state"]):
        for key, value in sorted(found["state"][index].items()):
            if isinstance(value, torch.Tensor | int | float):
                run.note(measure(torch.as_tensor(value)), f"{index}.{key}")
    for group in found["param_groups"]:
        run.note(sum(x * (i + 1) for i, x in enumerate(_numbers(group))))


@kind()
def optimizer_round_trip(run: Any, action: Action) -> None:
    run.optimizer.load_state_dict(_through_file(run.optimizer.state_dict()))


@kind()
def read_steps_of_state(run: Any, action: Action) -> None:
    """Reads the entries that are not per element."""
    for group in run.optimizer.param_groups:
        for index, parameter in enumerate(group["params"]):
            for key, value in sorted(run.optimizer.state.get(parameter, {}).items()):
                if key == "step":
                    run.note(float(value), f"{index}.{key}")


@kind()
def scale_state(run: Any, action: Action) -> None:
    """Writes to all entries alike, which parts of them allow too."""
    for entries in run.optimizer.state.values():
        for key, value in entries.items():
            if isinstance(value, torch.Tensor) and value.dim() > 0 and key != "step":
                value.mul_(action.amount)


@kind(traits="resets")
def clear_state(run: Any, action: Action) -> None:
    run.optimizer.state.clear()


@kind()
def deepcopy_optimizer(run: Any, action: Action) -> None:
    copied = copy.deepcopy(run.optimizer)
    for group in copied.param_groups:
        run.note(sum(x * (i + 1) for i, x in enumerate(_numbers(group))))
        run.note(sum(measure(p) * (i + 1) for i, p in enumerate(group["params"])))


@kind()
def step_of_copy(run: Any, action: Action) -> None:
    """The copy steps with gradients of its own; the original stays."""
    copied = copy.deepcopy(run.optimizer)
    for group in copied.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.full_like(parameter, 0.1)
    copied.step()
    run.note(_sum_of(run.model))


@kind("parameter")
def forget_state_of_parameter(run: Any, action: Action) -> None:
    if run.loop.optimizer not in EARLY_STATE:
        run.optimizer.state.pop(run.model.get_parameter(action.target), None)


@kind("parameter", places=(BEFORE_STEP,))
def own_gradient(run: Any, action: Action) -> None:
    parameter = run.model.get_parameter(action.target)
    if parameter.requires_grad:
        parameter.grad = 0.05 * ramp(parameter.numel()).view_as(parameter)


@kind("parameter", places=(BEFORE_STEP,))
def drop_gradient(run: Any, action: Action) -> None:
    run.model.get_parameter(action.target).grad = None


@kind()
def clear_gradients(run: Any, action: Action) -> None:
    run.model.zero_grad()


# ------------------------------------------------------------------------------ hooks


class Hook(NamedTuple):
    """A hook of a module: can be copied and pickled with it, as it finds its run by number."""

    run: int
    action: Action

    def __call__(self, module: nn.Module, *_: Any) -> None:
        run = RUNS.get(self.run)
        if run is not None and self.action in run.kept:
            _, parameter = run.kept[self.action]
            if self.action.kind.endswith("clamps"):
                write([parameter], "clamp_", self.action.amount)
            else:
                run.note_once(read([parameter], self.action.style), self.action)


RUNS: dict[int, Any] = {}


def _nothing(run: Any, action: Action) -> None:
    """All is done by the hook."""


def _hook_layer(run: Any, action: Action) -> Any:
    layers = (nn.Linear, nn.Embedding, nn.Conv1d)
    first = next(m for m in run.model.modules() if isinstance(m, layers))
    handle = first.register_forward_pre_hook(Hook(id(run), action))
    return handle, run.model.get_parameter(action.target)


def _hook_after_layer(run: Any, action: Action) -> Any:
    layers = (nn.Linear, nn.Embedding, nn.Conv1d)
    first = next(m for m in run.model.modules() if isinstance(m, layers))
    return first.register_forward_hook(Hook(id(run), action)), run.model.get_parameter(
        action.target
    )


def _hook_backward(run: Any, action: Action) -> Any:
    layers = [m for m in run.model.modules() if isinstance(m, nn.Linear)]
    handle = layers[-1].register_full_backward_hook(Hook(id(run), action))
    return handle, run.model.get_parameter(action.target)


def _hook_model(run: Any, action: Action) -> Any:
    handle = run.model.register_forward_pre_hook(Hook(id(run), action))
    return handle, run.model.get_parameter(action.target)


_HOOKS = frozenset({"hooks"})
KINDS["layer hook reads"] = Kind(_nothing, _hook_layer, "parameter", "read", BEFORE, traits=_HOOKS)
KINDS["layer hook reads after"] = Kind(
    _nothing, _hook_after_layer, "parameter", "read", BEFORE, traits=_HOOKS
)
KINDS["backward hook reads"] = Kind(
    _nothing, _hook_backward, "parameter", "read", BEFORE, traits=_HOOKS
)
KINDS["model hook reads"] = Kind(_nothing, _hook_model, "parameter", "read", BEFORE, traits=_HOOKS)
KINDS["model hook clamps"] = Kind(
    _nothing, _hook_model, "parameter", "", BEFORE, traits=_HOOKS | {"writes in forward"}
)


def _hook_step(does: Callable[[Any, Action, Any], None], is_after: bool) -> Callable[..., Any]:
    def begin(run: Any, action: Action) -> Any:
        def hook(optimizer: Any, *_: Any) -> None:
            if any(turn == run.turn for turn, _ in action.moments):
                does(run, action, optimizer)

        if is_after:
            return run.optimizer.register_step_post_hook(hook)
        return run.optimizer.register_step_pre_hook(hook)

    return begin


def _read_part(run: Any, action: Action, _: Any) -> None:
    run.note(read(_part(run, action).parameters(), action.style), str(action))


def _write_part(run: Any, action: Action, _: Any) -> None:
    write(_part(run, action).parameters(), action.style, action.amount)


def _write_groups(run: Any, action: Action, optimizer: Any) -> None:
    for group in optimizer.param_groups:
        write(group["params"], "clamp_", action.amount)


KINDS["post hook reads"] = Kind(_nothing, _hook_step(_read_part, True), "part", "read", BEFORE)
KINDS["post hook writes"] = Kind(_nothing, _hook_step(_write_part, True), "part", "write", BEFORE)
KINDS["post hook clamps groups"] = Kind(_nothing, _hook_step(_write_groups, True), earliest=BEFORE)
KINDS["pre hook reads"] = Kind(_nothing, _hook_step(_read_part, False), "part", "read", BEFORE)
KINDS["pre hook writes"] = Kind(_nothing, _hook_step(_write_part, False), "part", "write", BEFORE)


def _hook_gradient(run: Any, action: Action) -> None:
    parameter = run.model.get_parameter(action.target)
    if parameter.requires_grad:
        parameter.register_hook(lambda gradient: gradient * action.amount)


KINDS["gradient hook scales"] = Kind(_nothing, _hook_gradient, "parameter", earliest=BEFORE)
