"""One rank of a data-parallel training: everything that belongs to a model and its optimizer."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import math
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from pleach.policy import SettledPlan

from .accumulation import Accumulations, tell
from .arrangement import Arrangement, Requirements
from .buffers import SharedBuffers
from .clocks import clock_of
from .collecting import Collector, Rights
from .comparing import compare, compare_values, describe_settings
from .engine import Agreement, Engine, Surroundings
from .explaining import Explanation, Span, explain_log, spans_of
from .exposed_state import Division, ExposedState
from .finality import Finality, Followed
from .first_use import Watcher
from .following import (
    Plans,
    Wanted,
    first_policy,
    for_training,
    times_of,
)
from .gradients import AveragedGradient
from .group_calls import GroupCalls, stretches
from .groups import Groups
from .hooks import Hook
from .layer_times import LayerTimer
from .layout import Layout
from .misuse import reason_of_call
from .optimizer_state import gather_state
from .options import Options, Resources
from .passes import Passes, in_backward
from .planning import BucketSearch, DriftWatch, Planner, Proposal, ratio_of_costs
from .program import Gathers
from .streams import streams_of
from .updates import (
    DeclaredOptimizer,
    Kind,
    NoOptimizer,
    Unit,
    UnitOptimizer,
    kind_of,
    settings_of,
)

# That are remembered.
MOST_PROPOSALS = 100


@dataclasses.dataclass
class _Built:
    """What exists once the order of the parameters is known."""

    layout: Layout
    engine: Engine
    collector: Collector
    optimizer: UnitOptimizer
    plans: Plans
    planner: Planner | None  # the first rank's
    members_of: Sequence[Sequence[int]]  # by layer
    index_of: dict[int, int]  # members, by the identity of their parameters
    shards: list[list[torch.Tensor]]  # by member: this rank's parts of its gradient, flat
    state: ExposedState

    @property
    def gathers(self) -> Gathers:
        """What the plans' second halves distribute."""
        return self.plans.wanted.gathers

    @property
    def timer(self) -> LayerTimer | None:
        """What wants to know of layers now."""
        return None if self.planner is None else self.planner.timer


class Trainer:
    """Joins hooks, engine and optimizer. Of the training thread, but for the hooks of backward."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        groups: Groups,
        options: Options,
        resources: Resources,
    ):
        """Hooks into the model's forward and backward. Collective.

        Args:
            model: The same on all ranks, its values too.
            optimizer: Of all of its parameters that take gradients.
            groups: Of the ranks.
            options: The same on all ranks.
            resources: Of this rank.

        Raises:
            ValueError: An optimizer or a policy that cannot be trained with; on all ranks.
        """
        self.model = model
        self.optimizer = optimizer
        self.groups = groups
        self.options = options
        self.policy = for_training(options.policy)
        # That were followed, the last of them.
        self.proposals: collections.deque[Proposal] = collections.deque(maxlen=MOST_PROPOSALS)
        self._resources = resources
        self._base = type(optimizer)
        self._kind = kind_of(optimizer, options.whole_tensor, options.gathers_gradients)
        requirements = Requirements(self.policy, self._kind, options.gathers_gradients)
        self._arrangement = Arrangement(model, optimizer, groups, requirements, resources.allocate)
        self._names = self._arrangement.names
        self._finality = self._make_finality()
        self._is_state_held = False  # its user may hold the optimizer's state since before step 1
        self._is_inside = False  # the optimizer's own step() runs, on its own state
        self._passes = Passes(self._begin_pass, self._end_pass)
        self._watcher: Watcher | None = Watcher(model, list(self._names), self._passes.join)
        self._built: _Built | None = None
        self._is_synchronous = True
        self._first_pass: list[torch.Tensor] = []
        self._forget = weakref.finalize(self, groups.destroy_later)
        self._forget.atexit = False
        self._handles: list[Any] = []  # of all hooks
        self._accumulations = Accumulations(self._arrangement.trained, self)
        self._buffers: SharedBuffers | None = None
        if options.broadcast_buffers:
            self._buffers = SharedBuffers(model, groups.exchange, self._finality.guard)
        self._steps = 0
        self._stepped_s: float | None = None  # when the last step was asked for
        self._has_announced = False  # a proposal, that has not been told
        self._announces = False  # it in the next agreement
        self._agreements: list[concurrent.futures.Future[Agreement]] = []  # of this iteration
        self._handles += [
            model.register_forward_pre_hook(Hook(self._begin_forward), prepend=True),
            model.register_forward_hook(Hook(self._end_forward)),
            model.register_forward_hook(Hook(self._leave_forward), always_call=True),
        ]
        for module in model.modules():
            before = Hook(self._before_state_dict)
            self._handles += [
                module.register_state_dict_pre_hook(before),
                module.register_load_state_dict_pre_hook(before),
            ]

    # --- Hooks.

    def _make_finality(self) -> Finality:
        held = weakref.ref(self)

        def synchronize() -> None:
            trainer = held()
            if trainer is not None:
                trainer.synchronize()

        def take_buffers() -> None:
            trainer = held()
            if trainer is not None:
                trainer._take_buffers()

        lazy, check = self.options.lazy, self.options.check
        return Finality(self._names, synchronize, take_buffers, lazy, check)

    def will_accumulate(self, key: int) -> None:
        """See accumulation.Listener."""
        self._passes.join()
        if self._built is not None:
            self._built.collector.will_accumulate(self._built.index_of[key])

    def has_accumulated(self, key: int, parameter: torch.Tensor) -> None:
        """See accumulation.Listener."""
        if self._built is not None:
            self._built.collector.has_accumulated(self._built.index_of[key])
        else:
            self._first_pass.append(parameter)

    def check_types(self) -> None:
        """See accumulation.Listener."""
        self._arrangement.layout.check_types()

    def _begin_pass(self) -> None:
        if self._built is None:
            return
        if self._built.collector.is_shown:
            raise RuntimeError(
                "backward() inside `with optimizer.whole_gradients():` would add to what is "
                "averaged: call it before or after"
            )
        self._built.collector.begin_pass()
        self._finality.lift_all()
        if self._built.plans.wanted.updates_early:
            self._built.layout.take_moved()
            self._built.state.take()

    def _end_pass(self) -> None:
        if self._built is None:
            self._build()
        assert self._built is not None
        tell(self, self._built.collector.end_pass)
        if (timer := self._built.timer) is not None:
            timer.end_iteration()
        if self._built.plans.wanted.updates_early and self._is_synchronous:
            self._agree()

    def _begin_forward(self, _module: torch.nn.Module, _inputs: Any) -> None:
        if in_backward():
            return
        self._passes.forget()
        self._take_buffers()
        if self._finality.guard is not None:
            self._finality.guard.is_forward = True
        if self._built is None:
            if torch.is_grad_enabled():
                self.check_types()
            return
        if torch.is_grad_enabled():
            self._built.engine.note_forward()
            self._built.collector.begin_forward()
        else:
            self.synchronize()

    def _end_forward(self, _module: torch.nn.Module, _inputs: Any, outputs: Any) -> None:
        if not torch.is_grad_enabled():
            return
        self._watch(outputs)
        if self._built is not None and (timer := self._built.timer) is not None:
            timer.end_forward()

    def _leave_forward(self, *_arguments: Any) -> None:
        if self._finality.guard is not None:
            self._finality.guard.is_forward = False

    def _watch(self, outputs: Any) -> None:
        """A pass from a model's outputs has not ended with a backward that is run in it.

        What is recomputed runs one, which may be the first in the pass that reaches a parameter.
        """
        held = weakref.ref(self)

        def enclose(_gradient: torch.Tensor) -> None:
            trainer = held()
            if isinstance(trainer, Trainer):  # else it was closed
                trainer._passes.enclose()

        for output in torch.utils._pytree.tree_leaves(outputs):
            if isinstance(output, torch.Tensor) and output.grad_fn is not None:
                output.register_hook(enclose)

    def _take_buffers(self) -> None:
        if self._buffers is not None:
            self._buffers.take()

    def _before_state_dict(self, *_arguments: Any) -> None:
        self.synchronize()

    # --- What users ask of it.

    def synchronize(self) -> None:
        """Returns when all parameters and buffers are those of after the last step."""
        self._take_buffers()
        if self._built is not None:
            self._built.engine.flush()
            self._finality.lift_all()

    def set_synchronous(self, is_synchronous: bool) -> None:
        """Whether gradients are reduced, or only add up on this rank."""
        self._is_synchronous = is_synchronous
        if self._built is not None:
            self._built.collector.is_synchronous = is_synchronous

    def _check_parameters(self) -> None:
        """What has been done to parameters since creation is what can be trained."""
        if not self._handles:
            raise RuntimeError("step: this training was closed")
        self._arrangement.check()
        if self._buffers is not None:
            self._buffers.check()
        if self._built is not None:
            self._built.layout.take_moved()
        else:
            self.check_types()

    def step(self, run: Callable[[], Any]) -> Any:
        """Updates the parameters with the gradients that have come; collective.

        Args:
            run: Runs the optimizer's own step(), if that is what updates.

        Returns:
            The value that `run` returns; None if it was not called.
        """
        if self._finality.is_on:  # no backward pass has come since the last step
            self.synchronize()
        self._check_parameters()
        self._finality.check()
        self._passes.forget()
        if self._built is None:
            self._build()
        built = self._built
        assert built is not None
        if not built.plans.wanted.updates_early:
            built.engine.await_updates()
            built.state.take()
        if self.options.check:
            self._compare()
        self._steps += 1
        self._observe()
        if built.collector.has_stepped:  # nothing has come since: what is still there counts again
            built.collector.begin_pass()
        built.collector.complete()
        before, self._agreements = self._agreements, []
        self._agree()
        if built.collector.has_replaced():
            built.engine.finish()
            built.collector.take_replaced()
        result = self._update(run)
        if self._buffers is not None:
            self._buffers.give()
        if self._kind is not Kind.UNKNOWN:  # whose parameters are final
            self._finality.put()
        self._follow_proposal(before)
        if self._kind is Kind.WHOLE_TENSOR:
            self._learn_remote(before)
        if self._steps == 1 and self._is_state_held:
            self.optimizer_state()
        return result

    def _learn_remote(self, agreements: Sequence[concurrent.futures.Future[Agreement]]) -> None:
        """Tells ranks of states that others own, once parameters are used that were not before."""
        built = self._need_built("step")
        if self._steps == 1:
            built.engine.await_updates()
            agreements = [*agreements, *self._agreements]
        if built.state.is_new(used := [one.result().used for one in agreements]):
            built.engine.await_updates()
            built.state.learn_remote(used)

    def _update(self, run: Callable[[], Any]) -> Any:
        """Lets updates begin; returns when the optimizer's own step() has ended, where it runs."""
        built, result = self._need_built("step"), None
        if isinstance(built.optimizer, DeclaredOptimizer):
            built.engine.finish()
            with self.inside():
                result = built.optimizer.step_now(self.optimizer, built.engine.used, run)
        built.collector.step()
        built.engine.step(settings_of(self.optimizer))
        if self._kind is Kind.UNKNOWN:
            built.engine.flush()
            built.collector.drop_unused()
            built.collector.show(is_whole=True)
            try:
                with self.inside():
                    result = run()
            finally:
                built.collector.take_replaced()
                built.collector.show(is_whole=False)
        return result

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """In its `with` block `optimizer.state` is what it holds, and waits for nothing."""
        self._is_inside = True
        try:
            yield
        finally:
            self._is_inside = False

    def optimizer_state(self) -> Any:
        """The optimizer's `state` as its user sees it, when this rank's updates have ended."""
        held = self.optimizer.__dict__["state"]
        if self._built is None or self._is_inside or self._kind is Kind.UNKNOWN:
            self._is_state_held |= self._built is None
            return held
        if self._built.plans.wanted.updates_early and not self._built.collector.has_stepped:
            raise RuntimeError(
                "optimizer.state between backward() and step(): gathers=early is updating it"
            )
        state = self._built.state.read()
        self._finality.lift_state()
        return state

    def _observe(self) -> None:
        """Rank 0 measures its iterations, and may have something to propose."""
        now_s, before_s = time.perf_counter(), self._stepped_s
        self._stepped_s = now_s
        assert self._built is not None
        planner = self._built.planner
        if planner is None or before_s is None or self._has_announced:
            return
        if planner.observe(now_s - before_s):
            self._has_announced = self._announces = True

    def _follow_proposal(self, agreements: Sequence[concurrent.futures.Future[Agreement]]) -> None:
        """Takes what rank 0 announced before the last step, to follow it from the next one on."""
        built = self._built
        assert built is not None
        built.engine.await_known(agreements)
        if not any(one.result().proposes for one in agreements):
            return
        planner, iteration = built.planner, self._steps

        def propose() -> Proposal:
            assert planner is not None
            return planner.propose(iteration)

        proposal: Proposal = self.groups.exchange.share(propose)
        self._has_announced = False
        if proposal.iteration != iteration:
            raise RuntimeError(
                f"rank {self.groups.calls.rank} is at iteration {iteration}, and rank 0 proposes a "
                f"plan from {proposal.iteration} on: a rank has left out a step"
            )
        self.proposals.append(proposal)
        built.engine.follow(built.plans.follow(proposal.settled))

    @contextlib.contextmanager
    def whole_gradients(self) -> Iterator[None]:
        """In its `with` block gradients are whole tensors, which may be changed. Collective.

        What is done to them must be the same on all ranks; it is in effect for the step.
        """
        built = self._need_built("whole_gradients")
        self.check_types()
        reason = self.why_untouchable(0)
        if reason:
            raise RuntimeError(f"whole_gradients: {reason}")
        self.finish()
        if not self.is_whole():
            self.groups.exchange.call_roll("optimizer.whole_gradients()")
            calls = GroupCalls(self.groups.exchange.group, self._device())
            atoms = range(len(built.layout.atoms))
            for stretch in stretches(built.layout, atoms, of_gradients=True):
                for call in calls.distribute(stretch):
                    call().wait()
        built.collector.show(is_whole=True)
        try:
            yield
        finally:
            built.collector.take_replaced()
            built.collector.show(is_whole=False)

    def state(self) -> dict[torch.nn.Parameter, dict[str, Any]]:
        """The optimizer's state as it would be without data parallelism. Collective."""
        built = self._built
        held: dict[Any, dict[str, Any]] = dict(self.optimizer.__dict__["state"])
        if built is None or self._kind is Kind.UNKNOWN:
            return held
        self.synchronize()
        built.state.take()
        members = built.layout.members
        for member in members:  # others are not trained
            held.pop(member.parameter, None)
        if built.gathers is not Gathers.PARAMETERS:
            return held | {
                members[unit.member].parameter: built.optimizer.state(unit)
                for unit in built.optimizer.units
                if built.optimizer.state(unit)
            }
        exchange = self.groups.exchange
        exchange.call_roll("optimizer.state_dict()")
        calls = GroupCalls(exchange.group, self._device())
        states = gather_state(built.optimizer, built.layout, exchange, calls)
        return held | {members[member].parameter: state for member, state in states.items()}

    def load_state(self) -> None:
        """Takes what the optimizer has been given for its state."""
        if self._built is not None:
            self.synchronize()
            self._built.optimizer.take_over(self.optimizer)
            self._built.state.forget()
            if self._kind is Kind.WHOLE_TENSOR:
                self._built.state.learn_remote(())

    def _device(self) -> torch.device:
        return next(iter(self._names)).device

    def _need_built(self, what: str) -> _Built:
        if self._built is None:
            raise RuntimeError(f"{what}: no backward pass has been yet")
        return self._built

    def close(self) -> None:
        """Ends its thread, when what is under way has ended, and takes its hooks away."""
        try:
            if self._buffers is not None:
                self._buffers.close()
            if self._built is not None:
                self._built.engine.stop()
        finally:
            self._finality.lift_all()
            self._arrangement.layout.release()
            self._forget.detach()
            for handle in self._handles:
                handle.remove()
            self._handles.clear()
            self._accumulations.remove()
            if self._watcher is not None:
                self._watcher.stop()
            for parameter in self._arrangement.trained:
                if isinstance(parameter.grad, AveragedGradient):
                    parameter.grad = None

    def explain(self) -> Explanation:
        """What the present plan's collectives did in the last iterations, on this rank."""
        built = self._need_built("explain")
        engine = built.engine
        history = engine.history()
        policy = self.proposals[-1].spec if self.proposals else self.policy
        return explain_log(policy, engine.following.described, history.log, history.starts_ps)

    def spans(self) -> list[Span]:
        """What happened in the last iterations, for a trace."""
        built = self._need_built("trace")
        engine = built.engine
        names = [
            [built.layout.members[index].name for index in members] for members in built.members_of
        ]
        return spans_of(engine.history(), engine.following.described, names, engine.unix_ns)

    # --- Source, of the gradients' stand-ins.

    def finish(self) -> None:
        """See gradients.Source."""
        built = self._built
        assert built is not None
        built.collector.complete()
        self._agree()
        built.engine.finish()
        built.collector.drop_unused()
        if built.collector.has_stepped:
            built.engine.flush()
            built.collector.clear_used()

    def is_whole(self) -> bool:
        """See gradients.Source."""
        return self._built is not None and self._built.gathers is Gathers.NOTHING

    def shards(self, member: int) -> list[torch.Tensor]:
        """See gradients.Source."""
        assert self._built is not None
        return self._built.shards[member]

    def whole(self, member: int) -> torch.Tensor:
        """See gradients.Source."""
        assert self._built is not None
        return self._built.layout.gradient(member)

    def all_reduce(self, values: torch.Tensor, is_maximum: bool) -> torch.Tensor:
        """See gradients.Source."""
        return self.groups.exchange.all_reduce(values, is_maximum)

    def clear(self, member: int) -> None:
        """See gradients.Source."""
        assert self._built is not None
        self._built.collector.clear(member)

    def find_infinities(self) -> None:
        """See gradients.Source. Other ranks' buffers are shared all the same, as after a step."""
        if self._buffers is not None:
            self._buffers.give()

    def why_unreadable(self, member: int) -> str:
        """See gradients.Source."""
        if self.is_whole():
            return ""
        assert self._built is not None
        return (
            f"the gradient of {self._built.layout.members[member].name}: it is scattered over "
            f"{self.groups.calls.size} ranks; read it inside `with optimizer.whole_gradients():`"
        )

    def check_type(self, member: int) -> None:
        """See gradients.Source."""
        self._arrangement.layout.check_type(member)

    def reason_of_call(self, member: int) -> str:
        """See gradients.Source."""
        one = self._arrangement.layout.members[member]
        unseen = self._accumulations.why_unseen(one.parameter, one.name)
        return reason_of_call(self.optimizer, one.name) or unseen

    def why_untouchable(self, member: int) -> str:
        """See gradients.Source."""
        assert self._built is not None
        if not self._built.plans.wanted.updates_early:
            return ""
        return (
            f"the gradient of {self._built.layout.members[member].name}: gathers=early has used it"
        )

    # --- Making it.

    def _build(self) -> None:
        """The first backward pass has ended: lays out the parameters, and begins to train."""
        assert self._watcher is not None
        self.check_types()
        self._watcher.stop()
        waits = self._arrangement.follow(self._watcher.reading)
        self._watcher = None
        layout, gathers = self._arrangement.layout, self._arrangement.gathers
        units = self._arrangement.units()
        wanted = Wanted(self.policy, gathers, self.options.channel_width, self._resources.costs)
        self._follow(layout, Plans(layout, self.groups.calls, wanted, units), units)
        modules = dict(self.model.named_modules())
        for wait in waits:
            gate = Hook(self._gate_of(wait.layers, wait.opens))
            self._handles.append(modules[wait.module].register_forward_pre_hook(gate, prepend=True))
        self._take_over_first_pass()

    def _follow(self, layout: Layout, plans: Plans, units: Sequence[Unit]) -> None:
        """Makes the first plan, and what follows it."""
        exchange = self.groups.exchange
        compare(exchange, layout.lines())
        times = times_of(layout, self._resources.times)
        settled: SettledPlan = exchange.share(
            lambda: plans.settle(first_policy(self.policy, self._arrangement.tuner), times)
        )
        optimizer = _OPTIMIZERS[self._kind](self.optimizer, self._base, layout, units)
        spoils = self.options.check and plans.wanted.gathers is Gathers.PARAMETERS
        engine = Engine(
            plans.follow(settled),
            Surroundings(
                optimizer,
                [member.layer for member in layout.members],
                streams_of(layout.members[0].parameter.device),
                self._reduce_late,
                self._spoil if spoils else _nothing,
                lambda layers: self._finality.note_arrival(layers),  # which close() drops
                self.groups.health,
                self.groups.deadline_s,
            ),
        )
        stand_ins = [
            AveragedGradient(self, index, member.parameter)
            for index, member in enumerate(layout.members)
        ]
        rights = Rights(
            plans.wanted.updates_early,
            lambda: settings_of(self.optimizer),
            self.groups.calls.divide_before,
        )
        collector = Collector(layout, engine, stand_ins, rights, self._complete)
        collector.is_synchronous = self._is_synchronous
        members_of = layout.members_by_layer()
        shards = self._arrangement.shards()
        planner = self._planner(plans, settled, engine, times is not None)
        index_of = {id(member.parameter): index for index, member in enumerate(layout.members)}
        division = Division(
            self._kind,
            plans.wanted.gathers is Gathers.PARAMETERS,
            exchange,
            GroupCalls(exchange.group, self._device()),
            engine.await_updates,
            exchange.call_roll,
        )
        state = ExposedState(self.optimizer, optimizer, layout, division)
        self._built = _Built(
            layout,
            engine,
            collector,
            optimizer,
            plans,
            planner,
            members_of,
            index_of,
            shards,
            state,
        )
        self._finality.follow(Followed(layout, engine, state, members_of, index_of))

    def _planner(
        self, plans: Plans, settled: SettledPlan, engine: Engine, knows_times: bool
    ) -> Planner | None:
        if self.groups.calls.rank != 0:
            return None
        if self._arrangement.tuner is not None:
            return BucketSearch(self._arrangement.tuner, plans.settle)
        if not self.options.replan:
            return None
        layers, device = plans.profile(None).layer_count, self._device()

        def ratio() -> float:
            plan = engine.following.program.plan
            return ratio_of_costs(
                engine.history().log, lambda index: plans.predicted_s(plan[index])
            )

        return DriftWatch(
            self.policy,
            plans.settle,
            lambda: LayerTimer(layers, clock_of(device)),
            settled,
            ratio,
            knows_times,
        )

    def _complete(self, layer: int) -> None:
        """All of a layer's gradients are there."""
        if self._built is not None and (timer := self._built.timer) is not None:
            timer.complete(layer)

    def _gate_of(
        self, layers: tuple[int, ...], opens: int | None
    ) -> Callable[[torch.nn.Module, Any], None]:
        def gate(_module: torch.nn.Module, _inputs: Any) -> None:
            assert self._built is not None
            timer = self._built.timer if torch.is_grad_enabled() else None
            if in_backward():
                self._passes.join()
                self._built.collector.check_recomputed(layers)
            elif timer is not None and opens is not None:
                timer.enter(opens)
            for layer in layers:
                self._finality.open(layer)
            if timer is not None and opens is not None:
                timer.begin(opens)

        return gate

    def _take_over_first_pass(self) -> None:
        """What the first pass has left in the parameters' gradients is collected."""
        built = self._built
        assert built is not None
        built.collector.adopt(sorted({built.index_of[id(one)] for one in self._first_pass}))
        self._first_pass.clear()

    # --- While it runs.

    def _agree(self) -> None:
        """Joins what the ranks have found of this iteration's gradients, once."""
        built = self._built
        assert built is not None
        own = built.collector.find()
        if own is None:
            return
        own = dataclasses.replace(own, proposes=self._announces)
        self._announces = False
        built.engine.await_agreement()

        def note(agreement: Agreement) -> None:
            try:
                built.collector.note(agreement)
            except RuntimeError as error:
                built.engine.fail(error)
            else:
                built.engine.agree(agreement)

        self._agreements.append(self.groups.exchange.agree(own, note, built.engine.fail))

    def _reduce_late(self, agreement: Agreement) -> None:
        built = self._built
        assert built is not None
        built.collector.reduce_late(agreement, self.groups.calls, self.is_whole())

    @torch.no_grad()
    def _spoil(self, atoms: range) -> None:
        """Parameters that others have to bring cannot be used unnoticed until they do."""
        built = self._built
        assert built is not None
        for stretch in stretches(built.layout, atoms, of_gradients=False):
            for rank in range(self.groups.calls.size):
                if rank != self.groups.calls.rank:
                    for part in stretch.parts(rank):
                        part.fill_(math.nan)

    def _compare(self) -> None:
        """All ranks have the same settings and parameters, or learn which differ. Collective."""
        built, exchange = self._built, self.groups.exchange
        assert built is not None
        compare(exchange, describe_settings(self.optimizer))
        built.engine.flush()
        compare_values(
            exchange, {member.name: member.parameter.detach() for member in built.layout.members}
        )


def _nothing(_atoms: range) -> None:
    pass


_OPTIMIZERS: dict[Kind, type[UnitOptimizer]] = {
    Kind.ELEMENTWISE: UnitOptimizer,
    Kind.WHOLE_TENSOR: UnitOptimizer,
    Kind.DECLARED: DeclaredOptimizer,
    Kind.UNKNOWN: NoOptimizer,
}
