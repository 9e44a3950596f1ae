"""Profiles a model: what each of its layers computes, and what its parameters are."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .clocks import clock_of
from .first_use import Gate, Watcher, find_gates
from .layer_times import LayerTimer, LayerTimes

LEAST_ITERATIONS = 20

Loss = Callable[[Any], torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Layer:
    """What a gate stands before: a module's forward, with the parameters that it reads first.

    Attributes:
        name: The module's.
        tensors: Names and numbers of elements of the parameters.
        forward_s, backward_s: Computation.
    """

    name: str
    tensors: tuple[tuple[str, int], ...]
    forward_s: float
    backward_s: float


@dataclasses.dataclass(frozen=True)
class Profile:
    """A model on one device, with one batch.

    Attributes:
        name: Of the model.
        batch: Samples of it.
        element_bytes: Of its parameters.
        layers: In forward order.
        distortion: How much longer an iteration takes while it is watched: 0.01 is 1 %.
    """

    name: str
    batch: int
    element_bytes: int
    layers: tuple[Layer, ...]
    distortion: float

    def to_json(self) -> str:
        """As a workload file has it (docs/workloads.md)."""
        layers = [
            {
                "name": layer.name,
                "tensors": [{"name": name, "elements": size} for name, size in layer.tensors],
                "forward_us": layer.forward_s * 1e6,
                "backward_us": layer.backward_s * 1e6,
            }
            for layer in self.layers
        ]
        return json.dumps(
            {
                "format": "pleach-workload",
                "version": 1,
                "name": self.name,
                "batch": self.batch,
                "element_bytes": self.element_bytes,
                "layers": layers,
            }
        )

    def save(self, path: str | pathlib.Path) -> None:
        """Writes that to a file, which `pleach train --workload` reads."""
        pathlib.Path(path).write_text(self.to_json() + "\n")


def profile(
    model: torch.nn.Module,
    batch: Any,
    loss: Loss | None = None,
    *,
    iterations: int = LEAST_ITERATIONS,
    name: str | None = None,
) -> Profile:
    """Measures forward and backward of every layer of a model, which is left as it was.

    Watched iterations, whose hooks wait for nothing, take turns with others, and the layers' times
    are scaled to the totals of these.

    Args:
        model: Any, in the mode that it is in.
        batch: A tensor, or a tuple or mapping of what `model` is called with.
        loss: What backward begins at, of the model's output; None: the mean of all that it gives.
        iterations: Watched ones, at least 20.
        name: Of the profile; None: the model's class.

    Raises:
        ValueError: Too few iterations; a model without parameters that take gradients, whose
            forward reads none, or whose output needs a loss.
    """
    if iterations < LEAST_ITERATIONS:
        raise ValueError(f"iterations is {iterations}: medians want {LEAST_ITERATIONS} at least")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise ValueError("profile: the model has no parameter that takes gradients")
    device = trained[0].device
    with _as_it_was(model):
        gates, unread = _watch(model, trained, lambda: _backward(model, batch, loss))
        if not gates:
            raise ValueError("profile: the model's forward reads none of its parameters")
        times, distortion = _measure(
            model, gates, lambda: _forward(model, batch, loss), iterations, device
        )
    names = {parameter: name for name, parameter in model.named_parameters()}
    module_names = {module: name for name, module in model.named_modules()}
    element_bytes = trained[0].element_size()
    if any(parameter.element_size() != element_bytes for parameter in trained):
        element_bytes = 1
    layers = []
    for index, gate in enumerate(gates):
        own = [*gate.first, *(unread if index == 0 else [])]
        layers.append(
            Layer(
                module_names[gate.module] or type(gate.module).__name__,
                tuple((names[p], p.numel() * p.element_size() // element_bytes) for p in own),
                times.forward_s[index],
                times.backward_s[index],
            )
        )
    return Profile(
        name or type(model).__name__, _batch_size(batch), element_bytes, tuple(layers), distortion
    )


def _forward(model: torch.nn.Module, batch: Any, loss: Loss | None) -> torch.Tensor:
    if isinstance(batch, Mapping):
        output = model(**batch)
    elif isinstance(batch, (tuple, list)):
        output = model(*batch)
    else:
        output = model(batch)
    if loss is not None:
        return loss(output)
    tensors = [
        each
        for each in tree_leaves(output)
        if isinstance(each, torch.Tensor) and each.requires_grad
    ]
    if not tensors:
        raise ValueError(
            f"profile: the model gives a {type(output).__name__}, and no tensor with gradients is "
            "found in it: say loss="
        )
    return torch.stack([each.float().mean() for each in tensors]).sum()


def _backward(model: torch.nn.Module, batch: Any, loss: Loss | None) -> None:
    _forward(model, batch, loss).backward()


def _batch_size(batch: Any) -> int:
    sizes = [
        each.shape[0]
        for each in tree_leaves(batch)
        if isinstance(each, torch.Tensor) and each.dim() > 0
    ]
    return sizes[0] if sizes else 1


@contextlib.contextmanager
def _as_it_was(model: torch.nn.Module) -> Iterator[None]:
    """Keeps gradients, buffers and the state of random numbers as they are before the block."""
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    devices = [p.device for p in model.parameters() if p.device.type != "cpu"][:1]
    with torch.random.fork_rng(devices, device_type=devices[0].type if devices else "cuda"):
        try:
            yield
        finally:
            for parameter, gradient in gradients:
                parameter.grad = gradient
            with torch.no_grad():
                for buffer, value in buffers:
                    buffer.copy_(value)


def _clear(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad = None


def _watch(
    model: torch.nn.Module, trained: Sequence[torch.nn.Parameter], run: Callable[[], None]
) -> tuple[list[Gate], list[torch.nn.Parameter]]:
    """Who reads what: the gates that are first to need something, and what nobody reads."""
    watcher = Watcher(model, trained, lambda: None)
    try:
        _clear(model)
        run()
    finally:
        watcher.stop()
    gates, unread = find_gates(model, watcher.reading, trained)
    return [gate for gate in gates if gate.first], unread


def _measure(
    model: torch.nn.Module,
    gates: Sequence[Gate],
    forward: Callable[[], torch.Tensor],
    iterations: int,
    device: torch.device,
) -> tuple[LayerTimes, float]:
    """The layers' times, and the distortion."""
    clock = clock_of(device)
    timer = LayerTimer(len(gates), clock)
    plain: list[tuple[float, float]] = []
    watched: list[float] = []

    def run_plain() -> None:
        _clear(model)
        clock.wait()
        begin = clock.now()
        loss = forward()
        middle = clock.now()
        loss.backward()
        end = clock.now()
        clock.wait()
        plain.append((clock.seconds(begin, middle), clock.seconds(middle, end)))

    def run_watched() -> None:
        _clear(model)
        with _hooks(model, gates, timer):
            clock.wait()
            begin = clock.now()
            loss = forward()
            loss.backward()
            end = clock.now()
            clock.wait()
            timer.end_iteration()
        watched.append(clock.seconds(begin, end))

    for index in range(iterations):
        for run in (run_plain, run_watched) if index % 2 == 0 else (run_watched, run_plain):
            run()
    forward_s = statistics.median(one for one, _ in plain)
    backward_s = statistics.median(one for _, one in plain)
    # Each beside the one that ran with it, so that what changes over time does not count.
    distortion = statistics.median(
        one / (sum(other)) - 1 for one, other in zip(watched, plain, strict=True)
    )
    return timer.times().scaled(forward_s, backward_s), distortion


@contextlib.contextmanager
def _hooks(model: torch.nn.Module, gates: Sequence[Gate], timer: LayerTimer) -> Iterator[None]:
    handles: list[Any] = []

    def enter(layer: int) -> None:
        timer.enter(layer)
        timer.begin(layer)

    left = [len(gate.first) for gate in gates]

    def accumulated(layer: int) -> None:
        left[layer] -= 1
        if left[layer] == 0:
            timer.complete(layer)

    for layer, gate in enumerate(gates):
        handles.append(
            gate.module.register_forward_pre_hook(
                lambda _module, _inputs, layer=layer: enter(layer), prepend=True
            )
        )
        handles += [
            parameter.register_post_accumulate_grad_hook(
                lambda _parameter, layer=layer: accumulated(layer)
            )
            for parameter in gate.first
        ]
    handles.append(model.register_forward_hook(lambda *_: timer.end_forward()))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
