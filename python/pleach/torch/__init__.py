"""PyTorch over Pleach: a backend of torch.distributed, and data parallelism over any backend.

    import torch.distributed as dist
    dist.init_process_group("pleach")            # or "cpu:pleach,cuda:nccl"
    model, optimizer = pleach.torch.data_parallel(model, optimizer, policy="dear")

Where Pleach is installed PyTorch knows the name without an import of this module.
docs/pytorch_backend.md has what the backend does, docs/pytorch.md what data parallelism does.
"""

from __future__ import annotations

import importlib.util
import os
import warnings

try:
    import torch.distributed as _distributed
except ImportError as error:
    raise ImportError(f"pleach.torch needs PyTorch, which is not there: {error}") from None

if not _distributed.is_available():
    raise ImportError("pleach.torch: this PyTorch was built without torch.distributed")

from pleach import _torch_entry

from .backend import Options, create_backend, transport_of
from .flight import flight_dump
from .parallel import (
    Choice,
    Costs,
    Explanation,
    Profile,
    data_parallel,
    hook,
    measure_costs,
    plan,
    profile,
)

__all__ = [
    "Choice",
    "Costs",
    "Explanation",
    "Options",
    "Profile",
    "create_backend",
    "data_parallel",
    "flight_dump",
    "hook",
    "measure_costs",
    "plan",
    "profile",
    "transport_of",
]

_torch_entry.register()

if (
    os.environ.get("TORCH_DISTRIBUTED_USE_TORCHCOMMS", "0").lower() in ("1", "true", "yes", "on")
    and importlib.util.find_spec("torchcomms") is not None
):
    warnings.warn(
        "TORCH_DISTRIBUTED_USE_TORCHCOMMS is set, and torchcomms is installed: PyTorch takes "
        "backends from there, and not from pleach",
        stacklevel=2,
    )
