#!/usr/bin/env python3
"""Times PyTorch's collectives over Gloo and over Pleach, on this host.

The ranks have a group of each, and call one and then the other, round by round; a figure is the
median over rounds, of the slowest rank. What is computed is checked. Needs PyTorch: where this
Python has none, that of build/venv is taken.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import statistics
import sys
import tempfile
import time

KIB = 1024
MIB = 1024 * KIB
# Bytes of the whole buffer of one rank.
SIZES = [64, 1 * KIB, 16 * KIB, 64 * KIB, 1 * MIB, 4 * MIB, 16 * MIB]
# By collective, from which size to which: at least so many times as fast as Gloo.
LIMITS = [
    ("all_reduce", 0, 64 * KIB, 4.0),
    ("all_reduce", 1 * MIB, None, 2.0),
    ("reduce_scatter_tensor", 1 * MIB, None, 3.0),
]
ROUND_S = 0.03  # of calls of one backend
DEADLINE_S = 600


def calls_of(torch, distributed, collective, size_bytes, group, ranks):
    """Returns a call, and one that checks what it has computed."""
    count = size_bytes // 4 // ranks * ranks
    whole = torch.zeros(count)
    part = torch.empty(count // ranks)
    if collective == "all_reduce":
        def call():
            distributed.all_reduce(whole, group=group)
    else:
        scatter = getattr(distributed, "reduce_scatter_single", None)  # since PyTorch 2.13
        scatter = scatter or distributed.reduce_scatter_tensor

        def call():
            scatter(part, whole, group=group)

    def check():
        whole.copy_(torch.arange(count) % 17)
        call()
        expected = torch.arange(count) % 17 * ranks
        result = whole if collective == "all_reduce" else part
        if collective != "all_reduce":
            rank = distributed.get_rank()
            expected = expected[rank * part.numel():(rank + 1) * part.numel()]
        assert torch.equal(result, expected.float()), f"{collective} of {size_bytes} is wrong"
        whole.zero_()

    return call, check


def measure(rank, ranks, folder, rounds, sizes, device, pipe):
    """One rank: sends the seconds of a call, by collective, size, backend and round."""
    import torch
    import torch.distributed as distributed

    torch.set_num_threads(1)
    torch.set_default_device(device)
    store = distributed.FileStore(f"{folder}/store", ranks)
    distributed.init_process_group("pleach", store=store, rank=rank, world_size=ranks)
    groups = {"gloo": distributed.new_group(backend="gloo"), "pleach": distributed.group.WORLD}
    results = []
    for collective in ("all_reduce", "reduce_scatter_tensor"):
        for size in sizes:
            seconds = {name: [] for name in groups}
            calls = {}
            for name, group in groups.items():
                calls[name], check = calls_of(torch, distributed, collective, size, group, ranks)
                check()
                calls[name]()
            times = torch.tensor([0.0])
            begun = time.perf_counter()
            calls["gloo"]()
            times[0] = time.perf_counter() - begun
            distributed.all_reduce(times, distributed.ReduceOp.MAX)
            count = min(300, max(2, int(ROUND_S / times.item())))
            for _ in range(rounds):
                for name in groups:
                    distributed.barrier()
                    begun = time.perf_counter()
                    for _ in range(count):
                        calls[name]()
                    if device != "cpu":
                        torch.get_device_module(device).synchronize()
                    seconds[name].append((time.perf_counter() - begun) / count)
            results.append((collective, size, seconds))
    pipe.send(results)
    distributed.destroy_process_group()


def run(ranks, rounds, sizes, device):
    """Returns rows of figures for a number of ranks."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(ranks):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=measure, args=(rank, ranks, folder, rounds, sizes, device, theirs))
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        try:
            told = [pipe.recv() if pipe.poll(DEADLINE_S) else None for pipe in pipes]
        except EOFError:
            told = [None]
        for process in processes:
            process.join(30)
            process.kill()
    if None in told:
        sys.exit(f"{ranks} ranks: one ended, or did not answer within {DEADLINE_S} s")
    return [figures(ranks, [rank[index] for rank in told]) for index in range(len(told[0]))]


def figures(ranks, of_ranks):
    """The medians of one collective and size, and how often Pleach is as fast as Gloo."""
    collective, size, _ = of_ranks[0]
    slowest = {
        name: [max(one) for one in zip(*(rank[2][name] for rank in of_ranks))]
        for name in ("gloo", "pleach")
    }
    ratios = [gloo / pleach for gloo, pleach in zip(slowest["gloo"], slowest["pleach"])]
    return {
        "collective": collective, "ranks": ranks, "size_bytes": size,
        "gloo_us": round(statistics.median(slowest["gloo"]) * 1e6, 2),
        "pleach_us": round(statistics.median(slowest["pleach"]) * 1e6, 2),
        "gloo_over_pleach": round(statistics.median(ratios), 2),
    }


def limit_of(row):
    """How many times as fast as Gloo it has to be; None: it does not."""
    for collective, least, most, limit in LIMITS:
        if row["collective"] == collective and least <= row["size_bytes"] and (
                most is None or row["size_bytes"] <= most):
            return limit
    return None


def find_torch(options):
    """Goes on in a Python that has PyTorch and Pleach; ends in one line where there is none."""
    root = pathlib.Path(__file__).resolve().parent.parent
    package = pathlib.Path(options.pleach).resolve().parent / "python"
    venv = root / "build" / "venv" / "bin" / "python"
    try:
        import pleach.torch  # noqa: F401
        return
    except ImportError as error:
        if os.environ.get("PLEACH_BENCH_INSIDE") or not venv.exists() or not package.exists():
            print(f"skipped: there is no PyTorch with Pleach here ({error})")
            sys.exit(0)
    paths = [str(package), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    os.environ["PLEACH_BENCH_INSIDE"] = "1"
    os.execv(venv, [str(venv), "-W", "ignore", *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pleach", default="build/release/pleach", help="the build to use")
    parser.add_argument("--check", action="store_true", help="hold it to its limits")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu", help="of the tensors: cuda, shared by the ranks")
    parser.add_argument("--sizes", help="bytes, comma separated")
    parser.add_argument("--json", help="a file for the figures")
    options = parser.parse_args()
    find_torch(options)
    sizes = [int(one) for one in options.sizes.split(",")] if options.sizes else SIZES
    rows, missed = [], []
    print(f"{'collective':22} {'ranks':>5} {'bytes':>9} {'gloo us':>10} {'pleach us':>10} times")
    for ranks in map(int, options.ranks.split(",")):
        for row in run(ranks, options.rounds, sizes, options.device):
            limit = limit_of(row) if options.device == "cpu" else None
            is_missed = limit is not None and row["gloo_over_pleach"] < limit
            print(f"{row['collective']:22} {ranks:5} {row['size_bytes']:9} {row['gloo_us']:10} "
                  f"{row['pleach_us']:10} {row['gloo_over_pleach']:6}"
                  f"{f'  below {limit}' if is_missed else ''}", flush=True)
            rows.append(row | {"limit": limit})
            if is_missed:
                missed.append(row)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(1 if options.check and missed else 0)


if __name__ == "__main__":
    main()
