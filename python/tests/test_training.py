"""Simulated trainings are the command's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import pleach

TWO_NUMBERS: dict[str, Any] = {
    "ranks": 16,
    "costs": "alpha_beta",
    "alpha": "15us",
    "bandwidth": "1GB/s",
}


def told(*words: str) -> dict[str, object]:
    run = subprocess.run(
        [os.environ.get("PLEACH", "pleach"), "train", *words, "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    content: dict[str, object] = json.loads(run.stdout)
    return content


def test_rows_are_the_commands() -> None:
    training = pleach.train(
        "resnet50", policy=["dear,bucket=25MiB", "ddp"], explain=True, **TWO_NUMBERS
    )
    words = [f"--{name}={value}" for name, value in TWO_NUMBERS.items()]
    printed = told("--workload=resnet50", "--policy=dear,bucket=25MiB,ddp", *words)
    rows = printed["rows"]
    assert isinstance(rows, list)
    assert [row.policy for row in training.rows] == [row["policy"] for row in rows]
    assert [row.iteration_s for row in training.rows] == [row["iteration_s"] for row in rows]
    assert training.row("ddp").speedup == rows[1]["speedup"]
    assert training.memory_bytes == printed["memory_bytes"]
    buckets = training.row("dear,bucket=25MiB").buckets
    assert {bucket.collective for bucket in buckets} == {"reduce_scatter", "all_gather"}
    assert training.rows[0].tokens_per_s is None
    with pytest.raises(KeyError):
        training.row("horovod")


def test_a_schedule_of_ones_own_is_an_algorithm() -> None:
    ring = pleach.topology("ring:4")
    schedule = pleach.synthesize(ring, "ring,form=explicit")
    mine = pleach.train("resnet50", topology="ring:4", algorithm=schedule, policy="ddp")
    ours = pleach.train("resnet50", topology="ring:4", algorithm="ring", policy="ddp")
    assert mine.rows[0].iteration_s == ours.rows[0].iteration_s


def test_settled_plans() -> None:
    settled = pleach.train("resnet50", policy="dear", options={"settled": True}, **TWO_NUMBERS)
    live = pleach.train("resnet50", policy="dear", options={"settled": False}, **TWO_NUMBERS)
    assert settled.rows[0].iteration_s >= live.rows[0].iteration_s > 0


def test_progress_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    steps: list[str] = []
    rows = str(tmp_path / "tables")
    pleach.train(
        "resnet50", policy="ddp", progress=steps.append, options={"csv": rows}, **TWO_NUMBERS
    )
    assert any("ddp" in step for step in steps)
    assert (tmp_path / "tables" / "rows.csv").exists()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ({"workload": "resnet5"}, "resnet50"),
        ({"workload": "resnet50", "policy": "daer"}, "dear"),
        ({"workload": "resnet50", "strategy": "dp=3"}, "strategy"),
        ({"workload": "resnet50", "options": {"jiter": "1"}}, "jiter"),
        ({"workload": "resnet50", "alpha": "fast"}, "fast"),
        ({"workload": "resnet50", "options": {"jitter": "-1"}}, "jitter"),
    ],
)
def test_refusals_are_one_line(words: dict[str, str], what: str) -> None:
    with pytest.raises(pleach.Error, match=what) as raised:
        pleach.train(**{**TWO_NUMBERS, **words})
    assert "\n" not in str(raised.value)
