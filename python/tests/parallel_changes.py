"""What ranks do to a model in the midst of its training: each change is right, or named."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from parallel_cases import distance
from rank_pool import GROUPS
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.utils import prune

import pleach.torch.parallel as parallel

# When a change happens: after data_parallel, and at places of the second iteration.
TIMES = ("created", "forward", "backward", "step", "cleared")


class Cast(nn.Linear):
    """Takes inputs of any type."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return super().forward(values.to(self.weight.dtype))


class Net(nn.Module):
    """A linear layer of square shape, one that is convolved, one that nothing uses; a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Cast(6, 6)
        self.part = Cast(6, 6)
        self.convolved = nn.Conv2d(1, 2, 3, padding=1)
        self.head = Cast(72, 3)
        self.unused = Cast(4, 4)
        self.register_buffer("scale", torch.ones(6))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        found = self.part(torch.tanh(self.first(values))) * self.scale
        square = found.reshape(-1, 1, 6, 1).expand(-1, 1, 6, 6)
        return self.head(self.convolved(square.to(self.convolved.weight.dtype)).flatten(1))


def _data(model: Net, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    model.part.weight.data = change(model.part.weight.data)


def _fewer(model: Net) -> None:
    model.head.weight.data = model.head.weight.data[:2]
    model.head.bias.data = model.head.bias.data[:2]


def _freeze_and_thaw(model: Net) -> None:
    model.part.weight.requires_grad_(False)
    model.part.weight.requires_grad_(True)


def _replace(model: Net) -> None:
    model.part.weight = nn.Parameter(torch.ones(6, 6, dtype=torch.float64))


def _convert_anew(model: Net) -> None:
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        model.float()
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)


CHANGES: dict[str, Callable[[Net], Any]] = {
    "float": lambda model: model.float(),
    "to": lambda model: model.to("cpu", torch.bfloat16),
    "float of a part": lambda model: model.part.float(),
    "float of an unused part": lambda model: model.unused.float(),
    "float by data": lambda model: _data(model, lambda data: data.float()),
    "float anew": _convert_anew,
    "there and back": lambda model: model.float().double(),
    "there and back of a part": lambda model: model.part.float().double(),
    "there and back by data": lambda model: [
        _data(model, lambda data: data.float()),
        _data(model, lambda data: data.double()),
    ],
    "fewer rows": _fewer,
    "type of gradients": lambda model: setattr(model.part.weight, "grad_dtype", torch.float32),
    "clone": lambda model: _data(model, torch.clone),
    "transposed": lambda model: _data(model, lambda data: data.t()),
    "channels last": lambda model: model.to(memory_format=torch.channels_last),
    "frozen": lambda model: model.part.weight.requires_grad_(False),
    "frozen and thawed": _freeze_and_thaw,
    "pruned": lambda model: prune.custom_from_mask(
        model.part, "weight", torch.ones(6, 6).double().tril()
    ),
    "deleted": lambda model: delattr(model, "unused"),
    "buffer": lambda model: setattr(model, "scale", model.scale.float()),
    "new module": lambda model: setattr(model, "part", Cast(6, 6, dtype=torch.float64)),
    "new parameter": _replace,
    "added": lambda model: setattr(model, "extra", Cast(2, 2)),
    "added, frozen": lambda model: setattr(model, "extra", Cast(2, 2).requires_grad_(False)),
}


def _train(rank: int, count: int, change: str, time: str, policy: str, **options: Any) -> Any:
    """Four iterations on a part of each batch; without a policy, on all of it in one process."""
    torch.manual_seed(0)
    model = Net().double()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    if policy:
        parallel.data_parallel(model, optimizer, policy, process_group=GROUPS[count], **options)
    draw = torch.Generator().manual_seed(5)

    def apply(now: str) -> None:
        if now == time:
            CHANGES[change](model)

    try:
        apply("created")
        for turn in range(4):
            values = torch.randn(6 * count, 6, generator=draw, dtype=torch.float64)
            optimizer.zero_grad()
            if turn == 1:
                apply("cleared")
            loss = model(values.chunk(count)[rank] if policy else values).square().mean()
            if turn == 1:
                apply("forward")
            loss.backward()
            if turn == 1:
                apply("backward")
            optimizer.step()
            if turn == 1:
                apply("step")
        return [one.detach().double().clone() for one in model.parameters()]
    finally:
        if policy:
            optimizer.close()


def changes(
    rank: int, change: str, count: int, policy: str, options: dict[str, Any]
) -> dict[str, str]:
    """By time: "right", how far from plain training it is, or the error."""
    found = {}
    # With lazy=True what is done to a parameter between step() and the next forward may be lost.
    for time in TIMES[:3] if options.get("lazy") else TIMES:
        try:
            values = _train(rank, count, change, time, policy, **options)
        except RuntimeError as error:
            found[time] = str(error)
            continue
        apart = distance(values, _train(rank, count, change, time, ""))
        found[time] = "right" if apart <= 1e-6 else f"{apart} apart"
    return found


def _iterate(model: nn.Module, optimizer: torch.optim.Optimizer, clears: bool = True) -> None:
    if clears:
        optimizer.zero_grad()
    model(torch.ones(2, 6, dtype=torch.float64)).square().mean().backward()
    optimizer.step()


def _wrap(model: Net, _optimizer: Any) -> None:
    nn.parallel.DistributedDataParallel(nn.Sequential(model), process_group=GROUPS[2])


def _shard(model: Net, _optimizer: Any) -> None:
    FullyShardedDataParallel(model, process_group=GROUPS[2], device_id=torch.device("cpu"))


def _update_by_another(model: Net, _optimizer: Any) -> None:
    _iterate(model, torch.optim.Adam(model.parameters()))


def _freeze_one_of_two(model: Net, optimizer: Any) -> None:
    """Of two parameters that are new, the one that was told of."""
    model.extra = nn.Linear(6, 6, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"parameter extra\.weight is new since"):
        _iterate(model, optimizer)
    model.extra.weight.requires_grad_(False)
    _iterate(model, optimizer)


def _see_no_hook(model: Net, optimizer: Any) -> None:
    CHANGES["there and back by data"](model)
    _iterate(model, optimizer, clears=False)


def _give_two(model: Net, optimizer: Any) -> None:
    optimizer.close()
    some = torch.optim.SGD([*model.first.parameters(), *model.part.parameters()], 0.1)
    parallel.data_parallel(model, some, process_group=GROUPS[2])


def _give(name: str) -> Callable[[Net, Any], None]:
    def give(model: Net, optimizer: Any) -> None:
        optimizer.close()
        own = getattr(torch.optim, name)(model.parameters())
        parallel.data_parallel(model, own, process_group=GROUPS[2])

    return give


def _after(change: Callable[[Any], Any]) -> Callable[[Net, Any], None]:
    return lambda model, _optimizer: change(model.head.weight.grad)


MISUSES: dict[str, Callable[[Net, Any], Any]] = {
    "wrapped": _wrap,
    "sharded": _shard,
    "another optimizer": _update_by_another,
    "converted with gradients": lambda model, _optimizer: model.half(),
    "not cleared after a conversion": _see_no_hook,
    "one of two new ones frozen": _freeze_one_of_two,
    "two optimizers": _give_two,
    "LBFGS": _give("LBFGS"),
    "SparseAdam": _give("SparseAdam"),
    "numpy": _after(lambda gradient: gradient.cpu().numpy()),
    "array": _after(lambda gradient: gradient.__array__()),
    "list": _after(lambda gradient: gradient.tolist()),
    "address": _after(lambda gradient: gradient.data_ptr()),
    "shared memory": _after(lambda gradient: gradient.share_memory_()),
    "copy": _after(copy.deepcopy),
    "file": _after(pickle.dumps),
    "all_reduce": _after(lambda gradient: dist.all_reduce(gradient, group=GROUPS[2])),
}


def misuse(_rank: int, name: str, policy: str) -> str:
    """The error of code that does not work with a model that is trained in parallel."""
    torch.manual_seed(0)
    model = Net().double()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    parallel.data_parallel(model, optimizer, policy, process_group=GROUPS[2])
    _iterate(model, optimizer)
    try:
        MISUSES[name](model, optimizer)
    except (RuntimeError, ValueError) as error:
        return str(error)
    finally:
        optimizer.close()
    return "nothing"


def whole_gradients_are_plain(_rank: int) -> None:
    """Where every rank has whole gradients, what is no operation of PyTorch reads them too."""
    torch.manual_seed(0)
    model, plain = Net().double(), Net().double()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    parallel.data_parallel(model, optimizer, "ddp", process_group=GROUPS[2])
    plain.load_state_dict(model.state_dict())
    _iterate(model, optimizer)
    _iterate(plain, torch.optim.SGD(plain.parameters(), 0.05))
    model.zero_grad()
    plain.zero_grad()
    for one in (model, plain):
        one(torch.ones(2, 6, dtype=torch.float64)).square().mean().backward()
    found, expected = model.head.bias.grad, plain.head.bias.grad
    assert found.tolist() == expected.tolist()
    for own in (found.numpy(), found.__array__(), copy.deepcopy(found).numpy()):
        assert (own == expected.numpy()).all()
    assert torch.equal(pickle.loads(pickle.dumps(found)), expected)
    optimizer.close()
