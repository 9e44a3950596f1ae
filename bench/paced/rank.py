"""What every rank of a measurement does, whatever is measured."""
from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


def report_as_rank(run: Callable[[str], Any]) -> None:
    """Measures in a group over Gloo, with one thread, and prints the report as JSON on rank 0.

    Args:
        run: Makes the report of the job, which is the program's argument, or what its `@FILE` has.
    """
    text = sys.argv[1]
    job = pathlib.Path(text[1:]).read_text() if text.startswith("@") else text
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    report = run(job)
    if dist.get_rank() == 0:
        print(json.dumps(report), flush=True)
    dist.barrier()
    dist.destroy_process_group()
