#!/usr/bin/env python3
"""Runs the distributed tests that PyTorch ships, over Gloo and over Pleach, and compares.

All that passes on Gloo has to pass on Pleach in the same run, and nothing may be skipped that Gloo
runs, but for those of BY_NAME.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

# They compare the backend's name, or torch refuses them by it.
BY_NAME = {
    "test_get_backend": "compares the name of a group's backend with BACKEND",
    "test_ddp_logging_data_cpu": "compares the name that DDP logs with gloo",
} | {
    name: "torch.distributed.monitored_barrier refuses any name but gloo"
    for name in ("test_monitored_barrier_gloo", "test_monitored_barrier_gloo_subgroup",
                 "test_monitored_barrier_failure_order", "test_monitored_barrier_wait_all_ranks")
}
RUN_DEADLINE_S = 3600


class Outcomes(unittest.TextTestResult):
    """How each test ended, by its name."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.by_name = {}
        self.began = 0.0

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def note(self, test, outcome, why=""):
        seconds = time.monotonic() - self.began
        self.by_name[test.id().split(".")[-1]] = {
            "outcome": outcome,
            "why": why,
            "seconds": round(seconds, 2),
        }

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "failed", self._exc_info_to_string(err, test))

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "failed", self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "failed", self._exc_info_to_string(err, test))


def run_here(names, path):
    """Runs the tests in this process's environment, and writes how they ended."""
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import torch_suite_cases

    loader = unittest.TestLoader()
    all_names = loader.getTestCaseNames(torch_suite_cases.Suite)
    chosen = [name for name in all_names if not names or name in names]
    suite = unittest.TestSuite(torch_suite_cases.Suite(name) for name in chosen)
    runner = unittest.TextTestRunner(resultclass=Outcomes, verbosity=2)
    result = runner.run(suite)
    pathlib.Path(path).write_text(json.dumps(result.by_name))


def run_with(backend, ranks, names, folder):
    """Returns how the tests ended over a backend among so many ranks, by name."""
    path = pathlib.Path(folder) / f"{backend}-{ranks}.json"
    log = path.with_suffix(".log")
    # The server that ranks are forked from imports the cases; it is told where they are so alone.
    paths = [str(pathlib.Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = dict(
        os.environ,
        PLEACH_SUITE_BACKEND=backend,
        WORLD_SIZE=str(ranks),
        BACKEND="gloo",
        TEMP_DIR=tempfile.mkdtemp(dir=folder),
        OMP_NUM_THREADS="1",
        PYTHONPATH=os.pathsep.join(path for path in paths if path),
    )
    command = [sys.executable, __file__, "--write", str(path), *names]
    print(f"{backend}, {ranks} ranks: running, {log} has what is said", file=sys.stderr, flush=True)
    with log.open("w") as output:
        ended = subprocess.run(
            command,
            env=environment,
            stdout=output,
            stderr=output,
            timeout=RUN_DEADLINE_S,
            check=False,
        )
    if not path.exists():
        sys.exit(f"{backend}, {ranks} ranks: ended with {ended.returncode}, see {log}")
    return json.loads(path.read_text())


def compare(ranks, gloo, pleach):
    """Prints what differs; returns whether something does that has no reason."""
    is_well = True
    passed = [name for name, one in gloo.items() if one["outcome"] == "passed"]
    same = [name for name in passed if pleach[name]["outcome"] == "passed"]
    print(
        f"{ranks} ranks: {len(passed)} pass on gloo, {len(same)} of them on pleach; "
        f"{sum(one['outcome'] == 'skipped' for one in gloo.values())} skipped on gloo, "
        f"{sum(one['outcome'] == 'failed' for one in gloo.values())} failed"
    )
    for name in passed:
        if name in same:
            continue
        reason = BY_NAME.get(name)
        is_well = is_well and reason is not None
        print(
            f"  {name}: {pleach[name]['outcome']} on pleach: "
            f"{reason or pleach[name]['why'].strip().splitlines()[-1]}"
        )
    for name, one in pleach.items():
        if one["outcome"] == "passed" and gloo[name]["outcome"] != "passed":
            print(f"  {name}: passed on pleach, {gloo[name]['outcome']} on gloo")
    return is_well


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="tests; all unless given")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--keep", help="a folder for logs and results")
    parser.add_argument("--gloo", action="store_true", help="take Gloo's results from --keep")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        run_here(options.names, options.write)
        return
    folder = options.keep or tempfile.mkdtemp(prefix="pleach-torch-suite-")
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    is_well = True
    for ranks in map(int, options.ranks.split(",")):
        kept = pathlib.Path(folder) / f"gloo-{ranks}.json"
        if options.gloo and kept.exists():
            gloo = json.loads(kept.read_text())
        else:
            gloo = run_with("gloo", ranks, options.names, folder)
        pleach = run_with("pleach", ranks, options.names, folder)
        gloo = {name: one for name, one in gloo.items() if name in pleach}
        is_well = compare(ranks, gloo, pleach) and is_well
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
