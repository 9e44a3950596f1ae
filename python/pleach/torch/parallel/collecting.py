"""Collects gradients as backward computes them, and says when a layer's are complete on this rank.

A backward pass ends with every parameter accounted for: those that it did not reach count as zeros,
so that all ranks reduce the same. Gradients may come in several passes before a step. How many is
learnt from the step before, and reductions begin in the last of them; what comes after its layer
was handed over is late: it is kept, and reduced by itself when the step is asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NoReturn

import torch

from .engine import Agreement, Engine
from .gradients import AveragedGradient
from .group_calls import GroupCalls, Stretch
from .layout import Layout
from .updates import Settings, first_change


@dataclasses.dataclass(frozen=True)
class Rights:
    """What a plan allows between backward and step.

    Attributes:
        updates_early: Parameters may be updated in backward: one pass a step, and no gradient is
            there to be read.
        settings: The optimizer's, as they are now.
        divide_before: Prepares a complete gradient of this rank to be summed.
    """

    updates_early: bool
    settings: Callable[[], Settings]
    divide_before: Callable[[torch.Tensor], None] = lambda _gradient: None


@dataclasses.dataclass(slots=True)
class _Gradient:
    """What this rank knows of a member's gradient.

    Its value is the sum of an older average, if that is kept, of what has been handed over to be
    reduced, unless that is dropped, and of this rank's own part. Clearing takes all of them away.
    """

    is_there: bool = False  # it was, when last looked at; as a stand-in, or somebody's own
    exists: bool = False  # an optimizer would find it: on this rank, or on any when last agreed
    is_cleared: bool = False  # it was set to zero since the last pass
    is_kept: bool = False  # the average of the last step counts
    is_local: bool = False  # its view holds this rank's part, or did so when it was handed over
    is_dropped: bool = False  # what was handed over does not count
    late: torch.Tensor | None = None  # this rank's part that came after that


@dataclasses.dataclass
class _Iteration:
    """What has come since the last step, or of that step, when nothing has."""

    reported: list[bool]  # by layer: handed over to be reduced
    missing: list[int]  # by layer: members that have not fired in this pass
    settings: Settings | None
    passes: int = 0
    is_agreed: bool = False  # what has come so far is being agreed on
    has_stepped: bool = False  # nothing has


@dataclasses.dataclass
class _Corrections:
    """What is to be done to the averages, when they are there."""

    late: dict[int, torch.Tensor] = dataclasses.field(default_factory=dict)  # by member: to add
    dropped: set[int] = dataclasses.field(default_factory=set)  # members to set to zero before
    kept: set[int] = dataclasses.field(default_factory=set)  # members of older averages to add
    averages: dict[int, torch.Tensor] = dataclasses.field(default_factory=dict)  # by atom: these


class Collector:
    """One rank's gradients. Hooks call it in the threads of backward, one at a time."""

    def __init__(
        self,
        layout: Layout,
        engine: Engine,
        stand_ins: Sequence[AveragedGradient],
        rights: Rights,
        complete: Callable[[int], None] = lambda _layer: None,
    ):
        """Installs nothing: hooks are to call will_accumulate and has_accumulated.

        Args:
            layout: Where gradients lie.
            engine: Told of layers that are complete.
            stand_ins: By member: what its `grad` is between backward and step.
            rights: Of the present plan.
            complete: Told of layers that have all gradients.
        """
        self.layout = layout
        self.rights = rights
        self.is_synchronous = True  # False: gradients only add up
        self._engine = engine
        self._complete = complete
        self._stand_ins = stand_ins
        self._parameters = [member.parameter for member in layout.members]
        self._views = [layout.gradient(member) for member in range(len(layout.members))]
        self._gradients = [_Gradient() for _ in layout.members]
        self._members_of = layout.members_by_layer()
        self._layer_of = [member.layer for member in layout.members]
        self._expected = 1  # passes before a step
        self._fired_now: set[int] = set()  # members, in the present pass
        self._has_gradient = [False] * len(layout.members)  # on some rank, when last agreed
        self._averages: dict[int, torch.Tensor] = {}  # by atom: of the last step, where kept
        self._corrections = _Corrections()  # of what is being agreed on
        self._drops = 0  # iterations whose gradients were cleared before their step
        self.is_shown = False  # whole gradients are in the place of stand-ins
        self._now = self._begin_iteration(None)

    def _begin_iteration(self, settings: Settings | None) -> _Iteration:
        layers = len(self._members_of)
        return _Iteration([False] * layers, [0] * layers, settings)

    # --- Hooks.

    def will_accumulate(self, member: int) -> None:
        """Before autograd adds to a parameter's gradient."""
        parameter, held = self._parameters[member], self._look(member)
        if parameter.requires_grad and parameter.grad is self._stand_ins[member]:
            may_add = held.is_local and not self._now.reported[self._layer_of[member]]
            parameter.grad = self._views[member] if may_add else None

    def has_accumulated(self, member: int) -> None:
        """After that: takes the gradient, and leaves its stand-in."""
        parameter = self._parameters[member]
        if not parameter.requires_grad:  # since forward: autograd has added nothing
            return
        if parameter.grad is None:  # a function of the user's has given None
            if self._gradients[member].is_there:
                parameter.grad = self._stand_ins[member]
            return
        self._take(member, parameter.grad)
        self._count(member)

    def _take(self, member: int, gradient: torch.Tensor) -> None:
        """Takes what autograd has left: in the view, or anew, which is late if that is reported."""
        name, held = self.layout.members[member].name, self._gradients[member]
        if gradient.requires_grad:
            raise RuntimeError(
                f"the gradient of {name} has a graph of its own: pleach.torch cannot differentiate "
                "twice"
            )
        if gradient.layout is not torch.strided:
            raise RuntimeError(f"the gradient of {name} is sparse: pleach.torch reduces dense ones")
        self._parameters[member].grad = self._stand_ins[member]
        held.is_there = held.exists = True
        held.is_cleared = False
        if not self._now.reported[self._layer_of[member]]:
            view = self._views[member]
            if gradient.data_ptr() != view.data_ptr():
                view.copy_(gradient)
            held.is_local = True
        elif self.rights.updates_early:
            allowed = "allows one pass before a step"
            if member in self._fired_now:
                allowed = "uses what use_reentrant=True recomputes once in a pass"
            self._refuse(
                f"another gradient of {name} came after it was used: gathers=early updates in "
                f"backward, and {allowed}"
            )
        else:
            held.late = gradient.detach() if held.late is None else held.late + gradient

    def _count(self, member: int) -> None:
        """It has come in this pass."""
        layer = self._layer_of[member]
        if member in self._fired_now or self._now.reported[layer]:
            return
        self._fired_now.add(member)
        self._now.missing[layer] -= 1
        if self._now.missing[layer] == 0 and self._may_report():
            self._report(layer)

    def check_recomputed(self, layers: Iterable[int]) -> None:
        """Layers are read in backward, to compute what was not kept of their forward.

        Raises:
            RuntimeError: They have other values by now.
        """
        if not self.rights.updates_early:
            return
        for layer in layers:
            if self._now.reported[layer]:
                name = self.layout.members[self._members_of[layer][0]].name
                self._refuse(
                    f"{name} is needed again after its gradient was used: gathers=early updates in "
                    "backward, and uses what use_reentrant=True recomputes once in a pass"
                )

    def _refuse(self, what: str) -> NoReturn:
        """What early updates have used cannot be taken back: no rank can go on."""
        error = RuntimeError(what)
        self._engine.fail(error)
        raise error

    # --- Clearing.

    def clear(self, member: int) -> None:
        """A gradient was set to zero.

        Raises:
            RuntimeError: It has been used already.
        """
        self._take_away(member)
        self._gradients[member].is_cleared = True

    def _look(self, member: int) -> _Gradient:
        """Finds out whether a gradient was set to None."""
        held = self._gradients[member]
        if held.is_there and self._parameters[member].grad is None:
            self._take_away(member)
            held.is_there = held.exists = False
        return held

    def _take_away(self, member: int) -> None:
        """Nothing that has come so far counts; on any rank, as they all do so."""
        held = self._gradients[member]
        held.is_kept = held.is_local = False
        held.late = None
        if not self._now.reported[self._layer_of[member]]:
            return
        if self.rights.updates_early:
            self._refuse(
                f"the gradient of {self.layout.members[member].name} was cleared before its step: "
                "gathers=early has used it already"
            )
        held.is_dropped = True
        self._now.is_agreed = False

    def _stand_in(self) -> None:
        """Has gradients that this rank has none of stood in for, until all ranks have agreed."""
        for held, parameter, stand_in in zip(
            self._gradients, self._parameters, self._stand_ins, strict=True
        ):
            if parameter.grad is None:
                parameter.grad = stand_in
                held.is_there = True
                held.is_cleared = False

    def drop_unused(self) -> None:
        """All have agreed: takes away the stand-ins of gradients that no rank has had."""
        for held, parameter, stand_in, exists in zip(
            self._gradients, self._parameters, self._stand_ins, self._has_gradient, strict=True
        ):
            if parameter.grad is stand_in:
                held.exists = exists
                if not exists:
                    parameter.grad = None
                    held.is_there = held.is_kept = held.is_cleared = False

    # --- Passes.

    def begin_pass(self) -> None:
        """A backward pass begins."""
        if self._now.has_stepped:
            self._engine.flush()
            self._now = self._begin_iteration(self._now.settings)
            self._keep()
        elif self._are_cleared():
            if any(self._now.reported):
                self._drop()
            self._now = self._begin_iteration(self._now.settings)
        self._fired_now.clear()
        self._now.is_agreed = False
        self._now.missing = [len(members) for members in self._members_of]
        self._now.passes += 1 if self.is_synchronous else 0
        self._take_own()

    def end_pass(self) -> None:
        """It has ended."""
        if self._may_report():
            self.complete()
        else:
            self._stand_in()

    def _are_cleared(self) -> bool:
        """Whether all gradients are, by somebody who begins anew before a step."""
        return all(
            self._look(member).is_cleared or parameter.grad is None
            for member, parameter in enumerate(self._parameters)
        )

    def _drop(self) -> None:
        """What was reduced has been cleared before its step."""
        self.complete()
        self._engine.repeat()
        self._drops += 1
        for held in self._gradients:
            held.is_dropped = False

    def _keep(self) -> None:
        """Keeps the averages of the last step that nobody has cleared: more is added to them."""
        self.drop_unused()
        kept = set()
        for index, (parameter, stand_in) in enumerate(
            zip(self._parameters, self._stand_ins, strict=True)
        ):
            held = self._look(index)
            held.is_kept = held.is_kept and parameter.grad is stand_in
            if held.is_kept:
                kept.add(index)
        if kept and self.rights.updates_early:
            name = self.layout.members[min(kept)].name
            self._refuse(
                f"the gradient of {name} has not been cleared since the last step: gathers=early "
                "has used it"
            )
        self._averages = {atom: self._flat(atom).clone() for atom in self._atoms_of(kept)}

    def _take_own(self) -> None:
        """Takes gradients of somebody's own, in place of stand-ins, for this rank's part."""
        for index, (held, parameter, stand_in) in enumerate(
            zip(self._gradients, self._parameters, self._stand_ins, strict=True)
        ):
            held.is_cleared = False
            gradient = parameter.grad
            if gradient is not None and gradient is not stand_in:
                self._take_away(index)
                self._take(index, gradient)

    def _atoms_of(self, members: Collection[int]) -> list[int]:
        return [
            index
            for index, atom in enumerate(self.layout.atoms)
            if any(part.member in members for part in atom.parts)
        ]

    def _flat(self, atom: int) -> torch.Tensor:
        """An atom's gradients, 1-D."""
        one = self.layout.atoms[atom]
        return self.layout.buffers[one.buffer].gradients[one.place : one.place + one.size]

    def _may_report(self) -> bool:
        return self.is_synchronous and self._now.passes >= self._expected

    def _report(self, layer: int, doubtful: Sequence[int] = ()) -> None:
        if not any(self._now.reported):
            early = self.rights.updates_early
            self._engine.begin(self._now.settings or self.rights.settings() if early else None)
        self._now.reported[layer] = True
        for member in self._members_of[layer]:
            self.rights.divide_before(self._views[member])
        self._complete(layer)
        self._engine.gradient_ready(layer, doubtful)

    def adopt(self, members: Sequence[int]) -> None:
        """A pass has begun unwatched: its gradients are where autograd leaves them.

        Args:
            members: Those that it reached.
        """
        self.begin_pass()
        for member in members:
            if self._gradients[member].is_local:
                self._count(member)

    # --- The training thread's.

    @property
    def has_stepped(self) -> bool:
        """Whether the gradients are used up, and no pass has begun since."""
        return self._now.has_stepped

    def begin_forward(self) -> None:
        """A forward pass begins, whose gradients may be used with the settings of this time."""
        if self.rights.updates_early and (self._now.has_stepped or not any(self._now.reported)):
            self._now.settings = self.rights.settings()

    def complete(self) -> None:
        """No more gradients are to come: hands over what is left, zeros where there are none."""
        if self._now.has_stepped:
            return
        for member in range(len(self._gradients)):
            self._look(member)
        for layer, members in enumerate(self._members_of):
            if self._now.reported[layer]:
                continue
            doubtful = [member for member in members if not self._gradients[member].is_local]
            for member in doubtful:
                self._views[member].zero_()
            self._report(layer, doubtful)
        if not self._now.is_agreed:
            self._stand_in()

    @torch.no_grad()
    def clear_used(self) -> None:
        """Sets to zero what was cleared since the step, whose updates have ended, to be read."""
        for member, view in enumerate(self._views):
            held = self._look(member)
            if held.is_there and not held.is_kept:
                view.zero_()
                held.is_kept = True

    def show(self, is_whole: bool) -> None:
        """Puts whole gradients, or their stand-ins, where gradients are."""
        self.is_shown = is_whole
        for parameter, view, stand_in in zip(
            self._parameters, self._views, self._stand_ins, strict=True
        ):
            if parameter.grad is not None:
                parameter.grad = view if is_whole else stand_in

    def has_replaced(self) -> bool:
        """Whether somebody has put gradients of his own in the place of stand-ins."""
        return any(
            parameter.grad is not None and parameter.grad is not stand_in
            for parameter, stand_in in zip(self._parameters, self._stand_ins, strict=True)
        )

    @torch.no_grad()
    def take_replaced(self) -> None:
        """Takes such gradients, whole and the same on all ranks, for the averages."""
        for index, parameter in enumerate(self._parameters):
            gradient, held = parameter.grad, self._gradients[index]
            if gradient is not None and gradient is not self._stand_ins[index]:
                if gradient.data_ptr() != self._views[index].data_ptr():
                    self._views[index].copy_(gradient)
                parameter.grad = self._stand_ins[index]
                held.is_kept = self._now.has_stepped
                if not held.exists:
                    held.is_there = held.exists = self._has_gradient[index] = True
                    self._now.is_agreed = self._now.has_stepped  # for what follows

    def find(self) -> Agreement | None:
        """What this rank has found, to be agreed on with the others; None: it has been told."""
        if self._now.is_agreed:
            return None
        self._now.is_agreed = True
        used, late, corrections = [], [], _Corrections(averages=self._averages)
        for index, (held, parameter, stand_in) in enumerate(
            zip(self._gradients, self._parameters, self._stand_ins, strict=True)
        ):
            gradient = parameter.grad
            used.append(held.exists or (gradient is not None and gradient is not stand_in))
            late.append(held.is_kept or held.is_dropped or held.late is not None)
            if held.is_kept:
                corrections.kept.add(index)
            if held.is_dropped:
                corrections.dropped.add(index)
            if held.late is not None:
                corrections.late[index] = held.late
            held.is_kept = held.is_dropped = False
            held.late = None
        self._corrections, self._averages = corrections, {}
        # Two more of each: whether this rank has dropped an odd or an even number of iterations.
        odd = self._drops % 2 == 1
        return Agreement([*used, odd, not odd], [*late, False, False])

    def note(self, agreement: Agreement) -> None:
        """What the ranks have found is known. From any thread.

        Raises:
            RuntimeError: Some have dropped gradients that the others step with.
        """
        *used, odd, even = agreement.used
        if odd and even:
            raise RuntimeError(
                "gradients were cleared before their step, on some ranks only: ranks leave out the "
                "same steps, or none"
            )
        self._has_gradient = used

    def step(self) -> None:
        """A step has been asked for: the gradients are used up."""
        if self.rights.updates_early and self._now.settings is not None:
            change = first_change(self._now.settings, self.rights.settings())
            if change:
                self._refuse(
                    f"the optimizer's settings changed after forward ({change}): gathers=early has "
                    "used those of before"
                )
        self._expected = max(1, self._now.passes)
        self._now = self._begin_iteration(self._now.settings)
        self._now.is_agreed = self._now.has_stepped = True
        for held in self._gradients:
            held.is_kept, held.is_local = True, False

    @torch.no_grad()
    def reduce_late(self, agreement: Agreement, calls: GroupCalls, is_whole: bool) -> None:
        """Reduces late gradients of any rank, and adds them to what was reduced before.

        In the engine's thread, when all reductions have ended. Collective, among those of `calls`.
        """
        found, self._corrections = self._corrections, _Corrections()
        atoms = self._atoms_of({index for index, is_late in enumerate(agreement.late) if is_late})
        before = {atom: self._flat(atom).clone() for atom in atoms}
        for index in atoms:
            atom, kept = self.layout.atoms[index], before[index]
            self._flat(index).zero_()
            for part in atom.parts:
                begin = part.place - atom.place
                if part.member in found.dropped:
                    kept[begin : begin + part.length].zero_()
                if part.member in found.kept:
                    kept[begin : begin + part.length].add_(
                        found.averages[index][begin : begin + part.length]
                    )
        for member, gradient in found.late.items():
            calls.divide_before(self._views[member].copy_(gradient))
        for index in atoms:
            shares = self.layout.atoms[index].shares
            stretch = Stretch(self._flat(index), (shares,))
            for call in calls.all_reduce(stretch) if is_whole else calls.reduce(stretch):
                call().wait()
            calls.divide(stretch, is_whole)
            own = stretch.whole if is_whole else stretch.parts(calls.rank)[0]
            begin = int(own.storage_offset()) - int(stretch.whole.storage_offset())
            own.add_(before[index][begin : begin + own.numel()])
