#!/usr/bin/env python3
"""One rank of a real training: compares losses, times forward, measures ways of training in turns.

    torchrun --nproc-per-node 2 bench/real/train.py '{"model": "resnet18", "forwards": 10}'

The argument is one JSON object, or `@FILE` with it: see Job. Rank 0 prints what came of it as JSON.
bench/real_training.py starts it on the hosts of a star.
"""
from __future__ import annotations

import json
import pathlib
import statistics
import sys
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

import pleach.torch  # noqa: E402
from bench.paced.rank import report_as_rank  # noqa: E402
from bench.paced.variants import Variant, measure, slowest, warm_up  # noqa: E402
from bench.real.job import Job  # noqa: E402
from bench.real.models import MODELS, Model  # noqa: E402

SEARCH_ROUNDS, SEARCH_ITERATIONS = 3, 2
WARM_UP = 2


class Feed:
    """Gives one way of training its data, step by step, and remembers its losses."""

    def __init__(self, model: Model, samples: int, dtype: torch.dtype = torch.float32):
        self.losses: list[torch.Tensor] = []
        self._model, self._samples, self._dtype = model, samples, dtype

    def __call__(self, net: torch.nn.Module) -> torch.Tensor:
        """The loss of this rank's batch of the next step."""
        seed = len(self.losses) * dist.get_world_size() + dist.get_rank()
        inputs, labels = self._model.batch(self._samples, seed)
        if inputs.is_floating_point():
            inputs = inputs.to(self._dtype)
        loss = self._model.loss(net(inputs), labels)
        self.losses.append(loss.detach())
        return loss


def _apart(feeds: dict[str, Feed]) -> dict[str, float]:
    """The largest relative difference of losses from the first way's, over steps that both made.

    Of any rank.
    """
    first, *others = ((name, feed.losses) for name, feed in feeds.items())
    apart = {
        name: max(
            (float((one - other).abs() / one.abs())
             for one, other in zip(first[1], losses, strict=False)),
            default=0.0,
        )
        for name, losses in others
    }
    most = torch.tensor(list(apart.values()), dtype=torch.float64)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return dict(zip(apart, most.tolist(), strict=True))


def compare(model: Model, job: Job) -> dict[str, float]:
    """How far losses are apart in float64, a quarter of the samples a step."""
    samples = model.samples // 4
    feeds = {}
    for name in job.compare:
        feed = feeds[name] = Feed(model, samples, torch.float64)
        variant = Variant(name, lambda: model.make().double(), feed, model.optimizer)
        for _ in range(job.steps):
            variant.iterate()
        variant.close()
    return _apart(feeds)


def forward_s(model: Model, job: Job) -> float:
    """What forward takes while all ranks train by themselves: the slowest rank's median."""
    net = model.make()
    optimizer = model.optimizer(list(net.parameters()))
    inputs, labels = model.batch(model.samples, dist.get_rank())
    times = []
    dist.barrier()
    for _ in range(job.forwards):
        optimizer.zero_grad()
        begin = time.perf_counter()
        loss = model.loss(net(inputs), labels)
        times.append(time.perf_counter() - begin)
        loss.backward()
        optimizer.step()
    return slowest({"forward": [statistics.median(times)]})["forward"][0]


def train(model: Model, job: Job) -> dict[str, Any]:
    """The seconds of an iteration by way and turn, and what `pleach train` needs to predict them.

    A profile and costs are taken first, and given to policies that plan with them. Then the fastest
    of each choice is found.
    """
    inputs, labels = model.batch(model.samples, dist.get_rank())
    net = model.make()
    dist.barrier()
    profile = pleach.torch.profile(
        net, inputs, lambda output: model.loss(output, labels), name=job.model
    )
    group = dist.new_group(backend="pleach")
    costs = pleach.torch.measure_costs(
        group, most_bytes=sum(each.nbytes for each in net.parameters())
    )
    dist.destroy_process_group(group)
    del net
    feeds: dict[str, Feed] = {}

    def variant(name: str) -> Variant:
        feeds[name] = Feed(model, model.samples)
        return Variant(name, model.make, feeds[name], model.optimizer, (profile, costs))

    variants: list[Variant] = []
    searched: dict[str, float] = {}
    for ways in job.choices:
        tried = [variant(way) for way in ways]
        warm_up(tried, WARM_UP)
        times, _ = measure(tried, SEARCH_ROUNDS, SEARCH_ITERATIONS, lambda: 0)
        least = {name: min(each) for name, each in slowest(times).items()}
        searched.update(least)
        for one in tried:
            if one.name == min(least, key=least.__getitem__):
                variants.append(one)
            else:
                one.close()
                del feeds[one.name]
    warm_up(variants, 0)
    times, _ = measure(variants, job.rounds, job.iterations, lambda: 0)
    report = {
        "profile": json.loads(profile.to_json()), "distortion": profile.distortion,
        "costs": json.loads(costs.to_json()), "searched_s": searched,
        "time_s": slowest(times), "apart": _apart(feeds),
        "exposed_s": {one.name: one.exposed_s() for one in variants},
    }
    for one in variants:
        one.close()
    return report


def run(job: Job) -> dict[str, Any]:
    """What the job asks for."""
    model = MODELS[job.model]
    report: dict[str, Any] = {}
    if job.compare:
        report["apart"] = compare(model, job)
    if job.forwards:
        report["forward_s"] = forward_s(model, job)
        report["model_bytes"] = sum(each.nbytes for each in model.make().parameters())
    if job.rounds:
        report |= train(model, job)
    return report


if __name__ == "__main__":
    report_as_rank(lambda text: run(Job.from_json(text)))
