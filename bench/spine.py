#!/usr/bin/env python3
"""Time and memory of the large cases, each beside its limit, as one JSON object.

    python3 bench/spine.py --pleach build/release/pleach [--check] [--only NAME]

Every case checks what it computes (step counts, event counts, verdicts). With --check the exit
status is 1 when a limit or a check fails. Limits are for 2 cores of a shared machine: they are met
with room to spare when it is quiet.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

GIB = 1 << 30
MB = 10**6
RING = ["--algorithm", "ring", "--collective", "all_reduce", "--size", "1GiB", "--segments", "4"]
RING_SEGMENTS = 4096 * 2 * 4095 * 4

# name, arguments, limits, what the JSON must say
CASES = [
    ("synthesize_torus_8x8", ["synthesize", "--topology", "torus:8x8", "--algorithm", "multitree"],
     {"library_s": 0.020}, {"phase_steps": [17, 17]}),
    ("synthesize_torus_32x32",
     ["synthesize", "--topology", "torus:32x32", "--algorithm", "multitree", "-o", "{file}"],
     {"wall_s": 3, "memory_bytes": GIB}, {"transfer_count": 2 * 1024 * 1023}),
    ("verify_torus_32x32", ["verify", "{file}", "--topology", "torus:32x32"],
     {"wall_s": 20}, {"correct": True, "contention_free": True}),
    ("flow_torus_32x32",
     ["simulate", "{file}", "--topology", "torus:32x32", "--size", "64MiB", "--model", "flow"],
     {"wall_s": 60}, {"events": 2 * 1024 * 1023}),
    ("flow_ring_4096_jitter",
     ["simulate", "--topology", "ring:4096,latency_spread=20%,seed=1", *RING],
     {"wall_s": 60, "memory_bytes": 500 * MB}, {"events": RING_SEGMENTS, "folded": False}),
    ("flow_ring_4096_folded", ["simulate", "--topology", "ring:4096", *RING],
     {"wall_s": 2}, {"events": RING_SEGMENTS, "folded": True}),
    ("topology_fat_tree_1024", ["topology", "fat_tree:1024"],
     {"wall_s": 1}, {"rank_count": 1024, "link_count": 2 * 3 * 1024, "diameter": 6}),
    ("spread_fat_tree_1024",
     ["synthesize", "--topology", "fat_tree:1024,routing=spread", "--algorithm", "direct",
      "--collective", "all_to_all"],
     {"wall_s": 20, "memory_bytes": GIB}, {"transfer_count": 1024 * 1023}),
]


def measure(command):
    """Runs a command; returns its JSON, wall and CPU seconds, and its own peak memory."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        wall_s = time.monotonic() - started
        out.seek(0)
        text = out.read()
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{' '.join(command)}: exit {os.waitstatus_to_exitcode(status)}")
    return json.loads(text), wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def run_case(case, pleach, file):
    name, arguments, limits, expected = case
    command = [pleach, *(argument.format(file=file) for argument in arguments), "--json"]
    answer, wall_s, cpu_s, memory_bytes = measure(command)
    row = {"name": name, "wall_s": round(wall_s, 4), "cpu_s": round(cpu_s, 4),
           "library_s": answer.get("wall_s"), "memory_bytes": memory_bytes, "limits": limits}
    row["wrong"] = [f"{key} is {answer.get(key)}, not {value}"
                    for key, value in expected.items() if answer.get(key) != value]
    row["over"] = [key for key, limit in limits.items() if row[key] > limit]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pleach", required=True, help="the binary, built for release")
    parser.add_argument("--check", action="store_true", help="exit 1 when a limit is exceeded")
    parser.add_argument("--only", help="run the cases whose name contains this")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "torus_32x32.pleach")
        for case in CASES:
            makes_file = "{file}" in case[1] and case[1][0] == "synthesize"
            if options.only and options.only not in case[0] and not makes_file:
                continue
            print(f"{case[0]} ...", file=sys.stderr, flush=True)
            rows.append(run_case(case, options.pleach, file))
    failed = [row["name"] for row in rows if row["wrong"] or row["over"]]
    print(json.dumps({"rows": rows, "failed": failed}, indent=2))
    return 1 if options.check and failed else 0


if __name__ == "__main__":
    sys.exit(main())
