"""Scripts whose last rank ends in the midst of training, or whose ranks end together.

`parallel_ends.py BACKEND COUNT HOW...` imports PyTorch once and forks the ranks of each way to end;
they end as Python does. It prints a line of JSON for each way: by rank, the exit code, the times of
the rank's last word and of its end, and the word.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import pleach.torch

LONGEST_S = 60.0
STEPS = 8


def main(how: str, backend: str, rank: int, count: int, folder: Path) -> None:
    """What a rank's script is."""
    said = folder / f"said-{rank}"
    store = dist.FileStore(str(folder / "store"), count)
    dist.init_process_group(
        backend, store=store, rank=rank, world_size=count, timeout=timedelta(seconds=LONGEST_S)
    )
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(4)])
    plain = torch.optim.SGD(model.parameters(), lr=0.01)
    _, optimizer = pleach.torch.data_parallel(model, plain, "dear,bucket=1KiB")
    for index in range(STEPS):
        if rank == count - 1 and index == 5:
            said.write_text(json.dumps([time.time(), how]))
            fall(how)
        try:
            optimizer.zero_grad()
            model(torch.ones(2, 16)).square().mean().backward()
            optimizer.step()
        except RuntimeError as error:
            said.write_text(json.dumps([time.time(), str(error)]))
            sys.exit(9)
    said.write_text(json.dumps([time.time(), "the end"]))


def fall(how: str) -> None:
    """Ends this process, or not."""
    if how == "raise":
        raise ZeroDivisionError("in the loop")
    if how == "exit":
        sys.exit(3)
    if how == "os_exit":
        os._exit(4)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


def observe(children: dict[int, int]) -> dict[int, tuple[int, float]]:
    """By rank: the exit code of its process, minus the signal if by one, and when it ended."""
    found: dict[int, tuple[int, float]] = {}
    deadline = time.time() + LONGEST_S / 2
    while len(found) < len(children):
        for rank, pid in children.items():
            if rank not in found:
                if time.time() > deadline:
                    os.kill(pid, signal.SIGKILL)
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    found[rank] = (os.waitstatus_to_exitcode(status), time.time())
        time.sleep(0.01)
    return found


def run(how: str, backend: str, count: int) -> bool:
    """Forks ranks, and prints how they have ended. False: this is one of them."""
    folder = Path(tempfile.mkdtemp())  # of this process: ranks that end by an exception leave it
    children: dict[int, int] = {}
    for rank in range(count):
        pid = os.fork()
        if pid == 0:
            main(how, backend, rank, count, folder)
            return False
        children[rank] = pid
    told = []
    for rank, (code, ended_s) in sorted(observe(children).items()):
        path = folder / f"said-{rank}"
        said_s, said = json.loads(path.read_text()) if path.exists() else (ended_s, "nothing")
        told.append([code, said_s, ended_s, said])
    shutil.rmtree(folder)
    print(json.dumps(told), flush=True)
    return True


if __name__ == "__main__":
    torch.optim.SGD([torch.zeros(1)])  # it imports what is slow to import
    for each in sys.argv[3:]:
        if not run(each, sys.argv[1], int(sys.argv[2])):
            break
