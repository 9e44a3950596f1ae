"""Drives the communication of training: a plan's collectives, and the updates between them.

Gradients come from hooks in the thread that runs backward, which starts what may start. A thread of
the engine's own learns what has ended, updates what is reduced, and starts what follows. A gate
before each layer's forward waits for its parameters, and for nothing else.

All ranks start the same collectives in the same order, the plan's, each as soon as it can; so the
groups that they travel in are nobody else's. docs/architecture.md, "Training", has the argument.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import functools
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pleach.policy import PlanReplay

from .endings import Endings
from .explaining import Described, History
from .health import PATIENCE_S, Health
from .program import Gathers, Program
from .streams import Streams
from .updates import Settings, UnitOptimizer
from .waits import Awaited

PICOSECONDS_PER_NANOSECOND = 1000
# A wait looks for trouble each time that so much has passed.
LOOK_S = 0.5
# How long its thread has to end; after that it goes on by itself.
JOIN_S = 1.0
# Elements that are updated together, if what several collectives have brought is so small: every
# update has a part that is Python.
JOINED_ELEMENTS = 1 << 17
# What is remembered, to be explained.
KEPT_ITERATIONS = 20
MOST_STALLS = 10_000


@dataclasses.dataclass(frozen=True)
class Agreement:
    """What the ranks together have found of an iteration's gradients.

    Attributes:
        used: By member: some rank has a gradient of it; nobody updates the others.
        late: By member: on some rank more of its gradient came when it was reduced already.
        proposes: The first rank has another plan to propose.
    """

    used: Sequence[bool]
    late: Sequence[bool]
    proposes: bool = False


@dataclasses.dataclass(frozen=True)
class Following:
    """What an engine follows: a plan, made ready, and what says when its parts may start.

    Attributes:
        program: It, on this rank.
        replay: Fresh, of the same plan.
        gathers: What the plan's second halves distribute.
        updates_early: A unit is updated when it is reduced, with the settings of its forward.
        described: By index in the plan: collectives in words.
        layers_of: By index in the plan: layers that have something in a collective.
        opens_at_once: No layer is in place before all are.
    """

    program: Program
    replay: PlanReplay
    gathers: Gathers
    updates_early: bool
    described: Sequence[Described]
    layers_of: Sequence[Sequence[int]]
    opens_at_once: bool


@dataclasses.dataclass(frozen=True)
class Surroundings:
    """What an engine works with, whatever its plan.

    Attributes:
        optimizer: Updates the units; the engine's thread alone uses it.
        layer_of: By member, the gate that it stands behind.
        streams: Of the device.
        reduce_late: Reduces late gradients on top of what is reduced, and returns when they are.
        updated: Told atoms that this rank has updated its share of, before others' shares come.
        arrived: Told the layers whose parameters are in place anew.
        health: Of the ranks.
        deadline_s: Of every wait, beyond that of the groups.
    """

    optimizer: UnitOptimizer
    layer_of: Sequence[int]
    streams: Streams
    reduce_late: Callable[[Agreement], None]
    updated: Callable[[range], None]
    arrived: Callable[[Sequence[int]], None]
    health: Health
    deadline_s: float


@dataclasses.dataclass
class _Flight:
    """A collective on the wire."""

    index: int  # in the plan
    works: list[Awaited]
    left: int  # works that have not ended


@dataclasses.dataclass
class _Iteration:
    """How far an iteration's gradients and updates have come."""

    settings: Settings | None = None  # None: its step has not been asked for
    agreement: Agreement | None = None
    has_stepped: bool = True  # it is over, but for what follows by itself
    reductions: int = 0  # that have ended
    is_final: bool = False  # late gradients are in, too
    updated: int = 0  # collectives whose units are all updated
    is_asked: bool = False  # step() was called for it
    doubtful: set[int] = dataclasses.field(default_factory=set)  # members unused on this rank
    ready: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # first atom, index
    units: dict[int, list[int]] = dataclasses.field(default_factory=dict)  # by index: to update


class TrainingError(RuntimeError):
    """Communication has failed, and training cannot go on."""


class Engine:
    """One rank's. The training thread's, and backward's threads', but for what says otherwise."""

    def __init__(self, following: Following, surroundings: Surroundings):
        """Starts its thread."""
        self._following = following
        self._surroundings = surroundings
        self._iteration = _Iteration(is_final=True)
        self._flights: dict[int, _Flight] = {}
        self._numbers: dict[int, int] = {}  # by index in the plan: of this iteration
        self._closed: dict[int, int] = {}  # layers that wait, and the units each waits for
        self._marks: dict[int, Any] = {}  # by layer: what wrote its gradients, then its parameters
        self._last_mark: Any = None  # of what communication and updates were given last
        self._stepping: Any = None  # the stream that step() was called on
        self._next: Following | None = None
        self._error: TrainingError | None = None  # what has failed
        self._failure: TrainingError | None = None  # it, with who does not answer
        self._awaited: list[Callable[[], bool]] = []  # what threads wait for
        self._is_agreeing = False
        self._begun = -1  # iterations of the present plan, less one
        self._forward_ps: int | None = None  # when the next iteration's forward began
        self._starts_ps: dict[int, int] = {}  # by iteration of the present plan
        self._stalls: collections.deque[tuple[int, int, int]] = collections.deque(
            maxlen=MOST_STALLS
        )
        self._start_ns = time.perf_counter_ns()
        self._changed = threading.Condition()
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._endings = Endings()
        weakref.finalize(self, _end_threads, self._inbox, self._endings)
        # The thread holds it only while there is something to do, so that it can be forgotten.
        self._thread = threading.Thread(
            target=_serve, args=(self._inbox, weakref.ref(self)), name="pleach-engine", daemon=True
        )
        self._thread.start()
        surroundings.health.listen(self)

    # --- Gradients.

    def begin(self, settings: Settings | None) -> None:
        """The first gradients of an iteration come; returns when all parameters are in place.

        Args:
            settings: That it is updated with, where updates come early; else None.
        """
        self.flush()
        with self._changed:
            if self._next is not None:
                self._following, self._next = self._next, None
                self._begun, self._starts_ps = -1, {}
                self._stalls.clear()
            self._note_begun()
            self._iteration = _Iteration(settings=settings, has_stepped=False)
            self._following.program.begin()
            self._numbers.clear()

    def _note_begun(self) -> None:
        self._begun += 1
        start_ps = self._now_ps() if self._forward_ps is None else self._forward_ps
        self._starts_ps[self._begun] = start_ps
        self._forward_ps = None
        oldest = self._begun - KEPT_ITERATIONS
        self._starts_ps.pop(oldest, None)
        self._following.replay.forget_before(oldest + 1)

    def note_forward(self) -> None:
        """A forward pass begins."""
        if self._forward_ps is None:
            self._forward_ps = self._now_ps()

    def gradient_ready(self, layer: int, doubtful: Sequence[int] = ()) -> None:
        """This rank has all of a layer's gradients in place; each layer once an iteration.

        Args:
            layer: It.
            doubtful: Its members that this rank has no gradients of, zeros in their place.
        """
        with self._changed:
            self._check()
            self._marks[layer] = self._surroundings.streams.mark()
            self._iteration.doubtful.update(doubtful)
            if self._following.updates_early:
                self._close([layer])
            self._following.replay.gradient_ready(layer, self._now_ps())
            self._pump()
            self._check()

    def await_agreement(self) -> None:
        """The ranks begin to join what they have found: what they found before is not all.

        The next iteration begins when that is known.
        """
        with self._changed:
            self._check()
            assert not self._is_agreeing
            self._is_agreeing = True
            self._iteration.agreement = None
            self._iteration.is_final = False

    def agree(self, agreement: Agreement) -> None:
        """What all ranks have found is known. From any thread; once for each await_agreement."""
        self._inbox.put(functools.partial(self._note_agreement, agreement))

    def await_known(self, agreements: Sequence[concurrent.futures.Future[Agreement]]) -> None:
        """Returns when all ranks' findings are known, of each."""
        self._wait(
            lambda: all(one.done() for one in agreements),
            "what the ranks have found of their gradients",
        )

    def fail(self, error: BaseException) -> None:
        """Something that it waits for has failed. From any thread."""
        with self._changed:
            self._fail(error)

    def finish(self) -> None:
        """Returns when this rank's share of all averaged gradients is in place."""
        self._wait(lambda: self._iteration.is_final, "the averaged gradients")
        self._surroundings.streams.wait_for(self._last_mark)

    def repeat(self) -> None:
        """This iteration's gradients, reduced or not, are dropped, and come again."""
        total = self._following.program.reduction_count
        self._wait(lambda: self._iteration.reductions == total, "gradients that are dropped")
        with self._changed:
            self._following.replay.repeat()
            self._following.program.begin()
            self._numbers.clear()
            self._iteration = _Iteration(settings=self._iteration.settings, has_stepped=False)

    # --- Steps.

    def step(self, settings: Settings) -> None:
        """Updates with this iteration's gradients, when they are there. Returns at once."""
        self._iteration.has_stepped = self._iteration.is_asked = True
        if not self._following.updates_early:
            with self._changed:
                self._check()
                self._close(range(1 + max(self._surroundings.layer_of, default=-1)))
            streams = self._surroundings.streams
            self._stepping = streams.present()
            self._inbox.put(functools.partial(self._note_step, settings, streams.mark()))

    def wait_for(self, layer: int) -> None:
        """The gate of a layer: returns when its parameters are in place."""
        if layer in self._closed:
            with self._changed:
                begin_ps = self._now_ps()
                self._following.replay.stand_still(begin_ps)
            try:
                self._wait(lambda: layer not in self._closed, f"the parameters of layer {layer}")
            finally:
                with self._changed:
                    end_ps = self._now_ps()
                    self._following.replay.go_on(end_ps)
                    self._stalls.append((layer, begin_ps, end_ps))
        # Also the stream of step(): what it is given later may use the parameters unguarded.
        for stream in (None, self._stepping):
            self._surroundings.streams.wait_for(self._marks.get(layer), stream)

    def await_updates(self) -> None:
        """Returns when this rank has updated its share of the parameters, if a step is asked for.

        The optimizer's state is then that of after the step.
        """
        total = self._following.program.final_count
        self._wait(
            lambda: not self._iteration.is_asked or self._iteration.updated == total,
            "the updates of this rank's share",
        )
        self._surroundings.streams.wait_for(self._last_mark)

    def flush(self) -> None:
        """Returns when all parameters are in place, and what was to be agreed on is known."""
        self._wait(lambda: not self._closed, "the parameters of all layers")
        self._wait(lambda: not self._is_agreeing, "what the ranks have found of their gradients")
        for mark in self._marks.values():
            for stream in (None, self._stepping):
                self._surroundings.streams.wait_for(mark, stream)

    def follow(self, following: Following) -> None:
        """Follows another plan from the next iteration's gradients on."""
        with self._changed:
            self._next = following

    @property
    def used(self) -> Sequence[bool]:
        """By member: some rank has a gradient of it in this iteration; known after finish()."""
        agreement = self._iteration.agreement
        assert agreement is not None
        return agreement.used

    @property
    def following(self) -> Following:
        """What it follows."""
        return self._following

    def history(self) -> History:
        """What the present plan's collectives did in the last iterations."""
        with self._changed:
            return History(
                list(self._following.replay.log()), dict(self._starts_ps), list(self._stalls)
            )

    def unix_ns(self, time_ps: int) -> int:
        """A time of the log, since 1970."""
        since = time.time_ns() - time.perf_counter_ns()
        return since + self._start_ns + time_ps // PICOSECONDS_PER_NANOSECOND

    def stop(self) -> None:
        """Ends its thread: after the present iteration, if its step has been asked for.

        Otherwise what is under way may end, as other ranks may still need it, but not for long.
        """
        try:
            if self._iteration.has_stepped:
                self.flush()
            elif not self._surroundings.health.is_broken:
                self._let_end(JOIN_S)
        finally:
            self.end()

    def _let_end(self, seconds: float) -> None:
        """Returns when nothing is under way, or after a time, or when it has failed."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._is_busy() and self._error is None and time.monotonic() < deadline:
                self._changed.wait(seconds / 50)

    def _is_busy(self) -> bool:
        return bool(self._flights) or self._is_agreeing

    def end(self) -> None:
        """Ends its threads, without regard to what is under way."""
        self._inbox.put(None)
        self._thread.join(JOIN_S)
        # Not before: the thread may have started what follows from its last news.
        if self._is_busy() or self._thread.is_alive():
            self._surroundings.health.break_off()
        self._endings.stop()

    # --- Of health.Listener; from the thread that watches.

    def is_waiting(self) -> bool:
        """True if a collective is under way, or a thread waits."""
        return self._error is None and (self._is_busy() or bool(self._awaited))

    def hear(self) -> None:
        """Another rank has failed or left: looks if this one needs it."""
        self._inbox.put(self._listen)

    # --- What happens to it, with the lock held unless it says otherwise.

    def _now_ps(self) -> int:
        return (time.perf_counter_ns() - self._start_ns) * PICOSECONDS_PER_NANOSECOND

    def _check(self) -> None:
        if self._error is None:
            return
        self._changed.wait_for(lambda: self._failure is not None, 3 * PATIENCE_S)
        failure = self._failure or self._error
        raise TrainingError(str(failure)) from failure

    def _close(self, layers: Sequence[int]) -> None:
        for layer in layers:
            self._closed[layer] = 0
        if self._following.gathers is Gathers.GRADIENTS:
            for unit in self._following.program.units:
                layer = self._surroundings.layer_of[unit.member]
                if layer in layers:
                    self._closed[layer] += 1

    def _pump(self) -> None:
        """Starts what may start."""
        following = self._following
        for number in following.replay.next(self._now_ps()):
            index = following.program.issued
            following.program.issued += 1
            self._numbers[index] = number
            streams = self._surroundings.streams
            try:
                with streams.beside():
                    if streams.are_many:
                        for mark in self._marks.values():
                            streams.wait_for(mark)
                    works = [call() for call in following.program.calls[index]]
            except Exception as error:
                self._fail(error, index)
                return
            self._flights[number] = _Flight(index, works, len(works))
            ended = functools.partial(self._inbox.put, functools.partial(self._end_work, number))
            for work in works:
                self._endings.tell(work, ended)

    def _fail(self, error: BaseException, index: int | None = None) -> None:
        if self._error is not None:
            return
        if index is None:
            self._error = TrainingError(f"{error}; {self._whereabouts()}")
        else:
            self._error = TrainingError(f"{self._following.described[index]}: {error}")
        self._error.__cause__ = error
        self._inbox.put(self._diagnose)
        self._changed.notify_all()

    def _whereabouts(self) -> str:
        """How far it has come with its plan, in words."""
        following = self._following
        flying = [str(following.described[one.index]) for one in self._flights.values()]
        if flying:
            return f"under way: {'; '.join(flying)}"
        if following.program.issued < len(following.described):
            return f"next: {following.described[following.program.issued]}"
        return "nothing under way"

    def _wait(self, is_there: Callable[[], bool], what: str) -> None:
        """Takes the lock, and waits."""
        with self._changed:
            self._awaited.append(is_there)
            try:
                self._check()
                if not self._comes(is_there, LOOK_S):
                    with self._surroundings.health.waiting(what):
                        self._wait_long(is_there, what)
                self._check()
            finally:
                self._awaited.remove(is_there)

    def _wait_long(self, is_there: Callable[[], bool], what: str) -> None:
        """With the lock held."""
        deadline = time.monotonic() + self._surroundings.deadline_s
        while not is_there():
            self._check()
            if time.monotonic() > deadline:
                self._fail(
                    TimeoutError(f"{what} did not come within {self._surroundings.deadline_s:g} s")
                )
            elif self._surroundings.health.is_in_vain():
                self._fail(TimeoutError(f"{what} did not come, and this rank leaves"))
            else:
                self._comes(is_there, LOOK_S)

    def _comes(self, is_there: Callable[[], bool], within_s: float) -> bool:
        """With the lock held: waits until it is there, or something has failed."""
        return self._changed.wait_for(lambda: is_there() or self._error is not None, within_s)

    def _wake(self) -> None:
        """With the lock held: what somebody waits for may be there."""
        if any(is_there() for is_there in self._awaited):
            self._changed.notify_all()

    # --- The engine's thread; these take the lock.

    def _take(self, news: Callable[[], None]) -> None:
        """Does what is to be done, and updates meanwhile what may be."""
        if self._error is not None and news != self._diagnose:
            return
        try:
            news()
            while self._error is None and self._inbox.empty() and self._update_some():
                pass
        except BaseException as error:
            with self._changed:
                self._fail(error)

    def _listen(self) -> None:
        """Ends training if what it waits for cannot come."""
        if self.is_waiting():
            health = self._surroundings.health
            trouble = health.trouble()
            if trouble:
                raise RuntimeError(trouble)

    def _diagnose(self) -> None:
        error = self._error
        assert error is not None
        health = self._surroundings.health
        missing = ""
        if health.leaving_s is None:  # else it is this rank that leaves
            missing = health.cause(error)
        if missing and missing in str(error):
            missing = ""
        with self._changed:
            self._failure = TrainingError(f"{error}; {missing}" if missing else str(error))
            self._failure.__cause__ = error
            self._changed.notify_all()

    def _end_work(self, number: int) -> None:
        flight = self._flights[number]
        flight.left -= 1
        if flight.left > 0:
            return
        streams = self._surroundings.streams
        with streams.beside():
            try:
                for work in flight.works:
                    work.work.wait()  # it has ended
                self._following.program.divide(flight.index)
            except Exception as error:
                with self._changed:
                    self._fail(error, flight.index)
                return
            mark = self._last_mark = streams.mark()
        with self._changed:
            del self._flights[number]
            self._land(number, flight.index, mark)

    def _land(self, number: int, index: int, mark: Any) -> None:
        """With the lock held."""
        following, iteration = self._following, self._iteration
        planned = following.program.plan[index]
        following.replay.land(number, self._now_ps())
        is_final = following.program.finals[index]
        if planned.reduces or is_final:
            iteration.units[index] = following.program.end(index) if is_final else []
            iteration.ready.append((planned.first, index))
        if planned.reduces:
            iteration.reductions += 1
            self._find_final()
            self._wake()
        self._open([index], mark)
        self._pump()

    def _open(self, indices: Sequence[int], mark: Any) -> None:
        """With the lock held: opens the gates that are in place now that collectives have ended."""
        following = self._following
        layers: Iterable[int] = {layer for index in indices for layer in following.layers_of[index]}
        if following.opens_at_once:
            if not all(map(following.replay.may_run_forward, layers)):
                return
            layers = self._closed
        opened = [
            layer
            for layer in layers
            if self._closed.get(layer) == 0 and following.replay.may_run_forward(layer)
        ]
        for layer in opened:
            self._marks[layer] = mark
        if opened:
            self._surroundings.arrived(opened)
        for layer in opened:
            del self._closed[layer]
        if opened:
            self._wake()

    def _note_agreement(self, agreement: Agreement) -> None:
        with self._changed:
            self._is_agreeing = False
            self._iteration.agreement = agreement
            self._find_final()
            self._wake()

    def _note_step(self, settings: Settings, mark: Any) -> None:
        """Updates may begin, after what the training thread's stream was given before."""
        with self._surroundings.streams.beside():
            self._surroundings.streams.wait_for(mark)
        with self._changed:
            self._iteration.settings = settings

    def _find_final(self) -> None:
        """With the lock held: whether the gradients are final, which late ones come in front of."""
        iteration = self._iteration
        agreement = iteration.agreement
        if agreement is None or iteration.reductions < self._following.program.reduction_count:
            return
        if any(agreement.late) and not iteration.is_final:
            self._inbox.put(functools.partial(self._reduce_late, agreement))
        else:
            iteration.is_final = True
        self._wake()

    def _reduce_late(self, agreement: Agreement) -> None:
        with self._surroundings.streams.beside():
            self._surroundings.reduce_late(agreement)
            self._last_mark = self._surroundings.streams.mark()
        with self._changed:
            self._iteration.is_final = True
            self._wake()

    def _next_to_update(self) -> tuple[int, int] | None:
        """With the lock held: of what is reduced and may be used now, the nearest to the input."""
        iteration = self._iteration
        if iteration.settings is None or not iteration.ready:
            return None
        agreement = iteration.agreement
        if agreement is not None:
            is_late = any(agreement.late) and not iteration.is_final
            may_all = self._following.updates_early or not is_late
            return min(iteration.ready) if may_all else None
        if not self._following.updates_early:
            return None
        units = self._following.program.units
        return min(
            (
                one
                for one in iteration.ready
                if all(
                    units[unit].member not in iteration.doubtful for unit in iteration.units[one[1]]
                )
            ),
            default=None,
        )

    def _update_some(self) -> bool:
        """Updates what is final, the nearest to the input first, if anything may be updated."""
        with self._changed:
            program, iteration = self._following.program, self._iteration
            taken = self._take_ready()
            agreement, settings = iteration.agreement, iteration.settings
        if not taken:
            return False
        assert settings is not None
        chosen = [
            program.units[unit]
            for _, units in taken
            for unit in units
            if agreement is None or agreement.used[program.units[unit].member]
        ]
        with self._surroundings.streams.beside():
            if chosen:
                self._surroundings.optimizer.update(chosen, settings)
            for index, _ in taken:
                planned = program.plan[index]
                self._surroundings.updated(range(planned.first, planned.end))
            mark = self._last_mark = self._surroundings.streams.mark()
        with self._changed:
            for index, units in taken:
                self._note_updated(index, units, mark)
            self._iteration.updated += len(taken)
            self._wake()
        return True

    def _take_ready(self) -> list[tuple[int, list[int]]]:
        """With the lock held: takes the next collective to update, and small ones after it.

        Returns:
            By collective: its index, and the units that it has made final.
        """
        iteration, units = self._iteration, self._following.program.units
        taken: list[tuple[int, list[int]]] = []
        left = JOINED_ELEMENTS
        while (found := self._next_to_update()) is not None:
            left -= sum(units[unit].values.numel() for unit in iteration.units[found[1]])
            if taken and left < 0:
                break
            iteration.ready.remove(found)
            taken.append((found[1], iteration.units.pop(found[1])))
        return taken

    def _note_updated(self, index: int, units: Sequence[int], mark: Any) -> None:
        """With the lock held."""
        following = self._following
        complete = [] if following.program.has_units(index) else [index]
        for unit in units:
            complete += following.program.update(unit)
            layer = self._surroundings.layer_of[following.program.units[unit].member]
            if self._closed.get(layer, 0) > 0:
                self._closed[layer] -= 1
        for each in complete:
            if following.program.plan[each].reduces:
                following.replay.update(self._numbers[each], self._now_ps())
        self._open([index, *complete], mark)
        self._pump()


def _serve(
    inbox: queue.SimpleQueue[Callable[[], None] | None], reference: weakref.ref[Engine]
) -> None:
    """What an engine's thread does: until it is told to end, or the engine is forgotten."""
    while (news := inbox.get()) is not None:
        engine = reference()
        if engine is None:
            return
        engine._take(news)
        del engine, news


def _end_threads(inbox: queue.SimpleQueue[Callable[[], None] | None], endings: Endings) -> None:
    """Ends the threads of an engine that is forgotten."""
    inbox.put(None)
    endings.stop()
