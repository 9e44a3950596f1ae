"""What ranks run in tests of the contract: after step() everything has its final value."""

from __future__ import annotations

import atexit
import collections
import concurrent.futures
import contextlib
import copy
import os
import pickle
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from parallel_cases import digest, distance
from parallel_reads import READS, Kept, Reader
from rank_pool import GROUPS
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from pleach.torch import parallel

SLOW_S = 0.03  # what an update waits: nothing is final when step() returns
CUT = 3001  # of a parameter that is cut: several atoms, of which ranks have unequal parts


@contextlib.contextmanager
def training(
    optimizer: str = "SGD", process_group: Any = None, **options: Any
) -> Iterator[tuple[Reader, Any, Callable[[], None]]]:
    """A training whose updates are late; gives model, optimizer, and what runs an iteration."""
    torch.manual_seed(0)
    model = Reader()
    own = getattr(torch.optim, optimizer)(model.parameters(), 0.01)
    group = process_group if process_group is not None else GROUPS[2]
    parallel.data_parallel(model, own, process_group=group, **options)
    count, rank = group.size(), group.rank()

    def iterate() -> None:
        values = torch.randn(
            4 * count, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64
        )
        own.zero_grad()
        model(values.chunk(count)[rank]).square().mean().backward()
        own.step()

    iterate()
    own.synchronize()
    units = own.trainer._built.optimizer
    update = units.update

    def late(*arguments: Any) -> None:
        time.sleep(SLOW_S)
        update(*arguments)

    units.update = late
    try:
        yield model, own, iterate
    finally:
        own.synchronize()
        own.close()


def reads_are_final(rank: int, names: list[str], options: dict[str, Any]) -> list[str]:
    """Reads right after step(); returns those that fail, or differ from those of later."""
    wrong = []
    with training(**options) as (model, optimizer, iterate):
        held = model.head.weight
        for name in names:
            iterate()
            try:
                found = READS[name](model, held)
            except RuntimeError as error:
                wrong.append(f"{name}: {error}")
                continue
            optimizer.synchronize()
            right = READS[name](model, held)
            if not torch.allclose(
                torch.as_tensor(found).double(), torch.as_tensor(right).double(), rtol=1e-14
            ):
                wrong.append(name)
            del found, right
    return wrong


def reads_are_errors(rank: int, names: list[str]) -> list[str]:
    """With lazy and check; returns the reads right after step() that raise nothing."""
    silent = []
    with training(lazy=True, check=True) as (model, optimizer, iterate):
        held = model.head.weight
        for name in names:
            iterate()
            try:
                READS[name](model, held)
                silent.append(name)
            except RuntimeError as error:
                if "is not final with lazy=True" not in str(error):
                    raise
            optimizer.synchronize()
    return silent


def aliases_are_right(rank: int) -> None:
    """Views and NumPy arrays that are held across steps have the values of plain training."""
    with training() as (model, optimizer, iterate):
        weight = model.part[1].weight
        view, data, array = weight.detach()[:2], weight.data, weight.detach().numpy()
        for _ in range(3):
            before = data.clone()
            iterate()
            found = float(view.sum()), float(data.sum()), float(array.sum())
            optimizer.synchronize()
            assert not torch.equal(before, data)
            assert found == (float(view.sum()), float(data.sum()), float(array.sum()))
            data.mul_(0.5)  # as does the parameter
            assert torch.equal(weight.detach(), data)
        del view, data, array
        iterate()
        assert optimizer.trainer._finality.is_on  # steps wait for nothing again


def aliases_with_lazy_are_errors(rank: int) -> str:
    """What step() says of them with lazy and check."""
    with training(lazy=True, check=True) as (model, _optimizer, iterate):
        alias = model.head.weight.data
        try:
            iterate()
        except RuntimeError as error:
            del alias
            return str(error)
    return ""


def aliases_of_before(rank: int) -> str:
    """What creation says of a tensor that shares a parameter's memory."""
    model = Reader()
    held = model.part[0].bias.detach().numpy()
    try:
        parallel.data_parallel(
            model, torch.optim.SGD(model.parameters(), 0.1), process_group=GROUPS[2]
        )
    except ValueError as error:
        del held
        return str(error)
    return ""


def writes_count(rank: int, optimizer: str, write: str) -> tuple[float, str]:
    """Writes right after step(), as plain training has them; how far off, and a digest."""

    def change(model: Reader) -> None:
        with torch.no_grad():
            if write == "clamp":
                for parameter in model.parameters():
                    parameter.clamp_(-0.02, 0.02)
            elif write == "data":
                model.head.weight.data.mul_(0.9)
            elif write == "foreach":
                torch._foreach_mul_(list(model.part.parameters()), 0.9)
            elif write == "set data":
                model.head.weight.data = model.head.weight.data * 0.9
            elif write == "vector":
                halves = 0.5 * nn.utils.parameters_to_vector(model.part.parameters())
                nn.utils.vector_to_parameters(halves, model.part.parameters())
            elif write == "buffer":
                model.scale.mul_(0.5)
            elif write == "init":
                nn.init.constant_(model.head.bias, 0.25)

    torch.manual_seed(0)
    plain = Reader()
    reference = getattr(torch.optim, optimizer)(plain.parameters(), 0.01)
    values = torch.randn(8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with training(optimizer) as (model, _own, iterate):
        for turn in range(4):
            reference.zero_grad()
            plain(values).square().mean().backward()
            reference.step()
            if turn > 0:
                change(plain)
                iterate()
                change(model)
        found = [*model.parameters(), *model.buffers()]
        off = distance(found, [*plain.parameters(), *plain.buffers()])
        return off, digest([one.detach().clone() for one in found])


def train_both(
    models: tuple[nn.Module, nn.Module],
    optimizers: tuple[Any, Any],
    turn: int,
    rank: int,
    count: int,
    between: Callable[[nn.Module], None] = lambda _model: None,
) -> None:
    """An iteration of a plain model, and of a parallel one on this rank's part of the batch."""
    dtype = next(models[0].parameters()).dtype
    values = torch.randn(6, 8, generator=torch.Generator().manual_seed(turn), dtype=dtype)
    parts = values, values.chunk(count)[rank]
    for model, optimizer, part in zip(models, optimizers, parts, strict=True):
        optimizer.zero_grad()
        model(part).abs().square().mean().backward()
        between(model)
        optimizer.step()


class Counting(torch.optim.Optimizer):
    """Writes to its groups and to itself, and uses the norm of all gradients."""

    def __init__(self, parameters: Any):
        super().__init__(parameters, {"lr": 0.1, "k": 0})
        self.calls = 0

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.calls += 1
        gradients = [p.grad for g in self.param_groups for p in g["params"] if p.grad is not None]
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
        for group in self.param_groups:
            group["k"] += 1
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = self.state[parameter]
                    state["n"] = state.get("n", 0) + 1
                    parameter.data.add_(parameter.grad / norm, alpha=-group["lr"] / group["k"])


class Declared(torch.optim.Optimizer):
    """Elementwise, which counts in its groups and in its states."""

    whole_tensor = False

    def __init__(self, parameters: Any):
        super().__init__(parameters, {"lr": 0.1, "k": 0})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            group["k"] += 1
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = self.state[parameter]
                    state["n"] = state.get("n", 0) + 1
                    mean = state.setdefault("mean", torch.zeros_like(parameter))
                    mean.lerp_(parameter.grad, 0.5)
                    parameter.data.add_(mean, alpha=-group["lr"] / group["k"])


OWN = {"counting": Counting, "declared": Declared}


def own_steps(
    rank: int, name: str, policy: str, count: int, gather: str = "parameters"
) -> tuple[float, Any]:
    """An optimizer of the user's own against plain training; how far off, and its counters."""
    torch.manual_seed(0)
    plain = Reader()
    model = copy.deepcopy(plain)
    reference, own = OWN[name](plain.parameters()), OWN[name](model.parameters())
    parallel.data_parallel(model, own, policy, gather=gather, process_group=GROUPS[count])
    for turn in range(5):
        train_both((plain, model), (reference, own), turn, rank, count)
        assert own.param_groups[0]["k"] == reference.param_groups[0]["k"] == turn + 1
    numbers = {state["n"] for state in own.state.values()}
    counted = (own.param_groups[0]["k"], getattr(own, "calls", 5), numbers)
    off = distance(list(model.parameters()), list(plain.parameters()))
    own.close()
    return off, counted


def state_is_the_plain_ones(rank: int, name: str, policy: str, count: int) -> None:
    """optimizer.state after steps: read, written to in place, replaced, cleared."""
    torch.manual_seed(0)
    plain = Reader(CUT)
    model = copy.deepcopy(plain)
    options = {"lr": 0.01} if name != "SGD" else {"lr": 0.01, "momentum": 0.9}
    reference, own = (
        getattr(torch.optim, name)(one.parameters(), **options) for one in (plain, model)
    )
    parallel.data_parallel(model, own, policy, process_group=GROUPS[count])
    numbers = None
    for turn in range(7):
        train_both((plain, model), (reference, own), turn, rank, count)
        if numbers is not None and turn != 4:  # held since the first step
            assert all(float(number) == turn + 1 for number in numbers), (turn, numbers)
        for two, optimizer in ((plain, reference), (model, own)):
            _change_state(optimizer, list(two.parameters()), turn)
        if "step" in own.state[model.head.bias]:
            numbers = [own.state[one]["step"] for one in model.parameters()] if turn < 3 else None
        _assert_same_states((model, own), (plain, reference), turn)
    assert distance(list(model.parameters()), list(plain.parameters())) <= 1e-12
    copied = copy.deepcopy(own)
    assert type(copied) is type(reference)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    copied.step()
    own.synchronize()
    assert distance(before, list(model.parameters())) == 0
    own.close()


def _assert_same_states(own: tuple[Any, Any], plain: tuple[Any, Any], turn: int) -> None:
    """A model and its optimizer have the states of plain ones."""
    assert len(own[1].state) == len(plain[1].state)
    for mine, theirs in zip(own[0].parameters(), plain[0].parameters(), strict=True):
        expected, found = plain[1].state[theirs], own[1].state[mine]
        assert list(found) == list(expected)
        for key, value in expected.items():
            assert found[key].shape == value.shape
            assert float((found[key] - value).abs().max()) <= 1e-12, (turn, key)


def states_that_are_reset(rank: int, way: str) -> float:
    """The optimizer's state is cleared, replaced or deleted midway; how far from plain."""
    torch.manual_seed(0)
    plain = Reader()
    model = copy.deepcopy(plain)
    reference, own = (torch.optim.Adam(one.parameters(), 0.01) for one in (plain, model))
    parallel.data_parallel(model, own, process_group=GROUPS[2])
    held = [optimizer.state for optimizer in (reference, own)]  # since before there is any
    for turn in range(6):
        train_both((plain, model), (reference, own), turn, rank, 2)
        for one, optimizer, state in ((plain, reference, held[0]), (model, own, held[1])):
            if turn == 2 and way == "clear":
                optimizer.state.clear()
            elif turn == 2 and way == "delete":
                del optimizer.state[one.head.weight]
            elif turn == 2 and way == "replace":
                optimizer.state = collections.defaultdict(dict)
            elif turn == 4 or way == "held":
                assert float(optimizer.state[one.head.bias]["step"]) > 0
            if way == "held":
                assert float(state[one.head.bias]["step"]) == turn + 1
        assert len(own.state) == len(reference.state)
    off = distance(list(model.parameters()), list(plain.parameters()))
    own.close()
    return off


def what_is_refused(rank: int) -> list[str]:
    """Errors of what cannot be made right."""
    found = []
    with training("SGD") as (model, optimizer, iterate):
        for use in (model.part.share_memory, lambda: _regroup(optimizer, iterate)):
            try:
                use()
            except RuntimeError as error:
                found.append(str(error))
        iterate()  # training goes on
    return found


def what_takes_no_part(rank: int) -> list[str]:
    """A script of a part is refused; a compiled step, and a parameter without gradient, are not."""
    with training("SGD") as (model, optimizer, _iterate):
        weight, before = model.head.weight, model.head.weight.detach().clone()
        try:
            torch.jit.script(model.head)
        except AttributeError as error:
            message = str(error)
        optimizer.zero_grad()
        ones = torch.ones(8, 8, dtype=torch.float64, requires_grad=True)
        Kept.apply(ones, weight).sum().backward()
        torch.compile(optimizer.step, backend="eager")()
        assert torch.equal(weight.detach(), before)
    return [message]


def _buffers(kind: str, rank: int) -> torch.Tensor:
    """A buffer that is not a plain one of floats."""
    values = torch.eye(3) * (1 + rank * (kind == "different"))
    made: dict[str, Callable[[], torch.Tensor]] = {
        "sparse": lambda: values.to_sparse(),
        "different": lambda: values.to_sparse(),
        "changed": lambda: values.to_sparse(),
        "csr": lambda: values.to_sparse_csr(),
        "quantized": lambda: torch.quantize_per_tensor(values, 0.1, 0, torch.qint8),
        "nested": lambda: torch.nested.nested_tensor([values[0], values[1, :2]]),
        "float8": lambda: values.to(torch.float8_e4m3fn),
        "uint16": lambda: values.to(torch.uint16),
        "conjugate": lambda: values.to(torch.complex64).conj(),
        "expanded": lambda: torch.ones(1).expand(3),
    }
    if kind == "inference":
        with torch.inference_mode():
            return torch.ones(3)
    return made[kind]()


def buffers_of_kinds(rank: int, kinds: list[str]) -> dict[str, str]:
    """Trains models with such buffers; what is said of each."""
    said = {}
    for kind in kinds:
        torch.manual_seed(0)
        model = Reader()
        model.register_buffer("more", _buffers(kind, rank))
        own = torch.optim.SGD(model.parameters(), 0.01)
        try:
            parallel.data_parallel(model, own, process_group=GROUPS[2])
            for _ in range(3):
                own.zero_grad()
                model(torch.ones(2, 8, dtype=torch.float64)).sum().backward()
                own.step()
                if kind == "changed":
                    model.more.mul_(2)  # type: ignore[operator]
            own.close()
            said[kind] = ""
        except (ValueError, RuntimeError) as error:
            said[kind] = str(error)
    return said


def aliases_of_states(rank: int, policy: str) -> None:
    """Views and arrays of the state's entries, held across steps, and a parameter's new class."""
    with training("Adam", policy=policy) as (model, optimizer, iterate):
        weight = model.head.weight
        step = optimizer.state[weight]["step"].numpy()
        iterate()
        assert float(step) == 2
        step[...] = 7
        iterate()
        assert float(step) == float(optimizer.state[weight]["step"]) == 8
        del step
        if policy.startswith("ddp"):
            moments = optimizer.state[weight]["exp_avg"].view(-1)
            iterate()
            found = moments.clone()
            optimizer.synchronize()
            assert torch.equal(found, optimizer.state[weight]["exp_avg"].flatten())
        weight.__class__ = Kind
        iterate()
        found = weight.detach().clone()
        optimizer.synchronize()
        assert torch.equal(found, weight.detach())
        weight.__class__ = nn.Parameter


def states_that_grow(rank: int) -> None:
    """A parameter that gets a state later, and modes in which the state is first read."""
    with training("Adam") as (model, optimizer, iterate):
        with torch.inference_mode():
            held = [optimizer.state[one]["step"] for one in model.part.parameters()]
        with FakeTensorMode(allow_non_fake_inputs=True):
            assert len(optimizer.state) == 6
        optimizer.state[model.head.weight]["exp_avg"].mul_(0.5)
        del optimizer.state[model.head.weight]
        for _ in range(3):
            iterate()
            assert optimizer.trainer._built.state._guarded.tensors  # which wait for nothing yet
            assert not optimizer.trainer._built.state.has_aliases()
        assert [float(one) for one in held] == [4.0] * 4
        assert float(optimizer.state[model.head.weight]["step"]) == 3


class Kind(nn.Parameter):
    """A user's own."""


def closed_after_backward(rank: int) -> None:
    """A rank closes its training at once, and another one has yet to come to the same backward."""
    torch.manual_seed(0)
    model = Reader()
    own = torch.optim.SGD(model.parameters(), 0.01)
    parallel.data_parallel(model, own, process_group=GROUPS[2])
    ones = torch.ones(2, 8, dtype=torch.float64)
    for turn in range(2):
        own.zero_grad()
        time.sleep(0.3 * turn * rank)
        model(ones).sum().backward()
        if turn == 0:
            own.step()
    if rank == 1:
        own.synchronize()
    own.close()


def _regroup(optimizer: Any, iterate: Callable[[], None]) -> None:
    held = optimizer.param_groups[0]["params"]
    optimizer.param_groups[0]["params"] = held[1:]
    try:
        iterate()
    finally:
        optimizer.param_groups[0]["params"] = held


def copies_of_optimizers(rank: int) -> bool:
    """A pickled optimizer is a plain one with all of the state, and a parameter can be wrapped."""
    with training("Adam") as (model, optimizer, iterate):
        iterate()
        wrapped = nn.Parameter(model.head.weight)
        assert type(wrapped) is nn.Parameter
        loaded = pickle.loads(pickle.dumps(optimizer))
        assert type(loaded) is torch.optim.Adam
        iterate()
        return len(loaded.state) == 6 and len(optimizer.state_dict()["state"]) == 6


def read_by_threads(rank: int) -> int:
    """Threads that read one parameter after a step, while it is brought: values that are wrong."""
    wrong = 0
    with training() as (model, optimizer, iterate):
        for turn in range(6):
            model.scale.fill_(turn + rank)  # the first rank's counts
            iterate()
            read = READS["held" if turn < 3 else "buffer"]
            with concurrent.futures.ThreadPoolExecutor(6) as threads:
                jobs = [threads.submit(read, model, model.head.weight) for _ in range(12)]
            optimizer.synchronize()
            right = float(read(model, model.head.weight))
            wrong += sum(float(job.result()) != right for job in jobs)
            wrong += float(model.scale) != turn
    return wrong


def views_of_shards_are_refused(rank: int) -> list[str]:
    """Views of an entry that is divided among the ranks: what is written there would be lost."""
    found = []
    with training("Adam") as (model, optimizer, iterate):
        iterate()
        entry = optimizer.state[model.head.weight]["exp_avg"]
        for use in (
            lambda: entry.__setitem__(0, 0.0),
            lambda: entry[1].zero_(),
            lambda: entry.view(-1).mul_(0),
        ):
            try:
                use()
            except RuntimeError as error:
                found.append(str(error))
        assert entry.whole().shape == (8, 8)
    return found


def _change_state(optimizer: Any, parameters: list[Any], turn: int) -> None:
    state = optimizer.state[parameters[0]]
    key = next(each for each, value in state.items() if value.shape == parameters[0].shape)
    if turn == 1:
        state[key].mul_(0.5)
    elif turn == 2:
        optimizer.state[parameters[1]][key] = torch.full_like(parameters[1], 0.01)
    elif turn == 3:
        optimizer.state[parameters[2]][key].copy_(torch.full_like(parameters[2], 0.02))
    elif turn == 4 and "step" in state:
        state["step"].zero_()
    elif turn == 5:
        state[key].data = torch.full_like(parameters[0], 0.03)
        if "step" in state:
            state["step"].data = torch.tensor(2.0)


def owned_state_is_the_plain_ones(rank: int, count: int) -> None:
    """Every rank reads all of Adafactor's state, of tensors that one rank owns."""
    torch.manual_seed(0)
    plain = Reader()
    model = copy.deepcopy(plain)
    reference, own = (torch.optim.Adafactor(one.parameters(), 0.01) for one in (plain, model))
    parallel.data_parallel(model, own, process_group=GROUPS[count])
    for turn in range(4):
        train_both((plain, model), (reference, own), turn, rank, count)
        if turn == 1:  # one entry of several is replaced
            for one, optimizer in ((plain, reference), (model, own)):
                state = optimizer.state[one.part[0].weight]
                state["row_var"] = torch.full_like(state["row_var"], 0.01)
        _assert_same_states((model, own), (plain, reference), turn)
    own.close()


def restored_by_checkpoints(rank: int, count: int) -> float:
    """A checkpoint of a training goes into a new one, which goes on; how far from plain."""
    from torch.distributed.checkpoint import state_dict as checkpoint

    torch.manual_seed(0)
    plain = Reader()
    models = [copy.deepcopy(plain), Reader()]
    reference = torch.optim.AdamW(plain.parameters(), 0.01)
    owns = [torch.optim.AdamW(one.parameters(), 0.01) for one in models]
    for model, own in zip(models, owns, strict=True):
        parallel.data_parallel(model, own, process_group=GROUPS[count])
    for turn in range(6):
        if turn == 3:
            saved = checkpoint.get_state_dict(models[0], owns[0])
            checkpoint.set_state_dict(
                models[1], owns[1], model_state_dict=saved[0], optim_state_dict=saved[1]
            )
        used = int(turn >= 3)
        train_both((plain, models[used]), (reference, owns[used]), turn, rank, count)
    off = distance(list(models[1].parameters()), list(plain.parameters()))
    for own in owns:
        own.close()
    return off


def saved_by_checkpoints(rank: int) -> float:
    """Adam's step after four steps, a cleared gradient, and two states for a checkpoint."""
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    with training("AdamW") as (model, optimizer, iterate):
        for _ in range(3):
            iterate()
        optimizer.zero_grad()
        for _ in range(2):
            get_optimizer_state_dict(model, optimizer)
        return float(optimizer.state_dict()["state"][0]["step"])


def half_sums(rank: int, policy: str, count: int) -> list[float]:
    """A gradient whose sum over the ranks overflows, and whose average does not."""
    model = nn.Linear(2, 1, bias=False).half()
    model.weight.data.zero_()
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)
    parallel.data_parallel(model, optimizer, policy, process_group=GROUPS[count])
    for _ in range(2):  # the second one reduces in backward
        optimizer.zero_grad()
        model(torch.full((1, 2), 40000.0, dtype=torch.float16)).sum().backward()
        optimizer.step()
    found: list[float] = model.weight.detach()[0].tolist()
    optimizer.close()
    return found


def complex_parameters(rank: int, policy: str, count: int) -> tuple[float, float]:
    """Clipping and training of complex numbers; how far from one process."""
    torch.manual_seed(0)
    plain = nn.Linear(8, 4, dtype=torch.complex128)
    model = copy.deepcopy(plain)
    reference, own = (torch.optim.SGD(one.parameters(), 0.1) for one in (plain, model))
    parallel.data_parallel(model, own, policy, process_group=GROUPS[count])
    apart = 0.0
    for turn in range(3):
        norms: list[float] = []

        def clip(one: nn.Module, norms: list[float] = norms) -> None:
            norms.append(float(nn.utils.clip_grad_norm_(one.parameters(), 0.1)))

        train_both((plain, model), (reference, own), turn, rank, count, clip)
        apart = max(apart, abs(norms[0] - norms[1]))
    off = max(
        float((a.detach() - b.detach()).abs().max())
        for a, b in zip(model.parameters(), plain.parameters(), strict=True)
    )
    own.close()
    return apart, off


def modules_are_named(rank: int, what: str) -> str:
    """What creation says of a model that it cannot train."""
    model: nn.Module
    if what == "wrapped":
        model = nn.parallel.DistributedDataParallel(Reader(), process_group=GROUPS[2])
    else:
        model = nn.Sequential(torch.jit.script(nn.Linear(2, 2)))
    try:
        parallel.data_parallel(
            model, torch.optim.SGD(model.parameters(), 0.1), process_group=GROUPS[2]
        )
    except ValueError as error:
        return str(error)
    return ""


def compiled_averages(rank: int) -> tuple[int, bool]:
    """A compiled moving average in a loop: compilations, and whether it is right."""
    compilations = 0

    def count(graph: Any, _inputs: Any) -> Any:
        nonlocal compilations
        compilations += 1
        return graph.forward

    @torch.compile(backend=count)
    def update(averages: list[torch.Tensor], parameters: list[torch.Tensor]) -> None:
        for average, parameter in zip(averages, parameters, strict=True):
            average.mul_(0.9).add_(parameter, alpha=0.1)

    with training() as (model, optimizer, iterate):
        averages = [parameter.detach().clone() for parameter in model.parameters()]
        right = [average.clone() for average in averages]
        for _ in range(12):
            iterate()
            with torch.no_grad():
                update(averages, list(model.part.parameters()) + list(model.head.parameters()))
            optimizer.synchronize()
            for average, parameter in zip(right, model.parameters(), strict=True):
                average.mul_(0.9).add_(parameter.detach(), alpha=0.1)
        return compilations, distance(averages, right) <= 1e-14


def late_readers(rank: int) -> None:
    """A step's post hook, a forked child and a closed training see final values."""
    with training() as (model, optimizer, iterate):
        seen: list[float] = []
        handle = optimizer.register_step_post_hook(
            lambda *_: seen.append(float(model.head.weight.detach().abs().sum()))
        )
        iterate()
        optimizer.synchronize()
        assert seen == [float(model.head.weight.detach().abs().sum())]
        handle.remove()
        iterate()
        weight = model.head.weight
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, struct.pack("d", float(weight.detach().abs().sum())))
            atexit._run_exitfuncs()  # which say nothing to the other ranks
            os._exit(0)
        found = struct.unpack("d", os.read(reader, 8))[0]
        os.waitpid(child, 0)
        optimizer.synchronize()
        assert found == float(weight.detach().abs().sum())
        iterate()  # the other ranks go on
    assert type(weight) is nn.Parameter
    assert bool(weight.isfinite().all())
