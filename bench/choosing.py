#!/usr/bin/env python3
"""Tells how far what `--algorithm auto` takes is from the best algorithm, as one JSON object.

    python3 bench/choosing.py --pleach build/release/pleach [--ranks 2,4,8] [--rounds 5]
        [--transport shm,tcp] [--sizes 1KiB:64MiB:4] [--collective all_reduce] [--probed] [--check]

Rounds are interleaved: in each, `auto` and every registered algorithm that does the collective run
all sizes once, with the same iterations, under `chrt -r 1` where that is permitted. A ratio is the
time of `auto` over that of another algorithm, of each round, and then the median; a size's figure
is the largest of these, its regret. Only algorithms count that leave the same bits on all ranks:
`auto` takes no others. The noise of a size is the same figure of `auto` itself, timed a second
time. With --probed `auto` has a book that `pleach probe --book` measured just before. With --check
a few sizes are measured, and the exit status is 1 where a regret is beyond its limit: what holds on
a machine that others use too.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import peers

AGAIN = " again"  # auto, a second time: what noise alone makes of a ratio
CHECKED = {"ranks": [2, 4], "sizes": [1 << 10, 64 << 10, 1 << 20], "limit": 1.6,
           "most_noise": 1.5}


def algorithms_of(pleach, collective, ranks, folder):
    """Those that do the collective among so many ranks and leave the same bits on all."""
    listed = json.loads(peers.run([pleach, "list", "algorithms", "--json"]))
    names = [entry["name"] for entry in listed["algorithms"]]
    found = []
    for name in [*names, "direct,mode=one_shot", "tree,arity=1"]:
        file = os.path.join(folder, f"{name}.{ranks}.pleach")
        made = subprocess.run([pleach, "synthesize", "--topology", f"fully_connected:{ranks}",
                               "--algorithm", name, "--collective", collective, "-o", file],
                              capture_output=True)
        if made.returncode == 0:
            proof = json.loads(peers.run([pleach, "verify", file, "--json"]))
            if proof["correct"] and proof["bitwise_replicated"]:
                found.append(name)
    return found


def time_rows(arguments, transport, ranks, algorithm, sizes):
    """The row of each size."""
    rows = {}
    classes = {}
    for size in sizes:
        classes.setdefault(peers.iterations_of(size), []).append(size)
    for (iterations, warmup), those in classes.items():
        answer = json.loads(peers.run([
            *arguments.priority, arguments.pleach, "run", "--ranks", str(ranks), "--algorithm",
            algorithm, "--collective", arguments.collective, "--transport", transport, "--sizes",
            ",".join(map(str, those)), "-n", str(iterations), "-w", str(warmup), "--in-place",
            "never", "--json"]))
        if answer["wrong_count"]:
            raise SystemExit(f"{algorithm}: {answer['wrong_count']} wrong elements")
        rows.update({row["size_bytes"]: row for row in answer["rows"]})
    return rows


def probe(arguments, transport, ranks, sizes, folder):
    """Gives `auto` a book that was measured."""
    book = os.path.join(folder, f"{transport}.{ranks}.book")
    peers.run([*arguments.priority, arguments.pleach, "probe", "--ranks", str(ranks),
               "--transport", transport, "--sizes", ",".join(map(str, sizes)), "--book", book],
              limit_s=600)
    os.environ["PLEACH_BOOK"] = book


def measure(arguments, transport, ranks, sizes, folder):
    """A row for each size: what auto took, the best, and how far it was from it."""
    names = algorithms_of(arguments.pleach, arguments.collective, ranks, folder)
    if arguments.probed:
        probe(arguments, transport, ranks, sizes, folder)
    contenders = ["auto", *names, "auto" + AGAIN]
    times = {name: [] for name in contenders}
    for current in range(arguments.rounds):
        print(f"{transport}, {ranks} ranks: round {current + 1} of {arguments.rounds}",
              file=sys.stderr)
        for name in contenders:
            times[name].append(time_rows(arguments, transport, ranks, name.removesuffix(AGAIN),
                                         sizes))
    rows = []
    for size in times["auto"][0]:
        ratios = {name: statistics.median(auto[size]["time_s"] / other[size]["time_s"]
                                          for auto, other in zip(times["auto"], times[name]))
                  for name in contenders[1:]}
        noise = ratios.pop("auto" + AGAIN)
        taken = times["auto"][0][size]
        if taken["segments"] == 1 and taken["algorithm"] in ratios:
            ratios[taken["algorithm"]] = 1.0  # the same schedule
        best = max(ratios, key=ratios.get)
        rows.append({"transport": transport, "ranks": ranks, "size_bytes": size,
                     "algorithm": taken["algorithm"], "segments": taken["segments"],
                     "time_s": statistics.median(one[size]["time_s"] for one in times["auto"]),
                     "best": best, "regret": ratios[best], "noise": max(noise, 1 / noise),
                     "ratios": ratios})
    return rows


def table(rows):
    yield (f"{'transport':<9} {'ranks':>5} {'bytes':>9} {'auto takes':<22} {'time':>10} "
           f"{'best':<22} {'regret':>6} {'noise':>6}")
    for row in rows:
        yield (f"{row['transport']:<9} {row['ranks']:>5} {row['size_bytes']:>9} "
               f"{row['algorithm']:<22} {row['time_s'] * 1e6:>7.1f} us {row['best']:<22} "
               f"{row['regret']:>6.2f} {row['noise']:>6.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pleach", default="build/release/pleach")
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transport", default="shm,tcp")
    parser.add_argument("--sizes", default="1KiB:64MiB:4")
    parser.add_argument("--collective", default="all_reduce")
    parser.add_argument("--probed", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    allowed = subprocess.run(["chrt", "-r", "1", "true"], capture_output=True).returncode == 0
    arguments.priority = ["chrt", "-r", "1"] if allowed else []
    sizes, all_ranks = peers.parse_sizes(arguments.sizes), map(int, arguments.ranks.split(","))
    if arguments.check:
        sizes, all_ranks = CHECKED["sizes"], CHECKED["ranks"]
    os.environ.pop("PLEACH_BOOK", None)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for ranks in all_ranks:
            for transport in arguments.transport.split(","):
                rows += measure(arguments, transport, ranks, sizes, folder)
    print("\n".join(table(rows)), file=sys.stderr)
    print(json.dumps({"collective": arguments.collective, "rows": rows}))
    beyond = [row for row in rows
              if row["regret"] > CHECKED["limit"] * min(row["noise"], CHECKED["most_noise"])]
    return 1 if arguments.check and beyond else 0


if __name__ == "__main__":
    sys.exit(main())
