#!/usr/bin/python3
"""DeAR's evaluation, really run: five models' tensors on an emulated switch, every policy in turns.

    python3 bench/figures/dear_measured.py --pleach build/dev/pleach [--models resnet50]

Tensors have 1/32 of their size, links 200 and 880 Mbit/s for 10 Gb Ethernet and 100 Gb InfiniBand,
and layers take what the profile of an RTX 2080 Ti says, which is waited for (bench/paced). Five
times ten iterations count, after ten; sizes of buckets are 1/32 of DeAR's too. Beside each figure
stands what `pleach train` says of the same profile over the costs that were measured in the same
run. Writes tables into docs/validation/dear_measured.md, and all figures as CSV. Where the star
cannot be made, or PyTorch is not there, it says so and writes nothing.
"""
import json
import pathlib
import statistics
import sys
import tempfile

import common

sys.path.insert(0, str(common.ROOT))

from bench.paced.cluster import Cluster, NotHere  # noqa: E402
from bench.paced.job import Job, read_workload, workload_of  # noqa: E402

NETWORKS = {"10GbE": "200Mbit", "100GbIB": "880Mbit"}
RANKS = 4
SCALE = 1 / 32
BUCKET = "800KiB"  # 25 MiB, scaled
SEARCHED = "dear_bo,first=800KiB,least=32KiB,most=8MiB"
WARM_UP, TIMEOUT_S = 10, 3000
AGREES, DIFFERS = 0.10, 0.10
# What is run, and what the simulator calls it; "": it has no counterpart.
WAYS = {
    "sequential@pleach": "sequential",
    "wfbp@pleach": "wfbp",
    "torch_ddp:0.78@pleach": f"ddp,bucket={BUCKET}",
    "mg_wfbp@pleach": "mg_wfbp",
    "dear,bucket=0@pleach": "dear,bucket=0",
    f"dear,bucket={BUCKET}@pleach": f"dear,bucket={BUCKET}",
    f"{SEARCHED}@pleach": SEARCHED,
    "work_conserving@pleach": "work_conserving,gathers=after_step,collectives=scatter",
    "fsdp2@pleach": "",
}


def profile_of(pleach, model, compute_ms, folder):
    """The model's layers at this scale, and the file that the simulator reads of them."""
    whole, scaled = folder / f"{model}.json", folder / f"{model}_scaled.json"
    common.run_pleach(pleach, "train", "--workload", model, "--accelerator", "rtx2080ti",
                      "--compute", f"{compute_ms}ms", "--costs", "alpha_beta", "--bandwidth",
                      "1GB/s", "--ranks", RANKS, "--policy", "sequential",
                      "--export-profile", whole)
    layers = read_workload(whole, SCALE, 1)
    scaled.write_text(json.dumps(workload_of(layers, model)), encoding="utf-8")
    return layers, scaled


def simulate(pleach, scaled, costs):
    """Seconds of an iteration by way, of those that the simulator knows."""
    ways = {spec: way for way, spec in WAYS.items() if spec}
    rows = common.run_pleach(pleach, "train", "--workload", scaled, "--costs",
                             f"measured:{costs}", "--policy", ",".join(ways),
                             "--settled")["rows"]
    return {way: row["iteration_s"] for way, row in zip(ways.values(), rows)}


def measure(options, network, model, batch, compute_ms):
    """A row for each way."""
    cluster = Cluster(options.pleach, options.python, RANKS, NETWORKS[network])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        layers, scaled = profile_of(options.pleach, model, compute_ms, folder)
        job = Job({model: layers}, list(WAYS), WARM_UP, options.rounds, options.iterations,
                  "pleach")
        report = cluster.train(job, TIMEOUT_S)[model]
        costs = folder / "costs.json"
        costs.write_text(json.dumps(report["costs"]), encoding="utf-8")
        simulated = simulate(options.pleach, scaled, costs)
    rows = []
    for way, times in report["time_s"].items():
        rates = [batch * RANKS / one for one in times]
        exposed = report["exposed_s"][way]
        rows.append({
            "network": network, "model": model, "way": way,
            "samples_per_s": statistics.mean(rates),
            "spread": 1.96 * statistics.stdev(rates) if len(rates) > 1 else 0.0,
            "time_s": statistics.median(times), "compute_s": compute_ms / 1e3,
            "reduce_s": exposed.get("reduce_scatter", 0) + exposed.get("all_reduce", 0),
            "gather_s": exposed.get("all_gather", 0),
            "simulated_s": simulated.get(way, 0.0),
        })
    return rows


def rates_table(rows, models):
    lines = []
    for way in WAYS:
        line = [f"`{way.split('@')[0]}`"]
        for model in models:
            row = find(rows, model, way)
            line += [f"{row['samples_per_s']:.1f} ± {row['spread']:.1f}" if row else "",
                     cell_of_simulator(row)]
        lines.append(line)
    header = ["way"]
    for model in models:
        header += [f"{model} [samples/s]", "simulated / measured"]
    return common.markdown_table(header, lines)


def cell_of_simulator(row):
    return f"{row['simulated_s'] / row['time_s']:.3f}" if row and row["simulated_s"] else ""


def breakdown_table(rows, models):
    lines = []
    for model in models:
        for way in WAYS:
            row = find(rows, model, way)
            if row and (row["reduce_s"] or row["gather_s"]):
                lines.append([f"{model}, `{way.split('@')[0]}`", *(
                    common.milliseconds(row[key])
                    for key in ("time_s", "compute_s", "reduce_s", "gather_s"))])
    return common.markdown_table(
        ["", "iteration [ms]", "computes", "stands still for reductions", "for all_gathers"], lines)


def find(rows, model, way):
    return next((row for row in rows if (row["model"], row["way"]) == (model, way)), None)


def agreement(rows):
    """How many cells the simulator is right in, and how many orders of two policies it has."""
    known = [row for row in rows if row["simulated_s"]]
    right = sum(abs(row["simulated_s"] / row["time_s"] - 1) <= AGREES for row in known)
    pairs = wrong = 0
    for one in known:
        for other in known:
            if (one["network"], one["model"]) == (other["network"], other["model"]) and \
                    one["time_s"] > other["time_s"] * (1 + DIFFERS):
                pairs += 1
                wrong += one["simulated_s"] <= other["simulated_s"]
    return right, len(known), wrong, pairs


def main():
    options = parse()
    models = [one for one in common.MODELS_OF_DEAR if one[0] in options.models.split(",")]
    names = [model for model, _, _ in models]
    rows = []
    for network in options.networks.split(","):
        try:
            Cluster(options.pleach, options.python, RANKS, NETWORKS[network]).check()
        except NotHere as error:
            print(f"dear_measured: not here: {error}", file=sys.stderr)
            return 0
        for model, batch, compute_ms in models:
            rows += measure(options, network, model, batch, compute_ms)
            print(f"dear_measured: {network} {model} measured", file=sys.stderr, flush=True)
            common.write_csv(options.output / "dear_measured.csv", list(rows[0]),
                             [list(row.values()) for row in rows])
        own = [row for row in rows if row["network"] == network]
        common.emit(options, "dear_measured", network, rates_table(own, names))
        common.emit(options, "dear_measured", f"{network} breakdown", breakdown_table(own, names))
    right, cells, wrong, pairs = agreement(rows)
    common.emit(options, "dear_measured", "agreement", (
        f"{right} of {cells} cells are within {AGREES:.0%} of the simulator's; of {pairs} pairs "
        f"that differ by over {DIFFERS:.0%}, it has {wrong} in the wrong order. Each figure is of "
        f"{options.rounds} times {options.iterations} iterations.\n"))
    return 0


def parse():
    def more(parser):
        parser.add_argument("--python", help="with PyTorch (build/venv/bin/python)")
        parser.add_argument("--models", default=",".join(one[0] for one in common.MODELS_OF_DEAR))
        parser.add_argument("--networks", default=",".join(NETWORKS))
        parser.add_argument("--rounds", type=int, default=5)
        parser.add_argument("--iterations", type=int, default=10)

    return common.parse_options(__doc__, more=more)


if __name__ == "__main__":
    sys.exit(main())
