"""Presence of a training's ranks: which rank waits where, has failed, has left, or has died.

Ranks write a state each to the store of their group, and only when there is something to say: after
ten seconds of waiting, at a failure, when they leave. A counter beside the states tells that one of
them has changed. So training pays for one short request to the store now and then, in a thread of
its own (watching.py), and for no message between ranks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from . import watching
from .calling import NO_CALL, Call, call_of, main_call
from .processes import Process, here

# A wait that is longer is reported on stderr, and again each time that so much has passed.
REPORT_AFTER_S = 10.0
REPORT_AGAIN_S = 60.0
# Time in which live ranks must say where they are [s]. They look every watching.INTERVAL_S.
PATIENCE_S = 1.2
# A wait still ends well for so long after a process has died, whose last bytes may be on their way.
GRACE_S = 0.6
# How long a rank that leaves waits for what is under way, if others may not come to it any more.
LEAVING_S = 1.0
# How long an answer of the store may take: less than the thread that watches is given to end.
_ANSWER_S = 0.5
# A store that does not answer for so long has no server any more.
_LOST_S = 2.0
_MOST_NAMED = 8
# What the pleach backend says of ranks that run different collectives.
_DIFFER = re.compile(r": rank \d+ runs .*, rank \d+ ")

HERE, WAITS, FAILED, LEAVING, LEFT = "here", "waits", "failed", "leaving", "left"


class Counting(Protocol):
    """A group of the training: how many of its collectives this rank has started."""

    started: int


@dataclasses.dataclass(frozen=True)
class State:
    """The state that a rank reports.

    Attributes:
        status: One of `here`, `waits`, `failed`, `leaving`, `left`.
        number: Grows with every state of the rank.
        call: The call that it is in, or was in.
        place: The line of its code.
        text: The reason of a failure or a leave.
        started: By group: collectives that it has started.
        has_failed: It has, and has perhaps left because of that.
        process: Its own.
    """

    status: str
    number: int
    call: str
    place: str
    text: str
    started: list[int]
    has_failed: bool
    process: Process

    def written(self) -> str:
        """The state as the store has it."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def read(text: str) -> State:
        """What `written` has made."""
        given = json.loads(text)
        return State(**(given | {"process": Process(*given["process"])}))


class Listener(Protocol):
    """An engine: it waits in threads of its own."""

    def is_waiting(self) -> bool:
        """True if something that other ranks take part in is under way."""

    def hear(self) -> None:
        """Told that `trouble()` has something to say."""


@dataclasses.dataclass
class Wait:
    """A thread of this rank that waits for others."""

    begin_s: float
    thread: int
    what: str
    posted_s: float | None = None
    report_s: float = 0.0  # when to report it next
    call: Call = NO_CALL


class Health:
    """The states of a group's ranks. Its methods may be called from any thread."""

    def __init__(self, group: dist.ProcessGroup, number: int = 0):
        """Writes this rank's first state, and lets the process watch for the others'.

        Args:
            group: Its ranks, by whose store they tell each other.
            number: Grows with every Health of one group, alike on all ranks.
        """
        self.rank = group.rank()
        self.size = group.size()
        self.groups: list[Counting] = []
        self.states: dict[int, State] = {}  # of the other ranks
        self._board = _Board(group, number)
        self._lock = threading.RLock()
        self._own = State(HERE, 0, "", "", "", [], False, here())
        self._dead: dict[int, float] = {}  # ranks of this host: since when they are known to be
        self._waits: list[Wait] = []
        self._answered: dict[int, int] = {}  # by rank: the state that this rank has answered
        self._listener: weakref.ref[Any] | None = None
        self._is_broken = False
        self.leaving_s: float | None = None  # since when this rank leaves
        self._post(HERE)
        watching.watch(self)

    # --- What this rank says.

    def _post(self, status: str, call: Call | None = None, text: str = "") -> None:
        """Writes a state; with no store any more, nothing."""
        with self._lock:
            if self._own.status == LEFT:
                return
            call = call or NO_CALL
            has_failed = self._own.has_failed or status == FAILED
            started = [group.started for group in self.groups]
            self._own = State(
                status,
                self._own.number + 1,
                call.name,
                call.place,
                text,
                started,
                has_failed,
                here(),
            )
            self._board.write(self.rank, self._own.written())

    def report(self, what: str) -> None:
        """Tells the others that this rank has failed, and of what; once."""
        self._report(what, main_call())

    def _report(self, what: str, call: Call) -> None:
        with self._lock:
            if self._own.status not in (FAILED, LEFT):
                self._post(FAILED, call, what)

    @property
    def is_broken(self) -> bool:
        """True if collectives may be under way that never end: this rank has failed, or said so."""
        return self._is_broken or self._own.has_failed

    def break_off(self) -> None:
        """Notes that this rank leaves while collectives are under way."""
        self._is_broken = True

    def announce(self) -> None:
        """Tells the others that this rank leaves when what is under way has ended."""
        if self.leaving_s is None:
            self.leaving_s = time.monotonic()
            if self._own.status != FAILED:
                self._post(LEAVING)

    def leave(self, why: str) -> None:
        """Tells the others that this rank starts no more collectives, and ends."""
        with self._lock:
            call = NO_CALL
            if self._own.has_failed:  # others are told of that
                call, why = Call(self._own.call, self._own.place), self._own.text
            self._post(LEFT, call, why)
            self._board.close()
        watching.forget(self)

    # --- What this rank waits for.

    @contextlib.contextmanager
    def waiting(self, what: str) -> Any:
        """In its `with` block this thread waits for others, and is reported after a while."""
        wait = Wait(time.monotonic(), threading.get_ident(), what)
        with self._lock:
            self._waits.append(wait)
        try:
            yield wait
        finally:
            with self._lock:
                self._waits.remove(wait)

    def check(self) -> None:
        """Ends a wait that cannot end well.

        Raises:
            RuntimeError: A rank has failed, or left before it came to this.
            TimeoutError: This rank leaves, and others do not come any more.
        """
        text = self.trouble()
        if text:
            self.report(text)
            raise RuntimeError(f"{call_of()}: {text}")
        if self.is_in_vain():
            raise TimeoutError("this rank leaves, and other ranks have not come to what it started")

    def trouble(self) -> str:
        """Why what is started may not end: a rank that is gone or has failed; "": nothing known."""
        gone = self.gone()
        if gone:
            return gone
        for rank, state in sorted(self.states.items()):
            if state.has_failed:
                return f"rank {rank} has failed: {state.text}"
        return self._board.lost() if self._board.is_lost(_LOST_S) else ""

    def gone(self) -> str:
        """The ranks that left before they came to what this rank has started, or died; or ""."""
        started = [group.started for group in self.groups]
        found = []
        for rank, state in sorted(self.states.items()):
            if state.has_failed:
                continue
            if state.status == LEFT:
                if any(ours > theirs for ours, theirs in zip(started, state.started, strict=False)):
                    found.append(f"rank {rank} has left: {state.text}")
            elif rank in self._dead and time.monotonic() - self._dead[rank] > GRACE_S:
                found.append(f"rank {rank} has left: its process has ended")
        return _listed(found)

    def is_in_vain(self) -> bool:
        """True if this rank leaves, and others have not started what it waits for."""
        if self.leaving_s is None or time.monotonic() < self.leaving_s + LEAVING_S:
            return False
        started = [group.started for group in self.groups]
        return any(
            ours > theirs
            for state in self.states.values()
            for ours, theirs in zip(started, state.started, strict=False)
        )

    def listen(self, listener: Listener) -> None:
        """Lets an engine hear of trouble while something is under way. It is not kept."""
        self._listener = weakref.ref(listener)

    def _engine(self) -> Any:
        return None if self._listener is None else self._listener()

    # --- After a failure.

    def explained(self, error: BaseException) -> RuntimeError:
        """A failure of this rank with the ranks that are behind it; tells the others of it."""
        found = self.cause(error)
        call = _present_call()
        return RuntimeError(f"{call}: {error}; {found}" if found else f"{call}: {error}")

    def cause(self, error: BaseException) -> str:
        """The ranks behind a failure of this one, or ""; tells the others of it."""
        if _DIFFER.search(str(error)):
            return self.disagreement()
        if self.leaving_s is None:
            self.report(str(error))
        return self.missing()

    def disagreement(self) -> str:
        """Ranks have come to different calls: each rank's, in words; tells the others of it."""
        call = _present_call()
        self._report(f"it called {call}, and others another collective", call)
        self._await(lambda state: state.status in (FAILED, LEFT))
        told = {self.rank: f"rank {self.rank} called {call}"}
        for rank, state in self.states.items():
            has_told = state.status in (FAILED, LEFT) and state.call
            its = f"rank {rank} called {Call(state.call, state.place)}"
            told[rank] = its if has_told else self._where(rank)
        listed = _listed([told[rank] for rank in sorted(told)])
        return f"all ranks must make the same collective calls: {listed}"

    def _await(self, is_enough: Callable[[State], bool]) -> None:
        """Waits for states of the other ranks, PATIENCE_S at most."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and not self._board.is_lost(0.0):
            self._read()
            self._look_for_dead()
            states = [self.states.get(rank) for rank in self._others() if rank not in self._dead]
            if all(state is not None and is_enough(state) for state in states):
                return
            time.sleep(0.02)

    def missing(self) -> str:
        """The ranks that are behind a failure of this one, and where they are; "": not known.

        Waits for their answers, PATIENCE_S at most, unless ranks are known to be gone.
        """
        self._read()
        self._look_for_dead()
        gone = [self._where(rank) for rank in self._others() if self._is_gone(rank)]
        if gone:
            return _listed(gone)
        self._await(lambda state: state.number > 1 or state.process.is_stopped())
        found = [self._where(rank) for rank in self._others()]
        return _listed([one for one in found if one])

    def _is_gone(self, rank: int) -> bool:
        """True if a rank has died, or left without a failure: others left because of one."""
        state = self.states.get(rank)
        if state is None or state.has_failed:
            return False
        return state.status == LEFT or rank in self._dead

    def _others(self) -> Iterable[int]:
        return (rank for rank in range(self.size) if rank != self.rank)

    def _where(self, rank: int) -> str:
        """The position of a rank, in words; "": it has failed in the same call."""
        state = self.states.get(rank)
        if state is None:
            return (
                f"rank {rank} does not answer"
                if self._own.status == FAILED
                else f"rank {rank} has not come"
            )
        if state.has_failed:
            call = Call(state.call, state.place)
            is_same = call.name in ("", main_call().name)
            return "" if is_same else f"rank {rank} has failed in {call}"
        if state.status == LEFT:
            return f"rank {rank} has left: {state.text}"
        if rank in self._dead:
            return f"rank {rank} has left: its process has ended"
        if state.process.is_stopped():
            return f"rank {rank} does not answer: its process is stopped"
        if state.status == WAITS:
            call = Call(state.call, state.place)
            return f"rank {rank} waits in {call}"
        if state.number > 1:
            at = f": it is at {state.place}" if state.place else ""
            inside = f", in {state.call}" if state.call else ""
            return f"rank {rank} has not come{at}{inside}"
        return f"rank {rank} does not answer"

    # --- The thread that watches.

    def look(self) -> None:
        """Learns what others have said, answers, and reports long waits."""
        if self._board.has_changed():
            self._read()
            self._answer()
        engine = self._engine()
        if self._waits or (engine is not None and engine.is_waiting()):
            self._look_for_dead()
            self._report_waits()
        elif self._own.status == WAITS:
            self._post(HERE, main_call())
        if engine is not None and engine.is_waiting() and self.trouble():
            engine.hear()

    def _read(self) -> None:
        """Reads the others' states; into a new dictionary, as any thread may walk through it."""
        found = dict(self.states)
        for rank in self._others():
            text = self._board.read(rank)
            if text:
                found[rank] = State.read(text)
        self.states = found

    def _look_for_dead(self) -> None:
        """Ranks of this host whose processes have ended."""
        if any(rank not in self.states for rank in self._others()):
            self._read()
        for rank, state in list(self.states.items()):
            if state.status != LEFT and rank not in self._dead and state.process.has_ended():
                self._dead[rank] = time.monotonic()

    def _answer(self) -> None:
        """Says where this rank is, if one that waits or has failed wants to know."""
        wanted = False
        for rank, state in self.states.items():
            if (
                state.status in (WAITS, FAILED, LEAVING)
                and self._answered.get(rank) != state.number
            ):
                self._answered[rank] = state.number
                wanted = True
        if wanted and self._own.status not in (WAITS, FAILED, LEFT):
            self._post(self._own.status, main_call())

    def _report_waits(self) -> None:
        now_s = time.monotonic()
        with self._lock:
            wait = min(self._waits, key=lambda one: one.begin_s, default=None)
        if wait is None or now_s - wait.begin_s < REPORT_AFTER_S:
            return
        if wait.posted_s is None:
            wait.posted_s, wait.report_s = now_s, now_s + PATIENCE_S
            wait.call = call_of(wait.thread)
            if self._own.status not in (FAILED, LEFT):
                self._post(WAITS, wait.call)
        if now_s < wait.report_s:
            return
        wait.report_s = now_s + REPORT_AGAIN_S
        watching.write(self._described(wait, now_s))

    def _described(self, wait: Wait, now_s: float) -> str:
        """A wait, and the ranks that have not come to it, in one line."""
        named = str(wait.call) or wait.what
        found = []
        for rank in self._others():
            state = self.states.get(rank)
            comes_too = (
                state is not None
                and state.status == WAITS
                and state.call == wait.call.name
                and rank not in self._dead
            )
            if not comes_too:
                found.append(self._where(rank))
        absent = _listed([one for one in found if one]) or "all ranks wait in it"
        return (
            f"pleach: rank {self.rank} has waited for {now_s - wait.begin_s:.0f} s in {named}, for "
            f"{wait.what}: this call is collective, all ranks must make it: {absent}"
        )


class _Board:
    """The states, in the store of a group."""

    def __init__(self, group: dist.ProcessGroup, number: int):
        store: Any = c10d._world.pg_map[group][1]
        with contextlib.suppress(Exception):
            store = store.clone()  # a connection of its own: no wait of others keeps it from asking
            store.set_timeout(datetime.timedelta(seconds=_ANSWER_S))
        self._store: Any = store
        self._prefix = f"pleach/health/{number}"
        self._seen = 0
        self._lost_s: float | None = None
        with contextlib.suppress(RuntimeError):
            store.add(f"{self._prefix}/changes", 0)  # it exists, so that no reader waits for it

    def write(self, rank: int, text: str) -> None:
        """Writes a rank's state, and tells that something has changed."""
        with contextlib.suppress(Exception):
            self._store.set(f"{self._prefix}/{rank}", text)
            self._store.add(f"{self._prefix}/changes", 1)

    def read(self, rank: int) -> str:
        """A rank's state; "": it has written none, or the store does not answer."""
        key = f"{self._prefix}/{rank}"
        try:
            if self._store.check([key]):
                return str(self._store.get(key).decode())
        except Exception:
            self._seen = -1  # so that it is read again
        return ""

    def has_changed(self) -> bool:
        """True if some state has changed since the last time."""
        store = self._store
        if store is None:
            return False
        try:
            changes = int(store.get(f"{self._prefix}/changes"))
        except Exception:
            self._lost_s = self._lost_s or time.monotonic()
            return False
        self._lost_s = None
        before, self._seen = self._seen, changes
        return changes != before

    def is_lost(self, seconds: float) -> bool:
        """True if the store has not answered for so long."""
        return self._lost_s is not None and time.monotonic() - self._lost_s > seconds

    @staticmethod
    def lost() -> str:
        """Why, in words."""
        return "the store of the group does not answer: the process that serves it has ended"

    def close(self) -> None:
        """Lets the connection go."""
        self._store = None


def _present_call() -> Call:
    """The call that this thread is in, or the main one, if this one is the library's."""
    call = call_of()
    return main_call() if call == NO_CALL else call


def _listed(texts: list[str]) -> str:
    more = len(texts) - _MOST_NAMED
    return "; ".join(texts[:_MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
