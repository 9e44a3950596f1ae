"""Ways to train a model on the ranks of a job, by name, so that they can be compared in one run.

`POLICY@BACKEND` is pleach.torch.data_parallel over that backend, `POLICY@BACKEND:1` the same with
one collective at a time on the wire, `torch_ddp:MIB@BACKEND` is
DistributedDataParallel with buckets of so many MiB, `fsdp2@BACKEND` is fully_shard of every layer,
`fsdp2:MIB@BACKEND` of neighbours together until they have so many MiB, that keeps parameters after
forward (`fsdp2_reshard` does not) and gathers the next layer's ahead.
"""
from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.distributed as dist

import pleach.torch
from pleach.torch import Costs, Profile
from pleach.torch.parallel.planning import WINDOW

WIDTH = 2  # collectives on the wire, as data_parallel has it by itself
# Iterations more until a policy's plan stays: `dear_bo` has tried its sizes, others have learnt the
# layers' times.
LEARNING = {"dear_bo": 100, "work_conserving": 4 * WINDOW, "mg_wfbp": 4 * WINDOW}


class _Done:
    """A work that has ended: of a collective that is left out."""

    def __init__(self) -> None:
        self._future: torch.futures.Future[None] = torch.futures.Future()
        self._future.set_result(None)

    def get_future(self) -> torch.futures.Future[None]:
        """It has ended."""
        return self._future

    def wait(self) -> None:
        """Returns at once."""


class Variant:
    """A model and what trains it."""

    def __init__(
        self, name: str, make_model: Callable[[], torch.nn.Module],
        loss: Callable[[torch.nn.Module], torch.Tensor],
        make_optimizer: Callable[[Sequence[torch.nn.Parameter]], torch.optim.Optimizer],
        known: tuple[Profile, Costs] | None = None, replans: bool = True,
    ):
        """Makes it.

        Args:
            name: See above.
            make_model: Makes a model of its own.
            loss: What backward begins at.
            make_optimizer: Of parameters.
            known: What the model and the backend's collectives take, for policies that plan by
                that; None: they find out.
            replans: A policy that learns makes another plan when iterations take longer or shorter
                than they did, unless that is known.
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
            self._forward: torch.nn.Module = _ddp(self.model, group, float(way.split(":")[1]))
            self.optimizer = make_optimizer(list(self.model.parameters()))
        elif way.startswith("fsdp2"):
            self._forward = _fully_shard(self.model, group, way)
            self.optimizer = make_optimizer(list(self._forward.parameters()))
        else:
            self.optimizer = make_optimizer(list(self.model.parameters()))
            self._forward, self.optimizer = pleach.torch.data_parallel(
                self.model, self.optimizer, way, process_group=group,
                channel_width=int(width or WIDTH), profile=known and known[0],
                costs=known and known[1], replan=replans and self.learns > 0,
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

    def ends_s(self, kind: str) -> list[list[float]]:
        """When collectives of a kind ended, iteration by iteration, of those remembered."""
        engine = self.optimizer.trainer._built.engine
        plan, ends = engine.following.program.plan, {}
        for one in engine.history().log:
            if plan[one.index].kind == kind and one.finished_ps >= 0:
                ends.setdefault(one.iteration, []).append(one.finished_ps / 1e12)
        return [sorted(ends[iteration]) for iteration in sorted(ends)]

    def policy(self) -> str:
        """What a search has found, as a policy's text; or the way that it was asked for."""
        found: str = self.optimizer.explain().policy if hasattr(self.optimizer, "explain") else ""
        return found or self.name.rpartition("@")[0]

    def tensors(self) -> dict[str, list[int]]:
        """By layer's name: elements of its tensors as they travel, some always together."""
        sizes: dict[str, list[int]] = {}
        if not hasattr(self.optimizer, "explain"):
            return sizes
        layout = self.optimizer.trainer._built.layout
        continued = None
        for atom in layout.atoms:
            first = atom.parts[0]
            own = sizes.setdefault(layout.members[first.member].name.split(".tensors.")[0], [])
            if continued == first.member:
                own[-1] += atom.size
            else:
                own.append(atom.size)
            continued = first.member
        return sizes

    def can_leave_out(self) -> bool:
        """Whether `without` can be had."""
        return hasattr(self.optimizer, "explain") or \
            isinstance(self._forward, torch.nn.parallel.DistributedDataParallel)

    @contextlib.contextmanager
    def without(self, *kinds: str) -> Iterator[None]:
        """In its `with` block collectives of those kinds are left out; ranks drift apart.

        Of what Pleach schedules all others travel as before; DDP has none at all.
        """
        self.synchronize()
        if isinstance(self._forward, torch.nn.parallel.DistributedDataParallel):
            with self._forward.no_sync():
                yield
            return
        program = self.optimizer.trainer._built.engine.following.program
        before = program.calls
        program.calls = [
            [_Done] * len(calls) if planned.kind in kinds else calls
            for planned, calls in zip(program.plan, before, strict=True)
        ]
        try:
            yield
            self.synchronize()
        finally:
            program.calls = before

    def close(self) -> None:
        """Lets the model and its group go."""
        self.synchronize()
        if hasattr(self.optimizer, "explain"):
            self.optimizer.close()
        del self._forward, self.optimizer, self.model
        dist.destroy_process_group(self._group)


def _ddp(model: torch.nn.Module, group: dist.ProcessGroup, mib: float) -> torch.nn.Module:
    """DDP with buckets of that size, the first one not over the 1 MiB that it has by itself."""
    default = dist._DEFAULT_FIRST_BUCKET_BYTES  # type: ignore[attr-defined]
    # What DDP's own documents say to set.
    dist._DEFAULT_FIRST_BUCKET_BYTES = min(  # type: ignore[attr-defined]
        default, int(mib * (1 << 20))
    )
    try:
        return torch.nn.parallel.DistributedDataParallel(
            model, process_group=group, bucket_cap_mb=mib
        )
    finally:
        dist._DEFAULT_FIRST_BUCKET_BYTES = default  # type: ignore[attr-defined]


def _fully_shard(model: torch.nn.Module, group: dist.ProcessGroup, way: str) -> torch.nn.Module:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    mesh = DeviceMesh.from_group(group, "cpu")
    name, _, size = way.partition(":")
    reshards = name == "fsdp2_reshard"
    blocks = _blocks(list(model.get_submodule("layers").children()), float(size or 0) * (1 << 20))
    for block in blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=reshards)
    fully_shard(model, mesh=mesh, reshard_after_forward=reshards)
    # On a CPU it prefetches nothing unless it is told to.
    for block, following in itertools.pairwise(blocks):
        assert isinstance(block[0], FSDPModule)
        assert isinstance(following[0], FSDPModule)
        block[0].set_modules_to_forward_prefetch([following[0]])
    assert isinstance(model, FSDPModule)
    model._set_unshard_async_op(True)
    return model


def _blocks(layers: list[torch.nn.Module], least_bytes: float) -> list[list[torch.nn.Module]]:
    """Neighbours, together until they have so many bytes; one at least."""
    blocks: list[list[torch.nn.Module]] = []
    held_bytes = least_bytes
    for layer in layers:
        if held_bytes >= least_bytes:
            blocks.append([])
            held_bytes = 0
        blocks[-1].append(layer)
        held_bytes += sum(parameter.nbytes for parameter in layer.parameters())
    return blocks


def warm_up(variants: Sequence[Variant], iterations: int) -> None:
    """So many iterations of each, and those in which it learns."""
    for variant in variants:
        for _ in range(iterations + variant.learns):
            variant.iterate()
        variant.synchronize()


def measure(
    variants: Sequence[Variant], rounds: int, iterations: int, sent_bytes: Callable[[], int],
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Seconds of an iteration of this rank, a figure a turn, the variants in turns.

    The clock of a turn stops before the first forward after it, as between iterations: what is
    hidden in the next forward counts there.

    Args:
        variants: What is measured, warmed up.
        rounds: Turns.
        iterations: Of a turn.
        sent_bytes: What this host has sent until now.

    Returns:
        The seconds, and the bytes that this host sent in an iteration, of the last turn; by name.
    """
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
