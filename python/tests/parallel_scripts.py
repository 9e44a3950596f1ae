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
        """Of this rank, which goes through `uses[rank]`: or all through the one that is given."""
        values = [
            torch.randn(3, SIZE, generator=self._draw, dtype=torch.float64)
            for _ in range(self.count)
        ]
        ways = uses if len(uses) > 1 else uses * self.count
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


SCRIPTS: dict[str, Callable[[Play], None]] = {
    made.__name__: made
    for made in (
        kept_where_ranks_differ,
        looked_at_after_step,
        recomputed_first,
        written_after_step,
    )
}


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
