"""Uses of a model, by all the ways that PyTorch reads a tensor."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.utils.checkpoint
from rank_pool import GROUPS
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

WIDE = 400


class Reader(nn.Module):
    """Two layers, a part, and a buffer."""

    def __init__(self, width: int = WIDE) -> None:
        super().__init__()
        self.part = nn.Sequential(nn.Linear(8, width), nn.Linear(width, 8))
        self.head = nn.Linear(8, 8)
        self.register_buffer("scale", torch.ones(()))
        self.double()

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.head(self.part(values)) * self.scale


class Twice(torch.autograd.Function):
    """Of a user's own."""

    @staticmethod
    def forward(context: Any, weight: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return weight * 2

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient * 2


class Kept(torch.autograd.Function):
    """Reads its weight in backward alone."""

    @staticmethod
    def forward(context: Any, values: Any, weight: Any) -> Any:  # type: ignore[override]
        context.save_for_backward(weight)
        return values.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Any:  # type: ignore[override]
        return gradient * context.saved_tensors[0], None


class Own(torch.Tensor):
    """A kind of tensor of a user's own."""


@torch.jit.script  # type: ignore[untyped-decorator]
def _scripted(values: torch.Tensor) -> torch.Tensor:
    return values.square().sum()


def _square(values: torch.Tensor) -> torch.Tensor:
    return values.square().sum()


def _in_file(module: nn.Module) -> torch.Tensor:
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    return _total(loaded.parameters())


def _total(tensors: Any) -> torch.Tensor:
    return sum(tensor.detach().abs().sum() for tensor in tensors)


def _averaged(model: Reader) -> torch.Tensor:
    average = torch.optim.swa_utils.AveragedModel(model.part)
    average.update_parameters(model.part)
    return _total(average.parameters())


def _by_call(model: Reader) -> torch.Tensor:
    ones = torch.ones(2, 8, dtype=torch.float64)
    return torch.func.functional_call(model.head, dict(model.head.named_parameters()), ones).sum()


def _shared(weight: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        dist.broadcast(weight, group=GROUPS[2], group_src=0)  # below PyTorch's functions
    return weight.detach().sum()


def _gradient(make: Callable[[torch.Tensor], Any]) -> torch.Tensor:
    """What is left in the gradient of ones, by a backward pass that `make` gives or runs."""
    ones = torch.ones(8, 8, dtype=torch.float64, requires_grad=True)
    made = make(ones)
    if made is not None:
        made.sum().backward()
    assert ones.grad is not None
    return ones.grad.sum()


def _with_data(weight: torch.Tensor) -> torch.Tensor:
    other = torch.zeros(8, 8, dtype=torch.float64)
    other.data = weight
    return other.sum()


def _set(weight: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return torch.zeros(0, dtype=torch.float64).set_(weight).sum()


def _saved_script(weight: torch.Tensor) -> torch.Tensor:
    module = nn.Linear(8, 8).double()
    module.weight = weight  # type: ignore[assignment]
    script = torch.jit.script(module)
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    return torch.jit.load(file).weight.detach().sum()  # type: ignore[no-any-return]


def _traced(model: Reader) -> torch.Tensor:
    ones = torch.ones(2, 8, dtype=torch.float64)
    return torch.jit.trace(model.head, (ones,))(ones).sum()  # type: ignore[no-any-return]


def _beside_fakes(model: Reader) -> torch.Tensor:
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert (model.scale + 1).shape == ()
    return model.scale.clone()


def _with_own_class(weight: torch.Tensor) -> torch.Tensor:
    weight.__class__ = nn.Parameter  # in place of the guard's
    return weight.sum()


def _dual(weight: torch.Tensor) -> torch.Tensor:
    with torch.autograd.forward_ad.dual_level():
        made = torch.autograd.forward_ad.make_dual(_ONES, weight)
        return torch.autograd.forward_ad.unpack_dual(made).tangent.sum()  # type: ignore[union-attr]


def _coalesced(model: Reader, weight: nn.Parameter) -> torch.Tensor:
    tensors = [weight, model.head.bias]
    with torch.no_grad():
        dist._broadcast_coalesced(GROUPS[2], tensors, 1 << 20)
    return _total(tensors)


_ONES = torch.ones(8, 8, dtype=torch.float64)
# Functions that take a tensor without asking its class.
BELOW: dict[str, Callable[[Reader, nn.Parameter], Any]] = {
    "tensor": lambda _, w: torch.tensor(w).sum(),
    "tensor of a buffer": lambda m, _: torch.tensor(m.scale),
    "tensor of elements": lambda m, _: torch.tensor([m.scale, m.scale]).sum(),
    "as_tensor": lambda _, w: torch.as_tensor(w, dtype=torch.float32).sum(),
    "asarray": lambda _, w: torch.asarray(w, dtype=torch.float32, copy=True).sum(),
    "new_tensor": lambda _, w: _ONES.new_tensor(w).sum(),
    "new_tensor of a buffer": lambda m, _: _ONES.new_tensor(m.scale),
    "constructor": lambda _, w: torch.DoubleTensor(w).sum(),
    "as_subclass": lambda _, w: float(w.as_subclass(Own).sum()),
    "a subclass first": lambda _, w: float((_ONES.as_subclass(Own) * w).sum()),
    "sparse": lambda m, _: torch.sparse_coo_tensor([range(8)], m.head.bias).to_dense().sum(),
    "nested": lambda _, w: torch.nested.nested_tensor([w, w]).values().sum(),
    "grad_outputs": lambda _, w: _gradient(
        lambda x: torch.autograd.backward(x * 2, grad_tensors=w)
    ),
    "backward of it": lambda _, w: _gradient(lambda x: (x * 2).backward(w)),
    "a gradient": lambda _, w: _gradient(lambda x: setattr(x, "grad", w)),
    "kept for backward": lambda _, w: _gradient(lambda x: Kept.apply(x, w)),
    "data of another": lambda _, w: _with_data(w),
    "set_": lambda _, w: _set(w),
    "functionalize": lambda _, w: torch.func.functionalize(_square)(w),
    "vjp of it": lambda _, w: torch.func.vjp(torch.mul, _ONES, _ONES)[1](w)[0].sum(),
    "linearize": lambda _, w: torch.func.linearize(torch.square, _ONES)[1](w).sum(),
    "checkpoint": lambda _, w: _gradient(
        lambda x: torch.utils.checkpoint.checkpoint(torch.mul, x, w, use_reentrant=False)
    ),
    "reentrant checkpoint": lambda _, w: _gradient(
        lambda x: torch.utils.checkpoint.checkpoint(torch.mul, x, w, use_reentrant=True)
    ),
    "trace of a part": lambda m, _: _traced(m),
    "buffer beside fakes": lambda m, _: _beside_fakes(m),
    "buffer in a transform": lambda m, _: torch.func.grad(lambda x: (x * m.scale).sum())(
        _ONES
    ).sum(),
    "with its own class": lambda _, w: _with_own_class(w),
    "trace": lambda _, w: torch.jit.trace(_square, (_ONES,))(w),
    "file of a script": lambda _, w: _saved_script(w),
    "a new parameter": lambda _, w: nn.Parameter(w).detach().sum(),
    "a new buffer": lambda m, _: nn.Buffer(m.scale).sum(),
    "dual": lambda _, w: _dual(w),
    "coalesced": lambda m, w: _coalesced(m, w),
    "in C++": lambda _, w: torch._C._nn.flatten_dense_tensors([w.detach(), w.detach()]).sum(),
}


# These run a backward pass of their own to a parameter.
PASSES = {"kept for backward", "checkpoint", "reentrant checkpoint"}

# These read a buffer, which is final on the first rank.
BUFFERS = {"buffer", "tensor of a buffer", "tensor of elements", "new_tensor of a buffer"}
BUFFERS |= {"a new buffer", "buffer beside fakes", "buffer in a transform"}

# By name: a use of the model, or of the weight that the caller has held since before training.
READS: dict[str, Callable[[Reader, nn.Parameter], Any]] = {
    "attribute": lambda m, _: m.head.weight.sum(),
    "held": lambda _, w: w.sum(),
    "data": lambda _, w: w.data.sum(),
    "detach": lambda _, w: w.detach().clone().sum(),
    "element": lambda _, w: float(w[0, 0]),
    "item": lambda _, w: w[1, 2].item(),
    "tolist": lambda _, w: w.tolist()[0][0],
    "repr": lambda _, w: len(repr(w)),
    "numpy": lambda _, w: float(w.detach().numpy().sum()),
    "dlpack": lambda _, w: torch.from_dlpack(w.detach()).sum(),
    "data_ptr": lambda _, w: w.data_ptr(),
    "part.parameters": lambda m, _: _total(m.part.parameters()),
    "get_parameter": lambda m, _: m.get_parameter("part.1.weight").sum(),
    "foreach": lambda m, _: torch.stack(torch._foreach_norm(list(m.part.parameters()))).sum(),
    "vector": lambda m, _: nn.utils.parameters_to_vector(m.part.parameters()).sum(),
    "cat": lambda m, w: torch.cat([w.flatten(), m.head.bias]).sum(),
    "deepcopy part": lambda m, _: _total(copy.deepcopy(m.part).parameters()),
    "deepcopy parameter": lambda _, w: copy.deepcopy(w).detach().sum(),
    "pickle part": lambda m, _: _total(pickle.loads(pickle.dumps(m.part)).parameters()),
    "file of a part": lambda m, _: _in_file(m.part),
    "file of a parameter": lambda _, w: len(pickle.dumps(w)) + w.sum(),
    "state_dict": lambda m, _: _total(m.part.state_dict().values()),
    "average": lambda m, _: _averaged(m),
    "lerp": lambda _, w: torch.zeros_like(w.data).lerp_(w.data, 0.1).sum(),
    "copy_": lambda _, w: torch.zeros(8, 8, dtype=torch.float64).copy_(w.detach()).sum(),
    "forward of a part": lambda m, _: m.head(torch.ones(2, 8, dtype=torch.float64)).sum(),
    "functional_call": lambda m, _: _by_call(m),
    "func.grad": lambda _, w: torch.func.grad(_square)(w).sum(),
    "func.vjp": lambda _, w: torch.func.vjp(_square, w)[0],
    "func.jvp": lambda _, w: torch.func.jvp(_square, (w,), (torch.ones_like(w),))[1],
    "func.jacrev": lambda _, w: torch.func.jacrev(_square)(w).sum(),
    "func.hessian": lambda m, _: torch.func.hessian(_square)(m.head.bias).sum(),
    "vmap over it": lambda _, w: torch.vmap(_square)(w).sum(),
    "vmap with it": lambda _, w: torch.vmap(lambda x: w @ x)(torch.ones(3, 8).double()).sum(),
    "script": lambda _, w: _scripted(w),
    "function": lambda _, w: Twice.apply(w).sum(),
    "compiled": lambda _, w: torch.compile(_square, backend="eager")(w),
    "collective": lambda _, w: _shared(w),
    "buffer": lambda m, _: float(m.scale),
    "first use": lambda _, w: torch.autograd.grad((w * 3).sum(), w)[0].sum() + w.sum(),
    **BELOW,
}
