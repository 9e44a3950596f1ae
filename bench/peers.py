#!/usr/bin/env python3
"""Times Pleach's collectives beside those of other libraries, on this machine, as one JSON object.

    python3 bench/peers.py --pleach build/release/pleach [--ranks 2,4,8] [--rounds 5]
        [--collective all_reduce] [--transport shm|tcp] [--sizes 1KiB:64MiB:4]
        [--buffers ordinary,pleach] [--plot FILE.svg] [--check]

Rounds are interleaved: in each, every library runs all sizes once, with the same iterations. A
size's peer is the one of the smallest median time, and so is the algorithm of Pleach: both sides
are chosen in the same way. A ratio is the peer's time over Pleach's, of each round; the median is
printed. Every program checks its results. All run under `chrt -r 1` where that is permitted: on a
shared machine the times of short messages mean nothing without it. Beside them stands what a word
takes between two cores in each round: a virtual machine's cores may move. Peers: Open MPI (shared
memory with and without single copies, UCX, TCP), MPICH, Gloo, and PyTorch's Gloo where it is
installed; over TCP only those that use it. Needs the packages of [peers] in packages.txt. With
--check a few sizes are measured, and the exit status is 1 where a ratio is below its floor: what
holds on a machine that others use too.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ALGORITHMS = {
    "all_reduce": ["direct,mode=one_shot", "direct", "ring", "bidirectional_ring",
                   "recursive_doubling", "halving_doubling", "tree", "multitree", "hierarchical"],
    "reduce_scatter": ["direct", "ring", "halving_doubling"],
    "all_gather": ["direct", "ring", "halving_doubling"],
    "broadcast": ["direct", "ring", "tree"],
    "all_to_all": ["direct", "pairwise"],
}
OPEN_MPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
            "--mca", "mpi_yield_when_idle"]
SHARED = ["--mca", "pml", "ob1", "--mca", "btl", "self,vader"]
LIMIT_S = 120
# all_reduce over shared memory, ordinary buffers: ratios that --check asks for, by ranks and size.
FLOORS = {
    2: {1024: 0.8, 65536: 1.1, 1 << 20: 1.3, 16 << 20: 0.9},
    4: {1024: 0.6, 65536: 0.9, 1 << 20: 1.4, 16 << 20: 1.5},
}


def parse_bytes(text):
    units = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "B": 1}
    for unit, scale in units.items():
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * scale
    return int(text)


def parse_sizes(text):
    if ":" not in text:
        return [parse_bytes(size) for size in text.split(",")]
    first, last, factor = text.split(":")
    sizes = [parse_bytes(first)]
    while sizes[-1] * int(factor) <= parse_bytes(last):
        sizes.append(sizes[-1] * int(factor))
    return sizes


def iterations_of(size):
    """Timed iterations, and those before: some milliseconds of each size."""
    for limit, iterations in ((16 << 10, 1000), (256 << 10, 200), (4 << 20, 30)):
        if size <= limit:
            return iterations, iterations // 10
    return 5, 2


class Machine:
    """What all contenders share."""

    def __init__(self, arguments, folder):
        self.pleach = os.path.abspath(arguments.pleach)
        self.collective = arguments.collective
        self.transport = arguments.transport
        self.buffers = arguments.buffers.split(",")
        self.folder = pathlib.Path(folder)
        self.priority = []
        if subprocess.run(["chrt", "-r", "1", "true"], capture_output=True).returncode == 0:
            self.priority = ["chrt", "-r", "1"]
        self.cores = len(os.sched_getaffinity(0))
        self.ping_pong = self.build(["g++", "-O2", "-std=c++17", str(HERE / "peers/ping_pong.cc"),
                                     "-lpthread"], "ping_pong") if self.cores > 1 else None

    def ping_pong_ns(self):
        try:
            return float(run([self.ping_pong])) if self.ping_pong else None
        except RuntimeError as error:
            print(f"not told how far the cores are: {error}", file=sys.stderr)
            return None

    def build(self, command, output):
        """The program, or None where what it takes is not installed."""
        if shutil.which(command[0]) is None:
            return None
        built = subprocess.run([*command, "-o", str(self.folder / output)], capture_output=True,
                               text=True)
        if built.returncode != 0:
            print(f"{output} is left out: {built.stderr.strip().splitlines()[-1]}",
                  file=sys.stderr)
            return None
        return str(self.folder / output)


def rows_of(text):
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    wrong = sum(row["wrong_count"] for row in rows)
    if wrong:
        raise SystemExit(f"{wrong} wrong elements")
    return {row["size_bytes"]: row["time_s"] for row in rows}


def run(command, limit_s=LIMIT_S):
    """What it prints; past the limit it ends with all that it started."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        out, error = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise RuntimeError(f"{command[0]} took more than {limit_s} s") from None
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]}: {error.strip()[-300:]}")
    return out


class Pleach:
    def __init__(self, machine, ranks, buffers, algorithm):
        self.machine, self.ranks, self.buffers = machine, ranks, buffers
        self.algorithm = algorithm
        self.name = f"pleach {algorithm}, {buffers} buffers"

    def time(self, sizes, iterations, warmup):
        # A broadcast of MPI is in place, the other collectives of the peers are not.
        in_place = "only" if self.machine.collective == "broadcast" else "never"
        out = run([*self.machine.priority, self.machine.pleach, "run", "--ranks", str(self.ranks),
                   "--algorithm", self.algorithm, "--collective", self.machine.collective,
                   "--transport", self.machine.transport,
                   "--buffers", self.buffers, "--in-place", in_place, "--json",
                   "--sizes", ",".join(map(str, sizes)), "-n", str(iterations),
                   "-w", str(warmup)])
        answer = json.loads(out)
        if answer["wrong_count"]:
            raise SystemExit(f"{self.name}: {answer['wrong_count']} wrong elements")
        return {row["size_bytes"]: row["time_s"] for row in answer["rows"]}


class Mpi:
    def __init__(self, machine, ranks, name, starter, program):
        self.machine, self.ranks, self.name = machine, ranks, name
        self.command = [*starter, "-n", str(ranks), *machine.priority, program,
                        machine.collective]

    def time(self, sizes, iterations, warmup):
        return rows_of(run([*self.command, str(warmup), str(iterations), *map(str, sizes)]))


class Processes:
    """Ranks that meet in a folder: Gloo."""

    def __init__(self, machine, ranks, name, program):
        self.machine, self.ranks, self.name, self.program = machine, ranks, name, program

    def time(self, sizes, iterations, warmup):
        with tempfile.TemporaryDirectory(dir=self.machine.folder) as folder:
            started = [subprocess.Popen(
                [*self.machine.priority, *self.program, str(rank), str(self.ranks), folder,
                 str(warmup), str(iterations), *map(str, sizes)],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                for rank in range(self.ranks)]
            try:
                texts = [process.communicate(timeout=LIMIT_S)[0] for process in started]
            except subprocess.TimeoutExpired:
                raise RuntimeError(f"{self.name} took more than {LIMIT_S} s") from None
            finally:
                for process in started:
                    process.kill()
        return rows_of(texts[0])


def open_mpi(machine, ranks):
    program = machine.build(["mpicxx.openmpi", "-O3", str(HERE / "peers/mpi_collectives.cc")],
                            "open_mpi")
    if program is None:
        return []
    starter = [*OPEN_MPI, "1" if ranks > machine.cores else "0"]
    tcp = [("open_mpi tcp", [*starter, "--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca",
                             "btl_tcp_if_include", "lo"])]
    shared = [
        ("open_mpi vader", [*starter, *SHARED]),
        ("open_mpi vader without single copies",
         [*starter, *SHARED, "--mca", "btl_vader_single_copy_mechanism", "none"]),
        ("open_mpi ucx", [*starter, "--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca",
                          "pml_ucx_devices", "any"]),
    ]
    kinds = tcp if machine.transport == "tcp" else shared
    return [Mpi(machine, ranks, name, start, program) for name, start in kinds]


def mpich(machine, ranks):
    # Its ranks spin without end: at a fixed priority those that share a core starve each other.
    if machine.transport == "tcp" or (machine.priority and ranks > machine.cores):
        return []
    program = machine.build(["mpicxx.mpich", "-O3", str(HERE / "peers/mpi_collectives.cc")],
                            "mpich")
    return [Mpi(machine, ranks, "mpich", ["mpiexec.mpich"], program)] if program else []


def gloo(machine, ranks):
    if machine.collective != "all_reduce":
        return []
    program = machine.build(["g++", "-O3", "-std=c++17", str(HERE / "peers/gloo_all_reduce.cc"),
                             "-lgloo", "-lpthread"], "gloo")
    names = ["ring", "bcube", "halving_doubling"] if program else []
    found = [Processes(machine, ranks, f"gloo {name}", [program, name]) for name in names]
    torch = [sys.executable, "-c", "import torch"]
    if subprocess.run(torch, capture_output=True).returncode == 0:
        found.append(Processes(machine, ranks, "pytorch gloo",
                               [sys.executable, str(HERE / "peers/torch_gloo.py")]))
    return found


def contenders(machine, ranks):
    ours = [Pleach(machine, ranks, buffers, algorithm) for buffers in machine.buffers
            for algorithm in ALGORITHMS[machine.collective]]
    return ours, [*open_mpi(machine, ranks), *mpich(machine, ranks), *gloo(machine, ranks)]


def measure(machine, ranks, sizes, rounds):
    """Those who took part, ours and peers, their times by name and size, one a round, and what a
    word took between two cores in each; who fails is left out, and said."""
    ours, peers = contenders(machine, ranks)
    times = {one.name: {size: [] for size in sizes} for one in [*ours, *peers]}
    classes = {}
    for size in sizes:
        classes.setdefault(iterations_of(size), []).append(size)
    ping_pongs = []
    for current in range(rounds):
        ping_pongs.append(machine.ping_pong_ns())
        print(f"{ranks} ranks: round {current + 1} of {rounds}", file=sys.stderr)
        for one in [*ours, *peers]:
            if one.name not in times:
                continue
            try:
                for (iterations, warmup), those in classes.items():
                    for size, time_s in one.time(those, iterations, warmup).items():
                        times[one.name][size].append(time_s)
            except RuntimeError as error:
                print(f"{one.name} is left out: {error}", file=sys.stderr)
                del times[one.name]
    return ([one for one in ours if one.name in times],
            [one for one in peers if one.name in times], times, ping_pongs)


def best(contenders_, times, size):
    if not contenders_:
        raise SystemExit("peers: nobody is left to compare: the lines above say why")
    return min(contenders_, key=lambda one: statistics.median(times[one.name][size]))


def compare(machine, ranks, sizes, rounds):
    all_ours, peers, times, ping_pongs = measure(machine, ranks, sizes, rounds)
    rows = []
    for buffers in machine.buffers:
        ours = [one for one in all_ours if one.buffers == buffers]
        for size in sizes:
            own, peer = best(ours, times, size), best(peers, times, size)
            mine, theirs = times[own.name][size], times[peer.name][size]
            ratios = [one / other for one, other in zip(theirs, mine)]
            rows.append({"ranks": ranks, "buffers": buffers, "size_bytes": size,
                         "ratio": statistics.median(ratios), "ratios": ratios,
                         "algorithm": own.algorithm, "peer": peer.name,
                         "time_s": statistics.median(mine),
                         "peer_time_s": statistics.median(theirs), "ping_pong_ns": ping_pongs,
                         "times_s": {one.name: statistics.median(times[one.name][size])
                                     for one in [*ours, *peers]}})
    return rows


def print_table(rows):
    print(f"{'ranks':>5} {'buffers':<8} {'bytes':>10} {'pleach us':>10} {'peer us':>10} "
          f"{'ratio':>6}  {'algorithm':<22} peer", file=sys.stderr)
    for row in rows:
        print(f"{row['ranks']:>5} {row['buffers']:<8} {row['size_bytes']:>10} "
              f"{row['time_s'] * 1e6:>10.2f} {row['peer_time_s'] * 1e6:>10.2f} "
              f"{row['ratio']:>6.2f}  {row['algorithm']:<22} {row['peer']}", file=sys.stderr)


def plot(rows, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for ranks, buffers in sorted({(row["ranks"], row["buffers"]) for row in rows}):
        mine = [row for row in rows if (row["ranks"], row["buffers"]) == (ranks, buffers)]
        axes.plot([row["size_bytes"] for row in mine], [row["ratio"] for row in mine],
                  marker="o", label=f"{ranks} ranks, {buffers} buffers")
    axes.axhline(1, color="grey", linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel="bytes", ylabel="time of the best peer / Pleach")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pleach", required=True, help="the binary, built for release")
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--collective", default="all_reduce", choices=ALGORITHMS)
    parser.add_argument("--transport", default="shm", choices=["shm", "tcp"])
    parser.add_argument("--sizes", default="1KiB:64MiB:4", help="from:to:factor, or a list")
    parser.add_argument("--buffers", default="ordinary", help="ordinary, pleach, or both: a list")
    parser.add_argument("--check", action="store_true", help="hold a few sizes to their floors")
    parser.add_argument("--plot", help="where to draw the ratios")
    arguments = parser.parse_args()
    if not set(arguments.buffers.split(",")) <= {"ordinary", "pleach"}:
        parser.error(f"--buffers: {arguments.buffers} is not of ordinary and pleach")
    if arguments.check:
        arguments.ranks = ",".join(map(str, FLOORS))
        arguments.sizes = ",".join(map(str, FLOORS[2]))
        arguments.rounds, arguments.buffers = 3, "ordinary"
    rows = []
    with tempfile.TemporaryDirectory(prefix="pleach-peers-") as folder:
        machine = Machine(arguments, folder)
        for ranks in map(int, arguments.ranks.split(",")):
            rows += compare(machine, ranks, parse_sizes(arguments.sizes), arguments.rounds)
    print_table(rows)
    if arguments.plot:
        plot(rows, arguments.plot)
    print(json.dumps({"collective": arguments.collective, "transport": arguments.transport,
                      "priority": machine.priority,
                      "cores": machine.cores, "rows": rows},
                     indent=1))
    low = [row for row in rows if arguments.check
           and row["ratio"] < FLOORS[row["ranks"]][row["size_bytes"]]]
    for row in low:
        print(f"{row['ranks']} ranks, {row['size_bytes']} bytes: ratio {row['ratio']:.2f} is below "
              f"{FLOORS[row['ranks']][row['size_bytes']]}", file=sys.stderr)
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
