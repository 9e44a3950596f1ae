"""Tracks which parameters, buffers and states are final, and makes code that uses others wait.

From `step()` until its gate opens a parameter is under a guard, and has NaN in place of its values:
code that PyTorch does not see, such as a C++ extension, cannot read old values unnoticed.
"""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence

import torch

from .aliases import find_aliases
from .engine import Engine
from .exposed_state import ExposedState
from .guard import Guard, guard_of
from .layout import Layout


@dataclasses.dataclass(frozen=True)
class Followed:
    """The tensors that are guarded, once training has begun.

    Attributes:
        layout: The places of the parameters.
        engine: Brings the parameters.
        state: The optimizer's state.
        members_of: By layer, the members behind its gate.
        index_of: Members, by the identity of their parameters.
    """

    layout: Layout
    engine: Engine
    state: ExposedState
    members_of: Sequence[Sequence[int]]
    index_of: Mapping[int, int]


class Finality:
    """Guards a training's tensors between `step()` and the next forward.

    The training thread puts guards. Any thread that uses a tensor lifts them.

    Attributes:
        guard: Guards all of these tensors. None: code that uses them does not wait.
    """

    def __init__(
        self,
        names: Mapping[torch.nn.Parameter, str],
        synchronize: Callable[[], None],
        take_buffers: Callable[[], None],
        is_lazy: bool,
        is_checked: bool,
    ):
        """Guards nothing yet.

        Args:
            names: Names of the parameters.
            synchronize: Returns when everything is final.
            take_buffers: Returns when buffers are final.
            is_lazy: True: code that uses tensors does not wait.
            is_checked: With is_lazy, their use is an error.
        """
        self._names = names
        self._synchronize = synchronize
        self._take_buffers = take_buffers
        self._is_lazy = is_lazy
        self._followed: Followed | None = None
        self._lock = threading.RLock()  # any thread may use a guarded tensor
        self._guarded: set[int] = set()  # layers
        self.guard = self._make_guard(is_checked)

    def _make_guard(self, is_checked: bool) -> Guard | None:
        held = weakref.ref(self)

        def await_value(tensor: torch.Tensor) -> None:
            finality = held()
            if finality is not None:
                finality.await_value(tensor)

        def await_all() -> None:
            finality = held()
            if finality is not None:
                finality._synchronize()

        def refuse(tensor: torch.Tensor | None = None) -> None:
            finality = held()
            name = "a tensor" if finality is None else finality._name_of(tensor)
            raise RuntimeError(
                f"{name} is used between step() and the next forward, where it is not final with "
                "lazy=True: call optimizer.synchronize() first, or leave lazy out"
            )

        if not self._is_lazy:
            return Guard(await_value, await_all)
        return Guard(refuse, refuse, waits=False) if is_checked else None

    def _name_of(self, tensor: torch.Tensor | None) -> str:
        for parameter, name in self._names.items():
            if parameter is tensor:
                return f"parameter {name}"
        return "a buffer, or an entry of the optimizer's state,"

    def follow(self, followed: Followed) -> None:
        """Training begins."""
        self._followed = followed

    @property
    def is_on(self) -> bool:
        """True if parameters are guarded."""
        return bool(self._guarded)

    def note_arrival(self, layers: Sequence[int]) -> None:
        """Layers are in place anew: a reader of older values finds out in backward.

        Nothing has read those that are guarded since put(). The engine's thread calls this with the
        engine's lock held: it takes no other.
        """
        followed = self._followed
        assert followed is not None
        members = [
            member
            for layer in layers
            if layer not in self._guarded
            for member in followed.members_of[layer]
        ]
        torch.autograd.graph.increment_version(
            [followed.layout.members[member].parameter for member in members]
        )

    def put(self) -> None:
        """A step is under way: no parameter and no state is final."""
        followed = self._followed
        if followed is None or self.guard is None:
            return
        layout = followed.layout
        if layout.has_aliases() and not self._is_lazy:
            self._synchronize()  # no guard protects the values of an alias
            return
        parameters = [member.parameter for member in layout.members]
        # A graph that has saved them is out of date, as after any step.
        torch.autograd.graph.increment_version(parameters)
        with self._lock:
            self._guarded = set(range(layout.layer_count))
            are_all = self.guard.put(parameters, layout.hidden())
            is_state_guarded = followed.state.guard(self.guard)
        if not is_state_guarded:
            followed.engine.await_updates()
        if not are_all and not self._is_lazy:  # the user has changed the class of one
            self._synchronize()

    def check(self) -> None:
        """The parameters can be guarded after a step that is about to begin.

        Raises:
            RuntimeError: An extension has written where no value was, or a tensor shares a
                parameter's memory and its users are not to wait.
        """
        followed = self._followed
        if followed is None or self.guard is None:
            return
        followed.layout.check_hidden()
        if not self._is_lazy or not followed.layout.has_aliases():
            return
        for alias in find_aliases(self._names):
            if alias.tensor.grad_fn is None:
                raise RuntimeError(
                    f"{alias}: its values are not final between step() and the next forward with "
                    "lazy=True; drop it, or leave lazy out"
                )

    def await_value(self, tensor: torch.Tensor) -> None:
        """Returns when a guarded tensor is final."""
        followed = self._followed
        if followed is not None and id(tensor) in followed.index_of:
            self.open(followed.layout.members[followed.index_of[id(tensor)]].layer)
            return
        self._take_buffers()
        if guard_of(tensor) is not None and followed is not None:  # of the optimizer's state
            followed.engine.await_updates()
            self.lift_state()

    def open(self, layer: int) -> None:
        """Returns when a layer's parameters are final: its gate."""
        followed = self._followed
        assert followed is not None
        followed.engine.wait_for(layer)
        with self._lock:  # another thread may be lifting these guards
            if layer in self._guarded:
                self._guarded.discard(layer)
                self._lift(followed, followed.members_of[layer])

    def lift_all(self) -> None:
        """Everything is final."""
        followed = self._followed
        if followed is None:
            return
        with self._lock:
            layers, self._guarded = self._guarded, set()
            if layers:
                members = [one for layer in layers for one in followed.members_of[layer]]
                self._lift(followed, members)
            self.lift_state()

    def lift_state(self) -> None:
        """The optimizer's state is final."""
        if self._followed is not None and self.guard is not None:
            with self._lock:
                self._followed.state.lift(self.guard)

    def _lift(self, followed: Followed, members: Sequence[int]) -> None:
        assert self.guard is not None
        layout = followed.layout
        parameters = [layout.members[one].parameter for one in members]
        self.guard.lift(parameters, [layout.value(one) for one in members])
