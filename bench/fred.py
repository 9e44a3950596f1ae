#!/usr/bin/env python3
"""How long FRED's router takes, on one core: as one JSON object.

    python3 bench/fred.py --pleach build/release/pleach [--check]

Every phase of every strategy of 2 to 20 workers on FRED_3(20), and 64 disjoint all-reduces of 4
random ports each on FRED_3(256), ten seeds. With --check the exit status is 1 where something does
not route, or takes longer than its limit.
"""
import argparse
import json
import subprocess
import sys

PLACEMENTS_LIMIT_S = 0.1
SET_LIMIT_S = 0.1
SEEDS = 10


def study(pleach, *words):
    """The only row of a study."""
    command = [pleach, "fred", "study", *words, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)["rows"][0]


def measure(pleach):
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
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pleach", default="build/release/pleach")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    result = measure(arguments.pleach)
    print(json.dumps(result, indent=2))
    missed = [name for name, row in result.items()
              if row["routed"] < row["sets"] or row["wall_s"] > row["limit_s"]]
    for name in missed:
        print(f"fred: {name} missed its limit", file=sys.stderr)
    return 1 if arguments.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
