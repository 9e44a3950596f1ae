"""Hooks around the accumulation of parameters' gradients, which survive a change of their type."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from .gradients import AveragedGradient


class Listener(Protocol):
    """Told of accumulations, in the threads of backward, one at a time."""

    def will_accumulate(self, key: int) -> None:
        """Before autograd adds to the gradient of the parameter with this identity."""

    def has_accumulated(self, key: int, parameter: torch.Tensor) -> None:
        """After that."""

    def check_types(self) -> None:
        """Raises if parameters have other types than at creation."""


def tell(listener: Listener, call: Callable[..., None], *arguments: Any) -> None:
    """Calls it; names a parameter whose type has changed, where that is why it raises."""
    try:
        call(*arguments)
    except RuntimeError:
        listener.check_types()
        raise


class Accumulations:
    """The hooks of one training.

    The hook before accumulation belongs to the parameter's node in autograd's graph, which lives as
    it is held here. PyTorch gives a parameter another node when its type or device changes, also
    when that is changed back. The hook after accumulation belongs to the parameter itself: it
    notices the new node, and makes up for the first hook.
    """

    def __init__(self, parameters: Sequence[torch.nn.Parameter], listener: Listener):
        """Hooks into the accumulation of the parameters' gradients.

        Args:
            parameters: They take gradients.
            listener: Held weakly: autograd holds hooks out of the garbage collector's sight.
        """
        self._listener = weakref.ref(listener)
        self._nodes: dict[int, Any] = {}  # by the identity of their parameters
        self._handles: list[Any] = []
        held = weakref.ref(self)
        for parameter in parameters:
            self._handles += self._hook(parameter, held)

    def remove(self) -> None:
        """Takes the hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def why_unseen(self, parameter: torch.Tensor, name: str) -> str:
        """The reason why autograd is adding to a gradient without the first hook; "": it is not."""
        node = torch._C._current_autograd_node()
        if type(node).__name__ != "AccumulateGrad" or node is self._nodes[id(parameter)]:
            return ""
        return (
            f"backward() adds to the gradient of {name}, which had another type or device for a "
            "while: call optimizer.zero_grad() before backward()"
        )

    def _hook(self, parameter: torch.nn.Parameter, held: weakref.ref[Accumulations]) -> list[Any]:
        key, listens = id(parameter), self._listener
        is_announced = False

        def before(_gradients: Any) -> None:
            nonlocal is_announced
            is_announced = True
            listener = listens()
            if listener is not None:
                tell(listener, listener.will_accumulate, key)

        def after(accumulated: torch.Tensor) -> None:
            nonlocal is_announced
            listener, own = listens(), held()
            if listener is None or own is None:
                return
            if not is_announced:
                own._make_up(accumulated, listener, before)
            is_announced = False
            tell(listener, listener.has_accumulated, key, accumulated)

        node = self._nodes[key] = _node_of(parameter)
        return [
            node.register_prehook(before),
            parameter.register_post_accumulate_grad_hook(after),
        ]

    def _make_up(
        self, parameter: torch.Tensor, listener: Listener, before: Callable[[Any], None]
    ) -> None:
        """Autograd has added to a gradient by a node that is not known here.

        Without a stand-in in its place, all that is there now is this rank's own.

        Raises:
            RuntimeError: A stand-in is there, which scattered gradients refuse by themselves.
        """
        listener.check_types()
        gradient = parameter.grad
        if isinstance(gradient, AveragedGradient):
            raise RuntimeError(gradient.source.reason_of_call(gradient.member))
        parameter.grad = None
        before(None)
        parameter.grad = gradient
        node = self._nodes[id(parameter)] = _node_of(parameter)
        self._handles.append(node.register_prehook(before))


def _node_of(parameter: torch.Tensor) -> Any:
    """The node that accumulates a parameter's gradient. The parameter is final."""
    with torch.enable_grad():
        function = parameter.expand_as(parameter).grad_fn
    assert function is not None
    return function.next_functions[0][0]
