#!/usr/bin/env python3
"""One rank of a paced training: measures variants in turns, and rank 0 prints them as JSON.

    torchrun --nproc-per-node 2 bench/paced/train.py '{"layers": {...}, "variants": [...]}'

The argument is one JSON object, or `@FILE` with it: see Job. bench/star_training.py and the figures
start it on the hosts of a star.
"""
from __future__ import annotations

import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from bench.paced.job import Job, PacedLayer  # noqa: E402
from bench.paced.layers import PacedModel  # noqa: E402
from bench.paced.variants import Variant, measure, slowest  # noqa: E402


def _sent_bytes() -> int:
    """What has left this host's interface."""
    path = pathlib.Path("/sys/class/net/card/statistics/tx_bytes")
    return int(path.read_text()) if path.exists() else 0


def _variant(spec: str, layers: list[PacedLayer]) -> Variant:
    values = torch.ones(1, requires_grad=True)

    def loss(model: torch.nn.Module) -> torch.Tensor:
        result: torch.Tensor = model(values)
        return result.sum()

    return Variant(spec, lambda: PacedModel(layers), loss,
                   lambda parameters: torch.optim.SGD(parameters, lr=0.1))


def _costs(backend: str, most_bytes: int) -> dict[str, Any]:
    """What collectives take, up to a model's size, as a file of costs has it (docs/formats.md).

    Each several times, one after the other: an idle link lets a first burst through at once.
    """
    group = dist.new_group(backend=backend)
    ranks = dist.get_world_size(group)
    sizes = [4096]
    while sizes[-1] < most_bytes:
        sizes.append(min(4 * sizes[-1], most_bytes))
    points = []
    for size in sizes:
        share = torch.zeros(-(-size // (4 * ranks)))
        whole = torch.zeros(share.numel() * ranks)
        calls: dict[str, Callable[[], Any]] = {
            "all_reduce": partial(dist.all_reduce, whole, group=group),
            "reduce_scatter": partial(dist.reduce_scatter_tensor, share, whole, group=group),
            "all_gather": partial(dist.all_gather_into_tensor, whole, share, group=group),
        }
        for kind, call in calls.items():
            points.append({"collective": kind, "size_bytes": 4 * whole.numel(),
                           "time_s": _time(call, 3 if size < (1 << 22) else 1)})
    dist.destroy_process_group(group)
    return {"format": "pleach-costs", "version": 1, "rank_count": ranks, "points": points}


def _time(call: Callable[[], Any], repeats: int) -> float:
    """Seconds of one call of several in a row; of the slowest rank, the median of three."""
    times = []
    for _ in range(3):
        dist.barrier()
        call()
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        times.append((time.perf_counter() - begin) / repeats)
    median = torch.tensor([statistics.median(times)], dtype=torch.float64)
    dist.all_reduce(median, dist.ReduceOp.MAX)
    return float(median)


def run(job: Job) -> dict[str, Any]:
    """The seconds of an iteration, the slowest rank's, by model, variant and turn.

    Beside them the bytes that this rank sent in an iteration, if it is a host of a star.
    """
    report: dict[str, Any] = {}
    for name, layers in job.models.items():
        model_bytes = 4 * sum(size for layer in layers for size in layer.tensors)
        variants = [_variant(spec, layers) for spec in job.variants]
        times, sent = measure(variants, job.warm_up, job.rounds, job.iterations, _sent_bytes)
        report[name] = {
            "time_s": slowest(times), "sent_bytes": sent,
            "exposed_s": {variant.name: variant.exposed_s() for variant in variants},
            "costs": _costs(job.costs_over, model_bytes) if job.costs_over else None,
        }
        for variant in variants:
            variant.close()
    return report


def main() -> None:
    """Measures, and prints on rank 0."""
    text = sys.argv[1]
    job = Job.from_json(pathlib.Path(text[1:]).read_text() if text.startswith("@") else text)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    report = run(job)
    if dist.get_rank() == 0:
        print(json.dumps(report), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
