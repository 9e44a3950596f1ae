"""Whether there is a GPU, found out by a process that forks nothing."""

from __future__ import annotations

import functools
import subprocess
import sys

import torch


@functools.cache
def gpu_count() -> int:
    """How many there are. Who asks has threads of the driver's then: ranks could not be forked."""
    if torch.version.cuda is None:
        return 0
    asked = [sys.executable, "-W", "ignore", "-c", "import torch; print(torch.cuda.device_count())"]
    return int(subprocess.run(asked, capture_output=True, check=True, timeout=100).stdout)
