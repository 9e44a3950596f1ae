#!/usr/bin/env python3
"""Policies on a thousand random profiles, each figure beside its limit, as one JSON object.

    python3 bench/policies.py --pleach build/release/pleach [--check] [--profiles N]

Runs policy_benchmark, which must have been built beside the pleach binary
(-DPLEACH_BUILD_BENCHMARKS=ON). With --check the exit status is 1 when a limit is missed.
"""
import argparse
import pathlib
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pleach", required=True, help="the binary, built for release")
    parser.add_argument("--check", action="store_true", help="exit 1 when a limit is missed")
    parser.add_argument("--profiles", help="how many; default 1000")
    options = parser.parse_args()
    benchmark = pathlib.Path(options.pleach).resolve().with_name("policy_benchmark")
    if not benchmark.exists():
        raise SystemExit(f"{benchmark}: not there; build with -DPLEACH_BUILD_BENCHMARKS=ON")
    command = [benchmark]
    command += ["--check"] if options.check else []
    command += ["--profiles", options.profiles] if options.profiles else []
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
