"""Options of data_parallel, and the resources of a rank."""

from __future__ import annotations

import dataclasses

from .costs import Costs
from .layout import Allocator
from .profiling import Profile


@dataclasses.dataclass(frozen=True)
class Options:
    """What was asked of data_parallel; see there."""

    policy: str
    gathers_gradients: bool = False
    whole_tensor: bool | None = None
    broadcast_buffers: bool = True
    channel_width: int = 2
    check: bool = False
    replan: bool = True
    lazy: bool = False


@dataclasses.dataclass(frozen=True)
class Resources:
    """The resources of one rank.

    Attributes:
        allocate: Memory for flat buffers.
        times: A profile of the model; rank 0's counts.
        costs: Of the group's collectives; rank 0's count.
    """

    allocate: Allocator
    times: Profile | None = None
    costs: Costs | None = None
