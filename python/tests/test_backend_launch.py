# timeout_s: 300
from __future__ import annotations

import concurrent.futures
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

# Nothing in it knows Pleach but the backend's name.
SCRIPT = """
import sys
import time
import torch
import torch.distributed as dist

dist.init_process_group("pleach")
tensor = torch.ones(3)
dist.all_reduce(tensor)
assert tensor.tolist() == [dist.get_world_size()] * 3
if dist.get_rank() == 0:
    dist.send(tensor, 1)
elif dist.get_rank() == 1:
    time.sleep(1)  # the other one ends meanwhile
    dist.recv(tensor, 0)
if "destroy" in sys.argv:
    dist.destroy_process_group()
print(f"rank {dist.get_rank() if dist.is_initialized() else '?'} is well", flush=True)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    from pleach.torch._build import build_shim

    build_shim()
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def test_torchrun_starts_a_script_that_does_not_know_pleach(script: str) -> None:
    """And that ends without a word; the ranks of the next test destroy their group."""
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    told = subprocess.run(
        [*command, "--nproc-per-node", "3", script],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("is well") == 3


def test_ranks_meet_by_the_environment(script: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", script, "destroy"],
            env={**os.environ, **place, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for rank in ranks:
        try:
            stdout, stderr = rank.communicate(timeout=60)
        finally:
            rank.kill()
        assert rank.returncode == 0, stderr
        assert "is well" in stdout


def compiler(folder: Path, compiles: str, tells_version: str = "echo 1.0") -> str:
    """Returns a script to call as a compiler; each compile adds a line to folder/count."""
    path = folder / "compiler"
    path.write_text(
        f"#!/bin/sh\n"
        f'if [ "$1" = --version ]; then {tells_version}; exit; fi\n'
        f"echo once >> {folder}/count\n"
        f"{compiles}\n"
    )
    path.chmod(0o755)
    return str(path)


def test_a_compile_that_fails_is_not_tried_by_every_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pleach.torch._build import build_shim

    monkeypatch.setenv("PLEACH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", compiler(tmp_path, "sleep 1; exit 1"))
    with concurrent.futures.ThreadPoolExecutor() as ranks:
        builds = [ranks.submit(build_shim) for _ in range(3)]
    said = {str(build.exception()) for build in builds}
    assert len(said) == 1
    assert "does not compile against" in said.pop()
    assert (tmp_path / "count").read_text().count("once") == 1
    with pytest.raises(ImportError):
        build_shim()
    assert (tmp_path / "count").read_text().count("once") == 2, "who comes later tries again"


@pytest.mark.parametrize(
    ("compiles", "tells_version", "said"),
    [
        ("exec sleep 60", "echo 1.0", r"compiler has not compiled the backend within 1 s: .*log"),
        ("", "exec sleep 60", r"compiler --version` has not ended within 1 s"),
    ],
)
def test_a_compiler_that_does_not_end_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compiles: str,
    tells_version: str,
    said: str,
) -> None:
    from pleach.torch import _build

    monkeypatch.setattr(_build, "_DEADLINE_S", 1.0)
    monkeypatch.setattr(_build, "_VERSION_DEADLINE_S", 1.0)
    monkeypatch.setenv("PLEACH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", compiler(tmp_path, compiles, tells_version))
    with pytest.raises(ImportError, match=said):
        _build.build_shim()
