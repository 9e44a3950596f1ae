#!/usr/bin/python3
"""FRED's evaluation (ISCA 2025): collectives and training on its wafer, beside a mesh.

    python3 bench/figures/fred_evaluation.py --pleach build/release/pleach [--check]

Five fabrics of 20 NPUs: the mesh of 5x4, and FRED A to D. Each collective is the best of the
algorithms that a fabric has for it, at its best number of segments. With --check the exit status is
1 where a time of a collective is off its closed form by more than 3 %.
"""
import dataclasses
import functools
import math
import pathlib
import sys

import common

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from fred_strategies import (FABRICS, IN_SWITCH, IO_ALGORITHMS, STRATEGIES, SWEPT,  # noqa: E402
                             SWEPT_BATCH, roofline, swept_strategy, train_options)

NAME = "fred_evaluation"
SIZE_BYTES = 100_000_000
TOLERANCE = 0.03

# Workers of MP2-DP5-PP2 on the mesh: row mp + 2·pp, column dp. On FRED: mp + 2·(pp + 2·dp).
MESH_ROWS = ";".join(f"{5 * row}-{5 * row + 4}" for row in range(4))
MESH_PAIRS = ";".join(f"{column + 10 * pair},{column + 10 * pair + 5}"
                      for pair in range(2) for column in range(5))
MESH_STAGES = ";".join(f"{column},{column + 10},{column + 15}" for column in range(5))
FRED_DATA = ";".join(",".join(str(4 * dp + slot) for dp in range(5)) for slot in range(4))
FRED_PAIRS = ";".join(f"{2 * pair},{2 * pair + 1}" for pair in range(10))
FRED_STAGES = ";".join(f"{4 * dp},{4 * dp + 2},{4 * dp + 3}" for dp in range(5))

# Name, collective, groups on the mesh and on FRED (none: all ranks are one), closed forms of mesh,
# A, B, C, D in microseconds for 100 MB, and what an NPU sends by endpoints, per byte of the buffer.
PHASES = [
    ("all_reduce over 20", "all_reduce", None, None, (126.7, 106.7, 66.7, 63.3, 33.3), 1.9),
    ("four all_reduces over 5", "all_reduce", MESH_ROWS, FRED_DATA,
     (213.3, 426.7, 266.7, 53.3, 33.3), 1.6),
    ("ten all_reduces over 2", "all_reduce", MESH_PAIRS, FRED_PAIRS,
     (133.3, 33.3, 33.3, 33.3, 33.3), 1.0),
    ("five multicasts to 2", "broadcast", MESH_STAGES, FRED_STAGES,
     (133.3, 33.3, 33.3, 33.3, 33.3), 1.0),
]
# What the paper's figure 9 has as effective bandwidth of an NPU, GB/s; the last column's traffic is
# half, or 37.5 % less, where switches reduce.
PUBLISHED_BANDWIDTHS = {
    "all_reduce over 20": ("1500", "1850", "1500, half traffic", "3000", "3000, half traffic"),
    "four all_reduces over 5": ("750", "375", "375, -37.5 %", "3000", "3000, -37.5 %"),
    "ten all_reduces over 2": ("750", "3000", "3000", "3000", "3000"),
    "five multicasts to 2": ("750", "3000", "3000", "3000", "3000"),
}


def algorithm_of(fabric, collective, groups):
    """The paper's: hierarchical rings from end to end, or inside switches that can."""
    if fabric in IN_SWITCH:
        return "in_switch"
    if collective == "broadcast":
        return "ring"
    return "hierarchical,shares=best" if groups is None else "hierarchical"


@functools.lru_cache(maxsize=None)
def collective(binary, fabric, algorithm, kind, groups, size_bytes=SIZE_BYTES, segments="auto"):
    """What `pleach simulate` says; auto is the best number of segments to 64."""
    arguments = ["--topology", FABRICS[fabric], "--collective", kind, "--algorithm", algorithm,
                 "--size", size_bytes, "--segments", segments]
    if groups is not None:
        arguments += ["--groups", groups]
    return common.run_pleach(binary, "simulate", *arguments)


def phases(binary):
    """By phase and fabric: seconds."""
    return {name: {fabric: collective(binary, fabric, algorithm_of(fabric, kind, groups), kind,
                                      groups)["time_ps"] / 1e12
                   for fabric in FABRICS
                   for groups in [mesh if fabric == "mesh" else fred]}
            for name, kind, mesh, fred, _, _ in PHASES}


def phases_table(times):
    header = ["100 MB", *(f"{fabric} [us]" for fabric in FABRICS), "closed forms"]
    rows = [[name, *(f"{1e6 * times[name][fabric]:.1f}" for fabric in FABRICS),
             " / ".join(f"{form:.1f}" for form in forms)]
            for name, _, _, _, forms, _ in PHASES]
    return common.markdown_table(header, rows)


def bandwidths_table(times):
    """Bytes that an NPU sends over the time, beside figure 9."""
    header = ["GB/s of an NPU", *(f"{fabric} (published)" for fabric in FABRICS)]
    rows = []
    for name, _, _, _, _, endpoint in PHASES:
        row = [name]
        for fabric, published in zip(FABRICS, PUBLISHED_BANDWIDTHS[name]):
            sent = 1.0 if fabric in IN_SWITCH else endpoint
            gigabytes = sent * SIZE_BYTES / times[name][fabric] / 1e9
            row.append(f"{gigabytes:.0f} ({published})")
        rows.append(row)
    return common.markdown_table(header, rows)


def missed(times):
    return [f"{name} on {fabric}: {1e6 * times[name][fabric]:.1f} us, {form:.1f} expected"
            for name, _, _, _, forms, _ in PHASES for fabric, form in zip(FABRICS, forms)
            if abs(1e6 * times[name][fabric] / form - 1) > TOLERANCE]


# An all_reduce over three neighbours, the tensor groups of MP3-DP3-PP2.
THREES = ("0-2;5-7;10-12;15-17;3,8,13;4,9,14", "0-2;3-5;6-8;9-11;12-14;15-17")


def ratio_of_collective(binary, mesh_groups, fred_groups):
    """By fabric: its time of an all_reduce of 100 MB over the mesh's."""
    times = {fabric: collective(binary, fabric, algorithm_of(fabric, "all_reduce", groups),
                                "all_reduce", groups)["time_ps"]
             for fabric in FABRICS
             for groups in [mesh_groups if fabric == "mesh" else fred_groups]}
    return {fabric: time_ps / times["mesh"] for fabric, time_ps in times.items()}


# What reproduces the published speedups: of an iteration on the mesh, the shares of what no network
# changes, of collectives, and of streamed weights; the groups of the collectives.
SHARES = [
    ("ResNet-152, MP1-DP20-PP1", 0.414, 0.586, (None, None), 0.0, (1.41, 1.76)),
    ("Transformer-17B, MP3-DP3-PP2", 0.425, 0.575, THREES, 0.0, (1.75, 1.87)),
    ("Transformer-1T, MP1-DP20-PP1", 0.181, 0.0, (None, None), 0.819, (1.40, 1.40)),
]


def shares_table(binary, streams):
    """Speedups over the mesh from shares and simulated ratios, of C and D beside published ones.

    streams: by fabric, the time of a pass of weights.
    """
    header = ["from shares", "A", "B", "C", "D", "published C", "published D"]
    rows = []
    for name, fixed, collectives, groups, streamed, published in SHARES:
        ratios = ratio_of_collective(binary, *groups)
        row = [name]
        for fabric in "ABCD":
            left = (fixed + collectives * ratios[fabric]
                    + streamed * streams[fabric] / streams["mesh"])
            row.append(f"{1 / left:.2f}")
        rows.append([*row, *(f"{speedup:.2f}" for speedup in published)])
    return common.markdown_table(header, rows)


IO_COUNT, IO_BYTES_PER_S = 18, 128e9
# Name, bytes of all weights, and what a pass of them takes on C and D, and on the mesh.
PASSES = [("GPT-3", 2 * 175 * 10**9, 0.152, 0.233), ("Transformer-1T", 2 * 10**12, 0.868, 1.333)]


def streams(binary, weights_bytes):
    """By fabric, seconds in which all I/O nodes together give all NPUs so many bytes."""
    return {fabric: collective(binary, fabric, algorithm, "broadcast", "io:0-19",
                               weights_bytes // IO_COUNT, 1024)["time_ps"] / 1e12
            for fabric, algorithm in IO_ALGORITHMS.items()}


def streams_table(passes):
    """passes: by name, what streams() says."""
    header = ["a pass of weights", *(f"{fabric} [s]" for fabric in FABRICS),
              "expected: C and D", "mesh", "line rate on", *FABRICS]
    rows = []
    for name, weights_bytes, tree_s, mesh_s in PASSES:
        line_s = weights_bytes / (IO_COUNT * IO_BYTES_PER_S)
        rows.append([name, *(f"{passes[name][fabric]:.3f}" for fabric in FABRICS), f"{tree_s}",
                     f"{mesh_s}", "", *(f"{line_s / passes[name][fabric]:.3f}"
                                        for fabric in FABRICS)])
    return common.markdown_table(header, rows)


@dataclasses.dataclass(frozen=True)
class Training:
    """A row of table 6: what is trained, how it is spread, and what the paper got."""
    name: str
    workload: str
    strategy: str  # without micro-batches' way over the network
    batch: int     # samples of a replica
    computes: float | None  # share of an iteration on the mesh; None: a roofline's, as it is
    published: tuple[float, float]  # speedup over the mesh, C and D


TRAININGS = [
    Training("ResNet-152", "resnet152,element_bytes=2", "dp=20", 16, 0.414, (1.41, 1.76)),
    Training("Transformer-17B", "transformer_17b", "dp=3,tp=3,pp=2,micro_batches=8,idle=2", 16,
             0.425, (1.75, 1.87)),
    Training("GPT-3", "gpt3", "dp=5,tp=2,pp=2,micro_batches=2,stream=io", 16, 0.25, (1.34, 1.34)),
    Training("Transformer-1T", "transformer_1t", "dp=20,micro_batches=1,stream=io", 16, 0.181,
             (1.40, 1.40)),
]


# Beyond this a roofline is none.
MOST_FASTER = 1e5


@functools.lru_cache(maxsize=None)
def train(binary, fabric, workload, strategy, batch, faster, admission=None):
    """The row of `pleach train`; with full costs where it says what switches have inside."""
    options = train_options(fabric, workload, strategy, batch, faster)
    if admission:
        options |= {"costs": "full", "classes": "role", "admission": admission,
                    "segments": FULL_SEGMENTS}
    return common.train(binary, ["sequential"], **options)["sequential"]


def calibrated(binary, training):
    """How much faster than an H100's roofline computation has to be for its share on the mesh."""
    # The faster, the smaller the share; how fast it falls depends on what computation hides.
    slow, fast = 1.0, MOST_FASTER
    while fast / slow > 1.0001:
        faster = math.sqrt(slow * fast)
        row = train(binary, "mesh", training.workload, training.strategy, training.batch, faster)
        share = row["compute_s"] / row["iteration_s"]
        if abs(share - training.computes) < 1e-4:
            break
        slow, fast = (faster, fast) if share > training.computes else (slow, faster)
    return float(f"{faster:.4g}")


# What an iteration is made of besides computation, as the paper splits it.
WAITS = {
    "load": lambda row: row["input_wait_s"],
    "stream": lambda row: row["load_wait_s"] - row["input_wait_s"],
    "MP": lambda row: row["collective_wait_s"],
    "PP": lambda row: row["receive_wait_s"] - row["bubble_wait_s"],
    "bubbles": lambda row: row["bubble_wait_s"],
    "DP": lambda row: row["gradient_wait_s"],
}


def trainings(binary):
    """By training's name: how much faster than a roofline it computes, and rows by fabric."""
    found = {}
    for training in TRAININGS:
        faster = calibrated(binary, training)
        found[training.name] = (faster, {
            fabric: train(binary, fabric, training.workload, training.strategy, training.batch,
                          faster)
            for fabric in FABRICS})
    return found


def trainings_table(found):
    header = ["simulated", "computes faster than an H100's roofline", "mesh [ms]", "A", "B", "C",
              "D", "published C", "published D"]
    rows = []
    for training in TRAININGS:
        faster, row = found[training.name]
        base_s = row["mesh"]["iteration_s"]
        rows.append([f"{training.name}, `{training.strategy}`", f"{faster:.1f}x",
                     common.milliseconds(base_s, 3),
                     *(f"{base_s / row[fabric]['iteration_s']:.2f}" for fabric in "ABCD"),
                     *(f"{speedup:.2f}" for speedup in training.published)])
    return common.markdown_table(header, rows)


def waits_table(found):
    """What an iteration is made of, in shares of the mesh's."""
    header = ["share of the mesh's iteration", "fabric", "compute", *WAITS]
    rows = []
    for name, (_, row) in found.items():
        base_s = row["mesh"]["iteration_s"]
        rows += [[name, fabric, f"{row[fabric]['compute_s'] / base_s:.3f}",
                  *(f"{wait(row[fabric]) / base_s:.3f}" for wait in WAITS.values())]
                 for fabric in FABRICS]
    return common.markdown_table(header, rows)


PUBLISHED_SWEEPS = {"Transformer-17B": (4.22, 1.63), "Transformer-1T": (3.92, 1.44)}


def sweep(binary, found):
    """By workload and strategy: rows of mesh and D."""
    rows = {}
    for name, (workload, micro_batches) in SWEPT.items():
        for mp, dp, pp in STRATEGIES:
            strategy = swept_strategy(micro_batches, mp, dp, pp)
            rows[name, mp, dp, pp] = [train(binary, fabric, workload, strategy, SWEPT_BATCH,
                                            found[name][0]) for fabric in ("mesh", "D")]
    return rows


def sweep_means(rows, name):
    """How much less communication is exposed, and how much faster an iteration is, on average."""
    mine = [pair for (workload, *_), pair in rows.items() if workload == name]
    exposed = [mesh["exposed_communication_s"] / wafer["exposed_communication_s"]
               for mesh, wafer in mine if wafer["exposed_communication_s"] > 0]
    faster = [mesh["iteration_s"] / wafer["iteration_s"] for mesh, wafer in mine]
    return sum(exposed) / len(exposed), sum(faster) / len(faster)


def sweep_table(rows):
    header = ["mean over 19 strategies, mesh over D", "exposed communication", "published",
              "iteration", "published"]
    lines = []
    for name, (published_exposed, published_time) in PUBLISHED_SWEEPS.items():
        exposed, faster = sweep_means(rows, name)
        lines.append([name, f"{exposed:.2f}x", f"{published_exposed}x", f"{faster:.2f}x",
                      f"{published_time}x"])
    return common.markdown_table(header, lines)


def strategies_table(rows):
    header = ["MP-DP-PP", *(f"{name}: {what}" for name in SWEPT
                            for what in ("mesh [ms]", "D [ms]", "faster"))]
    lines = []
    for mp, dp, pp in STRATEGIES:
        line = [f"{mp}-{dp}-{pp}"]
        for name in SWEPT:
            mesh, wafer = rows[name, mp, dp, pp]
            line += [common.milliseconds(mesh["iteration_s"], 2),
                     common.milliseconds(wafer["iteration_s"], 2),
                     f"{mesh['iteration_s'] / wafer['iteration_s']:.2f}x"]
        lines.append(line)
    return common.markdown_table(header, lines)


# Of as much bandwidth for each NPU, 3 TB/s; those of two cables for a way share it.
OTHERS = {
    "mesh 5x4": "wafer_mesh:5x4",
    "torus 5x4": "torus:4x5,bandwidth=750GB/s,latency=20ns",
    "crossbar": "switch:20,bandwidth=3TB/s,latency=20ns",
    "crossbar that reduces": "switch:20,bandwidth=3TB/s,latency=20ns,reduce,multicast",
    "FRED-C": "fred:C",
    "FRED-D": "fred:D",
}


def fabrics_table(binary):
    """The best all_reduce of all that there are, by fabric, and how far it is from the bound."""
    rows = []
    for name, topology in OTHERS.items():
        choice = common.run_pleach(binary, "plan", "--topology", topology, "--collective",
                                   "all_reduce", "--size", SIZE_BYTES)["choices"][0]
        rows.append([name, f"`{choice['algorithm']}`", f"{choice['time_ps'] / 1e6:.1f}",
                     f"{100 * choice['fraction_of_bound']:.0f} %"])
    return common.markdown_table(["all_reduce of 100 MB", "the best", "time [us]", "of the bound"],
                                 rows)


def worth_table(found):
    """What an iteration gains by bisection alone (A to C), and by reducing switches (C to D)."""
    rows = [[name, *(f"{row[base]['iteration_s'] / row[ours]['iteration_s']:.2f}x"
                     for base, ours in (("A", "C"), ("B", "D"), ("A", "B"), ("C", "D")))]
            for name, (_, row) in found.items()]
    return common.markdown_table(["iteration", "bisection, A to C", "B to D",
                                  "reducing switches, A to B", "C to D"], rows)


# With full costs, which take one number for all sizes; bench/fred.py, of many more, takes half.
FULL_SEGMENTS = 8
RULES = ("free", "together", "phase")


def admission_table(binary, found):
    """What an iteration takes where switches carry whatever enters, and what more where not.

    On A and C all streams are unicasts, which hold no port.
    """
    rows = []
    for training in TRAININGS:
        for fabric in sorted(IN_SWITCH):
            by_rule = [train(binary, fabric, training.workload, training.strategy, training.batch,
                             found[training.name][0], rule) for rule in RULES]
            free_s = by_rule[0]["iteration_s"]
            rows.append([training.name, fabric, common.milliseconds(free_s, 3),
                         *(common.percent(row["iteration_s"] / free_s - 1)
                           for row in by_rule[1:])])
    return common.markdown_table(["iteration, every stream as it comes", "fabric", "free [ms]",
                                  "together", "phase"], rows)


# NPUs: the mesh, wafers like D with as many I/O nodes as the mesh has boundary faces, and segments,
# with which the time of simulations grows.
SCALES = {
    16: ("wafer_mesh:4x4", ["radix=4"], 32),
    36: ("wafer_mesh:6x6", ["radix=6", "radix=6,taper=2"], 32),
    64: ("wafer_mesh:8x8", ["radix=8", "levels=3,radix=4", "levels=3,radix=4,taper=2"], 32),
    256: ("wafer_mesh:16x16", ["radix=16", "levels=4,radix=4"], 32),
    1024: ("wafer_mesh:32x32", ["radix=32", "levels=3,radix=16"], 8),
}
# Of so many NPUs, with a batch for each replica: the gradients of replicas, or also all weights.
SCALED = {
    "Transformer-17B, MP2-PP2": lambda npus: ("transformer_17b",
                                              f"dp={npus // 4},tp=2,pp=2,micro_batches=8"),
    "Transformer-1T": lambda npus: ("transformer_1t", f"dp={npus},micro_batches=1,stream=io"),
}
# Trees from all I/O nodes to so many NPUs of a mesh take nine minutes, to more of them far longer.
MOST_STREAMED = 256


@functools.lru_cache(maxsize=None)
def scaled(binary, topology, workload, strategy, faster, segments):
    fabric = "mesh" if topology.startswith("wafer_mesh") else "D"
    options = train_options(fabric, workload, strategy, TRAININGS[0].batch, faster)
    return common.train(binary, ["sequential"], **options
                        | {"topology": topology, "segments": segments})["sequential"]


def scale_table(binary, found):
    """Iterations as wafers grow, of replicas that stay as they are."""
    rows = []
    for npus, (mesh, wafers, segments) in SCALES.items():
        io = 4 * round(npus ** 0.5)
        for wafer in wafers:
            row = [npus, f"`{wafer}`"]
            for name, strategy_of in SCALED.items():
                workload, strategy = strategy_of(npus)
                if "stream=io" in strategy and npus > MOST_STREAMED:
                    row += ["-", "-", "-"]
                    continue
                faster = found[name.split(",")[0]][0]
                base_s, ours_s = (
                    scaled(binary, topology, workload, strategy, faster, segments)["iteration_s"]
                    for topology in (mesh, f"fred:D,npus={npus},io={io},{wafer}"))
                row += [common.milliseconds(base_s, 1), common.milliseconds(ours_s, 1),
                        f"{base_s / ours_s:.2f}x"]
            rows.append(row)
    header = ["NPUs", "D", *(f"{name}: {what}" for name in SCALED
                             for what in ("mesh [ms]", "D [ms]", "faster"))]
    return common.markdown_table(header, rows)


POLICIES = ["sequential", "wfbp", "ddp", "mg_wfbp", "dear", "zero1", "work_conserving"]


def policies_table(binary, faster):
    """ResNet-152 by policy: milliseconds of an iteration, and over the bound."""
    answers = {fabric: common.train(
        binary, POLICIES, workload=TRAININGS[0].workload, topology=FABRICS[fabric],
        strategy="dp=20,optimizer=none", batch=TRAININGS[0].batch, accelerator=roofline(faster),
        segments="auto",
        algorithm=("in_switch," if fabric in IN_SWITCH else "") + "hierarchical,ring")
        for fabric in ("mesh", "C", "D")}
    rows = []
    for policy in POLICIES:
        row = [f"`{policy}`"]
        for answer in answers.values():
            row += [common.milliseconds(answer[policy]["iteration_s"], 3),
                    common.percent(answer[policy]["over_bound"] - 1)]
        rows.append(row)
    header = ["policy", *(text for fabric in answers for text in (f"{fabric} [ms]", "over bound"))]
    return common.markdown_table(header, rows)


def plot(path, times, found):
    figure, axes = common.new_plot(1, 2, width=11, height=3.6)
    width = 0.8 / len(FABRICS)
    for index, fabric in enumerate(FABRICS):
        shift = (index - (len(FABRICS) - 1) / 2) * width
        axes[0][0].bar([at + shift for at in range(len(times))],
                       [1e6 * row[fabric] for row in times.values()], width,
                       color=common.COLOURS[index], label=fabric)
        bottoms = [0.0] * len(found)
        parts = {"compute": lambda row: row["compute_s"], **WAITS}
        for colour, (part, wait) in enumerate(parts.items()):
            shares = [wait(row[fabric]) / row["mesh"]["iteration_s"] for _, row in found.values()]
            axes[0][1].bar([at + shift for at in range(len(found))], shares, width, bottom=bottoms,
                           color=common.COLOURS[colour],
                           edgecolor="white", linewidth=0.4, label=part if index == 0 else None)
            bottoms = [bottom + share for bottom, share in zip(bottoms, shares)]
    axes[0][0].set_xticks(range(len(times)), [name.replace(" ", "\n", 1) for name in times],
                          fontsize=7)
    axes[0][0].set_ylabel("100 MB [us]")
    axes[0][0].legend(ncols=5, fontsize=7)
    axes[0][1].set_xticks(range(len(found)), list(found), fontsize=7)
    axes[0][1].set_ylabel("over the mesh's iteration")
    axes[0][1].set_title("mesh, A, B, C, D", loc="left", fontsize=8)
    axes[0][1].legend(fontsize=7, loc="upper right", bbox_to_anchor=(1.0, 1.2), ncols=7)
    figure.tight_layout()
    common.save_plot(figure, path)


def main():
    options = common.parse_options(__doc__, checks=True)
    times = phases(options.pleach)
    common.emit(options, NAME, "phases", phases_table(times))
    common.emit(options, NAME, "bandwidths", bandwidths_table(times))
    passes = {name: streams(options.pleach, weights_bytes) for name, weights_bytes, *_ in PASSES}
    common.emit(options, NAME, "streams", streams_table(passes))
    common.emit(options, NAME, "shares", shares_table(options.pleach, passes[PASSES[-1][0]]))
    found = trainings(options.pleach)
    common.emit(options, NAME, "trainings", trainings_table(found))
    common.emit(options, NAME, "waits", waits_table(found))
    common.emit(options, NAME, "worth", worth_table(found))
    common.emit(options, NAME, "admission", admission_table(options.pleach, found))
    common.emit(options, NAME, "fabrics", fabrics_table(options.pleach))
    common.emit(options, NAME, "policies",
                policies_table(options.pleach, found[TRAININGS[0].name][0]))
    common.emit(options, NAME, "scale", scale_table(options.pleach, found))
    rows = sweep(options.pleach, found)
    common.emit(options, NAME, "sweep", sweep_table(rows))
    common.emit(options, NAME, "strategies", strategies_table(rows))
    common.write_csv(options.output / f"{NAME}.csv", ["phase", *FABRICS],
                     [[name, *(f"{row[fabric]:.12f}" for fabric in FABRICS)]
                      for name, row in times.items()])
    plot(options.output / f"{NAME}.svg", times, found)
    for line in missed(times):
        print(f"{NAME}: {line}", file=sys.stderr)
    return 1 if options.check and missed(times) else 0


if __name__ == "__main__":
    sys.exit(main())
