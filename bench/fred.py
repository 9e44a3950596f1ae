#!/usr/bin/env python3
"""How long FRED's router and admission take, on one core, and its trainings: as one JSON object.

    python3 bench/fred.py --pleach build/release/pleach [--full] [--check]

Every phase of every strategy of 2 to 20 workers on FRED_3(20); 64 disjoint all-reduces of 4 random
ports each on FRED_3(256), ten seeds; a run of a million segments with admission over one without,
the median of interleaved rounds; and the memory of an all_reduce over 1,024 NPUs. On two cores: the
19 strategies of the paper's figure 11, two workloads, mesh and A to D, as `pleach train` has each
of them by curves, and with --full again with all links shared as they come. With --check the exit
status is 1 where something does not route, or takes more than its limit.
"""
import argparse
import concurrent.futures
import json
import resource
import statistics
import subprocess
import sys
import time

from fred_strategies import FABRICS, STRATEGIES, SWEPT, SWEPT_BATCH, swept_strategy, train_options

PLACEMENTS_LIMIT_S = 0.1
SET_LIMIT_S = 0.1
SEEDS = 10
ROUNDS = 5
ADMISSION_LIMIT = 2.0  # times a run without
MEMORY_LIMIT_BYTES = 1 << 30
CORES = 2
SWEEP_LIMIT_S = {"curves": 60, "full": 600}
# How much faster than an H100's roofline each computes, as docs/validation has it.
FASTER = {"Transformer-17B": 12.3, "Transformer-1T": 730.6}
FULL_SEGMENTS = 4  # the page's trainings take 8; 190 of them would take twice their time
# Algorithm, segments: a million each on fred:C; of streams that hold ports on fred:D.
RUNS = [("fred:C", "ring", 1316), ("fred:C", "direct", 1316), ("fred:D", "in_switch", 20_000)]


def study(pleach, *words):
    """The only row of a study."""
    command = [pleach, "fred", "study", *words, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)["rows"][0]


def simulate(pleach, topology, algorithm, *words):
    command = [pleach, "simulate", "--topology", topology, "--algorithm", algorithm, "--size",
               "1GB", *words, "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def admission(pleach):
    """By run: how much longer it takes with admission."""
    ratios = {}
    for topology, algorithm, segments in RUNS:
        words = ["--no-fold", "--segments", str(segments), "--admission"]
        rounds = [simulate(pleach, topology, algorithm, *words, "together")["wall_s"]
                  / simulate(pleach, topology, algorithm, *words, "free")["wall_s"]
                  for _ in range(ROUNDS)]
        ratios[f"{topology} {algorithm}"] = {"ratio": statistics.median(rounds),
                                             "limit": ADMISSION_LIMIT}
    return ratios


def largest_bytes(pleach):
    simulate(pleach, "fred:D,npus=1024,radix=32", "in_switch", "--segments", "16")
    return 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def trainings(costs):
    """Options of every `pleach train` of the sweep."""
    for name, (workload, micro_batches) in SWEPT.items():
        for strategy in STRATEGIES:
            for fabric in FABRICS:
                options = train_options(fabric, workload, swept_strategy(micro_batches, *strategy),
                                        SWEPT_BATCH, FASTER[name])
                options |= {"costs": "full", "segments": FULL_SEGMENTS} if costs == "full" else {}
                yield {**options, "policy": "sequential"}


def sweep(pleach, costs):
    """How long all of it takes, and the runs that took longest."""
    def run(options):
        words = [word for name, value in options.items()
                 for word in ("--" + name.replace("_", "-"), str(value))]
        begin_s = time.monotonic()
        subprocess.run([pleach, "train", *words, "--json"], capture_output=True, check=True)
        return time.monotonic() - begin_s, f"{options['topology']} {options['strategy']}"

    begin_s = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        runs = list(pool.map(run, trainings(costs)))
    slowest_s, slowest = max(runs)
    return {"runs": len(runs), "wall_s": time.monotonic() - begin_s,
            "limit_s": SWEEP_LIMIT_S[costs], "slowest": slowest, "slowest_s": slowest_s}


def measure(pleach, all_costs):
    placements = study(pleach, "--placements", "--ports", "20", "--middle", "3")
    random = [study(pleach, "--random", "--ports", "256", "--middle", "3", "--flows", "64",
                    "--of", "4", "--sets", "1", "--seed", str(seed))
              for seed in range(1, SEEDS + 1)]
    return {
        "placements": {"sets": placements["sets"], "routed": placements["routed"],
                       "wall_s": placements["wall_s"], "limit_s": PLACEMENTS_LIMIT_S},
        "disjoint_all_reduces": {"sets": len(random),
                                 "routed": sum(row["routed"] for row in random),
                                 "wall_s": max(row["most_wall_s"] for row in random),
                                 "limit_s": SET_LIMIT_S},
        "npus_1024": {"bytes": largest_bytes(pleach), "limit_bytes": MEMORY_LIMIT_BYTES},
        "admission": admission(pleach),
        "sweep": {costs: sweep(pleach, costs) for costs in all_costs},
    }


def missed(result):
    """Names of what is over its limit, or does not route."""
    routed = [name for name in ("placements", "disjoint_all_reduces")
              if result[name]["routed"] < result[name]["sets"]
              or result[name]["wall_s"] > result[name]["limit_s"]]
    late = [f"sweep by {costs}" for costs, row in result["sweep"].items()
            if row["wall_s"] > row["limit_s"]]
    memory = result["npus_1024"]["bytes"] > result["npus_1024"]["limit_bytes"]
    return (routed + late + (["npus_1024"] if memory else [])
            + [name for name, row in result["admission"].items() if row["ratio"] > row["limit"]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pleach", default="build/release/pleach")
    parser.add_argument("--full", action="store_true", help="the sweep with full costs, too")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    result = measure(arguments.pleach, ["curves", "full"] if arguments.full else ["curves"])
    print(json.dumps(result, indent=2))
    for name in missed(result):
        print(f"fred: {name} missed its limit", file=sys.stderr)
    return 1 if arguments.check and missed(result) else 0


if __name__ == "__main__":
    sys.exit(main())
