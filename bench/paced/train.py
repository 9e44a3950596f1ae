#!/usr/bin/env python3
"""One rank of a paced training: measures variants in turns, and rank 0 prints them as JSON.

    torchrun --nproc-per-node 2 bench/paced/train.py '{"layers": {...}, "variants": [...]}'

The argument is one JSON object, or `@FILE` with it: see Job. bench/star_training.py and the figures
start it on the hosts of a star.
"""
from __future__ import annotations

import json
import pathlib
import sys
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


def run(job: Job) -> dict[str, Any]:
    """The seconds of an iteration, the slowest rank's, by model, variant and turn.

    Beside them the bytes that this rank sent in an iteration, if it is a host of a star.
    """
    report: dict[str, Any] = {}
    for name, layers in job.models.items():
        variants = [_variant(spec, layers) for spec in job.variants]
        times, sent = measure(variants, job.warm_up, job.rounds, job.iterations, _sent_bytes)
        report[name] = {"time_s": slowest(times), "sent_bytes": sent}
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
