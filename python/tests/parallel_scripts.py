"""Short trainings, step by step, in which ranks use different layers: each beside a plain one."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import torch
from parallel_cases import digest, distance, largest, make_any_parallel, values_of
from torch import nn
from torch.utils.checkpoint import checkpoint

SIZE = 5


class Routed(nn.Module):
    """Goes through the layers that it is told to, between its first and its last one.

    A capital has its layer recomputed in backward, by `use_reentrant=True`, from its parameters:
    no module's forward is called in backward.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(SIZE, SIZE)
        for name in "abc":
            self.add_module(name, nn.Linear(SIZE, SIZE))
        self.last = nn.Linear(SIZE, 2)

    def forward(self, values: torch.Tensor, uses: str) -> torch.Tensor:
        hidden = torch.tanh(self.first(values))
        for use in uses:
            layer = self.get_submodule(use.lower())
            if use.islower():
                hidden = torch.tanh(layer(hidden))
            else:
                hidden = checkpoint(self._recomputed, layer, hidden, use_reentrant=True)
        return self.last(hidden)

    @staticmethod
    def _recomputed(layer: nn.Linear, hidden: torch.Tensor) -> torch.Tensor:
        return torch.tanh(nn.functional.linear(hidden, layer.weight, layer.bias))


class Play:
    """One training: of one rank, or, plain, of what all ranks do."""

    def __init__(self, count: int, rank: int | None, policy: str, options: dict[str, Any]):
        """`rank`: None, where it is plain."""
        torch.manual_seed(rank or 0)
        self.count = count
        self.rank = rank
        self.model: Any = Routed().double()
        self.optimizer: Any = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.notes: list[tuple[str, torch.Tensor | None]] = []
        self._draw = torch.Generator().manual_seed(7)
        if rank is not None:
            make_any_parallel(self.model, self.optimizer, count, policy, **options)

    def loss(self, *uses: str) -> torch.Tensor:
        """Of this rank, which goes through one of the uses; ranks take turns."""
        values = [
            torch.randn(3, SIZE, generator=self._draw, dtype=torch.float64)
            for _ in range(self.count)
        ]
        ways = [uses[rank % len(uses)] for rank in range(self.count)]
        if self.rank is not None:
            return self.model(values[self.rank], ways[self.rank]).square().mean()
        each = [self.model(one, way).square().mean() for one, way in zip(values, ways, strict=True)]
        return torch.stack(each).mean()

    def backward(self, *uses: str, syncs: bool = True) -> None:
        """Forward and backward, as `loss`."""
        is_alone = syncs or self.rank is None
        with contextlib.nullcontext() if is_alone else self.optimizer.no_sync():
            self.loss(*uses).backward()

    def step(self) -> None:
        self.optimizer.step()

    def zero(self, *names: str, to_none: bool = False) -> None:
        """Clears the gradients of some layers, or all."""
        for module in [self.model.get_submodule(name) for name in names] or [self.model]:
            module.zero_grad(set_to_none=to_none)

    def norm(self) -> None:
        """Notes the norm of all gradients, and clips them."""
        self.note("norm", nn.utils.clip_grad_norm_(self.model.parameters(), 0.5))

    @contextlib.contextmanager
    def whole(self) -> Any:
        with contextlib.nullcontext() if self.rank is None else self.optimizer.whole_gradients():
            yield

    def look(self) -> None:
        """Notes all gradients."""
        with self.whole():
            for name, parameter in self.model.named_parameters():
                self.note(name, parameter.grad)

    def note(self, name: str, value: torch.Tensor | None) -> None:
        self.notes.append((name, None if value is None else value.detach().clone()))


def kept_where_ranks_differ(play: Play) -> None:
    """An average is still there that one rank had set to zero, and had no part in."""
    for _ in range(2):
        play.backward("a", "b")
        play.step()
        play.zero("a", "b")
    play.backward("a", "b")
    play.step()
    play.backward("c")
    play.look()
    play.step()


def looked_at_after_step(play: Play) -> None:
    """What was used is still there, until it is cleared; and counts again when it is not."""
    for names in ((), ("a",), ("a", "b", "c"), ("first", "last")):
        play.backward("ab", "b")
        play.step()
        play.look()
        play.zero(*names)
        play.look()
        play.norm()
    play.zero(to_none=True)
    play.look()
    play.backward("a", "b")
    play.step()
    play.zero("a", "b", to_none=True)
    play.zero()
    play.look()
    with play.whole():
        play.model.first.weight.grad.add_(1.0)
    play.step()


def recomputed_first(play: Play) -> None:
    """What is recomputed ends a backward of its own before the pass has reached a parameter."""
    play.model.last.requires_grad_(False)
    for _ in range(3):
        play.backward("bA")
        play.step()
        play.zero()


def recomputed_by_some(play: Play) -> None:
    """Ranks recompute different layers, some of which no gradient comes through."""
    for ways in (("aBc", "Abc"), ("A", "cB"), ("", "AaA"), ("CC", "b")):
        play.backward(*ways, syncs=False)
        play.backward(*reversed(ways))
        play.norm()
        play.step()
        play.zero("a", "first", to_none=True)
        play.zero("b")


def unequal_passes(play: Play) -> None:
    """Passes that only add up, in which ranks use different layers; more and fewer of them."""
    for passes in (1, 3, 2, 4, 1):
        for index in range(passes - 1):
            play.backward("ab"[index % 2], "c", syncs=index % 3 == 2)
        play.backward("", "b" * (passes % 2))
        play.step()
        play.zero(to_none=passes % 2 == 0)


def only_adding_up(play: Play) -> None:
    """Passes of which none says that it is the last one."""
    for names in ((), ("a",), ("b", "c")):
        play.backward("a", "b", syncs=False)
        play.backward("b", "", syncs=False)
        play.step()
        play.zero(*names)


def cleared_before_backward(play: Play) -> None:
    """Gradients are cleared between forward and backward."""
    for to_none in (True, False, False, True):
        loss = play.loss("ab", "c")
        play.zero(to_none=to_none)
        loss.backward()
        other = play.loss("a")
        play.zero("a", to_none=to_none)
        other.backward()
        play.step()


def clearing_differs(play: Play) -> None:
    """Layers are cleared in different ways, at different times."""
    for index in range(6):
        play.zero("a", "last", to_none=index % 2 == 0)
        play.zero("b", to_none=index % 3 == 0)
        play.backward("a", "bc")
        play.zero("c", to_none=index % 2 == 1)
        play.backward("c", "a")
        if index % 2:
            play.norm()
        play.zero("first", to_none=index % 3 == 1)
        play.step()
        play.zero("last")
        play.look()


def cleared_where_it_was(play: Play) -> None:
    """One rank has set to zero what only another has added to; then all but that is cleared."""
    for to_none in (True, False):
        play.backward("a", "b")
        play.step()
        play.zero()
        play.backward("a", "b")
        play.zero("first", "b", "last", to_none=to_none)
        play.backward("c")
        play.step()


def steps_without_backward(play: Play) -> None:
    """Steps with what is left, of which a part was cleared."""
    for to_none in (True, False):
        play.backward("ab", "c")
        for name in "abc":
            play.step()
            play.zero(name, to_none=to_none)
        play.step()
        play.look()
        play.zero(to_none=to_none)
        play.step()


def passes_without_step(play: Play) -> None:
    """What was reduced is cleared, or a part of it, and comes again, in other layers."""
    for names, to_none in (((), True), ((), False), (("a", "last"), True), (("a", "b"), False)):
        play.backward("a", "b")
        play.zero(*names, to_none=to_none)
        play.backward("b", "c")
        play.zero(*names, to_none=not to_none)
        play.backward("c", "a")
        play.norm()
        play.step()
        play.zero(to_none=to_none)


def nothing_is_left(play: Play) -> None:
    """All is cleared before the step: by zeros, with which momentum goes on, or by None."""
    for to_none in (False, True, False):
        for is_looked_at in (False, True):
            play.backward("a", "b")
            if is_looked_at:
                play.norm()
            play.zero(to_none=to_none)
            if is_looked_at:
                play.look()
            play.step()


def losses_of_one_forward(play: Play) -> None:
    """Several backwards, through one graph or several, with clearing between them."""
    for names in ((), ("a",), ("first", "c")):
        one, other = play.loss("ab", "ca"), play.loss("c", "b")
        other.backward(retain_graph=True)
        play.zero(*names)
        one.backward()
        other.backward()
        play.step()


def frozen_midway(play: Play) -> None:
    """Layers take no gradients for a while, what they have is kept or cleared."""
    for index, name in enumerate(("a", "b", "c", "first", "last")):
        layer = play.model.get_submodule(name)
        play.backward("abc", "ca")
        layer.requires_grad_(False)
        play.backward("a", "bc")
        play.step()
        play.backward("ab")
        play.step()
        layer.requires_grad_(True)
        if index % 2:
            play.zero(name, to_none=index == 1)
        play.backward("b", "a")
        play.norm()
        play.step()


def left_out_by_scaler(play: Play) -> None:
    """An infinity on one rank: nobody steps; gradients are cleared in one way or the other."""
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    for index in range(8):
        factor = float("inf") if index % 3 == 1 and play.rank in (None, 1) else 1.0
        if index % 4 == 2:
            scaler.scale(play.loss("c", "b")).backward()
        scaler.scale(play.loss("ab", "a") * factor).backward()
        if index % 2:
            scaler.unscale_(play.optimizer)
        scaler.step(play.optimizer)
        scaler.update()
        play.note("scale", torch.tensor(scaler.get_scale()))
        play.zero(to_none=index % 4 < 2)


def looked_at_all_the_time(play: Play) -> None:
    play.backward("a", "b")
    for index in range(4):
        play.look()
        loss = play.loss("ab", "b")
        play.look()
        play.zero("b", to_none=index % 2 == 0)
        play.look()
        loss.backward()
        play.look()
        play.backward("c", "", syncs=index % 2 == 0)
        play.look()
        play.norm()
        play.step()
        play.look()
        play.zero("a", "c", to_none=index % 2 == 1)


def own_gradients(play: Play) -> None:
    """Gradients of somebody's own, before, between and after passes, where one was or none."""

    def put(name: str, value: float) -> None:
        for parameter in play.model.get_submodule(name).parameters():
            parameter.grad = torch.full_like(parameter.detach(), value)

    put("b", 0.1)
    play.backward("a")
    play.step()
    for index in range(4):
        play.zero("a", "b", to_none=index % 2 == 0)
        put("a", 0.2)
        play.backward("c", "b")
        put("c", 0.3)
        play.backward("b", "c")
        with play.whole():
            put("b", 0.4)
            if index % 2:
                put("a", 0.5)
                play.model.first.weight.grad = None
        play.norm()
        if index == 2:
            put("c", 0.6)
        play.step()
        with play.whole():
            put("a", 0.7)
        play.backward("", "a")
        play.step()
        play.step()


def of_some_parameters(play: Play) -> None:
    """Backward for some parameters only, and gradients that are not kept in parameters."""
    for names in (("a", "last"), ("first",)):
        wanted = [one for name in names for one in play.model.get_submodule(name).parameters()]
        play.loss("a", "ab").backward(inputs=wanted)
        play.look()
        torch.autograd.grad(play.loss("b", "c"), [play.model.last.weight])
        play.step()
        play.backward("b", "c")
        play.step()
        play.zero("a")


def written_after_step(play: Play) -> None:
    """Values that are loaded, or made anew, right after a step are not those of the step."""

    def halve(module: nn.Module) -> None:
        for parameter in module.parameters(recurse=False):
            parameter.data.mul_(0.5)

    play.backward("a")
    play.step()
    saved = copy.deepcopy(play.model.state_dict())
    for _ in range(2):
        for name in ("", "b"):
            play.backward("b")
            play.step()
            module = play.model.get_submodule(name)
            begin = len(name) + 1 if name else 0
            module.load_state_dict({k[begin:]: v for k, v in saved.items() if k.startswith(name)})
        play.backward("b")
        play.step()
        play.model.apply(halve)


def once_a_step(play: Play) -> None:
    """What early updates allow: all is cleared before a pass, in one way or another."""
    for index, ways in enumerate((("ab", "c"), ("", "b"), ("A", "cB"), ("Ca", "Ac"), ("b", "a"))):
        loss = play.loss(*ways)
        play.zero(to_none=index % 2 == 0)
        play.model.c.requires_grad_(index != 3)
        loss.backward()
        play.step()
        play.zero("a", "first", to_none=True)
        play.zero()
        if index % 2:
            play.step()


def given_other_memory(play: Play) -> None:
    """Values that are in other memory when a pass begins are what it updates."""
    for ways in (("ab", "c"), ("abc", "cba"), ("b", "a"), ("ca", "")):
        play.zero()
        play.backward(*ways)
        if play.rank is not None:
            play.optimizer.synchronize()  # with early updates
        play.step()
        for parameter in play.model.parameters():
            parameter.data = parameter.data * 0.5


SCRIPTS: dict[str, Callable[[Play], None]] = {
    made.__name__: made
    for made in (
        kept_where_ranks_differ,
        looked_at_after_step,
        recomputed_first,
        recomputed_by_some,
        unequal_passes,
        only_adding_up,
        cleared_before_backward,
        clearing_differs,
        cleared_where_it_was,
        steps_without_backward,
        passes_without_step,
        nothing_is_left,
        losses_of_one_forward,
        frozen_midway,
        left_out_by_scaler,
        looked_at_all_the_time,
        own_gradients,
        of_some_parameters,
        written_after_step,
        once_a_step,
        given_other_memory,
    )
}
EARLY_SCRIPTS = ["recomputed_first", "once_a_step", "given_other_memory"]


def play_script(
    rank: int, name: str, count: int, policy: str, options: dict[str, Any]
) -> tuple[list[str], str]:
    """Plays one; what differs from plain training, and the parameters' digest."""
    ours, plain = (Play(count, who, policy, options) for who in (rank, None))
    for play in (ours, plain):
        SCRIPTS[name](play)
    found = digest(values_of(ours.model))
    wrong = []
    for index, ((what, value), (_, expected)) in enumerate(
        zip(ours.notes, plain.notes, strict=True)
    ):
        if value is None or expected is None:
            if value is not expected:
                wrong.append(f"note {index}, {what}: {value}, and not {expected}")
        elif largest([value - expected]) > 1e-12:
            wrong.append(f"note {index}, {what}: {value.tolist()}, and not {expected.tolist()}")
    apart = distance(values_of(ours.model), values_of(plain.model))
    ours.optimizer.close()
    return [*wrong, *([f"parameters: {apart} apart"] if apart > 1e-12 else [])], found
