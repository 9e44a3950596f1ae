"""Where a backward pass begins and ends, recomputations of activations within it or not."""

from __future__ import annotations

from collections.abc import Callable

import torch


def in_backward() -> bool:
    """Whether this thread is in a backward pass, as a recomputation of activations is."""
    return torch._C._current_graph_task_id() != -1


class Passes:
    """Tells of backward passes by what joins them.

    A pass is one or several tasks of autograd: what is recomputed in backward may run a backward of
    its own in it. The pass ends when all tasks have that joined it, or enclose what did.
    """

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]):
        """`begin` and `end` are called in the thread that runs backward."""
        self._begin = begin
        self._end = end
        self._tasks: set[int] = set()
        self._has_begun = False

    def enclose(self) -> None:
        """This thread is in a backward pass in which something may join; or nothing does."""
        task = torch._C._current_graph_task_id()
        if task not in self._tasks:
            self._tasks.add(task)
            torch.autograd.Variable._execution_engine.queue_callback(lambda: self._end_task(task))

    def join(self) -> None:
        """This thread is in a backward pass that concerns us."""
        if not self._has_begun:
            self._begin()
            self._has_begun = True
        self.enclose()

    def forget(self) -> None:
        """None is under way: one that has failed has not told of its end."""
        self._tasks.clear()
        self._has_begun = False

    def _end_task(self, task: int) -> None:
        self._tasks.discard(task)
        if self._has_begun and not self._tasks:
            self._has_begun = False
            self._end()
