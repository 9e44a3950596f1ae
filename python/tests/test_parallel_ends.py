"""A rank whose process ends is named by the others at once, and nothing holds a process up."""

# timeout_s: 400
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from pleach.torch._build import build_shim

WAYS = {"raise": 1, "exit": 3, "os_exit": 4, "kill": -9, "together": 0}
# Far beyond what an answer takes, far below what ranks would wait for without one.
SOON_S = 8.0


CASES = [("gloo", 3), ("pleach", 2)]
OTHERS = [("gloo", 2), ("pleach", 3)]


@pytest.mark.parametrize(
    ("backend", "count"), CASES + OTHERS if os.environ.get("PLEACH_LONG") else CASES
)
def test_a_rank_that_ends_is_named(backend: str, count: int) -> None:
    build_shim()  # which takes longer than ranks wait for each other
    script = pathlib.Path(__file__).with_name("parallel_ends.py")
    command = [sys.executable, "-W", "ignore", str(script), backend, str(count), *WAYS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    for (way, code), line in zip(WAYS.items(), done.stdout.splitlines(), strict=True):
        told = json.loads(line)
        *others, (last_code, last_said_s, _, _) = told
        assert last_code == code, (way, line, done.stderr)
        for own_code, said_s, _, said in others:
            if way == "together":
                assert (own_code, said) == (0, "the end"), (way, line, done.stderr)
                continue
            assert own_code == 9, (way, line, done.stderr)
            assert said_s - last_said_s < SOON_S, (way, line)
            assert f"rank {count - 1} has left" in said, (way, line)
            if way == "raise":
                assert "ZeroDivisionError: in the loop (parallel_ends.py:" in said, line
