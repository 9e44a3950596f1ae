"""Data parallelism whose gradients travel by a policy, over any process group."""

from __future__ import annotations

import atexit
import dataclasses
import multiprocessing.util
import os
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from .adoption import ParallelOptimizer, adopt_model, adopt_optimizer
from .choosing import Choice, plan
from .comm_hook import hook
from .comparing import check_model, check_modules, compare, describe, share_values
from .costs import Costs, measure_costs, time_collectives
from .explaining import Explanation
from .farewell import end_all, reason_of_end
from .first_use import is_compiled
from .group_calls import GroupCalls
from .groups import Groups, make_groups
from .options import Options, Resources
from .profiling import Profile, profile
from .trainer import Trainer
from .wrappers import is_in_training, patch_wrappers

__all__ = [
    "Choice",
    "Costs",
    "Explanation",
    "Profile",
    "data_parallel",
    "hook",
    "measure_costs",
    "plan",
    "profile",
]

# What collectives are measured up to at creation: what is larger follows their slope.
MOST_BYTES = 16 << 20
# Policies whose plans follow from what collectives cost.
PLAN_BY_COST = frozenset({"auto", "mg_wfbp", "prophet", "work_conserving"})

_TRAINERS: weakref.WeakSet[Trainer] = weakref.WeakSet()
_leaving: set[int] = set()  # processes that say farewell, and not those they were forked from


def data_parallel(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    policy: str = "dear",
    *,
    process_group: dist.ProcessGroup | None = None,
    gather: str = "parameters",
    whole_tensor: bool | None = None,
    broadcast_buffers: bool = True,
    channel_width: int = 2,
    check: bool = False,
    profile: Profile | None = None,
    costs: Costs | None = None,
    replan: bool = True,
    lazy: bool = False,
) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Trains the same model on all ranks of a group, each on its part of a batch.

    Collective: all ranks of the group call it, with models and optimizers that are alike. They get
    the first rank's parameters, buffers and optimizer state. A step is then what one process would
    make of the whole batch, if the loss is a mean over it. `step()` returns before communication
    has ended, and the next forward waits, layer by layer, for the parameters that it needs. Other
    code that uses a parameter, a buffer or the optimizer's state waits for its final value.

    Args:
        model: On one device. It stays the same object, its parameters too; they become views of
            flat buffers after the first backward pass.
        optimizer: Of all of its parameters that take gradients. torch's own are run on this
            rank's shards, or on the tensors that this rank owns. Others run their step() once,
            on whole averaged gradients, on every rank, before step() returns.
        policy: As `pleach train --policy`: `dear,bucket=25MiB`, `work_conserving`, `ddp`, ...; or
            `auto`: what `plan` chooses for the profile.
        process_group: The ranks; the default group's. Two groups of the same ranks are made.
        gather: `parameters` that were updated in shards, or `gradients`, which every rank updates
            everything with.
        whole_tensor: False declares that the update of an element depends on no other element:
            an optimizer that is not torch's own then runs its step() once on this rank's shards.
        broadcast_buffers: True if the first rank's buffers become every rank's after a step.
        channel_width: Collectives on the wire at once, >= 1.
        check: Compares the ranks' parameters and the optimizer's settings at every step, which then
            raises ValueError where they differ, and fills what has not been gathered with NaN. With
            `lazy`, use of a tensor that is not final is an error.
        profile: Of the model, for policies that plan with times; None: those of the first
            iterations, from which on there is a new plan. The first rank's counts.
        costs: Of the group's collectives, for the same; None: measured now where the policy asks.
        replan: True for another plan when iterations take 15 % more or less than they did.
        lazy: Nothing but the next forward waits. Values that are read after `step()` may be old,
            and what is written to them may be lost; `optimizer.synchronize()` waits for all.

    Returns:
        The model and the optimizer.

    Raises:
        ValueError: What cannot be trained so, or differs between ranks; on all ranks, naming it.
        RuntimeError: Communication has failed.
    """
    if not dist.is_initialized():
        raise ValueError("data_parallel: call torch.distributed.init_process_group first")
    parent = process_group if process_group is not None else dist.group.WORLD
    assert parent is not None
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    options = Options(
        policy,
        gather == "gradients",
        whole_tensor,
        broadcast_buffers,
        channel_width,
        check,
        replan,
        lazy,
    )
    groups = make_groups(parent, device)
    try:
        groups.exchange.agree_on_success(lambda: _check(model, optimizer, gather, channel_width))
        compare(groups.exchange, describe(model, optimizer, dataclasses.asdict(options)))
        share_values(groups.exchange, model, optimizer)
        costs, options = _plan_ahead(groups, model, options, profile, costs)
        resources = Resources(_allocator(groups.calls, device), profile, costs)
        trainer = Trainer(model, optimizer, groups, options, resources)
    except BaseException as error:
        groups.destroy(f"data_parallel() has failed: {type(error).__name__}: {error}")
        raise
    adopt_optimizer(optimizer, trainer)
    adopt_model(model, trainer)
    patch_wrappers()
    _TRAINERS.add(trainer)
    _leave_in_order(trainer)
    return model, optimizer


def _check(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, gather: str, channel_width: int
) -> None:
    """What this rank can tell by itself."""
    if gather not in ("parameters", "gradients"):
        raise ValueError(f"gather is {gather!r}: it is 'parameters' or 'gradients'")
    if channel_width < 1:
        raise ValueError(f"channel_width is {channel_width}: at least 1 collective travels")
    if isinstance(optimizer, ParallelOptimizer):
        raise ValueError("the optimizer is data parallel already: make another one")
    if is_in_training(model):
        raise ValueError("the model is data parallel already: close() its optimizer first")
    if is_compiled(model):
        raise ValueError(
            "the model is compiled as a whole, so its gradients come all at the end of backward: "
            "compile its blocks, one by one"
        )
    check_modules(model)
    check_model(model, optimizer)


def _plan_ahead(
    groups: Groups,
    model: torch.nn.Module,
    options: Options,
    profile: Profile | None,
    costs: Costs | None,
) -> tuple[Costs | None, Options]:
    """Measures what the policy asks for, and chooses one where that is left to us. Collective."""
    exchange, name = groups.exchange, options.policy.split(",")[0]
    if name in PLAN_BY_COST and exchange.share(lambda: costs is None):
        sizes = [parameter.nbytes for parameter in model.parameters() if parameter.requires_grad]
        device = next(model.parameters()).device
        costs = time_collectives(groups.calls, exchange, device, min(sum(sizes), MOST_BYTES))
    if name != "auto":
        return costs, options

    def choose() -> str:
        if profile is None:
            raise ValueError("policy auto: give the model's profile (pleach.torch.profile)")
        assert costs is not None
        return plan(profile, costs).policy

    return costs, dataclasses.replace(options, policy=exchange.share(choose))


def _allocator(calls: GroupCalls, device: torch.device) -> Callable[..., torch.Tensor]:
    """Of memory that the group's backend prefers, where it has any on that device."""
    if calls.group._get_backend(device).supports_tensor_alloc(device):
        # It holds no backend, whose endpoint would outlive the group.
        return lambda size, dtype, on: calls.group._get_backend(device).allocate_tensor(
            size, dtype=dtype, device=on
        )
    return lambda size, dtype, on: torch.empty(size, dtype=dtype, device=on)


class _Farewell:
    """Ends trainings before their process groups go: destroy_process_group finalizes it."""

    def finalize(self) -> None:
        """Ends what is under way, and tells the ranks that still wait."""
        end_all(list(_TRAINERS), "it destroyed its process groups")


def _leave_in_order(trainer: Trainer) -> None:
    communicators: list[Any] = c10d._world.comms
    if not any(isinstance(one, _Farewell) for one in communicators):
        communicators.append(_Farewell())
    if os.getpid() not in _leaving:
        _leaving.add(os.getpid())
        # Only now: a child of multiprocessing forgets what its parent has registered, and does not
        # get to atexit. It ends trainings before the backend's groups.
        multiprocessing.util.Finalize(None, _leave, exitpriority=1)


def _leave() -> None:
    """Ends the trainings of a process that ends."""
    if os.getpid() not in _leaving:  # a forked child: the trainings are its parent's
        return
    end_all(list(_TRAINERS), reason_of_end())


atexit.register(_leave)
