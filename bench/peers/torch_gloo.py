"""Times all_reduce of PyTorch's Gloo, and checks what it computes; rank 0 prints one JSON object a
size, as mpi_collectives.c does.

    torch_gloo.py RANK RANKS FOLDER WARMUP ITERATIONS BYTES...
"""
import json
import sys
import time

import torch
import torch.distributed as dist


def main():
    rank, ranks, warmup, iterations = (int(sys.argv[i]) for i in (1, 2, 4, 5))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[3]}/store", rank=rank,
                            world_size=ranks)
    for size in map(int, sys.argv[6:]):
        given = (torch.arange(size // 4) % 13).to(torch.float32)
        data = given * (rank + 1)
        dist.all_reduce(data)
        wrong = int((data != given * (ranks * (ranks + 1) // 2)).sum())
        for _ in range(warmup):
            dist.all_reduce(data)
        dist.barrier()
        begin = time.monotonic()
        for _ in range(iterations):
            dist.all_reduce(data)
        if rank == 0:
            print(json.dumps({"size_bytes": size, "wrong_count": wrong,
                              "time_s": (time.monotonic() - begin) / iterations}), flush=True)
        dist.barrier()
    dist.destroy_process_group()


main()
