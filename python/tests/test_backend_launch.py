# timeout_s: 300
from __future__ import annotations

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
import torch
import torch.distributed as dist

dist.init_process_group("pleach")
tensor = torch.ones(3)
dist.all_reduce(tensor)
assert tensor.tolist() == [dist.get_world_size()] * 3
if dist.get_rank() == 0:
    dist.send(tensor, 1)
elif dist.get_rank() == 1:
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


@pytest.mark.parametrize("ending", ["destroy", "exit"])
def test_torchrun_starts_a_script_that_does_not_know_pleach(script: str, ending: str) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    told = subprocess.run(
        [*command, "--nproc-per-node", "3", script, ending],
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
