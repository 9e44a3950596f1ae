"""What must be alike on all ranks before they train together, and what is made so."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from .aliases import find_aliases
from .buffers import is_plain
from .exchange import Exchange

# Classes of torch that average a model's gradients themselves.
WRAPPERS = frozenset(
    {"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "FSDPModule"}
)

# Characters of a line that an error shows.
_MOST_SHOWN = 400


def describe(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, settings: dict[str, Any]
) -> list[str]:
    """Everything that ranks compare, a line each."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    lines = [f"option {key} {value!r}" for key, value in settings.items()]
    for kind, name, tensor in _tensors_of(model):
        frozen = "" if tensor.requires_grad or kind == "buffer" else ", frozen"
        shape = "nested" if tensor.is_nested else tuple(tensor.shape)
        lines.append(f"{kind} {name}: {shape} {tensor.dtype}{frozen}")
    lines.append(f"optimizer {type(optimizer).__name__}")
    lines += describe_settings(optimizer)
    for index, group in enumerate(optimizer.param_groups):
        lines += [
            f"group {index} of the optimizer has {names.get(parameter, 'a parameter of no name')}"
            for parameter in group["params"]
        ]
    return lines


def describe_settings(optimizer: torch.optim.Optimizer) -> list[str]:
    """An optimizer's settings, a line for each group."""
    lines = []
    for index, group in enumerate(optimizer.param_groups):
        own = {key: value for key, value in sorted(group.items()) if key != "params"}
        lines.append(f"group {index} of the optimizer: {own}")
    return lines


def _tensors_of(model: torch.nn.Module) -> list[tuple[str, str, torch.Tensor]]:
    """A model's parameters and buffers: which of the two, name, tensor."""
    return [("parameter", name, one) for name, one in model.named_parameters()] + [
        ("buffer", name, one) for name, one in model.named_buffers()
    ]


def compare(exchange: Exchange, own: Sequence[str]) -> None:
    """Compares every rank's lines with the first rank's. Collective.

    Raises:
        ValueError: On all ranks, with the first line in which a rank differs.
    """
    gathered = exchange.gather_objects(list(own))
    for rank, lines in enumerate(gathered):
        for index in range(max(len(lines), len(gathered[0]))):
            ours = gathered[0][index] if index < len(gathered[0]) else "nothing more"
            theirs = lines[index] if index < len(lines) else "nothing more"
            if ours != theirs:
                raise ValueError(f"rank {rank} has {_shown(theirs)}; rank 0 has {_shown(ours)}")


def _shown(line: str) -> str:
    """A line as one of a message: names may be of any length, and of any characters."""
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode()
        for one in line[:_MOST_SHOWN]
    )
    return f"{shown}..." if len(line) > _MOST_SHOWN else shown


def compare_values(exchange: Exchange, tensors: dict[str, torch.Tensor]) -> None:
    """Compares every rank's values, bit for bit, with the first rank's. Collective.

    Args:
        exchange: Among the ranks.
        tensors: By name; the same names on all ranks.

    Raises:
        RuntimeError: On all ranks, with the first name at which a rank differs.
    """
    everyone = exchange.gather_objects([_digest(tensor) for tensor in tensors.values()])
    for rank, theirs in enumerate(everyone):
        for name, one, other in zip(tensors, everyone[0], theirs, strict=True):
            if one != other:
                raise RuntimeError(f"parameter {_shown(name)} differs on ranks 0 and {rank}")


def _digest(tensor: torch.Tensor) -> bytes:
    flat = tensor.cpu().contiguous().flatten().view(torch.uint8)
    return hashlib.blake2b(flat.numpy().tobytes(), digest_size=8).digest()


@torch.no_grad()
def share_values(
    exchange: Exchange, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Gives every rank the first one's parameters, buffers and optimizer state. Collective."""
    named = _tensors_of(model)
    tensors = [tensor.detach() for _, _, tensor in named if is_plain(tensor)]
    exchange.broadcast([tensor for tensor in tensors if tensor.numel() > 0])
    _compare_others(exchange, {name: one for _, name, one in named if not is_plain(one)})
    own = optimizer.state_dict() if optimizer.state and exchange.rank == 0 else None
    given = exchange.broadcast_object(own)
    if given is None or exchange.rank == 0:
        return
    optimizer.load_state_dict(given)
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, state in given["state"].items():
        loaded = optimizer.state[held[index]]
        for key, value in state.items():  # which loading has given their parameter's type
            if isinstance(value, torch.Tensor):
                loaded[key] = value.to(loaded[key].device)


def _compare_others(exchange: Exchange, tensors: dict[str, torch.Tensor]) -> None:
    """Compares tensors that are not plain, which are not shared. Collective.

    Raises:
        ValueError: One differs; on all ranks.
    """
    lines = []
    for name, tensor in tensors.items():
        file = io.BytesIO()
        torch.save(tensor.to_dense() if tensor.is_mkldnn else tensor.detach(), file)
        digest = hashlib.blake2b(file.getvalue(), digest_size=8).hexdigest()
        lines.append(f"{name} of layout {tensor.layout}, with values of digest {digest}")
    if tensors:
        compare(exchange, lines)


def check_modules(model: torch.nn.Module) -> None:
    """Refuses modules that cannot be trained so.

    Raises:
        ValueError: A module averages gradients itself, or is a script; names it.
    """
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise ValueError(
                f"{_called(name)} is a script, which takes no hooks: pass the module that it was "
                "made of"
            )
        for kind in type(module).__mro__:
            if kind.__module__.startswith("torch.") and kind.__name__ in WRAPPERS:
                raise ValueError(
                    f"{_called(name)} is wrapped in {kind.__name__}, which averages gradients too: "
                    "pass the bare module"
                )


def _called(name: str) -> str:
    return f"module {name}" if name else "the model"


def check_model(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> dict[torch.nn.Parameter, str]:
    """The parameters that are trained, with their names.

    Raises:
        ValueError: What cannot be trained in parallel: a line that names it.
    """
    for name, parameter in model.named_parameters():
        if torch.nn.parameter.is_lazy(parameter):
            raise ValueError(
                f"parameter {name} has no shape yet: let the model see a batch before data_parallel"
            )
    trained = {
        parameter: name for name, parameter in model.named_parameters() if parameter.requires_grad
    }
    step = optimizer.__dict__.get("step")
    if step is not None and not hasattr(step, "_wrapped_by_lr_sched"):
        raise ValueError("the optimizer's step is not its class's: replace it after data_parallel")
    if not any(parameter.numel() > 0 for parameter in trained):
        raise ValueError("the model has no parameter that takes gradients")
    held: list[torch.nn.Parameter] = [
        parameter for group in optimizer.param_groups for parameter in group["params"]
    ]
    known = set(held)
    for parameter, name in trained.items():
        if parameter not in known:
            raise ValueError(
                f"parameter {name} takes gradients, and the optimizer has it not: freeze it "
                "(requires_grad_(False)), or make one optimizer of all parameters, with a group "
                "for each setting"
            )
    for parameter in held:
        if parameter.requires_grad and parameter not in trained:
            raise ValueError(
                f"the optimizer has a parameter of shape {tuple(parameter.shape)} that is not the "
                "model's"
            )
    for parameter, name in trained.items():
        if type(parameter) is not torch.nn.Parameter or parameter.layout is not torch.strided:
            raise ValueError(
                f"parameter {name} is a {type(parameter).__name__} of layout {parameter.layout}: "
                "pleach.torch takes plain ones"
            )
        if parameter.grad_fn is not None or not parameter.is_leaf:
            raise ValueError(f"parameter {name} is computed from others")
    everything: dict[torch.nn.Parameter, str] = {
        parameter: name for name, parameter in model.named_parameters()
    }
    for alias in find_aliases(everything):
        if alias.parameter in trained:
            raise ValueError(
                f"{alias}, which would keep old values: drop it, copy it (clone()), or take it "
                "after data_parallel"
            )
    kinds = {parameter.device.type for parameter in trained}
    if len(kinds) > 1 or len({parameter.device for parameter in trained}) > 1:
        raise ValueError(
            f"parameters are on several devices: {sorted(map(str, devices_of(trained)))}"
        )
    device = next(iter(trained)).device
    for kind, name, tensor in _tensors_of(model):
        _check_writable(f"{kind} {name}", tensor)
    for name, buffer in model.named_buffers():
        if buffer.device != device:
            raise ValueError(
                f"buffer {name} is on {buffer.device}, and the parameters are on {device}"
            )
    return trained


def _check_writable(name: str, tensor: torch.Tensor) -> None:
    """The first rank's values can be written to a tensor."""
    if tensor.is_inference():
        raise ValueError(
            f"{name} was made in inference mode, and cannot be written to outside of it: make it "
            "anew (clone()) outside"
        )
    if is_plain(tensor) and torch._debug_has_internal_overlap(tensor) == 1:
        raise ValueError(
            f"{name} has elements that share memory (expand()), and cannot be written to: make it "
            "anew (clone())"
        )


def devices_of(parameters: Iterable[torch.Tensor]) -> set[torch.device]:
    """The devices that tensors are on."""
    return {parameter.device for parameter in parameters}
