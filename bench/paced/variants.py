"""Ways to train a model on the ranks of a job, by name, so that they can be compared in one run.

`POLICY@BACKEND` is pleach.torch.data_parallel over that backend, `POLICY@BACKEND:1` the same with
one collective at a time on the wire, `torch_ddp:MIB@BACKEND` is
DistributedDataParallel with buckets of so many MiB, `fsdp2@BACKEND` is fully_shard of every layer
that keeps parameters after forward (`fsdp2_reshard` does not) and gathers the next layer's ahead.
"""
from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

import pleach.torch
from pleach.torch import Costs, Profile

WIDTH = 2  # collectives on the wire, as data_parallel has it by itself
# Iterations more until a policy's plan stays: `dear_bo` has tried its sizes, others have learnt the
# layers' times.
LEARNING = {"dear_bo": 65, "work_conserving": 40, "mg_wfbp": 40}


class Variant:
    """A model and what trains it."""

    def __init__(
        self, name: str, make_model: Callable[[], torch.nn.Module],
        loss: Callable[[torch.nn.Module], torch.Tensor],
        make_optimizer: Callable[[Sequence[torch.nn.Parameter]], torch.optim.Optimizer],
        known: tuple[Profile, Costs] | None = None,
    ):
        """Makes it.

        Args:
            name: See above.
            make_model: Makes a model of its own.
            loss: What backward begins at.
            make_optimizer: Of parameters.
            known: What the model and the backend's collectives take, for policies that plan by
                that; None: they find out.
        """
        self.name = name
        self.learns = LEARNING.get(name.split("@")[0].split(",")[0], 0)
        if known is not None and not name.startswith("dear_bo"):
            self.learns = 0
        way, _, backend = name.rpartition("@")
        backend, _, width = backend.partition(":")
        group = self._group = dist.new_group(backend=backend)
        self.model = make_model()
        self._loss = loss
        if way.startswith("torch_ddp"):
            self._forward: torch.nn.Module = torch.nn.parallel.DistributedDataParallel(
                self.model, process_group=group, bucket_cap_mb=_bucket_mib(way)
            )
            self.optimizer = make_optimizer(list(self.model.parameters()))
        elif way.startswith("fsdp2"):
            self._forward = _fully_shard(self.model, group, way == "fsdp2_reshard")
            self.optimizer = make_optimizer(list(self._forward.parameters()))
        else:
            self.optimizer = make_optimizer(list(self.model.parameters()))
            self._forward, self.optimizer = pleach.torch.data_parallel(
                self.model, self.optimizer, way, process_group=group,
                channel_width=int(width or WIDTH), profile=known and known[0],
                costs=known and known[1], replan=known is None,
            )

    def iterate(self) -> float:
        """One iteration; the loss."""
        self.optimizer.zero_grad()
        loss = self._loss(self._forward)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def synchronize(self) -> None:
        """Returns when nothing is under way."""
        if hasattr(self.optimizer, "synchronize"):
            self.optimizer.synchronize()

    def exposed_s(self) -> dict[str, float]:
        """Seconds of an iteration that computation stood still for, by kind of collective.

        Those that are on the wire at once both count. Only of what Pleach schedules.
        """
        exposed: dict[str, float] = {}
        if hasattr(self.optimizer, "explain"):
            for bucket in self.optimizer.explain().buckets:
                exposed[bucket.kind] = exposed.get(bucket.kind, 0.0) + bucket.exposed_s
        return exposed

    def close(self) -> None:
        """Lets the model and its group go."""
        self.synchronize()
        del self._forward, self.optimizer, self.model
        dist.destroy_process_group(self._group)


def _bucket_mib(way: str) -> float:
    """The size of `torch_ddp:MIB`, which the first bucket has too."""
    size = float(way.split(":")[1])
    # What DDP's own documents say to set.
    dist._DEFAULT_FIRST_BUCKET_BYTES = min(  # type: ignore[attr-defined]
        1 << 20, int(size * (1 << 20))
    )
    return size


def _fully_shard(
    model: torch.nn.Module, group: dist.ProcessGroup, reshards: bool
) -> torch.nn.Module:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    mesh = DeviceMesh.from_group(group, "cpu")
    layers = list(model.get_submodule("layers").children())
    for layer in layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=reshards)
    fully_shard(model, mesh=mesh, reshard_after_forward=reshards)
    # On a CPU it prefetches nothing unless it is told to.
    for layer, following in itertools.pairwise(layers):
        assert isinstance(layer, FSDPModule)
        assert isinstance(following, FSDPModule)
        layer.set_modules_to_forward_prefetch([following])
    assert isinstance(model, FSDPModule)
    model._set_unshard_async_op(True)
    return model


def measure(
    variants: Sequence[Variant], warm_up: int, rounds: int, iterations: int,
    sent_bytes: Callable[[], int],
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Seconds of an iteration of this rank, a figure a turn, the variants in turns.

    The clock of a turn stops before the first forward after it, as between iterations: what is
    hidden in the next forward counts there.

    Args:
        variants: What is measured.
        warm_up: Iterations of each before.
        rounds: Turns.
        iterations: Of a turn.
        sent_bytes: What this host has sent until now.

    Returns:
        The seconds, and the bytes that this host sent in an iteration, of the last turn; by name.
    """
    for variant in variants:
        for _ in range(warm_up + variant.learns):
            variant.iterate()
        variant.synchronize()
    times: dict[str, list[float]] = {variant.name: [] for variant in variants}
    sent: dict[str, float] = {}
    for turn in range(rounds):
        shift = turn % len(variants)
        for variant in [*variants[shift:], *variants[:shift]]:
            dist.barrier()
            before = sent_bytes()
            variant.iterate()  # so that the pipeline is filled
            begin = time.perf_counter()
            for _ in range(iterations):
                variant.iterate()
            times[variant.name].append((time.perf_counter() - begin) / iterations)
            variant.synchronize()
            sent[variant.name] = (sent_bytes() - before) / (iterations + 1)
    return times, sent


def slowest(times: dict[str, list[float]]) -> dict[str, list[float]]:
    """The same of the slowest rank, turn by turn."""
    own = torch.tensor(list(times.values()), dtype=torch.float64)
    dist.all_reduce(own, dist.ReduceOp.MAX)
    return dict(zip(times, own.tolist(), strict=True))
