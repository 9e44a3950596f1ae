#!/usr/bin/env python3
"""All-reduces the gradients of ResNet-50: planned, proved, simulated, and run on real ranks.

For each topology every algorithm's schedule is written, proved correct and timed by the flow
simulator; then MultiTree's schedule for the 4x4 torus runs on 16 processes of this machine, over
TCP, with every result compared with a serial reference.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import resnet50_gradients

EXAMPLES = pathlib.Path(__file__).resolve().parent
TOPOLOGIES = ("torus_4x4", "mesh_4x4", "torus_8x8", "mesh_8x8")
ALGORITHMS = {
    "ring": "ring",
    "bidirectional_ring": "bidirectional ring",
    "halving_doubling": "halving and doubling",
    "multitree,step_rule=published": "MultiTree, as published",
    "multitree": "MultiTree, repaired",
}
REAL_TOPOLOGY, REAL_ALGORITHM, REAL_RANKS = "torus_4x4", "multitree", 16
REAL_ITERATIONS = 2
BAR_WIDTH = 20


def progress(text):
    """One line on stderr; on a terminal the next one replaces it."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def pleach(binary, *arguments):
    """Runs one command and returns its JSON; ends the demo with the command's own error."""
    command = [binary, *map(str, arguments), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        progress("")
        sys.exit(f"{' '.join(command)}\nexit code {result.returncode}: {result.stderr.strip()}")
    return json.loads(result.stdout)


def plan(binary, topology, algorithm, size_bytes, folder):
    """Writes, proves and times one schedule."""
    spec = EXAMPLES / f"{topology}.toml"
    path = pathlib.Path(folder) / f"{topology}.{algorithm.replace(',', '.')}.pleach"
    schedule = pleach(binary, "synthesize", "--topology", spec, "--algorithm", algorithm,
                      "-o", path)
    proof = pleach(binary, "verify", path, "--topology", spec)
    timing = pleach(binary, "simulate", path, "--topology", spec, "--size", size_bytes,
                    "--segments", "auto")
    return {"schedule": schedule, "proof": proof, "timing": timing, "path": path}


def bar(fraction):
    filled = round(min(fraction, 1) * BAR_WIDTH)
    return "█" * filled + "░" * (BAR_WIDTH - filled)


def print_topology(binary, topology, plans):
    summary = pleach(binary, "topology", EXAMPLES / f"{topology}.toml")
    bound = summary["bounds"]["all_reduce"]
    print(f"\n{topology.replace('_', ' ')}: {summary['rank_count']} ranks, "
          f"{summary['link_count']} links of 16 GB/s; "
          f"at best {bound['algbw_bytes_per_s'] / 1e9:.1f} GB/s, for")
    print(f"  {bound['witness']}")
    print(f"\n  {'algorithm':<24} {'steps':>5}  {'proof':<5} {'time':>9}  {'algbw':>9}  "
          f"{'of the bound':<{BAR_WIDTH + 6}} {'over ring':>9}")
    ring_ps = plans["ring"]["timing"]["time_ps"]
    for algorithm, title in ALGORITHMS.items():
        timing, schedule = plans[algorithm]["timing"], plans[algorithm]["schedule"]
        fraction = timing["algbw_bytes_per_s"] / bound["algbw_bytes_per_s"]
        proof = "holds" if plans[algorithm]["proof"]["correct"] else "FAILS"
        print(f"  {title:<24} {schedule['step_count']:>5}  {proof:<5} "
              f"{timing['time_ps'] / 1e9:>6.2f} ms  "
              f"{timing['algbw_bytes_per_s'] / 1e9:>4.1f} GB/s  "
              f"{bar(fraction)} {fraction:>4.0%} {ring_ps / timing['time_ps']:>8.2f}x")


def run_real(binary, plans, size_bytes):
    """MultiTree on real processes; the demo fails when a single element is wrong."""
    path = plans[REAL_ALGORITHM]["path"]
    segments = plans[REAL_ALGORITHM]["timing"]["segments"]
    report = pleach(binary, "run", path, "--ranks", REAL_RANKS, "--topology",
                    EXAMPLES / f"{REAL_TOPOLOGY}.toml", "--sizes", size_bytes, "--segments",
                    segments, "--iterations", REAL_ITERATIONS, "--in-place", "only",
                    "--deadline", "60s")
    row = report["rows"][0]
    elements = row["element_count"] * REAL_RANKS
    print(f"\nreal: {ALGORITHMS[REAL_ALGORITHM]}, {REAL_RANKS} processes of this machine in the "
          f"{REAL_TOPOLOGY.replace('_', ' ')}'s pattern, over {report['transport']}")
    print(f"  {row['size_bytes']:,} bytes on each rank in {row['time_s']:.2f} s, "
          f"algbw {row['algbw_bytes_per_s'] / 1e9:.2f} GB/s, busbw "
          f"{row['busbw_bytes_per_s'] / 1e9:.2f} GB/s; simulated on the torus: "
          f"{plans[REAL_ALGORITHM]['timing']['time_ps'] / 1e9:.2f} ms")
    print(f"  {elements:,} results compared with the serial sum: {row['wrong_count']} wrong")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pleach", default="build/release/pleach", help="the built command")
    binary = parser.parse_args().pleach
    size_bytes = resnet50_gradients.gradient_bytes()
    print(f"All-reduce of ResNet-50's gradients: {resnet50_gradients.TENSOR_COUNT} tensors, "
          f"{resnet50_gradients.PARAMETER_COUNT:,} float32, {size_bytes:,} bytes on every rank")
    with tempfile.TemporaryDirectory(prefix="pleach-demo-") as folder:
        real_plans = None
        for topology in TOPOLOGIES:
            plans = {}
            for algorithm, title in ALGORITHMS.items():
                progress(f"{topology}: planning, proving and simulating {title} ...")
                plans[algorithm] = plan(binary, topology, algorithm, size_bytes, folder)
            progress("")
            print_topology(binary, topology, plans)
            if topology == REAL_TOPOLOGY:
                real_plans = plans
        progress(f"running on {REAL_RANKS} processes ...")
        run_real(binary, real_plans, size_bytes)
        progress("")


if __name__ == "__main__":
    main()
