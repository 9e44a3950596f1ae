"""PyTorch's own distributed tests, as torch_suite.py runs them.

The tests gate and branch by the backend's name, so BACKEND is gloo; where PLEACH_SUITE_BACKEND has
another, process groups are made with that in its place. Ranks are forked from a server that has
imported all this once.
"""

import functools
import multiprocessing
import os

os.environ["BACKEND"] = "gloo"

import torch
import torch.distributed as distributed
from torch.testing._internal.distributed import distributed_test

WANTED = os.environ.get("PLEACH_SUITE_BACKEND", "gloo")
# The slowest of the tests that pass on Gloo wait for timeouts of their own.
JOIN_DEADLINE_S = 60


def in_place_of_gloo(function, position):
    """Returns `function`, called with WANTED where its argument `backend` is gloo."""

    @functools.wraps(function)
    def call(*arguments, **named):
        arguments = list(arguments)
        if len(arguments) > position and isinstance(arguments[position], str):
            arguments[position] = arguments[position].replace("gloo", WANTED)
        if isinstance(named.get("backend"), str):
            named["backend"] = named["backend"].replace("gloo", WANTED)
        return function(*arguments, **named)

    return call


if WANTED != "gloo":
    distributed.init_process_group = in_place_of_gloo(distributed.init_process_group, 0)
    distributed.new_group = in_place_of_gloo(distributed.new_group, 2)


def run_in(environment, target, arguments, named):
    """Calls `target` with the environment."""
    os.environ.update(environment)
    target(*arguments, **named)


class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    """All of the tests that are shipped."""

    def setUp(self):
        super().setUp()
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])

        def process(target, name, args, kwargs):
            # The server's environment is that of its start; tests tell their ranks by theirs.
            return context.Process(
                target=run_in, name=name, args=(dict(os.environ), target, args, kwargs)
            )

        self._start_processes(process)

    @classmethod
    def _run(cls, rank, test_name, file_name, pipe, **kwargs):
        torch.set_num_threads(1)
        super()._run(rank, test_name, file_name, pipe, **kwargs)
