"""Which parameters, buffers and states are final, and what makes their users wait.

From `step()` until its gate opens a parameter is under a guard, and has NaN in place of its values:
code that PyTorch does not see, such as a C++ extension, cannot read old values unnoticed.
"""

from __future__ import annotations

import dataclasses
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
    """What is guarded, once training has begun.

    Attributes:
        layout: Where parameters lie.
        engine: Brings them.
        state: The optimizer's.
        members_of: By layer, the members behind its gate.
    """

    layout: Layout
    engine: Engine
    state: ExposedState
    members_of: Sequence[Sequence[int]]


class Finality:
    """Guards a training's tensors between `step()` and the next forward. Of the training thread.

    Attributes:
        guard: Of all of them; None: users do not wait.
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
            names: Of the parameters.
            synchronize: Returns when everything is final.
            take_buffers: Returns when buffers are.
            is_lazy: Users do not wait.
            is_checked: Then their use is an error.
        """
        self._names = names
        self._synchronize = synchronize
        self._take_buffers = take_buffers
        self._is_lazy = is_lazy
        self._followed: Followed | None = None
        self._guarded: set[int] = set()  # layers
        self._layer_of: dict[int, int] = {}  # by the identity of parameters
        self.guard = self._make_guard(is_checked)

    def _make_guard(self, is_checked: bool) -> Guard | None:
        held = weakref.ref(self)

        def settle(tensor: torch.Tensor) -> None:
            finality = held()
            if finality is not None:
                finality.settle(tensor)

        def settle_all() -> None:
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
            return Guard(settle, settle_all)
        return Guard(refuse, refuse, waits=False) if is_checked else None

    def _name_of(self, tensor: torch.Tensor | None) -> str:
        for parameter, name in self._names.items():
            if parameter is tensor:
                return f"parameter {name}"
        return "a buffer, or an entry of the optimizer's state,"

    def follow(self, followed: Followed) -> None:
        """Training begins."""
        self._followed = followed
        members = followed.layout.members
        self._layer_of = {id(member.parameter): member.layer for member in members}

    @property
    def is_on(self) -> bool:
        """True if parameters are guarded."""
        return bool(self._guarded)

    def put(self) -> None:
        """A step is under way: no parameter and no state is final.

        Raises:
            RuntimeError: A tensor shares a parameter's memory, where users are not to wait.
        """
        followed = self._followed
        if followed is None or self.guard is None:
            return
        layout = followed.layout
        if layout.has_aliases():
            if not self._is_lazy:
                self._synchronize()  # no guard protects the values of an alias
                return
            self._refuse_aliases()
        parameters = [member.parameter for member in layout.members]
        # A graph that has saved them is out of date, as after any step.
        torch.autograd.graph.increment_version(parameters)
        self._guarded = set(range(layout.layer_count))
        layout.hide()
        self.guard.put(parameters)
        followed.state.guard(self.guard)

    def _refuse_aliases(self) -> None:
        for alias in find_aliases(self._names):
            if alias.tensor.grad_fn is None:
                raise RuntimeError(
                    f"{alias}: its values are not final between step() and the next forward with "
                    "lazy=True; drop it, or leave lazy out"
                )

    def settle(self, tensor: torch.Tensor) -> None:
        """Returns when a guarded tensor is final."""
        layer = self._layer_of.get(id(tensor))
        if layer is not None:
            self.open(layer)
            return
        self._take_buffers()
        if guard_of(tensor) is not None and self._followed is not None:  # of the optimizer's state
            self._followed.engine.await_updates()
            self.lift_state()

    def open(self, layer: int) -> None:
        """Returns when a layer's parameters are final: its gate."""
        followed = self._followed
        assert followed is not None
        followed.engine.wait_for(layer)
        if layer in self._guarded:
            self._guarded.discard(layer)
            self._lift(followed, followed.members_of[layer])

    def lift_all(self) -> None:
        """Everything is final."""
        followed, layers = self._followed, self._guarded
        if followed is None or not layers:
            return
        self._guarded = set()
        self._lift(followed, [one for layer in layers for one in followed.members_of[layer]])
        self.lift_state()

    def lift_state(self) -> None:
        """The optimizer's state is final."""
        if self._followed is not None and self.guard is not None:
            self._followed.state.lift(self.guard)

    def _lift(self, followed: Followed, members: Sequence[int]) -> None:
        assert self.guard is not None
        self.guard.lift([followed.layout.members[one].parameter for one in members])
        followed.layout.show(members)
