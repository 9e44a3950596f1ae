#!/usr/bin/env python3
"""All-reduces the gradients of ResNet-50: planned, proved, simulated, and run on real ranks.

For each topology every algorithm's schedule is written, proved correct and timed by the flow
simulator; then the ring's and MultiTree's schedules for the 4x4 torus run on 16 processes of this
machine, over shared memory, beside the algorithm that `auto` takes for ranks of one machine, with
every result compared with a serial reference.
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
REAL_TOPOLOGY, REAL_ALGORITHMS, REAL_RANKS = "torus_4x4", ("ring", "multitree"), 16
REAL_ITERATIONS = 2
AUTO = "auto"
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
    """Real processes on this machine; wrong elements, or a lost rank, end the demo."""
    sources = {AUTO: ["--algorithm", AUTO]}
    for algorithm in REAL_ALGORITHMS:
        sources[algorithm] = [plans[algorithm]["path"], "--topology",
                              EXAMPLES / f"{REAL_TOPOLOGY}.toml", "--segments",
                              plans[algorithm]["timing"]["segments"]]
    rows = {}
    for algorithm, source in sources.items():
        progress(f"{REAL_TOPOLOGY}: running {ALGORITHMS.get(algorithm, algorithm)} on "
                 f"{REAL_RANKS} processes ...")
        report = pleach(binary, "run", *source, "--ranks", REAL_RANKS, "--transport", "shm",
                        "--sizes", size_bytes, "--iterations", REAL_ITERATIONS, "--in-place",
                        "only", "--deadline", "60s")
        rows[algorithm] = report["rows"][0]
    progress("")
    return rows


def verdict(plans, rows):
    """What these runs show, and what they do not."""
    times = {algorithm: row["time_s"] for algorithm, row in rows.items()}
    fastest = min(times, key=times.get)
    simulated = {one: plans[one]["timing"]["time_ps"] for one in REAL_ALGORITHMS}
    real = {one: times[one] for one in REAL_ALGORITHMS}
    same = min(simulated, key=simulated.get) == min(real, key=real.get)
    name = lambda one: f"what auto takes ({rows[AUTO]['algorithm']})" if one == AUTO \
        else ALGORITHMS[one]
    yield (f"Fastest here: {name(fastest)}, {max(times.values()) / times[fastest]:.2f}x as fast as "
           f"the slowest.")
    if fastest != AUTO:
        yield f"What auto takes needs {times[AUTO] / times[fastest]:.2f}x its time."
    yield (f"{ALGORITHMS[min(simulated, key=simulated.get)]} is the faster one of the torus's two "
           f"in the simulation, and {'here too' if same else 'not here'}: a torus has "
           f"a link for every hop, and this machine one memory for all.")


def print_real(plans, rows):
    print(f"\nreal: {REAL_RANKS} processes of this machine, over shared memory; ring and MultiTree "
          f"in the pattern of the {REAL_TOPOLOGY.replace('_', ' ')}")
    print(f"\n  {'algorithm':<26} {'real time':>10}  {'algbw':>10} {'over ring':>10}  "
          f"{'simulated':>10} {'over ring':>10}  results checked")
    for algorithm, row in rows.items():
        title = ALGORITHMS.get(algorithm, f"{algorithm}: {row['algorithm']}")
        real = rows["ring"]["time_s"] / row["time_s"]
        simulated = f"{'-':>10} {'-':>10}"
        if algorithm in plans:
            time_ps = plans[algorithm]["timing"]["time_ps"]
            ratio = plans["ring"]["timing"]["time_ps"] / time_ps
            simulated = f"{time_ps / 1e9:>7.2f} ms {ratio:>9.2f}x"
        print(f"  {title:<26} {row['time_s']:>8.2f} s  "
              f"{row['algbw_bytes_per_s'] / 1e9:>5.2f} GB/s {real:>9.2f}x  {simulated}  "
              f"{row['element_count'] * REAL_RANKS:,}: {row['wrong_count']} wrong")
    print()
    for line in verdict(plans, rows):
        print(f"  {line}")


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
        print_real(real_plans, run_real(binary, real_plans, size_bytes))


if __name__ == "__main__":
    main()
