#!/usr/bin/python3
"""MultiTree's network evaluation: all_reduces on routers, cycle by cycle, by algorithm and network.

    python3 bench/figures/multitree_network.py --pleach build/release/pleach [--quick]

Links of 16 GB/s and 150 ns; the interfaces, routers and gates of the published simulator unless a
table says otherwise. Runs of more flits than --most-flits are left out, in weak and strong scaling
those of more than --scaling-flits.
"""
import dataclasses
import os
import sys
import tempfile

import common
import multitree_cycles
from multitree_cycles import options_of
from multitree_simulator import (COMPARED, DOUBLE_TREE, HDRM, KIB, LABELS, MESSAGES, MIB, NETWORKS,
                                 PACKETS, PUBLISHED_MESSAGES, PUBLISHED_PACKETS,
                                 PUBLISHED_RING_2D, RING, RING_2D, TABLED, TORI, Simulator, algbw,
                                 ratio, settings_of, size_name)

NAME = "multitree_network"


# ---- bandwidth against size, message against packet

def bandwidth_table(simulator):
    rows = []
    for network in COMPARED:
        sizes = simulator.sizes(network)
        for size in sorted({32 * KIB, min(MIB, sizes[-1]), sizes[-1]}):
            cells = {setting: simulator.cycles(network, setting, size)
                     for setting in settings_of(NETWORKS[network][2])}
            rows.append([network, size_name(size),
                         *(algbw(cells.get(setting), size) for setting in LABELS)])
    return common.markdown_table(["network", "size", *(f"{label} [GB/s]"
                                                       for label in LABELS.values())], rows)


def messages_table(simulator):
    """Cycles by packets over cycles by messages."""
    shown = [32 * KIB << shift for shift in range(0, 12, 1) if 32 * KIB << shift <=
             simulator.largest]
    rows = [[network, *(ratio(simulator.cycles(network, PACKETS, size),
                              simulator.cycles(network, MESSAGES, size)) for size in shown)]
            for network in COMPARED]
    return common.markdown_table(["network", *(size_name(size) for size in shown)], rows)


# ---- scaling on tori

SCALED = [RING, DOUBLE_TREE, RING_2D, PACKETS, MESSAGES]


def scaling_size(figure, network):
    return 384 * KIB * NETWORKS[network][0] if figure == "weak" else 32 * MIB


def scaling_table(simulator):
    rows = []
    for figure in ("weak", "strong"):
        for network in TORI:
            size = scaling_size(figure, network)
            if not simulator.scales_to(network, size):
                continue
            cells = {setting: simulator.cycles_at(network, setting, size) for setting in SCALED}
            best = cells[MESSAGES]
            rows.append([f"{figure}, {network}", size_name(size),
                         *(f"{cell:,}" for cell in cells.values()),
                         ratio(cells[RING], best), ratio(cells[RING_2D], best)])
    return common.markdown_table(
        ["scaling", "size", *(LABELS[setting] for setting in SCALED), "messages over ring",
         "over ring_2d"], rows)


# ---- the interface, one part after the other

LINK, STREAMED = ",binding=link", ",reduction=streamed"
FRAMES = ",header=16B,packet=256B"


def fluid(setting, framed=False, reduces=False):
    links = f"bandwidth=16GB/s,latency={'162.5' if reduces else '150'}ns{FRAMES if framed else ''}"
    return dataclasses.replace(setting, model="flow", gate="dataflow", links=links,
                               reduce_bandwidth="128GB/s" if reduces else "")


# What is said, and what it makes of ring, ring_2d and multitree.
ABLATION = [
    ("`flow`", fluid),
    ("... with headers", lambda setting: fluid(setting, True)),
    ("... with reductions at 128 B/ns and 162.5 ns a hop",
     lambda setting: fluid(setting, True, True)),
    ("`flit`, dataflow, `binding=link`", lambda setting: options_of(setting, LINK, "dataflow")),
    ("**the published interface**: `binding=any`, multitree in lockstep, rings in order",
     lambda setting: setting),
    ("... `oracle` for multitree", lambda setting: options_of(
        setting, "", "oracle" if setting.algorithm == "multitree" else None)),
    ("... dataflow for multitree", lambda setting: options_of(
        setting, "", "dataflow" if setting.algorithm == "multitree" else None)),
    ("... `binding=link` for all", lambda setting: options_of(setting, LINK)),
    ("... `reduction=streamed` for all", lambda setting: options_of(setting, STREAMED)),
    ("... both for all", lambda setting: options_of(setting, LINK + STREAMED)),
    ("... both, dataflow for multitree", lambda setting: options_of(
        setting, LINK + STREAMED, "dataflow" if setting.algorithm == "multitree" else None)),
]


def ablation_sizes(simulator):
    return [size for size in (256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
            if size <= min(256 * KIB, simulator.largest)
            or size <= simulator.largest and simulator.runs_at("8x8 torus", size)]


def ablation_table(simulator, size):
    rows = []
    for text, make in ABLATION:
        cells = {setting: simulator.cycles_at("8x8 torus", make(setting), size)
                 for setting in (RING, RING_2D, PACKETS, MESSAGES)}
        rows.append([text, *(f"{cell:,}" for cell in cells.values()),
                     ratio(cells[RING], cells[PACKETS]), ratio(cells[RING], cells[MESSAGES]),
                     ratio(cells[RING_2D], cells[PACKETS]),
                     ratio(cells[RING_2D], cells[MESSAGES])])
    return common.markdown_table(
        ["interface", "ring", "ring_2d", "multitree, packets", "messages", "ring over packets",
         "over messages", "ring_2d over packets", "over messages"], rows)


# ---- tables, claims, plots

def entries_table(simulator):
    rows = []
    for network in TABLED:
        tables = simulator.tables(network)
        most = max(rank["bits"] for rank in tables["ranks"])
        rows.append([network, tables["most_entries"], tables["entry_bits"], f"{most:,}",
                     len(tables["overfull_ranks"])])
    return common.markdown_table(["network", "entries of the fullest rank", "bits of an entry",
                                  "bits of its table", "ranks with more than 128"], rows)


# What is claimed of the 8x8 torus, in words and as published: over which setting, for which.
TORUS_CLAIMS = [
    ("8x8 torus, over ring, packets", "2.2x", RING, PACKETS),
    ("8x8 torus, over ring, messages", "2.3x", RING, MESSAGES),
    ("8x8 torus, over 2D-ring, packets", "1.51x", RING_2D, PACKETS),
    ("8x8 torus, over 2D-ring, messages", "1.56x", RING_2D, MESSAGES),
    ("the same, the published 2D-ring and interfaces, packets", "1.51x", PUBLISHED_RING_2D,
     PUBLISHED_PACKETS),
    ("the same, messages", "1.56x", PUBLISHED_RING_2D, PUBLISHED_MESSAGES),
    ("the same over ring, messages", "2.3x", RING, PUBLISHED_MESSAGES),
    ("messages over packets, 8x8 torus", "1.06x", PACKETS, MESSAGES),
]


def claims_table(simulator):
    last = {network: simulator.sizes(network)[-1] for network in COMPARED}
    torus = last["8x8 torus"]

    def gain(network, base, setting, size):
        return ratio(*(simulator.cycles_at(network, which, size) for which in (base, setting)))

    def both(network, base):
        size = last[network]
        return (f"{gain(network, base, MESSAGES, 32 * KIB)} at 32 KiB, "
                f"{gain(network, base, MESSAGES, size)} at {size_name(size)}")

    weak = [network for network in TORI
            if simulator.scales_to(network, scaling_size("weak", network))]
    weak = weak[-1] if weak else None
    size = scaling_size("weak", weak) if weak else 0
    used = simulator.start("4x4 torus", RING, last["4x4 torus"]).result()["link_busy_mean"]
    at = f" ({size_name(torus)})"
    slowest = [f"{gain(network, DOUBLE_TREE, RING, last[network])} ({network})"
               for network in ("4x4 torus", "8x8 torus", "4x4 mesh", "8x8 mesh")]
    return common.markdown_table(["claim", "published", "here"], [
        *([text, published, gain("8x8 torus", base, setting, torus) + at]
          for text, published, base, setting in TORUS_CLAIMS),
        ["weak scaling, over ring", "about 3x (256 ranks)",
         f"{gain(weak, RING, MESSAGES, size)} ({weak})" if weak else "-"],
        ["weak scaling, over 2D-ring", "about 1.4x (256 ranks)",
         f"{gain(weak, RING_2D, MESSAGES, size)} ({weak})" if weak else "-"],
        ["links that ring uses on the 4x4 torus", "25 %", f"{100 * used:.0f} % of their time"],
        ["64-rank fat-tree: small sizes gain over ring, large ones are alike", "yes",
         both("64-rank fat-tree", RING)],
        ["64-rank BiGraph: the same over ring", "yes", both("64-rank BiGraph", RING)],
        ["64-rank BiGraph: the same over HDRM", "yes", both("64-rank BiGraph", HDRM)],
        ["8x8 mesh: 2D-ring falls below ring", "yes",
         "2D-ring takes " + gain("8x8 mesh", RING_2D, RING, last["8x8 mesh"])
         + f" ring's time at {size_name(last['8x8 mesh'])}"],
        ["double binary tree is worst on tori and meshes, large sizes", "yes",
         "of ring's time " + ", ".join(slowest)],
        ["entries of a 64-rank network fit a table of 128", "yes",
         f"8x8 torus {simulator.tables('8x8 torus')['most_entries']}, 8x8 mesh "
         f"{simulator.tables('8x8 mesh')['most_entries']}"],
    ])


def plot_bandwidth(path, simulator):
    figure, axes = common.new_plot(3, 3, width=11, height=9, sharex=True)
    for axis, network in zip(axes.flat, COMPARED):
        sizes = simulator.sizes(network)
        for index, setting in enumerate(LABELS):
            if setting not in settings_of(NETWORKS[network][2]):
                continue
            axis.plot([size / MIB for size in sizes],
                      [size / simulator.cycles(network, setting, size) for size in sizes],
                      marker=".", color=common.COLOURS[index], label=LABELS[setting])
        axis.set_xscale("log", base=2)
        axis.set_ylim(bottom=0)
        axis.set_title(network, loc="left")
    for axis in axes[:, 0]:
        axis.set_ylabel("all_reduce [GB/s]")
    for axis in axes[-1]:
        axis.set_xlabel("size [MiB]")
    known = {}
    for axis in axes.flat:
        handles, labels = axis.get_legend_handles_labels()
        known |= dict(zip(labels, handles))
    figure.tight_layout()
    figure.legend(known.values(), known.keys(), ncols=4, loc="lower center",
                  bbox_to_anchor=(0.5, 1.0))
    common.save_plot(figure, path)


def plot_scaling(path, simulator):
    figure, axes = common.new_plot(1, 2, width=9, height=3.6)
    for axis, figure_name in zip(axes[0], ("weak", "strong")):
        tori = [network for network in TORI
                if simulator.scales_to(network, scaling_size(figure_name, network))]
        for setting in SCALED:
            axis.plot([NETWORKS[network][0] for network in tori],
                      [simulator.cycles_at(network, setting,
                                           scaling_size(figure_name, network)) / 1e6
                       for network in tori],
                      marker=".", label=LABELS[setting],
                      color=common.COLOURS[list(LABELS).index(setting)])
        axis.set_title({"weak": "384 KiB a rank", "strong": "32 MiB"}[figure_name], loc="left")
        axis.set_xlabel("ranks of the torus")
        axis.set_ylim(bottom=0)
    axes[0][0].set_ylabel("all_reduce [ms]")
    axes[0][0].legend(fontsize=8)
    figure.tight_layout()
    common.save_plot(figure, path)


def start_all(simulator):
    """Everything that the tables ask for, so that all cores have something to do."""
    for size in ablation_sizes(simulator):
        for _, make in ABLATION:
            for setting in (RING, RING_2D, PACKETS, MESSAGES):
                simulator.start("8x8 torus", make(setting), size)
    cells = [(network, size) for network in COMPARED for size in simulator.sizes(network)]
    for network, size in sorted(cells, key=lambda cell: NETWORKS[cell[0]][0] * cell[1]):
        for setting in settings_of(NETWORKS[network][2]):
            simulator.start(network, setting, size)
    for network in TORI:
        for figure in ("weak", "strong"):
            size = scaling_size(figure, network)
            for setting in SCALED if simulator.scales_to(network, size) else []:
                simulator.start(network, setting, size)


def write_runs(path, simulator):
    rows = sorted([network, size, setting.algorithm, setting.model + setting.links, setting.gate,
                   setting.flow_control, setting.reduce_bandwidth, setting.segments,
                   run.result()["cycles"]]
                  for (network, setting, size), run in simulator.runs.items())
    common.write_csv(path, ["network", "size_bytes", "algorithm", "model", "gate", "flow_control",
                            "reduce_bandwidth", "segments", "cycles"], rows)


def add_options(parser):
    parser.add_argument("--quick", action="store_true", help="up to 1 MiB")
    parser.add_argument("--most-flits", type=int, default=1 << 28,
                        help="of a run, 2 · ranks · size / 16 B (2^29: 64 MiB on 64 ranks)")
    parser.add_argument("--scaling-flits", type=int, default=1 << 29,
                        help="of a run of weak or strong scaling (2^32: up to 256 ranks)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")


def main():
    options = common.parse_options(__doc__, more=add_options)
    options.largest = MIB if options.quick else 64 * MIB
    if options.quick:
        options.most_flits = min(options.most_flits, 1 << 23)
        options.scaling_flits = min(options.scaling_flits, 1 << 23)
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(options, folder)
        multitree_cycles.emit(options, NAME, simulator)
        start_all(simulator)
        common.emit(options, NAME, "claims", claims_table(simulator))
        common.emit(options, NAME, "bandwidth", bandwidth_table(simulator))
        common.emit(options, NAME, "messages", messages_table(simulator))
        common.emit(options, NAME, "scaling", scaling_table(simulator))
        common.emit(options, NAME, "ablation", "\n".join(
            f"**{size_name(size)}**\n\n{ablation_table(simulator, size)}"
            for size in ablation_sizes(simulator)))
        common.emit(options, NAME, "tables", entries_table(simulator))
        plot_bandwidth(options.output / f"{NAME}.svg", simulator)
        plot_scaling(options.output / f"{NAME}_scaling.svg", simulator)
        write_runs(options.output / f"{NAME}.csv", simulator)
    return 0


if __name__ == "__main__":
    sys.exit(main())
