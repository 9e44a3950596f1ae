#!/usr/bin/env python3
"""Trains a small model on the ranks of a job, each on its part of the batch.

torchrun --nproc-per-node 2 data_parallel.py [BACKEND] [POLICY]
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import nn

import pleach.torch

STEPS = 30


def main(backend: str = "pleach", policy: str = "dear,bucket=256KiB") -> None:
    """Trains; the first rank prints losses, and where communication was exposed."""
    torch.set_num_threads(1)
    dist.init_process_group(backend)
    rank, count = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)  # the first rank's parameters are everybody's
    model: nn.Module = nn.Sequential(
        nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = pleach.torch.data_parallel(model, optimizer, policy)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    inputs = torch.randn(32 * count, 64, generator=torch.Generator().manual_seed(0))
    classes = inputs[:, :10].argmax(1)
    own = slice(32 * rank, 32 * (rank + 1))
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs[own]), classes[own])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if rank == 0 and step % 10 == 9:
            print(f"step {step + 1}: loss {float(loss.detach()):.4f}")
    model.eval()
    with torch.no_grad():
        right = float((model(inputs).argmax(1) == classes).double().mean())
    state = optimizer.state_dict()  # of all ranks, which all call it
    if rank == 0:
        print(f"{right:.0%} right, {len(state['state'])} tensors of state")
        print(optimizer.explain())
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
