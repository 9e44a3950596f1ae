#!/usr/bin/env python3
"""One rank of a paced training: measures variants in turns, and rank 0 prints them as JSON.

    torchrun --nproc-per-node 2 bench/paced/train.py '{"models": {...}, "variants": [...]}'

The argument is one JSON object, or `@FILE` with it: see Job. bench/star_training.py and the figures
start it on the hosts of a star.
"""
from __future__ import annotations

import gc
import itertools
import json
import pathlib
import statistics
import sys
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from bench.paced.costs import measure_in_training  # noqa: E402
from bench.paced.job import Job, PacedLayer  # noqa: E402
from bench.paced.layers import PacedModel, paced_loss  # noqa: E402
from bench.paced.rank import report_as_rank  # noqa: E402
from bench.paced.variants import Variant, measure, slowest, warm_up  # noqa: E402
from pleach.torch import Costs, Profile  # noqa: E402
from pleach.torch.parallel import PLAN_BY_COST  # noqa: E402
from pleach.torch.parallel.profiling import Layer  # noqa: E402

# What is left out where nothing communicates.
KINDS = ("all_reduce", "reduce_scatter", "all_gather")
PARTS_ITERATIONS = 4  # of what is taken apart
HEADERS_BYTES = 14 + 20 + 32  # of a packet: Ethernet, IPv4, TCP with time stamps


def _sent_bytes() -> int:
    """What has left this host's interface, less headers: how many packets is a matter of load."""
    counters = pathlib.Path("/sys/class/net/card/statistics")
    if not counters.exists():
        return 0
    total, packets = (int((counters / name).read_text()) for name in ("tx_bytes", "tx_packets"))
    return total - packets * HEADERS_BYTES


def _variant(
    spec: str, layers: list[PacedLayer], known: tuple[Profile, Costs] | None, replans: bool
) -> Variant:
    return Variant(spec, lambda: PacedModel(layers), paced_loss,
                   lambda parameters: torch.optim.SGD(parameters, lr=0.1), known, replans)


def _variants(
    job: Job, name: str, layers: list[PacedLayer]
) -> tuple[list[Variant], tuple[Profile, Costs] | None]:
    """A model's, warmed up; and what the layers and collectives take, if that is asked for.

    Collectives are timed where variants are there already, as they are in what is measured.
    """
    made: dict[str, Variant] = {}
    plan = [spec for spec in job.variants if spec.startswith(tuple(PLAN_BY_COST))]
    for spec in job.variants:
        if spec not in plan:
            made[spec] = _variant(spec, layers, None, not job.costs_over)
    _warm_up(list(made.values()), job.warm_up)
    known = None
    if job.costs_over:
        model_bytes = 4 * sum(size for layer in layers for size in layer.tensors)
        known = _profile(name, layers), measure_in_training(job.costs_over, model_bytes)
    for spec in plan:
        made[spec] = _variant(spec, layers, known, True)
    _warm_up([made[spec] for spec in plan], job.warm_up)
    return [made[spec] for spec in job.variants], known


def _warm_up(variants: list[Variant], iterations: int) -> None:
    """As warm_up; what they hold is then not searched for garbage in each other's turns."""
    warm_up(variants, iterations)
    gc.unfreeze()  # what is closed goes now, and not in the midst of a turn
    gc.collect()
    gc.freeze()


def _profile(name: str, layers: list[PacedLayer]) -> Profile:
    """The layers as a model of them has them."""
    return Profile(name, 1, 4, tuple(
        Layer(layer.name, tuple((f"layers.{index}.tensors.{tensor}", size)
                                for tensor, size in enumerate(layer.tensors)),
              layer.forward_s, layer.backward_s)
        for index, layer in enumerate(layers)), 0.0)


def _tensors(variant: Variant) -> list[list[int]] | None:
    """By layer: elements of tensors as they travel; of what Pleach schedules."""
    found = variant.tensors()
    assert isinstance(variant.model, PacedModel)
    count = len(variant.model.layers)
    return [found.get(f"layers.{index}", []) for index in range(count)] if found else None


def _without_communication(variant: Variant, iterations: int) -> dict[str, list[float]]:
    """What a way's layers take in a whole iteration without communication, the ranks' mean.

    From the beginning of each layer to that of the next one; the step, and what is between two
    iterations, are part of the first layer's backward.
    """
    assert isinstance(variant.model, PacedModel)
    begins, steps = variant.model.begins, 2 * len(variant.model.layers)
    with variant.without(*KINDS):
        begins.clear()
        for _ in range(iterations + 2):
            variant.iterate()
    spans = [following - begin for begin, following in itertools.pairwise(begins[steps:])]
    medians = torch.tensor([statistics.median(spans[step::steps]) for step in range(steps)],
                           dtype=torch.float64)
    dist.all_reduce(medians)
    times = (medians / dist.get_world_size()).tolist()
    return {"forward_s": times[:steps // 2], "backward_s": times[:steps // 2 - 1:-1]}


def _without_gathers(variant: Variant, iterations: int) -> float:
    """Seconds of an iteration that reduces only, the slowest rank's."""
    with variant.without("all_gather"):
        variant.iterate()
        begin = time.perf_counter()
        for _ in range(iterations):
            variant.iterate()
        seconds = torch.tensor([(time.perf_counter() - begin) / iterations])
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return float(seconds)


def _take_apart(variants: list[Variant], iterations: int) -> dict[str, Any]:
    """What every way takes with parts left out, as far as they can be."""
    computes: dict[str, Any] = {}
    reduces: dict[str, float] = {}
    for variant in variants:
        dist.barrier()
        if variant.can_leave_out():
            computes[variant.name] = _without_communication(variant, iterations)
            dist.barrier()
        if "all_gather" in variant.exposed_s():
            reduces[variant.name] = _without_gathers(variant, iterations)
    return {"computes": computes, "reduces_s": reduces}


def run(job: Job) -> dict[str, Any]:
    """The seconds of an iteration, the slowest rank's, by model, variant and turn.

    Beside them the bytes that this rank sent in an iteration, if it is a host of a star.
    """
    report: dict[str, Any] = {}
    for name, layers in job.models.items():
        variants, known = _variants(job, name, layers)
        times, sent = measure(variants, job.rounds, job.iterations, _sent_bytes)
        report[name] = {
            "time_s": slowest(times), "sent_bytes": sent,
            "exposed_s": {variant.name: variant.exposed_s() for variant in variants},
            "rounds": job.rounds, "iterations": job.iterations,
            "policy": {variant.name: variant.policy() for variant in variants},
            "tensors": {variant.name: _tensors(variant) for variant in variants},
        }
        if known is not None:
            report[name] |= {"costs": json.loads(known[1].to_json()),
                             **_take_apart(variants, PARTS_ITERATIONS)}
        for variant in variants:
            variant.close()
    return report


if __name__ == "__main__":
    report_as_rank(lambda text: run(Job.from_json(text)))
