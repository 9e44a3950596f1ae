"""Random training loops that know only PyTorch's documentation.

A loop is made of a seed: a model, an optimizer, iterations, and what the loop does between them:
it reads, writes, copies, averages, saves and hooks. What one process makes of whole batches is what
data parallelism has to make of a part of each batch per rank:

    python python/tests/random_loops.py --seeds 0:100 --ranks 2 --backend pleach

A seed is a number; `KIND/NUMBER` is a loop with one kind of action alone, and `bare/NUMBER` a loop
without its actions. `--show` prints the loops. This module imports nothing of Pleach;
`random_loop_jobs.py` runs it on ranks.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import math
import os
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from random_loop_actions import (
    AFTER_STEP,
    BEFORE,
    BEFORE_STEP,
    CREATED,
    KINDS,
    RUNS,
    Action,
)
from random_loop_models import (
    EARLY_STATE,
    INPUTS,
    LENGTH,
    MODELS,
    OPTIMIZERS,
    OUTPUTS,
    THIRD_PARTY,
    TOKENS,
    UNSCHEDULED,
    make_model,
    make_optimizer,
)
from random_loop_values import READS, WRITES, measure
from torch import nn
from torch.nn import functional

Seed = int | str
Wrap = Callable[[nn.Module, torch.optim.Optimizer], tuple[nn.Module, torch.optim.Optimizer]]

SAMPLES = 12  # of a pass: 2, 3 and 4 ranks have equal parts
ACTIONS = 7  # of a loop
WITHIN = 1e-12
# Models and optimizers of loops with one kind of action alone: they train well without it.
MODELS_ALONE = [name for name in MODELS if name != "Late"]
OPTIMIZERS_ALONE = ["sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop"]
BARE = "bare"  # a loop without its actions
# One seed after the other takes from these, so that each occurs equally often.
CLEARS = ("to none", "to none", "to zeros", "by the model", "after step", "every second")
CLIPS = ("", "", "norm", "value", "norm of a part")
SCHEDULERS = ("", "", "exponential", "cosine", "lambda", "one_cycle")
PENALTIES = ("", "", "", "before forward", "after forward")
LOSSES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "squares": lambda out, classes: functional.mse_loss(out, _one_hot(classes)),
    "cross_entropy": functional.cross_entropy,
    "huber": lambda out, classes: functional.huber_loss(out, 2 * _one_hot(classes)),
}


def _one_hot(classes: torch.Tensor) -> torch.Tensor:
    return functional.one_hot(classes, OUTPUTS).double()


class Loop(NamedTuple):
    """A training loop, as `make_loop` draws it.

    Attributes:
        seed: Of it.
        model: Of `MODELS`.
        optimizer: Of `OPTIMIZERS`.
        groups: Layout of the optimizer's groups.
        turns: How many iterations.
        loss: Of `LOSSES`.
        penalty: When the loss reads `penalised`, a part of the model, or "".
        penalised: Its name.
        clear: How gradients are cleared.
        clip: How they are clipped, or "".
        scheduler: Of the rate, or "".
        twice: The iterations with two backward passes.
        closures: The iterations whose step has a closure.
        scaled: Whether a GradScaler scales the loss.
        actions: What happens between them.
    """

    seed: Seed
    model: str
    optimizer: str
    groups: str
    turns: int
    loss: str
    penalty: str
    penalised: str
    clear: str
    clip: str
    scheduler: str
    twice: tuple[int, ...]
    closures: tuple[int, ...]
    scaled: bool
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: {self.model}, {self.optimizer} in groups {self.groups},"
            f" {self.turns} iterations, loss {self.loss}, gradients cleared {self.clear}"
        ]
        if self.penalty:
            lines.append(f"  penalty on {self.penalised}, {self.penalty}")
        if self.clip:
            lines.append(f"  clips by {self.clip} ({self.penalised})")
        if self.scheduler:
            lines.append(f"  scheduler {self.scheduler}")
        if self.scaled:
            lines.append("  loss scaled by GradScaler")
        if self.twice or self.closures:
            lines.append(f"  two passes in {self.twice}, closures in {self.closures}")
        return "\n".join([*lines, *(f"  {action}" for action in self.actions)])


class Result(NamedTuple):
    """What a run makes; ranks have losses of their own, and all else alike.

    Attributes:
        losses: One per backward pass.
        notes: What actions have read, each with where.
        values: The final parameters and buffers.
        settings: The numbers of the optimizer's groups.
    """

    losses: list[float]
    notes: list[tuple[str, float]]
    values: dict[str, torch.Tensor]
    settings: list[dict[str, float]]


def is_available(loop: Loop) -> bool:
    """Whether the loop's optimizer is installed."""
    package = THIRD_PARTY.get(loop.optimizer)
    return package is None or importlib.util.find_spec(package) is not None


# ------------------------------------------------------------------------------ drawing


def _dealt(names: list[str], start: int, count: int, salt: str) -> list[str]:
    """Names from `start` on in endless decks, each of which is all names in another order."""
    found = []
    for place in range(start, start + count):
        deck, index = divmod(place, len(names))
        order = list(names)
        random.Random(f"{salt} {deck}").shuffle(order)
        found.append(order[index])
    return found


def make_loop(seed: Seed) -> Loop:
    """Draws the loop of a seed."""
    alone, _, number = str(seed).rpartition("/")
    count = int(number)
    if alone == BARE:
        return make_loop(count)._replace(seed=seed, actions=())
    draw = random.Random(f"loop {seed}")
    model = _dealt(MODELS_ALONE if alone else list(MODELS), count, 1, "models")[0]
    optimizer = _dealt(OPTIMIZERS_ALONE if alone else list(OPTIMIZERS), count, 1, "optimizers")[0]
    kinds = [alone] if alone else _dealt(list(KINDS), count * ACTIONS, ACTIONS, "kinds")
    turns = draw.randint(4, 7)
    targets = _Targets(make_model(model, 0), draw)
    actions: list[Action] = []
    for kind in kinds:
        action = _make_action(kind, targets, turns, draw, bool(alone))
        if _fits(action, actions, model, optimizer):
            actions.append(action)
    drawn = Loop(
        seed=seed,
        model=model,
        optimizer=optimizer,
        groups=draw.choice(("one", "by_shape", "by_part")),
        turns=turns,
        loss=draw.choice(list(LOSSES)),
        penalty=draw.choice(PENALTIES),
        penalised=targets.choose("part"),
        clear=draw.choice(CLEARS),
        clip=draw.choice(CLIPS),
        scheduler="" if optimizer in UNSCHEDULED else draw.choice(SCHEDULERS),
        twice=_some(turns, draw) if draw.random() < 0.3 else (),
        closures=_some(turns, draw) if draw.random() < 0.3 else (),
        scaled=draw.random() < 0.15,
        actions=tuple(actions),
    )
    if drawn.closures:
        drawn = drawn._replace(scaled=False)  # GradScaler takes none
    if alone:
        return drawn._replace(
            penalty="",
            clear="to none",
            clip="",
            scheduler="",
            twice=(),
            closures=(),
            scaled=False,
        )
    if any("writes in forward" in KINDS[each.kind].traits for each in actions):
        return drawn._replace(penalty="")  # its backward wants what it has read
    return drawn


def _some(turns: int, draw: random.Random) -> tuple[int, ...]:
    return tuple(turn for turn in range(turns) if draw.random() < 0.4)


class _Targets:
    """Names in a model that actions can be about."""

    def __init__(self, model: nn.Module, draw: random.Random):
        self._draw = draw
        modules = {name: each for name, each in model.named_modules() if name}
        modules = {name: each for name, each in modules.items() if "parametriz" not in name}
        parameters = [(name, p) for name, p in model.named_parameters() if p.numel() > 1]
        large = [name for name, p in parameters if p.numel() > 1000]
        self._names = {
            "whole": [""],
            "part": [name for name, each in modules.items() if list(each.parameters())],
            "weighted": [name for name, each in modules.items() if _has_weight(each)],
            "layer": [name for name, each in modules.items() if "weight" in each._parameters],
            "linear": [name for name, each in modules.items() if isinstance(each, nn.Linear)],
            "parameter": [*(name for name, _ in parameters), *large, *large],
            "buffer": [name for name, _ in model.named_buffers() if _is_changeable(name)],
        }

    def choose(self, wanted: str) -> str:
        return self._draw.choice(self._names[wanted])


def _has_weight(module: nn.Module) -> bool:
    return isinstance(getattr(module, "weight", None), torch.Tensor)


def _is_changeable(name: str) -> bool:
    return not name.endswith(("running_var", "num_batches_tracked"))


def _make_action(
    name: str, targets: _Targets, turns: int, draw: random.Random, is_alone: bool
) -> Action:
    kind = KINDS[name]
    styles = {"read": list(READS), "write": list(WRITES), "": ["as it is"]}[kind.styles]
    since = CREATED if kind.begin is None else draw.choice(range(kind.earliest, turns - 1))
    if since != CREATED and draw.random() < 0.3:
        since = kind.earliest
    place = draw.choice(kind.places)
    pattern = draw.choice(("each", "each", "third", "some", "once", "last"))
    if is_alone:
        place, pattern = kind.places[0], "each"
    moments = {
        "each": range(turns),
        "third": range(2, turns, 3),
        "some": _some(turns, draw),
        "once": [draw.randrange(turns)],
        "last": [turns - 1],
    }[pattern]
    first = since + 1 if place == BEFORE_STEP else since
    chosen = [turn for turn in moments if turn >= first] or [turns - 1]
    return Action(
        name,
        targets.choose(kind.wants),
        draw.choice(styles),
        round(draw.uniform(0.8, 0.99), 3),
        since,
        tuple((turn, place) for turn in chosen),
    )


def _fits(action: Action, others: list[Action], model: str, optimizer: str) -> bool:
    """Whether plain PyTorch allows it, and says what comes out."""
    traits = KINDS[action.kind].traits
    theirs = {trait for other in others for trait in KINDS[other.kind].traits}
    if "pickles" in traits and not MODELS[model].is_pickled:
        return False
    if "resets" in traits and optimizer in EARLY_STATE:
        return False
    if "transforms" in traits and not MODELS[model].is_transformed:
        return False
    together = traits | theirs
    # An alias of memory that a parameter no longer has is no reference to it; functorch takes
    # no hooks that write, or that backward calls.
    return not (together >= {"swaps", "aliases"} or together >= {"transforms", "hooks"})


# ------------------------------------------------------------------------------ running


class Run:
    """A loop at work, as its actions see it.

    Attributes:
        model: It.
        optimizer: Its.
        probe: Inputs that are the same on all ranks.
        turn: The iteration.
        kept: What actions hold.
        restore: Parameters that are to be put back before the step.
        scaler: Of the loss.
        teacher: A copy whose outputs the loss wants, if there is one.
    """

    def __init__(self, loop: Loop, shares: list[tuple[int, int]], wrap: Wrap):
        self.loop = loop
        self.model: nn.Module = make_model(loop.model, 1)
        self.optimizer = make_optimizer(self.model, loop.optimizer, loop.groups)
        self.probe = self._inputs(torch.Generator().manual_seed(7), 5)
        self.turn = CREATED
        self.kept: dict[Action, Any] = {}
        self.restore: list[nn.Parameter] = []
        self.teacher: nn.Module | None = None
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0, enabled=loop.scaled)
        self._wrap = wrap
        self._shares = shares
        self._draw = torch.Generator().manual_seed(11)
        self._where = ""
        self._notes: list[tuple[str, float]] = []
        self._losses: list[float] = []

    def note(self, value: float, detail: str = "") -> None:
        """Keeps a number for the comparison."""
        self._notes.append((f"{self._where} {detail}".strip(), float(value)))

    def note_once(self, value: float, action: Action) -> None:
        """Keeps a number, unless this action has noted one in this iteration."""
        where = f"{self.turn}: {action}"
        if all(label != where for label, _ in self._notes):
            self._notes.append((where, float(value)))

    def evaluate(self, module: nn.Module, mode: Callable[[], Any] = torch.no_grad) -> float:
        """The outputs for the probe, in evaluation mode."""
        module.eval()
        if hasattr(self.optimizer, "eval"):
            self.optimizer.eval()
        with mode():
            found = measure(module(self.probe))
        if hasattr(self.optimizer, "train"):
            self.optimizer.train()
        module.train()
        return found

    def train(self) -> Result:
        """Runs all of it."""
        RUNS[id(self)] = self
        try:
            self._begin(BEFORE)
            self.model, self.optimizer = self._wrap(self.model, self.optimizer)
            if hasattr(self.optimizer, "train"):
                self.optimizer.train()
            self._begin(CREATED)
            scheduler = _make_scheduler(self.loop, self.optimizer)
            self._penalised = list(self.model.get_submodule(self.loop.penalised).parameters())
            for turn in range(self.loop.turns):
                self.turn = self.model.turn = turn
                self._iterate()
                if scheduler is not None:
                    scheduler.step()
                self._begin(turn)
                self._act(AFTER_STEP)
                if self.loop.clear == "after step":
                    self.optimizer.zero_grad()
            return self._result()
        finally:
            del RUNS[id(self)]

    def _iterate(self) -> None:
        batches = [self._batch() for _ in range(2)]
        chosen = batches if self.turn in self.loop.twice else batches[:1]

        def compute() -> torch.Tensor:
            self._clear()
            total = torch.zeros((), dtype=torch.float64)
            for inputs, classes in chosen:
                total = total + self._pass(inputs, classes, len(chosen))
            self._clip()
            return total

        if self.turn in self.loop.closures:
            self._act(BEFORE_STEP)
            self.optimizer.step(compute)
        else:
            compute()
            self._act(BEFORE_STEP)
            self.scaler.step(self.optimizer)
            self.scaler.update()

    def _pass(self, inputs: torch.Tensor, classes: torch.Tensor, passes: int) -> torch.Tensor:
        """Forward and backward of this process's shares of a batch."""
        total = torch.zeros((), dtype=torch.float64)
        for rank, count in self._shares:
            loss = self._loss(inputs.chunk(count)[rank], classes.chunk(count)[rank])
            self.scaler.scale(loss / passes / len(self._shares)).backward()
            total += loss.detach() / len(self._shares)
        self._losses.append(float(total))
        return total

    def _loss(self, inputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        penalty = self._penalty() if self.loop.penalty == "before forward" else 0.0
        out = self.model(inputs)
        loss = LOSSES[self.loop.loss](out, classes) + penalty
        if self.loop.penalty == "after forward":
            loss = loss + self._penalty()
        if self.teacher is not None:
            with torch.no_grad():
                wanted = self.teacher(inputs)
            loss = loss + 0.1 * functional.mse_loss(out, wanted)
        return loss

    def _penalty(self) -> torch.Tensor:
        return 0.01 * torch.stack([p.square().mean() for p in self._penalised]).sum()

    def _clear(self) -> None:
        clear = self.loop.clear
        if clear == "by the model":
            self.model.zero_grad()
        elif clear == "to zeros":
            self.optimizer.zero_grad(set_to_none=False)
        elif clear == "to none" or (clear == "every second" and self.turn % 2 == 0):
            self.optimizer.zero_grad()

    def _clip(self) -> None:
        if self.loop.scaled:
            self.scaler.unscale_(self.optimizer)
        if self.loop.clip == "norm":
            self.note(nn.utils.clip_grad_norm_(self.model.parameters(), 0.3).item(), "norm")
        elif self.loop.clip == "norm of a part":
            self.note(nn.utils.clip_grad_norm_(self._penalised, 0.1).item(), "norm")
        elif self.loop.clip == "value":
            nn.utils.clip_grad_value_(self.model.parameters(), 0.02)

    def _begin(self, since: int) -> None:
        for action in self.loop.actions:
            begin = KINDS[action.kind].begin
            if action.since == since and begin is not None:
                self._where = f"{since}: begin {action.kind}"
                self.kept[action] = begin(self, action)

    def _act(self, place: str) -> None:
        if place == BEFORE_STEP:
            with torch.no_grad():
                while self.restore:
                    self.restore.pop().sub_(0.05)
        for action in self.loop.actions:
            if (self.turn, place) in action.moments:
                self._where = f"{self.turn} {place}: {action}"
                KINDS[action.kind].act(self, action)
        self._where = f"{self.turn}"

    def _batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        inputs = self._inputs(self._draw, SAMPLES)
        return inputs, torch.randint(0, OUTPUTS, (SAMPLES,), generator=self._draw)

    def _inputs(self, draw: torch.Generator, count: int) -> torch.Tensor:
        if MODELS[self.loop.model].takes_tokens:
            return torch.randint(0, TOKENS, (count, LENGTH), generator=draw)
        return torch.randn(count, INPUTS, generator=draw, dtype=torch.float64)

    def _result(self) -> Result:
        values = {name: v.detach().clone() for name, v in self.model.state_dict().items()}
        settings = []
        for group in self.optimizer.param_groups:
            numbers = {k: v for k, v in group.items() if isinstance(v, int | float)}
            settings.append({name: float(number) for name, number in numbers.items()})
        return Result(self._losses, self._notes, values, settings)


def _make_scheduler(loop: Loop, optimizer: torch.optim.Optimizer) -> Any:
    kinds = torch.optim.lr_scheduler
    if loop.scheduler == "exponential":
        return kinds.ExponentialLR(optimizer, 0.9)
    if loop.scheduler == "cosine":
        return kinds.CosineAnnealingLR(optimizer, loop.turns)
    if loop.scheduler == "lambda":
        return kinds.LambdaLR(optimizer, lambda turn: 1.0 / (1 + 0.2 * turn))
    if loop.scheduler == "one_cycle":
        rates = [group["lr"] for group in optimizer.param_groups]
        cycles = {"momentum", "betas"} & set(optimizer.defaults)
        cycles -= {"momentum"} if not optimizer.defaults.get("momentum") else set()
        return kinds.OneCycleLR(
            optimizer, rates, total_steps=loop.turns + 1, cycle_momentum=bool(cycles)
        )
    return None


def _as_they_are(
    model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[nn.Module, torch.optim.Optimizer]:
    return model, optimizer


@contextlib.contextmanager
def single_thread() -> Iterator[None]:
    """PyTorch computes with one thread, as ranks do."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run_plain(seed: Seed) -> Result:
    """Runs a loop in this process, over whole batches."""
    return Run(make_loop(seed), [(0, 1)], _as_they_are).train()


def run_split(seed: Seed, parts: int = 2) -> Result:
    """As `run_plain`, with the mean of the gradients of a batch's parts."""
    return Run(make_loop(seed), [(part, parts) for part in range(parts)], _as_they_are).train()


def run_parallel(seed: Seed, rank: int, count: int, wrap: Wrap) -> Result:
    """Runs a rank's part of a loop, with what `wrap` makes of the model and the optimizer."""
    return Run(make_loop(seed), [(rank, count)], wrap).train()


# ------------------------------------------------------------------------------ comparing


def merge(results: list[Result]) -> tuple[Result, list[str]]:
    """The result of all ranks, and where ranks differ in what they have to have alike."""
    losses = [sum(each) / len(results) for each in zip(*(r.losses for r in results), strict=True)]
    found = []
    for rank, result in enumerate(results[1:], 1):
        apart = differences(results[0]._replace(losses=[]), result._replace(losses=[]), 0.0)
        found += [f"rank {rank} and rank 0: {each}" for each in apart]
    return results[0]._replace(losses=losses), found


def differences(one: Result, other: Result, within: float = WITHIN) -> list[str]:
    """Where two results differ by more than `within`, relative to the larger of 1 and the value."""
    return list(_differences(one, other, within))


def _differences(one: Result, other: Result, within: float) -> Iterator[str]:
    def is_near(a: float, b: float) -> bool:
        return a == b or abs(a - b) <= within * max(1.0, abs(a), abs(b))

    labels = [label for label, _ in one.notes], [label for label, _ in other.notes]
    if labels[0] != labels[1]:
        only = [sorted(set(a) - set(b))[:3] for a, b in (labels, labels[::-1])]
        yield f"notes: {len(labels[0])} and {len(labels[1])}, only in one: {only[0]} {only[1]}"
    for (label, a), (where, b) in zip(one.notes, other.notes, strict=False):
        if label == where and not is_near(a, b):
            yield f"note {label}: {a!r} and {b!r}, off {abs(a - b):.1e}"
    for index, (a, b) in enumerate(zip(one.losses, other.losses, strict=False)):
        if not is_near(a, b):
            yield f"loss {index}: {a!r} and {b!r}, off {abs(a - b):.1e}"
    if len(one.losses) != len(other.losses):
        yield f"losses: {len(one.losses)} and {len(other.losses)}"
    shapes = [{name: v.shape for name, v in each.values.items()} for each in (one, other)]
    if shapes[0] != shapes[1]:
        yield f"names and shapes: {shapes[0]} and {shapes[1]}"
    for name in (name for name in one.values if shapes[0][name] == shapes[1].get(name)):
        a, b = one.values[name].double(), other.values[name].double()
        off = float((a - b).abs().max())
        if not off <= within * max(1.0, float(a.abs().max())):
            yield f"final {name}: off {off:.1e}"
    if len(one.settings) != len(other.settings):
        yield f"groups: {len(one.settings)} and {len(other.settings)}"
    for index, (mine, theirs) in enumerate(zip(one.settings, other.settings, strict=False)):
        for key in sorted(mine.keys() | theirs.keys()):
            a, b = mine.get(key, math.nan), theirs.get(key, math.nan)
            if not is_near(a, b):
                yield f"group {index} {key}: {a!r} and {b!r}"


# ------------------------------------------------------------------------------ by hand


def chosen_seeds(text: str) -> list[Seed]:
    """The seeds of `FIRST:END`, `KIND/FIRST:END`, or one of each kind for `each`."""
    if text == "each":
        return [f"{kind}/{index}" for index in range(3) for kind in KINDS]
    kind, _, numbers = text.rpartition("/")
    first, _, end = numbers.partition(":")
    span = range(int(first), int(end or int(first) + 1))
    return [f"{kind}/{index}" if kind else index for index in span]


def main() -> None:
    """Runs loops on ranks, and says which differ from one process."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", default="0:100", help="FIRST:END, KIND/FIRST:END, or each")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", default="pleach")
    parser.add_argument("--policy", default="dear")
    parser.add_argument("--gather", default="parameters")
    parser.add_argument("--lazy", action="store_true", help="without the guard")
    parser.add_argument(
        "--whole-tensor", action=argparse.BooleanOptionalAction, help="of optimizers not torch's"
    )
    parser.add_argument("--show", action="store_true", help="prints the loops, runs none")
    parser.add_argument("--verbose", action="store_true", help="prints all differences")
    given = parser.parse_args()
    seeds = chosen_seeds(given.seeds)
    if given.show:
        print(*map(make_loop, seeds), sep="\n")
        return
    import random_loop_jobs
    import rank_pool

    options: dict[str, Any] = {"gather": given.gather}
    if given.lazy:
        options["lazy"] = True
    if given.whole_tensor is not None:
        options["whole_tensor"] = given.whole_tensor
    try:
        random_loop_jobs.report(
            seeds, given.ranks, given.backend, given.policy, options, given.verbose
        )
    finally:
        rank_pool.close_all()


if __name__ == "__main__":
    if "OPENBLAS_NUM_THREADS" not in os.environ:  # ranks are forks of one thread
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    torch.set_num_threads(1)
    main()
