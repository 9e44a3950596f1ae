#!/usr/bin/env python3
"""Training whose gradients travel by policy, on an emulated switch: as one JSON object.

    python3 bench/star_training.py --pleach build/dev/pleach [--check] [--ranks 4] [--x 3,4]

Twelve equal layers whose computation is waited for (bench/paced), backward twice forward, on hosts
with links of 200 Mbit/s (testbed/star.py). x is what an all_reduce of the model takes at the links'
rate, over what forward takes: at 0.5 and 1 backward hides all communication, at 3 and 4 it cannot.
Every variant trains in turns with the others; a figure is the median of its turns, the slowest
rank's. DDP has the best of several sizes of buckets. With --check the exit status is 1 where a
claim does not hold. Where the star cannot be made, or PyTorch is not there, it says so and measures
nothing.
"""
from __future__ import annotations

import dataclasses
import pathlib
import statistics
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bench.paced.cluster import Cluster, NotHere  # noqa: E402
from bench.paced.command import Judged, conclude, make_parser  # noqa: E402
from bench.paced.job import Job, equal_layers  # noqa: E402

RATE = "200Mbit"
LAYERS, LAYER_ELEMENTS = 12, 100 * 1024
WARM_UP = 8
TIMEOUT_S = 1500
ONE, TWO = 0.3, 0.7  # MiB: a bucket of one layer, and of two
DDP = [f"torch_ddp:{size}@pleach" for size in (ONE, TWO)]
DDP_GLOO = [f"torch_ddp:{size}@gloo" for size in (ONE, TWO)]
DEAR = [f"dear,bucket={size}MiB@pleach" for size in (ONE, TWO)]
CONSERVING = ["work_conserving,gathers=after_step@pleach"]
EARLY = ["work_conserving,gathers=early@pleach"]
FSDP, FSDP_GLOO = ["fsdp2@pleach"], ["fsdp2@gloo"]


@dataclasses.dataclass(frozen=True)
class Claim:
    """One way of training against another, each the best of its variants.

    Attributes:
        name: What it is called.
        x: For which it holds.
        ours: Variants.
        over: Those they are compared with.
        least: How many times as fast they are.
        ceiling: What is possible at all without a price of starting anything; 0: not said.
    """

    name: str
    x: float
    ours: list[str]
    over: list[str]
    least: float
    ceiling: float = 0


CLAIMS = [
    Claim("dear over DDP", 3, DEAR, DDP, 1.08, 1.14),
    Claim("dear over DDP", 4, DEAR, DDP, 1.15, 1.25),
    Claim("work_conserving over dear", 3, CONSERVING, DEAR, 1),
    Claim("work_conserving over dear", 4, CONSERVING, DEAR, 1),
    Claim("work_conserving, early, over DDP", 3, EARLY, DDP, 1.2, 1.33),
    Claim("work_conserving, early, over DDP", 4, EARLY, DDP, 1.15, 1.25),
    Claim("work_conserving, early, over DDP on Gloo", 3, EARLY, DDP_GLOO, 1.2),
    Claim("work_conserving, early, over DDP on Gloo", 4, EARLY, DDP_GLOO, 1.2),
    Claim("FSDP2 over FSDP2 on Gloo", 3, FSDP, FSDP_GLOO, 1.25, 1.5),
    *(Claim(f"{name} over DDP", x, ours, DDP, 0.97)
      for x in (0.5, 1)
      for name, ours in (("dear", DEAR), ("work_conserving", CONSERVING),
                         ("work_conserving, early,", EARLY))),
]
# A rank may send more bytes than it must by this part, packet headers aside: its own messages.
BYTES_TOLERANCE = 0.01
# What a claim without a floor of its own may miss it by: noise.
TIE = 0.01


def variants_of(x: float) -> list[str]:
    """All that the claims compare at this x."""
    names: list[str] = []
    for claim in CLAIMS:
        if claim.x == x:
            names += [name for name in [*claim.over, *claim.ours] if name not in names]
    return names


def measure(cluster: Cluster, x: float, rounds: int, iterations: int) -> list[dict[str, Any]]:
    """A row for each variant."""
    size_bytes = 4 * LAYERS * LAYER_ELEMENTS
    forward_s = cluster.all_reduce_s(size_bytes) / x
    report = cluster.train(
        Job({"equal": equal_layers(LAYERS, LAYER_ELEMENTS, forward_s)}, variants_of(x), WARM_UP,
            rounds, iterations), TIMEOUT_S)["equal"]
    least_bytes = 2 * (cluster.rank_count - 1) / cluster.rank_count * size_bytes
    return [{
        "ranks": cluster.rank_count, "x": x, "variant": name,
        "time_s": round(statistics.median(times), 5),
        "spread": round((max(times) - min(times)) / statistics.median(times), 3),
        "computes_s": round(3 * forward_s, 5),
        "sent_over_least": round(report["sent_bytes"][name] / least_bytes, 4),
    } for name, times in report["time_s"].items()]


def judge(rows: list[dict[str, Any]], ranks: int, x: float) -> list[dict[str, Any]]:
    """What the claims about this x come to."""
    own = [row for row in rows if (row["ranks"], row["x"]) == (ranks, x)]
    times = {row["variant"]: row["time_s"] for row in own}
    judged = []
    for claim in CLAIMS:
        if claim.x == x:
            ours = min(times[name] for name in claim.ours)
            over = min(times[name] for name in claim.over)
            least = claim.least if claim.least != 1 else 1 - TIE
            judged.append({"ranks": ranks, "x": x, "claim": claim.name,
                           "speedup": round(over / ours, 3), "least": least,
                           "ceiling": claim.ceiling or None, "holds": over / ours >= least})
    for row in own:
        if row["variant"] in [*DEAR, *CONSERVING, *EARLY]:
            judged.append({"ranks": ranks, "x": x, "claim": f"bytes of {row['variant']}",
                           "sent_over_least": row["sent_over_least"],
                           "holds": abs(row["sent_over_least"] - 1) <= BYTES_TOLERANCE})
    return judged


def main() -> int:
    """Measures, prints, and checks if asked to."""
    arguments = make_parser(__doc__ or "", "4,8", "0.5,1,3,4", 5, "variant").parse_args()
    rows: list[dict[str, Any]] = []
    judged = Judged()
    for ranks in map(int, arguments.ranks.split(",")):
        cluster = Cluster(arguments.pleach, arguments.python, ranks, RATE)
        try:
            cluster.check()
        except NotHere as error:
            print(f"star_training: not here: {error}", file=sys.stderr)
            return 0
        for x in map(float, arguments.x.split(",")):
            with judged.attempt(ranks=ranks, x=x):
                rows += measure(cluster, x, arguments.rounds, arguments.iterations)
                judged += judge(rows, ranks, x)
                print(f"star_training: {ranks} ranks, x={x:g} measured", file=sys.stderr)
    return conclude("star_training", {"rate": RATE, "layers": LAYERS,
                                      "layer_bytes": 4 * LAYER_ELEMENTS, "rows": rows},
                    judged, arguments.check)


if __name__ == "__main__":
    sys.exit(main())
