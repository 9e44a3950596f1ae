"""What MultiTree's network evaluation runs: networks, algorithms and their interfaces."""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import subprocess

import common

KIB, MIB = 1 << 10, 1 << 20
LINKS = "latency=150ns,bandwidth=16GB/s"
SWITCHED = "routing=dmodk,header=0,overhead=0s," + LINKS
FLIT_BYTES = 16

# Name, ranks, topology, kind.
NETWORKS = {
    "4x4 torus": (16, "torus:4x4", "torus"),
    "8x8 torus": (64, "torus:8x8", "torus"),
    "4x4 mesh": (16, "mesh:4x4", "mesh"),
    "8x8 mesh": (64, "mesh:8x8", "mesh"),
    "16-rank fat-tree": (16, "fat_tree:16,radix=4", "switches"),
    "64-rank fat-tree": (64, "fat_tree:64,radix=8", "switches"),
    "32-rank BiGraph": (32, "bigraph:4x8", "bigraph"),
    "64-rank BiGraph": (64, "bigraph:4x16", "bigraph"),
    "twin switch": (16, "twin_switch:16", "switches"),
}
NETWORKS |= {f"{side}x{side} torus": (side * side, f"torus:{side}x{side}", "torus")
             for side in (6, 10, 12, 14, 16)}
COMPARED = [name for name in NETWORKS if name not in
            ("6x6 torus", "10x10 torus", "12x12 torus", "14x14 torus", "16x16 torus")]
TORI = [f"{side}x{side} torus" for side in (4, 6, 8, 10, 12, 14, 16)]
TABLED = [*COMPARED, "10x10 torus"]


@dataclasses.dataclass(frozen=True)
class Setting:
    """An algorithm and how interfaces run it."""
    algorithm: str
    gate: str = "in_order"
    flow_control: str = "packet"
    model: str = "flit"
    links: str = ""  # instead of the network's
    reduce_bandwidth: str = ""
    segments: int = 1
    reduces_first: bool = False


RING, RING_2D, HDRM = Setting("ring"), Setting("ring_2d"), Setting("hdrm")
DOUBLE_TREE = Setting("double_binary_tree", model="flit,interfaces=1", reduces_first=True)
PACKETS = Setting("multitree", "lockstep")
MESSAGES = Setting("multitree", "lockstep", "message")
# By the rules of the published interfaces; its 2D ring knows no priorities.
PUBLISHED_RING_2D = Setting("ring_2d,order=published",
                            model="flit,interface=published,priority=none")
PUBLISHED_PACKETS = Setting("multitree", "lockstep", model="flit,interface=published")
PUBLISHED_MESSAGES = Setting("multitree", "lockstep", "message", "flit,interface=published")
BY_STEP_RULE = Setting("multitree,step_rule=complete", "lockstep", "message")
LABELS = {RING: "ring", DOUBLE_TREE: "double_binary_tree", RING_2D: "ring_2d", HDRM: "hdrm",
          PACKETS: "multitree, packets", MESSAGES: "multitree, messages",
          BY_STEP_RULE: "multitree, messages, fewer steps"}


def settings_of(kind):
    """What fits a kind of network."""
    fitting = [RING, DOUBLE_TREE]
    if kind in ("torus", "mesh"):
        fitting.append(RING_2D)
    if kind == "bigraph":
        fitting.append(HDRM)
    fitting += [PACKETS, MESSAGES]
    return fitting + [BY_STEP_RULE] if kind == "mesh" else fitting


def reduces_first(schedule, ranks):
    """A double binary tree as the published simulator runs it: half of the ranks as the number of
    segments of each tree, which follow each other every two steps, all reduces before all copies.
    """
    segments = ranks // 2
    rise = schedule["phase_steps"][0] + 2 * (segments - 1)
    transfers = []
    for transfer in schedule["transfers"]:
        first = 0 if transfer["op"] == "reduce" else rise - schedule["phase_steps"][0]
        transfers += [{**transfer, "step": transfer["step"] + first + 2 * segment,
                       "first_chunk": transfer["first_chunk"] * segments + segment}
                      for segment in range(segments)]
    transfers.sort(key=lambda transfer: (transfer["step"], transfer["first_chunk"],
                                         transfer["source"]))
    fall = schedule["phase_steps"][1] + 2 * (segments - 1)
    return {**schedule, "chunk_count": schedule["chunk_count"] * segments, "period": rise + fall,
            "phase_steps": [rise, fall], "transfers": transfers}


class Simulator:
    """Runs of pleach, each once, `jobs` at a time."""

    def __init__(self, options, folder):
        self.binary = options.pleach
        self.most_flits = options.most_flits
        self.scaling_flits = options.scaling_flits
        self.largest = options.largest
        self.folder = pathlib.Path(folder)
        self.pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
        self.runs = {}
        self.files = {}

    def start(self, network, setting, size):
        """The future of pleach's answer."""
        key = network, setting, size
        if key not in self.runs:
            self.runs[key] = self.pool.submit(self._run, network, setting, size)
        return self.runs[key]

    def runs_at(self, network, size):
        """Whether a run takes no more than the most flits."""
        return flits_of(network, size) <= self.most_flits

    def scales_to(self, network, size):
        """The same for runs of weak and strong scaling."""
        return flits_of(network, size) <= self.scaling_flits

    def cycles(self, network, setting, size):
        """None where a run takes more than the most flits."""
        return self.cycles_at(network, setting, size) if self.runs_at(network, size) else None

    def cycles_at(self, network, setting, size):
        """However many flits that takes."""
        return self.start(network, setting, size).result()["cycles"]

    def sizes(self, network, smallest=32 * KIB):
        """Powers of two that are run."""
        sizes = []
        while smallest <= self.largest and self.runs_at(network, smallest):
            sizes.append(smallest)
            smallest *= 2
        return sizes

    def tables(self, network):
        """Of the interfaces, at 64 MiB."""
        setting = self._adapted(network, MESSAGES)
        return common.run_pleach(self.binary, "synthesize", "--topology", topology(network, ""),
                                 "--algorithm", setting.algorithm, "--size", "64MiB",
                                 "--tables")["tables"]

    def _adapted(self, network, setting):
        """The published ring order and step rule where the network has them."""
        kind = NETWORKS[network][2]
        algorithm = setting.algorithm
        if algorithm == "ring" and kind in ("switches", "bigraph"):
            algorithm = "ring,order=published"
        if algorithm == "multitree" and kind == "mesh":
            algorithm = "multitree,step_rule=published"
        return dataclasses.replace(setting, algorithm=algorithm)

    def _run(self, network, setting, size):
        setting = self._adapted(network, setting)
        where = topology(network, setting.links)
        how = ["--algorithm", setting.algorithm]
        if setting.reduces_first:
            how = [self._double_tree_file(network)]
        if setting.reduce_bandwidth:
            how += ["--reduce-bandwidth", setting.reduce_bandwidth]
        return common.run_pleach(self.binary, "simulate", *how, "--topology", where, "--size",
                                 size, "--model", setting.model, "--gate", setting.gate,
                                 "--flow-control", setting.flow_control, "--segments",
                                 setting.segments)

    def _double_tree_file(self, network):
        path = self.folder / f"{network.replace(' ', '_')}-{os.urandom(4).hex()}.json"
        subprocess.run([self.binary, "synthesize", "--topology", topology(network, ""),
                        "--algorithm", "double_binary_tree", "--output", str(path)],
                       check=True, stdout=subprocess.DEVNULL)
        schedule = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(reduces_first(schedule, NETWORKS[network][0])),
                        encoding="utf-8")
        return str(path)


def flits_of(network, size):
    return 2 * NETWORKS[network][0] * size // FLIT_BYTES


def topology(network, links):
    _, spec, kind = NETWORKS[network]
    return f"{spec},{links or (SWITCHED if kind in ('switches', 'bigraph') else LINKS)}"


def size_name(size):
    return f"{size // MIB} MiB" if size % MIB == 0 else f"{size // KIB} KiB"


def algbw(cycles, size):
    """GB/s at a cycle of a nanosecond."""
    return "-" if cycles is None else f"{size / cycles:.2f}"


def ratio(over, under):
    return "-" if over is None or under is None else f"{over / under:.2f}x"
