"""What runs at `import torch`, by the entry point group `torch.backends`.

It only makes the backend's name known, so that unmodified scripts find it. Nothing heavy is
imported, and nothing raised: `import torch` would fail with it. So it is no part of the package,
whose import loads the library.
"""

import importlib
from typing import Any


def register() -> None:
    """Registers `pleach` with torch.distributed, once, where that is to be had."""
    try:
        import torch.distributed as distributed

        if distributed.is_available() and "pleach" not in distributed.Backend.backend_list:
            distributed.Backend.register_backend(
                "pleach", _create, extended_api=True, devices=["cpu", "cuda"]
            )
    except Exception:
        return


def _create(distributed_options: Any, backend_options: Any) -> Any:
    """Creates the backend of one process group; what it takes is imported here, not before."""
    return importlib.import_module("pleach.torch").create_backend(
        distributed_options, backend_options
    )
