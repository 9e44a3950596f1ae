"""What ranks run in tests of data parallelism."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from parallel_cases import (
    FEW_STEPS,
    digest,
    distance,
    make_any_parallel,
    make_batches,
    make_model,
    make_optimizer,
    make_parallel,
    share,
    train,
    values_of,
)
from parallel_loops import LOOPS, Run, differences, make, run_plain
from rank_pool import GROUPS


def compare_with_whole_batch(
    rank: int,
    kind: str,
    optimizer: str,
    count: int,
    dtype_name: str,
    policy: str,
    options: dict[str, Any],
) -> tuple[float, float, str]:
    """Trains on a rank's part; how far parameters and losses are from whole-batch training.

    The first rank tells that, of what all have alike if the digests are.
    """
    dtype = getattr(torch, dtype_name)
    batches = make_batches(kind, dtype, FEW_STEPS)
    model, own = make_parallel(kind, optimizer, count, policy, dtype, **options)
    losses = torch.tensor(
        train(model, own, [share(one, rank, count) for one in batches]), dtype=torch.float64
    )
    values = values_of(model)
    dist.all_reduce(losses, group=GROUPS[count])
    own.close()
    found = digest([*values, losses])
    if rank != 0:
        return 0.0, 0.0, found
    plain = make_model(kind, dtype, 0)
    expected = torch.tensor(
        train(plain, make_optimizer(optimizer, plain), batches), dtype=torch.float64
    )
    apart = float((losses / count - expected).abs().max())
    return distance(values, values_of(plain)), apart, found


def compare_loop(
    rank: int,
    loop: str,
    kind: str,
    optimizer: str,
    count: int,
    policy: str,
    options: dict[str, Any],
) -> tuple[float, float, str]:
    """Runs a loop in parallel; how far parameters and notes are from whole-batch training."""
    plain = run_plain(loop, kind, optimizer)
    model = make(kind, rank)
    own, tuned = make_any_parallel(
        model, make_optimizer(optimizer, model), count, policy, **options
    )
    run = Run(own, tuned, rank, count)
    LOOPS[loop](run, make_batches(kind if kind in ("cnn", "transformer") else "mlp"))
    found = (*differences(run, plain), digest(values_of(own)))
    tuned.close()
    return found
