#!/usr/bin/env python3
"""Models that compute for real, trained by policy on an emulated switch: as one JSON object.

    python3 bench/real_training.py --pleach build/dev/pleach [--check] [--ranks 2] [--x 1,3]

A ResNet-18 on CIFAR's shapes and a BERT-like encoder (bench/real), ranks of one thread each, on the
hosts of a star (testbed/star.py). Forward is timed first, on all ranks at once, and the links get
the rate at which an all_reduce of the model takes x times as long. DDP, `dear` and
`work_conserving` all get the best of three sizes of buckets, found before, all over Pleach's
backend; a figure is the median of turns that each takes with the others, the slowest rank's. Beside
it stands what `pleach train` says of a profile and of costs that were measured in the same run.

Losses are compared with those of DDP over Gloo in float64: in float32, sums of more than two ranks
that are rounded in another order drive even two runs of DDP apart
(docs/validation/real_training.md). Where there are more ranks than cores these slow each other
down, and nothing is claimed of their speed. With --check the exit status is 1 where a claim does
not hold. Where the star cannot be made, or PyTorch is not there, it says so and measures nothing.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bench.paced.cluster import Cluster, NotHere  # noqa: E402
from bench.paced.command import Judged, conclude, make_parser  # noqa: E402
from bench.real.job import Job  # noqa: E402
from testbed.namespaces import bits_per_s  # noqa: E402

TRAIN = pathlib.Path(__file__).resolve().parent / "real/train.py"
MODELS = ["resnet18", "encoder"]
TIMEOUT_S = 600
FIRST = "torch_ddp"  # what the others are compared with
DDP, DEAR = "torch_ddp:{}@pleach", "dear,bucket={}MiB@pleach"
CONSERVING = "work_conserving,gathers=after_step{}@pleach"
# MiB, of a model of 10; work_conserving may send more than a piece at once, and by itself cuts none
# that would not take its time to travel.
CHOICES = {DDP: (0.5, 1, 2.5), DEAR: (0.5, 1, 2.5),
           CONSERVING: ("", ",piece=0.25MiB", ",piece=1MiB")}
COMPARED = ("torch_ddp:25@gloo", DEAR.format(1), CONSERVING.format(",piece=0.25MiB"))
STEPS, FORWARDS = 20, 10
FAST = "1Gbit"  # where no rate matters
LOSSES_APART = 1e-5
AGREES = 0.15
# What policies must be of DDP's speed, by x, where every rank has a core of its own.
LEAST = {1: 0.97, 3: 1.05}


def simulated_name(way: str) -> str:
    """What the simulator calls a way of training."""
    policy = way.split("@")[0]
    if policy.startswith("torch_ddp:"):
        return f"ddp,bucket={policy.removeprefix('torch_ddp:')}MiB"
    return policy + ",collectives=scatter" * policy.startswith("work_conserving")


def simulate(pleach: str, report: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of an iteration by way, from the profile and the costs of a report."""
    with tempfile.TemporaryDirectory() as folder:
        profile, costs = pathlib.Path(folder, "profile.json"), pathlib.Path(folder, "costs.json")
        profile.write_text(json.dumps(report["profile"]))
        costs.write_text(json.dumps(report["costs"]))
        policies = ",".join(map(simulated_name, report["time_s"]))
        ended = subprocess.run(
            [pleach, "train", "--settled", "--workload", profile, "--costs", f"measured:{costs}",
             "--policy", policies, "--json"],
            capture_output=True, text=True, check=False, timeout=300,
        )
    if ended.returncode:
        raise RuntimeError(f"pleach train: {ended.stderr.strip()}")
    rows = json.loads(ended.stdout)["rows"]
    return {way: row["iteration_s"] for way, row in zip(report["time_s"], rows, strict=True)}


def prepare(cluster: Cluster, model: str) -> dict[str, Any]:
    """What is known of a model before it is measured: losses, forward, bytes."""
    report = cluster.run(TRAIN, Job(model, COMPARED, STEPS, FORWARDS).to_json(), TIMEOUT_S)
    return {"ranks": cluster.rank_count, "model": model, **report}


def measure(
    options: argparse.Namespace, known: Mapping[str, Any], x: float
) -> list[dict[str, Any]]:
    """A row for each way, on links on which an all_reduce takes x times as long as forward.

    Args:
        options: The command line's.
        known: What `prepare` returned.
        x: All_reduce over forward.
    """
    fast = Cluster(options.pleach, options.python, known["ranks"], FAST)
    slowdown = x * known["forward_s"] / fast.all_reduce_s(known["model_bytes"])
    rate = f"{bits_per_s(FAST) / slowdown / 1e6:.0f}Mbit"
    cluster = Cluster(options.pleach, options.python, known["ranks"], rate)
    report = cluster.run(TRAIN, Job(
        known["model"], choices=tuple(
            [way.format(size) for size in sizes] for way, sizes in CHOICES.items()),
        rounds=options.rounds, iterations=options.iterations).to_json(), TIMEOUT_S)
    simulated = simulate(options.pleach, report)
    forward_s, backward_s = (sum(layer[which] for layer in report["profile"]["layers"]) * 1e-6
                             for which in ("forward_us", "backward_us"))
    return [{
        "ranks": cluster.rank_count, "model": known["model"], "x": x, "rate": rate,
        "x_of_profile": round(cluster.all_reduce_s(known["model_bytes"]) / forward_s, 2),
        "way": way, "time_s": round(statistics.median(times), 5),
        "turns_s": [round(time_s, 5) for time_s in times],
        "computes_s": round(forward_s + backward_s, 5), "simulated_s": round(simulated[way], 5),
        "stands_still_s": round(sum(report["exposed_s"][way].values()), 5),
        "losses_apart_float32": report["apart"].get(way),
        "searched_s": {name: round(time_s, 5) for name, time_s in report["searched_s"].items()
                       if family(name) == family(way)},
    } for way, times in report["time_s"].items()]


def family(way: str) -> str:
    """A way of training without its size of buckets."""
    return way.replace(":", ",").split(",")[0]


def judge(known: Mapping[str, Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the claims about a model come to.

    Args:
        known: What `prepare` returned of it.
        rows: Its own.
    """
    about = {"ranks": known["ranks"], "model": known["model"]}
    judged: list[dict[str, Any]] = [
        {**about, "claim": f"losses of {way}, float64", "apart": apart, "most": LOSSES_APART,
         "holds": apart <= LOSSES_APART} for way, apart in known["apart"].items()]
    for row in rows:
        about["x"] = row["x"]
        over = next(one for one in rows if one["x"] == row["x"] and family(one["way"]) == FIRST)
        contends = known["ranks"] > (os.cpu_count() or 1)
        if row is not over:
            least = None if contends else LEAST.get(row["x"])
            speedup = statistics.median(
                first_s / own_s for first_s, own_s in zip(over["turns_s"], row["turns_s"],
                                                          strict=True))
            judged.append({**about, "claim": f"{row['way']} over {over['way']}", "least": least,
                           "speedup": round(speedup, 3), "holds": speedup >= (least or 0)})
            # Sums of two have no order.
            apart, most = row["losses_apart_float32"], LOSSES_APART if known["ranks"] == 2 else None
            judged.append({**about, "claim": f"losses of {row['way']}, float32", "apart": apart,
                           "most": most, "holds": most is None or apart <= most})
        ratio = row["simulated_s"] / row["time_s"]
        judged.append({**about, "claim": f"{row['way']} simulated", "ratio": round(ratio, 3),
                       "within": None if contends else AGREES,
                       "holds": contends or abs(ratio - 1) <= AGREES})
    return judged


def main() -> int:
    """Measures, prints, and checks if asked to."""
    parser = make_parser(__doc__ or "", "2,4", "1,3", 4, "way")
    parser.add_argument("--models", default=",".join(MODELS), help=f"({','.join(MODELS)})")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    judged = Judged()
    for ranks in map(int, options.ranks.split(",")):
        cluster = Cluster(options.pleach, options.python, ranks, FAST)
        try:
            cluster.check()
        except NotHere as error:
            print(f"real_training: not here: {error}", file=sys.stderr)
            return 0
        for model in options.models.split(","):
            with judged.attempt(ranks=ranks, model=model):
                known, own = prepare(cluster, model), list[dict[str, Any]]()
                for x in map(float, options.x.split(",")):
                    with judged.attempt(ranks=ranks, model=model, x=x):
                        own += measure(options, known, x)
                        print(f"real_training: {ranks} ranks, {model}, x={x:g} measured",
                              file=sys.stderr)
                rows += own
                judged += judge(known, own)
    return conclude("real_training", {"rows": rows}, judged, options.check)


if __name__ == "__main__":
    sys.exit(main())
