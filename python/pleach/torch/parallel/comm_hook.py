"""The communication hook of torch's DistributedDataParallel.

DDP compares the annotations with types, so they are not kept as text here.
"""

import torch
import torch.distributed as dist

from .group_calls import AVERAGING, DIVIDED_BEFORE


def hook(
    state: dist.ProcessGroup | None,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[torch.Tensor]:
    """Averages a bucket in place: `ddp_model.register_comm_hook(None, pleach.torch.hook)`.

    Nothing is deferred: DDP wants gradients whole before backward ends. Where the backend divides
    by itself, no pass over the bucket is made for it.

    Args:
        state: The group; None: the default one.
        bucket: Of DDP.

    Returns:
        The bucket's averages, once they are there.
    """
    group = state if state is not None else dist.group.WORLD
    assert group is not None
    values = bucket.buffer()
    averages = (
        group._get_backend(values.device).name() in AVERAGING and values.dtype not in DIVIDED_BEFORE
    )
    if not averages:
        values.div_(group.size())
    operation = dist.ReduceOp.AVG if averages else dist.ReduceOp.SUM
    work = dist.all_reduce(values, operation, group=group, async_op=True)
    future: torch.futures.Future[torch.Tensor] = work.get_future().then(lambda one: one.value()[0])
    return future
