#!/usr/bin/env python3
"""Which policies bear a slow rank: one of 16 ranks computes up to 1.5 times as long.

    python3 examples/straggler.py --pleach build/release/pleach

A slow rank sends its gradients late, and all others wait for them: no policy can hide that. What a
policy can do is to use the time: the channel is idle while the slow rank computes, so the slower it
is, the less communication stays exposed.
"""
import argparse
import json
import subprocess
import sys

SLOWNESS = (1, 1.1, 1.25, 1.5)
POLICIES = ("ddp", "dear", "work_conserving")
SLOW_RANK = 5
# An iteration may not be faster than the slowest rank computes; half a per cent is the curves'.
TOLERANCE = 0.005


def train(binary, slowness):
    """Rows of one simulation, by policy [s]."""
    command = [binary, "train", "--workload", "resnet50", "--topology",
               "torus:4x4,bandwidth=10Gb/s", "--algorithm", "multitree", "--policy",
               ",".join(POLICIES), "--slow", f"{SLOW_RANK}={slowness}", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}\nexit code {result.returncode}: {result.stderr.strip()}")
    return {row["policy"]: row for row in json.loads(result.stdout)["rows"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pleach", required=True, help="the binary")
    options = parser.parse_args()
    print("ResNet-50 on torus:4x4, 10 Gb/s links: iteration time, and what of it is exposed [ms]\n")
    print(f"{'rank ' + str(SLOW_RANK) + ' is slower':<18}", *(f"{name:>20}" for name in POLICIES))
    healthy = None
    for slowness in SLOWNESS:
        rows = train(options.pleach, slowness)
        healthy = healthy or rows
        cells = []
        for name in POLICIES:
            row = rows[name]
            least_s = slowness * healthy[name]["compute_s"]
            if row["iteration_s"] < least_s * (1 - TOLERANCE):
                sys.exit(f"{name}: {row['iteration_s']} s is less than the slow rank computes")
            cells.append(f"{row['iteration_s'] * 1e3:.1f} "
                         f"({row['exposed_communication_s'] * 1e3:.1f})")
        print(f"{slowness:<18}", *(f"{cell:>20}" for cell in cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
