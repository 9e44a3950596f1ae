"""Trainings on a star: what to give its ranks, and what comes back, without PyTorch."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
from typing import Any

from bench.paced.job import Job
from testbed import namespaces
from testbed.star import Star

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = ROOT / "bench/paced/train.py"
# What a link carries of TCP's payload, of its rate: 1448 of 1514 bytes.
GOODPUT = 1448 / 1514
# Before others' work on the machine, but not as real time: that would starve progress threads.
PRIORITY = ["nice", "-n", "-20"]


class NotHere(Exception):
    """Trainings cannot be run here; the text says why."""


class Cluster:
    """A star whose hosts train with PyTorch over this build of Pleach.

    Args:
        pleach: The binary of a build whose Python package is beside it (`python/`).
        python: An interpreter with PyTorch; the project's own venv without it.
        rank_count: Hosts.
        rate: Of each link, both ways, such as `200Mbit`.
    """

    def __init__(self, pleach: str, python: str | None, rank_count: int, rate: str):
        self.rank_count = rank_count
        self.rate = rate
        self._pleach = pathlib.Path(pleach).resolve()
        self._python = python or str(ROOT / "build/venv/bin/python")

    @property
    def bytes_per_s(self) -> float:
        """What a link carries each way."""
        return namespaces.bits_per_s(self.rate) / 8 * GOODPUT

    def all_reduce_s(self, size_bytes: int) -> float:
        """What an all_reduce of so many bytes takes at the links' rate."""
        share = 2 * (self.rank_count - 1) / self.rank_count
        return share * size_bytes / self.bytes_per_s

    def check(self) -> None:
        """Returns where trainings can be run.

        Raises:
            NotHere: They cannot.
        """
        reason = namespaces.why_not()
        if reason:
            raise NotHere(reason)
        package = self._package()
        if not (package / "pleach").exists():
            raise NotHere(f"{package} has no Python package (cmake --build)")
        trial = subprocess.run([self._python, "-c", "import torch, pleach.torch"], check=False,
                               capture_output=True, text=True, timeout=600,
                               env={**os.environ, "PYTHONPATH": str(package)}) \
            if pathlib.Path(self._python).exists() else None
        if trial is None:
            raise NotHere(f"{self._python} is not there (tools/python_venv.sh build/venv)")
        if trial.returncode:
            raise NotHere(trial.stderr.strip().split("\n")[-1])

    def _package(self) -> pathlib.Path:
        return self._pleach.parent / "python"

    def train(self, job: Job, timeout_s: float, star: Star | None = None) -> dict[str, Any]:
        """What rank 0 reports of a paced job (bench/paced/train.py); see `run`."""
        return self.run(TRAIN, job.to_json(), timeout_s, star)

    def run(
        self, script: pathlib.Path, job: str, timeout_s: float, star: Star | None = None
    ) -> dict[str, Any]:
        """What rank 0 writes, as JSON, of a script that every rank runs.

        Args:
            script: Its argument is @ and the name of a file with the job.
            job: What the file says.
            timeout_s: When ranks that still run are ended.
            star: On which to run it; one of its own without it.

        Raises:
            RuntimeError: A rank failed; its last words.
        """
        if star is None:
            with Star(self.rank_count, self.rate) as own:
                return self.run(script, job, timeout_s, own)
        with tempfile.TemporaryDirectory() as folder:
            task = pathlib.Path(folder, "job.json")
            task.write_text(job)
            ends = star.run([*PRIORITY, self._python, str(script), f"@{task}"], timeout_s, {
                "PYTHONPATH": str(self._package()), "OMP_NUM_THREADS": "1",
                "PLEACH_NETWORK": f"{self.rate}/s", "PYTHONWARNINGS": "ignore",
            })
        for ended in sorted(ends, key=lambda one: one.code == -9):
            if ended.code:
                raise RuntimeError(f"rank {ended.rank} ended with {ended.code}: "
                                   f"{ended.errors.strip()[-1500:]}")
        report: dict[str, Any] = json.loads(ends[0].output)
        return report
