"""The examples run, and so does what the documents show."""

# timeout_s: 400

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pleach

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "python"
PLEACH = os.environ.get("PLEACH", "pleach")
# Where many share the cores, starting PyTorch takes its time.
pytestmark = pytest.mark.timeout(190)


def run(*words: str, folder: Path) -> str:
    """Runs a program in a folder; returns what it prints."""
    ended = subprocess.run(
        words, capture_output=True, text=True, timeout=180, check=False, cwd=folder
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_own_schedule(tmp_path: Path) -> None:
    script = str(EXAMPLES / "own_schedule.py")
    printed = run(sys.executable, script, "--output", "line.json", folder=tmp_path)
    assert "contention free True" in printed
    assert "both_ways" in printed
    assert pleach.verify(pleach.load(tmp_path / "line.json")).correct
    assert "correct" in run(PLEACH, "verify", "line.json", folder=tmp_path)


def test_averages(tmp_path: Path) -> None:
    script = str(EXAMPLES / "averages.py")
    printed = run(PLEACH, "launch", "-n", "3", "--", sys.executable, script, folder=tmp_path)
    assert "3 ranks over" in printed
    assert "agree on 5.0" in printed


def test_which_network(tmp_path: Path) -> None:
    printed = run(sys.executable, str(EXAMPLES / "which_network.py"), folder=tmp_path)
    assert len(printed.splitlines()) == 4


@pytest.mark.parametrize("document", ["docs/python.md"])
def test_documents(document: str, tmp_path: Path) -> None:
    """The ```python blocks of a document, one program."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.M | re.S)
    assert blocks
    script = tmp_path / "document.py"
    script.write_text("\n".join(blocks))
    run(PLEACH, "launch", "-n", "1", "--", sys.executable, str(script), folder=tmp_path)


def test_train_resnet(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = str(EXAMPLES / "train_resnet.py")
    words = ("--ranks", "2", "--steps", "1", "--rounds", "1")
    printed = run(sys.executable, script, *words, folder=tmp_path)
    assert "DDP over Gloo" in printed
    assert "dear over Pleach" in printed
    apart = re.search(r"apart by at most (\S+) of", printed)
    assert apart is not None
    assert float(apart[1]) < 1e-12


def test_data_parallel(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = str(EXAMPLES / "data_parallel.py")
    words = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script)
    printed = run(sys.executable, *words, folder=tmp_path)
    losses = [float(one) for one in re.findall(r"loss (\S+)", printed)]
    assert len(losses) == 3
    assert losses[2] < losses[0]
    assert "6 tensors of state" in printed
    assert "reduce_scatter" in printed
