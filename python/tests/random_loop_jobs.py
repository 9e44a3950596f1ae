"""Random training loops on ranks, made parallel by Pleach."""

from __future__ import annotations

import collections
import contextlib
import time
import traceback
from typing import Any

import rank_pool
import torch
import torch._dynamo  # no rank has to
from random_loops import (
    Result,
    Seed,
    differences,
    is_available,
    make_loop,
    merge,
    run_parallel,
    run_plain,
)
from torch import nn

import pleach.torch.parallel as parallel

GROUP_TIMEOUT_S = 20.0
LOOP_DEADLINE_S = 60.0


def run_rank(
    rank: int, seed: Seed, count: int, policy: str, options: dict[str, Any]
) -> Result | str:
    """Runs a rank's part of a loop; a traceback where it fails."""

    def wrap(
        model: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        group = rank_pool.GROUPS.get(count)
        own = dict(options)
        if type(optimizer).__module__.startswith("torch.optim"):
            own.pop("whole_tensor", None)  # which says something about others
        made = parallel.data_parallel(model, optimizer, policy, process_group=group, **own)
        wrapped.append(made[1])
        return made

    wrapped: list[Any] = []
    try:
        return run_parallel(seed, rank, count, wrap)
    except Exception:
        return traceback.format_exc()
    finally:
        with contextlib.suppress(Exception):
            for optimizer in wrapped:
                optimizer.close()


def compare(
    pool: rank_pool.RankPool, seed: Seed, count: int, policy: str, options: dict[str, Any]
) -> list[str]:
    """Where `count` ranks differ from one process; a rank that fails is a difference.

    The pool is closed where ranks failed, as they may not be in step.
    """
    plain = run_plain(seed)
    try:
        results = pool.run(
            run_rank,
            seed,
            count,
            policy,
            options,
            deadline_s=LOOP_DEADLINE_S,
            ranks=range(count),
        )
    except AssertionError as failure:
        return [f"ranks failed: {failure}"]
    failures = [result for result in results if isinstance(result, str)]
    if failures:
        pool.close()
        return [f"{_last_line(each)}\n{each}" for each in dict.fromkeys(failures)]
    together, apart = merge(results)
    return differences(plain, together) + apart


def _last_line(text: str) -> str:
    """The line of a traceback that names the exception."""
    lines = [line for line in text.splitlines() if line and not line.startswith(" ")]
    return lines[-1]


def report(
    seeds: list[Seed],
    count: int,
    backend: str,
    policy: str,
    options: dict[str, Any],
    is_verbose: bool,
) -> int:
    """Runs loops on ranks, prints those that differ and a summary; returns how many differ."""
    begin = time.monotonic()
    states: collections.Counter[str] = collections.Counter()
    alone: dict[str, list[bool]] = {}
    pool = None
    try:
        for seed in seeds:
            loop = make_loop(seed)
            if not is_available(loop):
                states["missing"] += 1
                print(f"seed {seed}: {loop.optimizer} is not installed", flush=True)
                continue
            if pool is None or not pool.is_open:
                pool = rank_pool.RankPool(count, backend, timeout_s=GROUP_TIMEOUT_S)
            found = compare(pool, seed, count, policy, options)
            states["differ" if found else "equal"] += 1
            alone.setdefault(str(seed).rpartition("/")[0], []).append(bool(found))
            if found:
                shown = found if is_verbose else [each.splitlines()[0] for each in found[:2]]
                title = f"seed {seed} ({loop.optimizer}): {len(found)} differences:"
                print(title, *shown, sep="\n  ", flush=True)
            if found and is_verbose:
                print(loop, flush=True)
    finally:
        if pool is not None:
            pool.close()
    for kind, differ in alone.items():
        if len(alone) > 1 and any(differ):
            print(f"{kind}: {sum(differ)} of {len(differ)} differ")
    print(
        f"{states['equal']} equal, {states['differ']} differ,"
        f" {states['missing']} without their optimizer, in {time.monotonic() - begin:.0f} s"
    )
    return states["differ"]
