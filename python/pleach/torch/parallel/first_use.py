"""Learns which modules read which parameters, in what order, by watching a forward pass.

`model.modules()` is no order of execution, and a module may read what belongs to another (a tied
decoder, a container that uses its children's weights). So the operations of the first forward pass
are watched, below autograd, where each shows the tensors that it reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.hooks import RemovableHandle

from .hooks import Hook
from .passes import in_backward


@dataclasses.dataclass
class Reading:
    """What was seen of forward passes.

    Attributes:
        entered: Modules in the order in which they were first entered.
        parameters: By module, the parameters read in its own forward (and in no inner module's),
            in the order of their first reading.
    """

    entered: dict[torch.nn.Module, None] = dataclasses.field(default_factory=dict)
    parameters: dict[torch.nn.Module, list[torch.nn.Parameter]] = dataclasses.field(
        default_factory=dict
    )


def is_compiled(module: torch.nn.Module) -> bool:
    """Whether its forward is one compiled region, whose inner modules are not called as such."""
    wrapper = getattr(torch._dynamo, "OptimizedModule", None) if _has_dynamo() else None
    return getattr(module, "_compiled_call_impl", None) is not None or (
        wrapper is not None and isinstance(module, wrapper)
    )


def _has_dynamo() -> bool:
    """Whether anything has been compiled in this process; asking imports nothing."""
    import sys

    return "torch._dynamo" in sys.modules


def outermost_compiled(model: torch.nn.Module) -> set[torch.nn.Module]:
    """The compiled modules of a model that are in no other compiled one."""
    found: set[torch.nn.Module] = set()

    def visit(module: torch.nn.Module) -> None:
        if is_compiled(module):
            found.add(module)
            return
        for child in module.children():
            visit(child)

    visit(model)
    return found


class _Readings(TorchDispatchMode):
    """Tells of every tensor that an operation is given."""

    def __init__(self, note: Callable[[Any], None]):
        super().__init__()  # type: ignore[no-untyped-call]
        self._note = note

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        for argument in args:
            if isinstance(argument, torch.Tensor):
                self._note(argument)
            elif isinstance(argument, (list, tuple)):
                for each in argument:
                    self._note(each)
        for argument in (kwargs or {}).values():
            self._note(argument)
        return func(*args, **(kwargs or {}))


class Watcher:
    """Watches the forward passes of a model, until it is told to stop.

    Hooks of its own tell it which module an operation is in. A compiled module is one step, at
    whose begin all of its parameters are taken to be read.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        parameters: Sequence[torch.nn.Parameter],
        recomputes: Callable[[], None],
    ):
        """Hooks into every module.

        Args:
            model: It.
            parameters: Those whose readers count.
            recomputes: Told of forwards within backward.
        """
        self.reading = Reading()
        self._recomputes = recomputes
        self._model = model
        self._wanted = {id(parameter) for parameter in parameters}
        self._kept = tuple(parameters)  # so that no other object takes an identity
        self._stack: list[torch.nn.Module] = []
        self._mode: _Readings | None = None
        self._seen: set[tuple[int, int]] = set()
        self._handles: list[RemovableHandle] = []
        compiled = outermost_compiled(model)
        self._compiled = compiled
        inner = {module for outer in compiled for module in outer.modules() if module is not outer}
        for module in model.modules():
            if module not in inner:
                self._handles.append(
                    module.register_forward_pre_hook(Hook(self._enter), prepend=True)
                )
                self._handles.append(
                    module.register_forward_hook(Hook(self._leave), always_call=True)
                )

    def stop(self) -> None:
        """Takes its hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _enter(self, module: torch.nn.Module, _inputs: Any) -> None:
        if in_backward():
            self._recomputes()
        if in_backward() or not torch.is_grad_enabled():
            return
        self._stack.append(module)
        self.reading.entered.setdefault(module)
        if module in self._compiled:
            for parameter in module.parameters():
                self._note(parameter)
            self._pause()
        elif self._mode is None and module is self._stack[0]:
            self._mode = _Readings(self._note)
            self._mode.__enter__()  # type: ignore[no-untyped-call]

    def _leave(self, module: torch.nn.Module, _inputs: Any, _outputs: Any) -> None:
        if not self._stack or self._stack[-1] is not module or in_backward():
            return
        self._stack.pop()
        if not self._stack:
            self._pause()
        elif module in self._compiled:
            self._mode = _Readings(self._note)
            self._mode.__enter__()  # type: ignore[no-untyped-call]

    def _pause(self) -> None:
        if self._mode is not None:
            self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            self._mode = None

    def _note(self, tensor: Any) -> None:
        if id(tensor) not in self._wanted or not self._stack:
            return
        module = self._stack[-1]
        if (id(module), id(tensor)) in self._seen:
            return
        self._seen.add((id(module), id(tensor)))
        self.reading.parameters.setdefault(module, []).append(tensor)


@dataclasses.dataclass(frozen=True)
class Gate:
    """A module before whose forward parameters have to be in place.

    Attributes:
        module: It.
        first: Parameters that it is the first to need, in the order of their reading.
        needed: All that it reads, its own ones whether they were read or not.
    """

    module: torch.nn.Module
    first: tuple[torch.nn.Parameter, ...]
    needed: tuple[torch.nn.Parameter, ...]


def find_gates(
    model: torch.nn.Module, reading: Reading, parameters: Sequence[torch.nn.Parameter]
) -> tuple[list[Gate], list[torch.nn.Parameter]]:
    """Orders the modules that need parameters by when a forward pass comes to them.

    A module's gate stands before its forward, so what it reads in the midst is needed at its begin:
    a container's own parameters come before those of its children.

    Args:
        model: The model.
        reading: Of a forward pass; empty where none was seen: then the order of `modules()`.
        parameters: Those that count.

    Returns:
        The gates, and the parameters that nobody has read, in the model's order.
    """
    own = _held_by_module(model, parameters)
    read_by = reading.parameters or own
    read_by_any = {id(p) for read in read_by.values() for p in read}
    gates, taken = [], set[int]()
    for module in reading.entered or own:
        read = list(read_by.get(module, []))
        # What an autograd function is given, and no operation reads, is its module's all the same.
        read += [p for p in own[module] if id(p) not in read_by_any]
        needed = read + [p for p in own[module] if all(p is not q for q in read)]
        if needed:
            first = [p for p in read if id(p) not in taken]
            taken.update(id(p) for p in first)
            gates.append(Gate(module, tuple(first), tuple(needed)))
    known = {gate.module for gate in gates}
    for module, tensors in own.items():
        if tensors and module not in known:
            gates.append(Gate(module, (), tuple(tensors)))
    unread = [p for p in parameters if id(p) not in taken]
    return gates, unread


def _held_by_module(
    model: torch.nn.Module, parameters: Sequence[torch.nn.Parameter]
) -> dict[torch.nn.Module, list[torch.nn.Parameter]]:
    """By module, what it holds; what a list of modules or parameters holds, its holder does."""
    wanted = {id(parameter) for parameter in parameters}
    held: dict[torch.nn.Module, list[torch.nn.Parameter]] = {}
    modules = dict(model.named_modules())
    for name, module in modules.items():
        holder = module
        while type(holder).forward is torch.nn.Module.forward and name:
            name = name.rpartition(".")[0]
            holder = modules[name]
        held.setdefault(module, [])
        held[holder] += [p for p in module.parameters(recurse=False) if id(p) in wanted]
    return held


@dataclasses.dataclass(frozen=True)
class Wait:
    """A module's gate: layers that it waits for, and the one that begins there, if one does."""

    module: str
    layers: tuple[int, ...]
    opens: int | None


# Parameters by name with their layers, which ascend.
Order = list[tuple[str, int]]


def order_of(
    gates: Sequence[Gate],
    unread: Sequence[torch.nn.Parameter],
    names: dict[torch.nn.Parameter, str],
) -> Order:
    """Parameters in the order in which gates are first to need them; a gate's are a layer."""
    layers = [tuple(unread)] + [gate.first for gate in gates]
    return [
        (names[parameter], layer)
        for layer, parameters in enumerate(one for one in layers if one)
        for parameter in parameters
    ]


def waits_of(
    gates: Sequence[Gate],
    order: Order,
    names: dict[torch.nn.Parameter, str],
    module_names: dict[torch.nn.Module, str],
) -> list[Wait]:
    """The layers that modules wait for, in any order of the parameters."""
    layer_of = dict(order)
    return [
        Wait(
            module_names[gate.module],
            tuple(sorted({layer_of[names[parameter]] for parameter in gate.needed})),
            layer_of[names[gate.first[0]]] if gate.first else None,
        )
        for gate in gates
    ]
