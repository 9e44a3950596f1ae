"""Gives a model and an optimizer what data parallelism adds, and leaves them what they are."""

from __future__ import annotations

import collections
import contextlib
import copyreg
import pathlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .closed import forget
from .explaining import Explanation, save_spans
from .trainer import Trainer
from .updates import unhooked_step


def adopt_model(model: torch.nn.Module, trainer: Trainer) -> None:
    """Changes a model's class to one derived from it, whose readers find updated parameters.

    Its methods call those of the class before by name: close() may change the class meanwhile.
    """
    base = type(model)

    class Parallel(base):  # type: ignore[misc, valid-type]
        pleach_trainer = trainer

        def named_parameters(self, *arguments: Any, **keywords: Any) -> Any:
            trainer.synchronize()
            return base.named_parameters(self, *arguments, **keywords)

        def train(self, mode: bool = True) -> Any:
            if not mode:
                trainer.synchronize()
            return base.train(self, mode)

        def apply(self, function: Callable[[torch.nn.Module], None]) -> Any:
            trainer.synchronize()
            return base.apply(self, function)

        def _apply(self, *arguments: Any, **keywords: Any) -> Any:
            trainer.synchronize()
            return base._apply(self, *arguments, **keywords)

        def zero_grad(self, set_to_none: bool = True) -> None:
            trainer.optimizer.zero_grad(set_to_none)

        @contextlib.contextmanager
        def no_sync(self) -> Iterator[None]:
            with no_sync(trainer):
                yield

        def __reduce_ex__(self, protocol: Any) -> Any:
            trainer.synchronize()
            reduced: Any = base.__reduce_ex__(self, protocol)
            _, _, *rest = reduced
            return (copyreg._reconstructor, (base, object, None), *rest)  # type: ignore

    Parallel.__name__, Parallel.__qualname__ = base.__name__, base.__qualname__
    Parallel.__module__ = base.__module__
    model.__class__ = Parallel


def leave_model(model: torch.nn.Module) -> None:
    """Gives a model its own class back."""
    if getattr(type(model), "pleach_trainer", None) is not None:
        model.__class__ = type(model).__bases__[0]


@contextlib.contextmanager
def no_sync(trainer: Trainer) -> Iterator[None]:
    """In its `with` block gradients only add up on this rank."""
    trainer.set_synchronous(False)
    try:
        yield
    finally:
        trainer.set_synchronous(True)


class ParallelOptimizer:
    """What data parallelism adds to an optimizer."""

    trainer: Trainer

    def synchronize(self) -> None:
        """Returns when all parameters are those of after the last step."""
        self.trainer.synchronize()

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """In its `with` block gradients only add up on this rank."""
        return no_sync(self.trainer)

    def whole_gradients(self) -> contextlib.AbstractContextManager[None]:
        """In its `with` block gradients can be read and changed. Collective."""
        return self.trainer.whole_gradients()

    def explain(self) -> Explanation:
        """Per bucket what was exposed on this rank, and what it waited for; to be printed."""
        return self.trainer.explain()

    def save_trace(
        self, path: str | pathlib.Path, beside: str | pathlib.Path | None = None
    ) -> None:
        """Writes what happened on this rank in the last iterations, for Perfetto.

        Args:
            path: The file.
            beside: A trace that torch.profiler has exported; its events are written too.
        """
        save_spans(path, self.trainer.spans(), self.trainer.groups.calls.rank, beside)

    def close(self) -> None:
        """Ends the training, when what is under way has ended, and leaves its groups.

        The model is as it was before data_parallel, but trained; the optimizer is of no more use.
        """
        if self.trainer.groups is None:
            return
        try:
            self.trainer.close()
        finally:  # a training that has failed is left, too
            leave_model(self.trainer.model)
            self.trainer.groups.destroy()
            forget(self.trainer)


def adopt_optimizer(optimizer: torch.optim.Optimizer, trainer: Trainer) -> None:
    """Changes an optimizer's class to one derived from it, whose step is the trainer's."""
    base = type(optimizer)

    class Parallel(ParallelOptimizer, base):  # type: ignore[misc, valid-type]
        _step_supports_amp_scaling = False

        @property
        def state(self) -> Any:
            """The state after the last step. Entries of each element are StateShards."""
            return trainer.optimizer_state()

        @state.setter
        def state(self, state: Any) -> None:
            self.__dict__["state"] = state

        def step(self, closure: Callable[[], Any] | None = None, **options: Any) -> Any:
            if closure is not None:
                closure = _Evaluated(closure, base.__name__)
                options["closure"] = closure
            own = trainer.step(lambda: run(self, **options))
            return closure.loss if closure is not None else own

        def state_dict(self) -> dict[str, Any]:
            """As the plain optimizer's, gathered from all ranks, which all call it."""
            with _whole_state(self, trainer):
                made: dict[str, Any] = super().state_dict()
                return made

        def __reduce_ex__(self, protocol: Any) -> Any:
            """A copy is a plain optimizer, of copies of the parameters. Collective."""
            with _whole_state(self, trainer):
                return _new, (base,), self.__getstate__()

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            """Takes a plain optimizer's, the same on all ranks."""
            with trainer.inside():
                super().load_state_dict(state_dict)
            trainer.load_state()

        def add_param_group(self, param_group: dict[str, Any]) -> None:
            raise RuntimeError(
                f"add_param_group: the parameters of a data-parallel {base.__name__} are fixed; "
                "close() it, and begin anew with another optimizer"
            )

    run = unhooked_step(base)
    Parallel.trainer = trainer
    Parallel.__name__, Parallel.__qualname__ = base.__name__, base.__qualname__
    Parallel.__module__ = base.__module__
    uncompiled = torch.compiler.disable(
        Parallel.step, reason="step() of a data-parallel training communicates"
    )
    Parallel.step = torch.optim.Optimizer.profile_hook_step(uncompiled)  # type: ignore
    Parallel.step.hooked = True  # type: ignore
    optimizer.__class__ = Parallel
    # Fused optimizers say of themselves that they unscale gradients; shards are unscaled before.
    optimizer.__dict__.pop("_step_supports_amp_scaling", None)
    _take_over_step(optimizer)


def _new(kind: type[torch.optim.Optimizer]) -> torch.optim.Optimizer:
    """An optimizer whose attributes are yet to be set: of a copy, or of a file."""
    return kind.__new__(kind)


@contextlib.contextmanager
def _whole_state(optimizer: torch.optim.Optimizer, trainer: Trainer) -> Iterator[None]:
    """In its `with` block an optimizer's state is as without data parallelism. Collective."""
    states = trainer.state()
    whole: dict[Any, dict[str, Any]] = collections.defaultdict(dict)
    for group in optimizer.param_groups:  # in the order in which it would have made them
        for parameter in group["params"]:
            if parameter in states:
                whole[parameter] = states[parameter]
    held, optimizer.__dict__["state"] = optimizer.__dict__["state"], whole
    try:
        with trainer.inside():
            yield
    finally:
        optimizer.__dict__["state"] = held


class _Evaluated:
    """A closure that has been called: an optimizer's own step() gets its loss, once."""

    def __init__(self, closure: Callable[[], Any], name: str):
        with torch.enable_grad():
            self.loss = closure()
        self._name = name
        self._calls = 0

    def __call__(self) -> Any:
        """Returns the loss.

        Raises:
            RuntimeError: The optimizer asks for another gradient in the same step.
        """
        self._calls += 1
        if self._calls > 1:
            raise RuntimeError(
                f"optimizer {self._name} cannot be run by pleach.torch: it evaluates the model "
                "several times a step"
            )
        return self.loss


def _take_over_step(optimizer: torch.optim.Optimizer) -> None:
    """A scheduler that was made before has put a step of its own in front of the class's."""
    if optimizer.__dict__.pop("step", None) is None:
        return
    held = weakref.ref(optimizer)

    def step(*arguments: Any, **keywords: Any) -> Any:
        made: Any = held()
        made._opt_called = True  # what schedulers look for
        return type(made).step(made, *arguments, **keywords)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step  # type: ignore[method-assign]
