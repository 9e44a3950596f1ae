"""What ranks check of when things happen: delays, races, what waits for what, plans that change."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import torch
from parallel_cases import (
    EARLY,
    digest,
    distance,
    loss_of,
    make_any_parallel,
    make_batches,
    make_model,
    make_optimizer,
    make_parallel,
    share,
    train,
    values_of,
)
from parallel_checks import DEAR, Recorder, step, trainer_of
from rank_pool import GROUPS
from torch import nn

import pleach.torch.parallel as parallel
from pleach.torch.parallel import arrangement, collecting, engine, planning, streams, trainer


class Delays:
    """Seeded sleeps wherever threads meet: before copies of gradients, calls, ends and updates."""

    PLACES: tuple[tuple[Any, str], ...] = (
        (collecting.Collector, "has_accumulated"),
        (collecting.Collector, "will_accumulate"),
        (engine.Engine, "_end_work"),
        (engine.Engine, "gradient_ready"),
        (engine.Engine, "_update_some"),
        (engine.Engine, "wait_for"),
        (engine.Engine, "step"),
    )

    def __init__(self, seed: int):
        self._draw = random.Random(seed)
        self._kept = [(owner, name, getattr(owner, name)) for owner, name in self.PLACES]
        for owner, name, kept in self._kept:
            setattr(owner, name, self._delayed(kept))

    def _delayed(self, kept: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if self._draw.random() < 0.2:
                time.sleep(self._draw.random() * 0.002)
            return kept(*arguments)

        return call

    def stop(self) -> None:
        for owner, name, kept in self._kept:
            setattr(owner, name, kept)


def poison(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """What no gradient has been written to is NaN, before each backward."""
    for buffer in trainer_of(optimizer)._built.layout.buffers:
        buffer.gradients.fill_(float("nan"))


def bits_under_delays(rank: int, policy: str, seeds: list[int | None], count: int) -> list[str]:
    """The parameters' bits after a few steps, for each seed of delays; None: no delays."""
    found = []
    whole = make_batches("mlp", steps=4)
    plain = make_model("mlp")
    train(plain, make_optimizer("nesterov", plain), whole, schedules=False)
    batches = [share(one, rank, count) for one in whole]
    for seed in seeds:
        model, optimizer = make_parallel("mlp", "nesterov", count, policy, check=True)
        delays = None if seed is None else Delays(1000 * seed + rank)
        for index, batch in enumerate(batches):
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            if index > 0:
                trainer_of(optimizer).synchronize()
                poison(model, optimizer)
            loss.backward()
            optimizer.step()
        found.append(digest(values_of(model)))
        assert distance(values_of(model), values_of(plain)) <= 1e-12, seed
        if delays is not None:
            delays.stop()
        optimizer.close()
    return found


class SlowCalls:
    """Makes every collective of a plan take longer: its work ends late."""

    def __init__(self, optimizer: torch.optim.Optimizer, delay_s: float):
        self._engine = trainer_of(optimizer)._built.engine
        kept = self._engine._endings.tell

        def tell(work: Any, ended: Any) -> None:
            kept(work, lambda: threading.Timer(delay_s, ended).start())

        self._engine._endings.tell = tell


def only_forward_waits(rank: int) -> dict[str, float]:
    """Seconds that backward, step and the parts of forward take when collectives are slow."""
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(4)])
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    parallel.data_parallel(
        model, optimizer, "dear,bucket=1KiB", process_group=GROUPS[2], channel_width=1
    )
    inputs = torch.randn(3, 64)
    model(inputs).sum().backward()
    optimizer.step()
    optimizer.synchronize()
    SlowCalls(optimizer, 0.05)  # 4 reductions and 4 gathers, one after the other
    times: dict[str, float] = {}
    at: list[float] = []
    for layer in model:
        layer.register_forward_hook(lambda *_: at.append(time.perf_counter()))
    begin = time.perf_counter()
    loss = model(inputs).sum()
    times["forward"] = time.perf_counter() - begin
    begin = time.perf_counter()
    loss.backward()
    times["backward"] = time.perf_counter() - begin
    begin = time.perf_counter()
    optimizer.zero_grad()
    optimizer.step()
    times["step"] = time.perf_counter() - begin
    optimizer.zero_grad()
    model(inputs).sum().backward()
    begin = time.perf_counter()
    optimizer.step()
    times["step"] = max(times["step"], time.perf_counter() - begin)
    at.clear()
    begin = time.perf_counter()
    model(inputs)
    times["first"], times["last"] = at[0] - begin, at[-1] - begin
    optimizer.close()
    return times


class Trials:
    """A search that goes through some sizes."""

    SIZES = (25 << 20, 1 << 10, 4 << 10)

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []  # bucket, iteration time in ps
        self.at = 0

    @property
    def size_bytes(self) -> int:
        return self.SIZES[self.at]

    @property
    def settled(self) -> bool:
        return self.at == len(self.SIZES) - 1

    def observe(self, iteration_ps: int) -> bool:
        self.seen.append((self.size_bytes, iteration_ps))
        if len(self.seen) % 3 or self.settled:
            return False
        self.at += 1
        return True


def a_search_changes_plans(rank: int) -> list[tuple[str, int, int]]:
    """dear_bo: all ranks follow the same trials from the same iterations on."""
    kept = arrangement.BucketTuner
    arrangement.BucketTuner = lambda *_: Trials()  # type: ignore
    try:
        batches = make_batches("transformer")
        plain = make_model("transformer")
        train(plain, make_optimizer("nesterov", plain), batches)
        model, optimizer = make_parallel("transformer", "nesterov", 3, "dear_bo")
        train(model, optimizer, [share(one, rank, 3) for one in batches])
    finally:
        arrangement.BucketTuner = kept
    assert distance(values_of(model), values_of(plain)) <= 1e-12
    made = trainer_of(optimizer)
    found = [(one.spec, one.iteration, len(one.settled.collectives)) for one in made.proposals]
    if rank == 0:
        seen = made._arrangement.tuner.seen
        assert [size for size, _ in seen] == sorted(
            (size for size, _ in seen), key=Trials.SIZES.index
        )
    optimizer.close()
    return found


class Slow(nn.Module):
    """A layer that takes a given time."""

    delay_s = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(7, 7, dtype=torch.float64)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        values = self.inner(values)
        time.sleep(Slow.delay_s)
        return values


def watch_plans(planner: Any, asked: list[Any]) -> None:
    """Notes what is asked of a planner; what is settled is another plan from the second time on."""
    settle = planner._settle

    def settle_noting(spec: str, times: Any, ratio: float) -> Any:
        asked.append((spec, times))
        return settle("dear,bucket=1" if len(asked) > 1 else spec, times, ratio)

    planner._settle = settle_noting


def drift_makes_a_new_plan(rank: int) -> list[str]:
    """When iterations take longer, the layers are timed anew, and a plan is made of that."""
    asked: list[Any] = []
    planning.WINDOW = 4
    model = nn.Sequential(Slow(), nn.Linear(7, 3, dtype=torch.float64))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    parallel.data_parallel(model, optimizer, DEAR, process_group=GROUPS[2])
    inputs = torch.randn(4, 7, dtype=torch.float64)
    Slow.delay_s = 0.004
    for index in range(60):
        if index == 1 and rank == 0:
            watch_plans(trainer_of(optimizer)._built.planner, asked)
        if index == 25:
            Slow.delay_s = 0.012
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()
    reasons = [one.why for one in trainer_of(optimizer).proposals]
    if rank == 0:
        assert len(asked) == 2, asked
        assert 0.003 < max(asked[0][1].forward_s) < 0.008, asked
        assert 0.011 < max(asked[1][1].forward_s) < 0.020, asked
    optimizer.close()
    return reasons


def stands_after(rank: int, policy: str) -> float:
    """After the last step nothing is lost: what is read is what plain training makes."""
    batches = make_batches("mlp", steps=2)
    plain = make_model("mlp")
    train(plain, make_optimizer("sgd", plain), batches, schedules=False)
    model, optimizer = make_parallel("mlp", "sgd", 2, policy)
    for batch in batches:
        step(model, optimizer, share(batch, rank, 2))
    found = distance(list(model.state_dict().values()), list(plain.state_dict().values()))
    optimizer.close()
    return found


class OrderedStreams(streams.Streams):
    """Streams of a device on which nothing waits for anything by itself: notes what is told to."""

    are_many = True

    def __init__(self) -> None:
        self.marks = 0
        self.waited: set[int] = set()  # by the present stream of communication, in its block
        self.read: set[int] = set()  # by the stream of computation
        self._inside = threading.local()

    def mark(self) -> int:
        """The next number."""
        self.marks += 1
        return self.marks

    def present(self) -> str:
        """The stream of computation: of callers of step()."""
        return "computation"

    def wait_for(self, mark: Any, stream: Any = None) -> None:
        """Notes it, for that stream, or where the caller is."""
        if mark is not None and stream is not None:
            self.read.add(mark)
        elif mark is not None:
            (self.waited if getattr(self._inside, "is_it", False) else self.read).add(mark)

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """A block on the stream of communication."""
        self._inside.is_it = True
        self.waited = set()
        try:
            yield
        finally:
            self._inside.is_it = False


def streams_wait_for_each_other(rank: int) -> int:
    """Reductions wait for what wrote their gradients, and forward for what wrote parameters."""
    made: list[OrderedStreams] = []
    kept = trainer.streams_of
    trainer.streams_of = lambda _device: made.append(OrderedStreams()) or made[-1]  # type: ignore
    try:
        model, optimizer = make_parallel("mlp", "sgd", 2, DEAR)
        batches = [share(one, rank, 2) for one in make_batches("mlp", steps=4)]
        step(model, optimizer, batches[0])
    finally:
        trainer.streams_of = kept
    (streams_made,) = made
    optimizer.synchronize()
    driver = trainer_of(optimizer)._built.engine
    program = driver.following.program
    seen = []

    def watched(index: int, call: Any) -> Any:
        def start() -> Any:
            seen.append(index)
            missing = set(driver._marks.values()) - streams_made.waited
            assert streams_made._inside.is_it, "it runs on the stream of computation"
            assert not missing, f"{program.plan[index]} does not wait for {missing}"
            return call()

        return start

    for index, calls in enumerate(program.calls):
        program.calls[index] = [watched(index, call) for call in calls]
    wait_for = driver.wait_for

    def watched_wait(layer: int) -> None:
        wait_for(layer)
        assert driver._marks[layer] in streams_made.read, "forward reads what is being written"

    driver.wait_for = watched_wait
    for batch in batches[1:]:
        step(model, optimizer, batch)
    optimizer.synchronize()
    optimizer.close()
    return len(seen)


def accumulation_reduces_once(rank: int) -> list[int]:
    """Collectives of a step of four passes, learnt to be so, and of one in no_sync()."""
    model, optimizer = make_parallel("mlp", "sgd", 2, DEAR)
    batches = [share(one, rank, 2) for one in make_batches("mlp", steps=4)]
    counts = []
    for is_told in (False, False, True):
        optimizer.synchronize()
        made = trainer_of(optimizer)
        recorder = Recorder(made.groups.calls.group) if made._built is not None else None
        optimizer.zero_grad()
        for index, batch in enumerate(batches):
            with optimizer.no_sync() if is_told and index < 3 else contextlib.nullcontext():
                loss_of(model, batch).backward()
        optimizer.step()
        optimizer.synchronize()
        if recorder is not None:
            recorder.stop()
            plan = made._built.engine.following.program.plan
            counts.append(len(recorder.calls) - len(plan))
    optimizer.close()
    return counts


class TwoWays(nn.Module):
    """A layer that every sample takes, and one that is left out where it is said."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = (nn.Linear(7, 3, dtype=torch.float64) for _ in range(2))
        self.takes_both = True

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.one(values) + self.other(values) if self.takes_both else self.one(values)


def hold_back(optimizer: torch.optim.Optimizer, which: int) -> None:
    """What the ranks agree on comes late in one iteration: in the midst of the next, if it may."""
    exchange = trainer_of(optimizer).groups.exchange
    kept, follows = exchange.agree, threading.Event()
    held: list[threading.Thread] = []

    def agree(own: Any, note: Any, fail: Any) -> Any:
        nonlocal which
        which -= 1

        def note_late(agreement: Any) -> None:
            def wait() -> None:
                follows.wait(0.5)
                note(agreement)

            held.append(threading.Thread(target=wait))
            held[0].start()

        def note_after(agreement: Any) -> None:
            follows.set()
            held[0].join()
            time.sleep(0.1)  # for the engine's thread to use it
            note(agreement)

        return kept(own, {0: note_late, -1: note_after}.get(which, note), fail)

    exchange.agree = agree


def late_agreement(rank: int) -> float:
    """Every layer is used, and not updated without a gradient in the next iteration."""
    draw = torch.Generator().manual_seed(2)
    batches = [torch.randn(4, 7, generator=draw, dtype=torch.float64) for _ in range(5)]
    models = []
    for count in (1, 2):
        torch.manual_seed(3)
        model = TwoWays()
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        if count > 1:
            make_any_parallel(model, optimizer, count, EARLY)
            hold_back(optimizer, 3)
        for index, batch in enumerate(batches):
            model.takes_both = index != 3
            optimizer.zero_grad()
            model(batch.chunk(count)[rank % count]).square().mean().backward()
            optimizer.step()
        models.append(values_of(model))
    optimizer.close()
    return distance(*models)
