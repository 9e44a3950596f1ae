"""How random training loops refer to values, read them and write them.

References are what a user can hold: parameters, lists of them, `.data`, views, NumPy arrays, the
tensors of a state dict. Reads make one number of some tensors; writes change them in place.
"""

from __future__ import annotations

import copy
import ctypes
import io
import math
import pickle
import re
import threading
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn

Values = list[Any]  # tensors, or arrays


@lru_cache(maxsize=64)
def ramp(count: int) -> torch.Tensor:
    """Weights that differ for every element."""
    return torch.cos(torch.arange(count, dtype=torch.float64))


def measure(value: torch.Tensor) -> float:
    """A mean of the elements with weights."""
    flat = value.detach().flatten().to(torch.float64)
    return float((flat * ramp(flat.numel())).sum()) / max(1, flat.numel())


# ------------------------------------------------------------------------------ reading


def _by_rows(value: torch.Tensor) -> float:
    if value.dim() == 0:
        return value.item()
    count = value.shape[0]
    rows = [value[i] for i in range(0, count, max(1, count // 5))]
    return sum(row.sum().item() * (i + 1) for i, row in enumerate([*rows, value[-1]]))


def _as_list(value: torch.Tensor) -> float:
    flat = value.detach().flatten()
    step = max(1, flat.numel() // 50)
    return math.fsum(x * math.cos(i) for i, x in enumerate(flat[::step].tolist()))


def _in_thread(value: torch.Tensor) -> float:
    found: list[float] = []
    thread = threading.Thread(target=lambda: found.append(measure(value)))
    thread.start()
    thread.join()
    return found[0]


def _saved(value: torch.Tensor) -> float:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return measure(torch.load(file, weights_only=True))


def _as_array(value: torch.Tensor) -> float:
    array = np.asarray(value.detach()).ravel()
    return float(np.dot(array, ramp(array.size).numpy())) / max(1, array.size)


def _printed(value: torch.Tensor) -> float:
    """The numbers that it shows, of which PyTorch prints the first and the last."""
    return sum(map(float, re.findall(r"-?\d+\.\d+(?:e[+-]\d+)?", repr(value.detach()))))


def _from_pointer(value: torch.Tensor) -> float:
    value = value if value.is_contiguous() else value.contiguous()
    found = (ctypes.c_double * value.numel()).from_address(value.data_ptr())
    array = np.frombuffer(found, dtype=np.float64)
    return float(np.dot(array, ramp(array.size).numpy())) / max(1, array.size)


def _by_product(value: torch.Tensor) -> float:
    matrix = value.reshape(value.shape[0], -1) if value.dim() else value.reshape(1, 1)
    return float((ramp(matrix.shape[0]) @ matrix @ ramp(matrix.shape[1])).detach()) / value.numel()


READS: dict[str, Callable[[torch.Tensor], float]] = {
    "detach": measure,
    "sum": lambda v: (v.sum() + v.square().sum()).item() / v.numel(),
    "norm": lambda v: float(torch.linalg.vector_norm(v - 0.1).detach()) / math.sqrt(v.numel()),
    "clone": lambda v: measure(v.clone()),
    "data": lambda v: measure(v.data),
    "array": _as_array,
    "list": _as_list,
    "repr": _printed,
    "pointer": _from_pointer,
    "product": _by_product,
    "cat": lambda v: measure(torch.cat([v.flatten(), v.flatten()])),
    "foreach": lambda v: sum(float(n.detach()) for n in torch._foreach_norm([v, v - 0.1])),
    "copy_": lambda v: measure(torch.empty_like(v).detach().copy_(v.detach())),
    "copied": lambda v: measure(torch.zeros_like(v).data.copy_(v)),
    "rows": _by_rows,
    "sort": lambda v: measure(v.flatten().sort().values),
    "pickle": lambda v: measure(pickle.loads(pickle.dumps(v))),
    "save": _saved,
    "deepcopy": lambda v: measure(copy.deepcopy(v)),
    "out": lambda v: measure(torch.mul(v.detach(), 2.0, out=torch.empty_like(v).detach())),
    "vmap": lambda v: measure(torch.func.vmap(lambda x: x * x)(v.reshape(-1))),
    "vmap_captured": lambda v: measure(torch.func.vmap(lambda x: x * v)(ramp(3))),
    "float32": lambda v: measure(v.to(torch.float32).to(torch.float64)),
    "to": lambda v: measure(v.to("cpu", torch.float64)),
    "in thread": _in_thread,
    "comparison": lambda v: float(torch.allclose(v, v.detach().clone())) + measure(v.abs()),
    "where": lambda v: measure(torch.where(v > 10.0, torch.zeros_like(v), v)),
    "stack": lambda v: measure(torch.stack([v, v * 2]).mean(0)),
    "min_max": lambda v: v.min().item() + v.max().item() + v.std(correction=0).item(),
    "subclass": lambda v: measure(nn.Parameter(v.detach(), requires_grad=False) * 1.0),
    "new_tensor": lambda v: measure(torch.tensor(v.tolist(), dtype=torch.float64)),
}


def read(values: Iterable[Any], style: str) -> float:
    """A number that depends on every tensor or array; the style says how they are read."""
    found = []
    for value in values:
        if isinstance(value, np.ndarray):
            found.append(float((value.ravel() * ramp(value.size).numpy()).sum()) / value.size)
        elif style == "foreach" and value.dim() == 0:
            found.append(measure(value))
        else:
            found.append(READS[style](value))
    return sum(x * math.cos(i) for i, x in enumerate(found)) / max(1, len(found))


# ------------------------------------------------------------------------------ writing


def _clamp(value: torch.Tensor, amount: float) -> None:
    value.clamp_(-0.4 * amount, 0.4 * amount)


def _zero_row(value: torch.Tensor, amount: float) -> None:
    if value.dim():
        value[0].zero_()
    else:
        value.mul_(amount)


def _set_column(value: torch.Tensor, amount: float) -> None:
    if value.dim():
        value[..., -1] = 0.1 * amount
    else:
        value.fill_(amount)


def _draw(value: torch.Tensor, amount: float) -> None:
    draw = torch.Generator().manual_seed(int(amount * 1000))
    nn.init.uniform_(value, -0.1, 0.1, generator=draw)


def _limit_norms(value: torch.Tensor, amount: float) -> None:
    if value.dim() >= 2:
        value.copy_(torch.renorm(value, 2, 0, 0.3 * amount))
    else:
        value.div_(1 + value.norm())


def _normalise(value: torch.Tensor, amount: float) -> None:
    value.mul_(amount / (0.1 + value.norm() / math.sqrt(value.numel())).clamp(min=amount))


def _write_array(value: torch.Tensor, amount: float) -> None:
    array = value.detach().numpy()
    array *= amount


def _write_view(value: torch.Tensor, amount: float) -> None:
    flat = value.detach().reshape(-1) if value.is_contiguous() else value.detach()
    flat[flat.shape[0] // 2 :].mul_(amount)


def _augmented(value: torch.Tensor, amount: float) -> None:
    value *= amount
    value -= 0.001


def _write_in_thread(value: torch.Tensor, amount: float) -> None:
    def work() -> None:
        with torch.no_grad():
            value.mul_(amount)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def _write_in_inference(value: torch.Tensor, amount: float) -> None:
    with torch.inference_mode():
        value.mul_(amount)


WRITES: dict[str, Callable[[torch.Tensor, float], Any]] = {
    "mul_": lambda v, a: v.mul_(a),
    "clamp_": _clamp,
    "copy_": lambda v, a: v.copy_(v * a),
    "copy_fixed": lambda v, a: v.copy_(0.1 * a * ramp(v.numel()).view_as(v)),
    "data.add_": lambda v, a: v.data.add_(0.001 * a),
    "data.mul_": lambda v, a: v.data.mul_(a),
    "data.copy_": lambda v, a: v.data.copy_(v.data * a),
    "data[...]": lambda v, a: v.data.__setitem__(..., v.data * a),
    "row": _zero_row,
    "column": _set_column,
    "init": _draw,
    "renorm": _limit_norms,
    "normalise": _normalise,
    "foreach": lambda v, a: torch._foreach_mul_([v], a),
    "lerp_": lambda v, a: v.lerp_(torch.zeros_like(v), 1 - a),
    "out": lambda v, a: torch.mul(v, a, out=v),
    "numpy": _write_array,
    "view": _write_view,
    "augmented": _augmented,
    "addcmul_": lambda v, a: v.addcmul_(v, v, value=-0.01 * a),
    "masked_fill_": lambda v, a: v.masked_fill_(v > 0.5 * a, 0.5 * a),
    "other thread": _write_in_thread,
    "inference": _write_in_inference,
    "sub_self": lambda v, a: v.sub_((1 - a) * v),
}


def write(values: Iterable[Any], style: str, amount: float) -> None:
    """Changes all in place; the style says how. `amount` is a little less than 1."""
    with torch.no_grad():
        for value in values:
            if isinstance(value, np.ndarray):
                np.multiply(value, amount, out=value)
            elif not (style == "view" and value.dim() == 0):
                WRITES[style](value, amount)


# ------------------------------------------------------------------------------ references


def floating(entries: dict[str, torch.Tensor]) -> Values:
    """The tensors of a state dict that may have any value."""
    return [
        each
        for name, each in entries.items()
        if each.is_floating_point() and not name.endswith("running_var")
    ]


def _transposed(value: torch.Tensor) -> torch.Tensor:
    value = value.detach()
    return value.t() if value.dim() == 2 else value.view(-1)[: value.numel() // 2 + 1]


# How a value is referred to: what it wants to know, whether it shares memory without being the
# parameter, and what it returns.
Reference = tuple[str, bool, Callable[[Any, str], Values]]
REFERENCES: dict[str, Reference] = {
    "weight": ("layer", False, lambda run, name: [run.model.get_submodule(name).weight]),
    "get_parameter": ("parameter", False, lambda run, name: [run.model.get_parameter(name)]),
    "part list": ("part", False, lambda run, name: [*run.model.get_submodule(name).parameters()]),
    "model list": ("whole", False, lambda run, _: list(run.model.parameters())),
    "named": ("whole", False, lambda run, _: list(dict(run.model.named_parameters()).values())),
    "group": ("whole", False, lambda run, _: list(run.optimizer.param_groups[-1]["params"])),
    "buffer": ("buffer", False, lambda run, name: [run.model.get_buffer(name)]),
    "data": ("parameter", True, lambda run, name: [run.model.get_parameter(name).data]),
    "detached": ("parameter", True, lambda run, name: [run.model.get_parameter(name).detach()]),
    "view": ("parameter", True, lambda run, name: [_transposed(run.model.get_parameter(name))]),
    "array": (
        "parameter",
        True,
        lambda run, name: [run.model.get_parameter(name).detach().numpy()],
    ),
    "from_numpy": (
        "parameter",
        True,
        lambda run, name: [torch.from_numpy(run.model.get_parameter(name).detach().numpy())],
    ),
    "dlpack": (
        "parameter",
        True,
        lambda run, name: [torch.from_dlpack(run.model.get_parameter(name).detach())],
    ),
    "state dict": ("whole", True, lambda run, _: floating(run.model.state_dict())),
    "part state dict": (
        "part",
        True,
        lambda run, name: floating(run.model.get_submodule(name).state_dict()),
    ),
}
