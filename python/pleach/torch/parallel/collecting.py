"""Collects gradients as backward computes them, and says when a layer's are complete on this rank.

A backward pass ends with every parameter accounted for: those that it did not reach count as zeros,
so that all ranks reduce the same. Gradients may come in several passes before a step. How many is
learnt from the step before, and reductions begin in the last of them; what comes after its layer
was handed over is late: it is kept, and reduced by itself when the step is asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence

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
    """

    updates_early: bool
    settings: Callable[[], Settings]


@dataclasses.dataclass
class _Iteration:
    """What has come since the last step."""

    local: list[bool]  # by member: its view holds some of this rank's gradient
    fired: list[bool]  # by member: in any pass
    reported: list[bool]  # by layer: handed over to be reduced
    missing: list[int]  # by layer: members that have not fired in this pass
    late: dict[int, torch.Tensor] = dataclasses.field(default_factory=dict)  # by member
    dropped: set[int] = dataclasses.field(default_factory=set)  # members cleared when reduced
    zeroed: set[int] = dataclasses.field(default_factory=set)  # members set to zero meanwhile
    idle: set[int] = dataclasses.field(default_factory=set)  # those of them that had no gradient
    absent: set[int] = dataclasses.field(default_factory=set)  # members known to have no gradient
    carried: set[int] = dataclasses.field(default_factory=set)  # members of an older average
    averages: dict[int, torch.Tensor] = dataclasses.field(default_factory=dict)  # by atom: theirs
    settings: Settings | None = None
    passes: int = 0
    is_agreed: bool = False  # what has come so far is being agreed on
    has_stepped: bool = False


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
        self.cleared: set[int] = set()  # members whose gradients were set to zero, not to None
        self._engine = engine
        self._complete = complete
        self._stand_ins = stand_ins
        self._views = [layout.gradient(member) for member in range(len(layout.members))]
        self._members_of: list[list[int]] = [[] for _ in range(layout.layer_count)]
        for index, member in enumerate(layout.members):
            self._members_of[member.layer].append(index)
        self._expected = 1  # passes before a step
        self._fired_now: set[int] = set()  # members, in the present pass
        self._has_gradient = [False] * len(layout.members)  # on some rank, when last agreed
        self._drops = 0  # iterations whose gradients were cleared before their step
        self._now = self._nothing()

    def _nothing(self) -> _Iteration:
        members, layers = len(self.layout.members), len(self._members_of)
        return _Iteration([False] * members, [False] * members, [False] * layers, [0] * layers)

    # --- Hooks.

    def will_accumulate(self, member: int) -> None:
        """Before autograd adds to a parameter's gradient."""
        now, parameter = self._now, self.layout.members[member].parameter
        is_reported = now.reported[self.layout.members[member].layer]
        now.zeroed.discard(member)
        now.absent.discard(member)
        if parameter.grad is None or member in self.cleared:
            if is_reported:
                now.dropped.add(member)
                now.late.pop(member, None)
            now.carried.discard(member)
            now.local[member] = False
            self.cleared.discard(member)
            parameter.grad = None
        elif parameter.grad is self._stand_ins[member]:
            may_add = now.local[member] and not is_reported
            parameter.grad = self._views[member] if may_add else None

    def has_accumulated(self, member: int) -> None:
        """After that: takes the gradient, and leaves its stand-in."""
        now, parameter = self._now, self.layout.members[member].parameter
        gradient, layer = parameter.grad, self.layout.members[member].layer
        assert gradient is not None
        if gradient.requires_grad:
            raise RuntimeError(
                f"the gradient of {self.layout.members[member].name} has a graph of its own: "
                "pleach.torch cannot differentiate twice"
            )
        if gradient.layout is not torch.strided:
            raise RuntimeError(
                f"the gradient of {self.layout.members[member].name} is sparse: pleach.torch "
                "reduces dense ones"
            )
        parameter.grad = self._stand_ins[member]
        now.fired[member] = True
        if now.reported[layer]:
            self._keep_late(member, gradient)
            return
        view = self._views[member]
        if gradient.data_ptr() != view.data_ptr():
            view.copy_(gradient)
        now.local[member] = True
        if member not in self._fired_now:
            self._fired_now.add(member)
            now.missing[layer] -= 1
            if now.missing[layer] == 0 and self._may_report():
                self._report(layer)

    def _keep_late(self, member: int, gradient: torch.Tensor) -> None:
        name = self.layout.members[member].name
        if self.rights.updates_early:
            allowed = "allows one pass before a step"
            if member in self._fired_now:
                allowed = "uses what use_reentrant=True recomputes once in a pass"
            raise RuntimeError(
                f"another gradient of {name} came after it was used: gathers=early updates in "
                f"backward, and {allowed}"
            )
        late = self._now.late
        late[member] = late[member] + gradient if member in late else gradient.detach()

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
                raise RuntimeError(
                    f"{name} is needed again after its gradient was used: gathers=early updates in "
                    "backward, and uses what use_reentrant=True recomputes once in a pass"
                )

    # --- Passes.

    def begin_pass(self) -> None:
        """A backward pass begins."""
        if self._now.has_stepped:
            self._engine.flush()
            self._forget()
            self._carry()
        elif self._are_cleared():
            if any(self._now.reported):
                self._drop()
            self._forget()
        self._fired_now.clear()
        self._now.is_agreed = False
        self._now.missing = [len(members) for members in self._members_of]
        self._now.passes += 1 if self.is_synchronous else 0

    def end_pass(self) -> None:
        """It has ended."""
        if self._may_report():
            self.complete()
        else:
            self._stand_in_for(range(len(self.layout.members)))

    def _forget(self) -> None:
        self._now = dataclasses.replace(self._nothing(), settings=self._now.settings)

    def _drop(self) -> None:
        """What was reduced has been cleared before its step."""
        if self.rights.updates_early:
            raise RuntimeError(
                "gradients were cleared before their step: gathers=early has used them already"
            )
        self.complete()
        self._engine.repeat()
        self._drops += 1

    def _are_cleared(self) -> bool:
        return all(
            member.parameter.grad is None or index in self.cleared
            for index, member in enumerate(self.layout.members)
        )

    def _carry(self) -> None:
        """Keeps the averages of the last step that nobody has cleared: more is added to them."""
        self.drop_unused()
        self._now.carried = {
            index
            for index, member in enumerate(self.layout.members)
            if member.parameter.grad is self._stand_ins[index] and index not in self.cleared
        }
        if self._now.carried and self.rights.updates_early:
            name = self.layout.members[min(self._now.carried)].name
            raise RuntimeError(
                f"the gradient of {name} has not been cleared since the last step: gathers=early "
                "has used it"
            )
        self._now.averages = {
            index: self._flat(index).clone() for index in self._atoms_of(self._now.carried)
        }

    def drop_unused(self) -> None:
        """Takes the stand-ins of gradients away that no rank has had, when that was agreed."""
        for index, member in enumerate(self.layout.members):
            if member.parameter.grad is self._stand_ins[index] and not self._has_gradient[index]:
                member.parameter.grad = None
                self.cleared.discard(index)
                self._now.absent.add(index)

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
        self._complete(layer)
        self._engine.gradient_ready(layer, doubtful)

    def adopt(self, members: Sequence[int]) -> None:
        """A pass has begun unwatched: its gradients are where autograd leaves them.

        Args:
            members: Those that it reached.
        """
        self.begin_pass()
        for member in members:
            if self.layout.members[member].parameter.grad is not None:
                self.has_accumulated(member)

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
        now = self._now
        if not now.has_stepped:
            self._drop_cleared()
        for layer, members in enumerate(self._members_of):
            if now.reported[layer]:
                continue
            for member in members:
                is_gone = self.layout.members[member].parameter.grad is None
                if is_gone:
                    now.fired[member] = False
                if is_gone or member in self.cleared:
                    now.local[member] = False
                    now.carried.discard(member)
                now.zeroed.discard(member)
            doubtful = [member for member in members if not now.local[member]]
            for member in doubtful:
                self._views[member].zero_()
            self._report(layer, doubtful)
            self._stand_in_for(doubtful)

    def _stand_in_for(self, members: Iterable[int]) -> None:
        """Has gradients that this rank has none of stood in for, until all ranks have agreed."""
        for member in members:
            parameter = self.layout.members[member].parameter
            if parameter.grad is None:
                self.cleared.discard(member)
                self._now.absent.discard(member)
                parameter.grad = self._stand_ins[member]

    def clear(self, member: int) -> None:
        """A gradient was set to zero."""
        now = self._now
        if not (now.fired[member] or member in now.carried or member in self.cleared):
            now.idle.add(member)
        self.cleared.add(member)
        now.zeroed.add(member)

    def _drop_cleared(self) -> None:
        """Takes those out of the averages that were cleared, on all ranks, after they were reduced.

        Raises:
            RuntimeError: They have been used already.
        """
        now = self._now
        for index, member in enumerate(self.layout.members):
            has_gone = member.parameter.grad is None and index not in now.absent
            if not now.reported[member.layer] or not (has_gone or index in now.zeroed):
                continue
            if self.rights.updates_early:
                raise RuntimeError(
                    f"the gradient of {member.name} was cleared before its step: gathers=early has "
                    "used it already"
                )
            if has_gone:
                now.fired[index] = False
            now.zeroed.discard(index)
            now.carried.discard(index)
            now.late.pop(index, None)
            now.dropped.add(index)
            now.is_agreed = False
        if not now.is_agreed:
            self._stand_in_for(
                index
                for index, member in enumerate(self.layout.members)
                if now.reported[member.layer]
            )

    @torch.no_grad()
    def clear_used(self) -> None:
        """Sets to zero what was cleared since the step, whose updates have ended, to be read."""
        for member in self.cleared:
            self._views[member].zero_()
        self.cleared.clear()

    def show(self, is_whole: bool) -> None:
        """Puts whole gradients, or their stand-ins, where gradients are."""
        for index, member in enumerate(self.layout.members):
            if member.parameter.grad is not None:
                member.parameter.grad = self._views[index] if is_whole else self._stand_ins[index]

    def has_replaced(self) -> bool:
        """Whether somebody has put gradients of his own in the place of stand-ins."""
        return any(
            member.parameter.grad is not None
            and member.parameter.grad is not self._stand_ins[index]
            for index, member in enumerate(self.layout.members)
        )

    @torch.no_grad()
    def take_replaced(self) -> None:
        """Takes such gradients, whole and the same on all ranks, for the averages."""
        for index, member in enumerate(self.layout.members):
            gradient = member.parameter.grad
            if gradient is not None and gradient is not self._stand_ins[index]:
                if gradient.data_ptr() != self._views[index].data_ptr():
                    self._views[index].copy_(gradient)
                member.parameter.grad = self._stand_ins[index]

    def find(self) -> Agreement | None:
        """What this rank has found, to be agreed on with the others; None: it has been told."""
        if self._now.is_agreed:
            return None
        self._now.is_agreed = True
        used = [self._is_used(index) for index in range(len(self.layout.members))]
        late = [
            index in self._now.late or index in self._now.carried or index in self._now.dropped
            for index in range(len(self.layout.members))
        ]
        # Two more of each: whether this rank has dropped an odd or an even number of iterations.
        odd = self._drops % 2 == 1
        return Agreement([*used, odd, not odd], [*late, False, False])

    def _is_used(self, member: int) -> bool:
        """Whether an optimizer would find a gradient, which this rank knows of."""
        gradient = self.layout.members[member].parameter.grad
        if gradient is None:
            return False
        if gradient is not self._stand_ins[member] or self._now.fired[member]:
            return True
        if member in self.cleared:
            return self._has_gradient[member] and member not in self._now.idle
        return member in self._now.carried

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
                raise RuntimeError(
                    f"the optimizer's settings changed after forward ({change}): gathers=early has "
                    "used those of before"
                )
        self._expected = max(1, self._now.passes)
        self.cleared.clear()  # others may have added to what this rank had set to zero
        self._now.has_stepped = True

    @torch.no_grad()
    def reduce_late(self, agreement: Agreement, calls: GroupCalls, is_whole: bool) -> None:
        """Reduces late gradients of any rank, and adds them to what was reduced before.

        In the engine's thread, when all reductions have ended. Collective, among those of `calls`.
        """
        now = self._now
        atoms = self._atoms_of({index for index, is_late in enumerate(agreement.late) if is_late})
        before = {atom: self._flat(atom).clone() for atom in atoms}
        for index in atoms:
            atom, kept = self.layout.atoms[index], before[index]
            self._flat(index).zero_()
            for part in atom.parts:
                begin = part.place - atom.place
                if part.member in now.dropped:
                    kept[begin : begin + part.length].zero_()
                if part.member in now.carried:
                    kept[begin : begin + part.length].add_(
                        now.averages[index][begin : begin + part.length]
                    )
        for member, gradient in now.late.items():
            self._views[member].copy_(gradient)
        for index in atoms:
            shares = self.layout.atoms[index].shares
            stretch = Stretch(self._flat(index), (shares,))
            for call in calls.all_reduce(stretch) if is_whole else calls.reduce(stretch):
                call().wait()
            calls.divide(stretch, is_whole)
            own = stretch.whole if is_whole else stretch.parts(calls.rank)[0]
            begin = int(own.storage_offset()) - int(stretch.whole.storage_offset())
            own.add_(before[index][begin : begin + own.numel()])
        now.late.clear()
        now.dropped.clear()
        now.carried.clear()
        now.averages.clear()
