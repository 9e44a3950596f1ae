#!/usr/bin/python3
"""MultiTree's training evaluation: seven workloads on an 8x8 torus, by all_reduce algorithm.

    python3 bench/figures/multitree_training.py --pleach build/release/pleach

Links of 16 GB/s and 150 ns without headers; 16 systolic arrays of 32x32 at 1 GHz; 16 samples per
rank; fp32. Communication after backward (`sequential`), or layer by layer beside it (`wfbp`).

With the model flit as well: 256-byte packets with headers, rings that open steps in order, and
MultiTree in lockstep, by packets and by messages. Its curves are drawn once for all workloads, up
to --curve-end, and go on with their last slope.
"""
import json
import pathlib
import sys
import tempfile

import common

WORKLOADS = ["multitree_alexnet", "alphagozero", "faster_rcnn", "multitree_googlenet",
             "multitree_resnet50", "ncf", "transformer"]
DENSE = {"ncf", "transformer"}
# Name, algorithm, segments of a chunk.
ALGORITHMS = [("ring", "ring", 1), ("ring_2d", "ring_2d", 1), ("multitree", "multitree", 1),
              ("multitree, 4 segments", "multitree", 4)]
# Name, algorithm, gate, flow control.
FLIT_ALGORITHMS = [("ring", "ring", "in_order", "packet"),
                   ("ring_2d", "ring_2d", "in_order", "packet"),
                   ("multitree, packets", "multitree", "lockstep", "packet"),
                   ("multitree, messages", "multitree", "lockstep", "message")]
LARGEST_BYTES = 1 << 30  # of what is asked of curves
MODES = {"sequential": "after backward", "wfbp": "overlapped"}


def measure(binary):
    """Rows of pleach by workload, algorithm's name and policy."""
    return {workload: {name: common.train(binary, list(MODES), workload=workload,
                                          topology="torus:8x8", algorithm=algorithm,
                                          segments=segments, accelerator="systolic", batch=16)
                       for name, algorithm, segments in ALGORITHMS}
            for workload in WORKLOADS}


def flit_curve(binary, curve_end, algorithm, gate, flow_control):
    """Sizes and seconds of an all_reduce; the last point is on the slope of the two before it."""
    rows = common.run_pleach(binary, "simulate", "--topology", "torus:8x8", "--model", "flit",
                             "--algorithm", algorithm, "--gate", gate, "--flow-control",
                             flow_control, "--sizes", f"1KiB:{curve_end}:2")["rows"]
    points = [(row["size_bytes"], row["time_ps"] / 1e12) for row in rows]
    (low, low_s), (high, high_s) = points[-2:]
    slope = (high_s - low_s) / (high - low)
    return [*points, (LARGEST_BYTES, high_s + slope * (LARGEST_BYTES - high))]


def measure_flit(binary, curve_end):
    """The curves by algorithm's name, and rows as those of measure()."""
    curves = {name: flit_curve(binary, curve_end, *how) for name, *how in FLIT_ALGORITHMS}
    answers = {workload: {} for workload in WORKLOADS}
    with tempfile.TemporaryDirectory() as folder:
        costs = pathlib.Path(folder) / "costs.json"
        for name, points in curves.items():
            costs.write_text(json.dumps({
                "format": "pleach-costs", "version": 1, "rank_count": 64,
                "points": [{"collective": "all_reduce", "size_bytes": size_bytes, "time_s": time_s}
                           for size_bytes, time_s in points]}), encoding="utf-8")
            for workload in WORKLOADS:
                answers[workload][name] = common.train(
                    binary, list(MODES), workload=workload, costs=f"measured:{costs}",
                    accelerator="systolic", batch=16)
    return curves, answers


def reduction(times, policy, base, ours):
    """How much less time than with `base` an iteration takes with `ours`."""
    return 1 - (times[ours][policy]["iteration_s"] / times[base][policy]["iteration_s"])


def times_table(answers, policy, ours):
    names = list(next(iter(answers.values())))
    header = ["workload", "compute [ms]", *(f"{name} [ms]" for name in names)]
    if policy == "sequential":
        header += ["communication with ring", "all_reduce speedup over ring", "over ring_2d"]
    header += ["less time than ring", "than ring_2d"]
    rows = []
    for workload, times in answers.items():
        compute_s = times["ring"][policy]["compute_s"]
        row = [workload, common.milliseconds(compute_s, 2)]
        row += [common.milliseconds(times[name][policy]["iteration_s"], 2)
                for name in names]
        if policy == "sequential":
            spent = {name: times[name][policy]["iteration_s"] - compute_s for name in times}
            row.append(f"{100 * spent['ring'] / (spent['ring'] + compute_s):.0f} %")
            row += [f"{spent[base] / spent[ours]:.2f}x" for base in ("ring", "ring_2d")]
        row += [f"{100 * reduction(times, policy, base, ours):.1f} %"
                for base in ("ring", "ring_2d")]
        rows.append(row)
    return common.markdown_table(header, rows)


def claims_of(answers, ours):
    """What stands beside the published claims, in their order."""
    def most(policy, base, workloads):
        best = max(workloads, key=lambda workload: reduction(answers[workload], policy, base, ours))
        return f"{100 * reduction(answers[best], policy, base, ours):.0f} % ({best})"

    def mean_speedup(base):
        ratios = []
        for times in answers.values():
            compute_s = times["ring"]["sequential"]["compute_s"]
            ratios.append((times[base]["sequential"]["iteration_s"] - compute_s)
                          / (times[ours]["sequential"]["iteration_s"] - compute_s))
        return f"{sum(ratios) / len(ratios):.2f}x"

    def overlapped_ratio(base):
        ratios = [answers[workload][base]["wfbp"]["iteration_s"]
                  / answers[workload][ours]["wfbp"]["iteration_s"]
                  for workload in sorted(DENSE)]
        return " and ".join(f"{ratio:.2f}x" for ratio in ratios)

    convolutional = [workload for workload in WORKLOADS if workload not in DENSE]
    rings = [times["ring"]["sequential"] for times in answers.values()]
    shares = [1 - ring["compute_s"] / ring["iteration_s"] for ring in rings]
    return [
        f"{100 * min(shares):.0f}-{100 * max(shares):.0f} %",
        mean_speedup("ring"),
        mean_speedup("ring_2d"),
        most("sequential", "ring", DENSE),
        most("sequential", "ring_2d", DENSE),
        most("sequential", "ring", convolutional),
        most("sequential", "ring_2d", convolutional),
        most("wfbp", "ring", convolutional),
        overlapped_ratio("ring"),
        overlapped_ratio("ring_2d"),
    ]


def claims_table(columns):
    """The published claims, and the same figures here: by column its answers and what is ours."""
    published = [
        ("communication in an iteration with ring", "30-88 %"),
        ("all_reduce over ring, mean", "2.2x (2.3x without packets' headers)"),
        ("all_reduce over 2D-ring, mean", "1.51x (1.56x)"),
        ("NCF and Transformer: less time than ring, at most", "81 %"),
        ("the same, than 2D-ring", "30 %"),
        ("CNNs: less time than ring, at most", "34 %"),
        ("the same, than 2D-ring", "15 %"),
        ("CNNs overlapped: less time than ring, at most", "10 %"),
        ("NCF and Transformer overlapped: speedup over ring", "about 2x"),
        ("the same, over 2D-ring", "1.37x"),
    ]
    ours = [claims_of(*column) for column in columns.values()]
    return common.markdown_table(["claim", "published", *columns],
                                 [[*claim, *figures]
                                  for claim, figures in zip(published, zip(*ours))])


def plot(path, answers):
    figure, axes = common.new_plot(2, 1, width=9, height=6, sharex=True)
    width = 0.8 / len(ALGORITHMS)
    for axis, (policy, mode) in zip(axes[:, 0], MODES.items()):
        for index, (name, _, _) in enumerate(ALGORITHMS):
            shift = (index - (len(ALGORITHMS) - 1) / 2) * width
            places = [at + shift for at in range(len(answers))]
            rings = [times["ring"][policy]["iteration_s"] for times in answers.values()]
            computes = [times[name][policy]["compute_s"] / ring
                        for times, ring in zip(answers.values(), rings)]
            totals = [times[name][policy]["iteration_s"] / ring
                      for times, ring in zip(answers.values(), rings)]
            axis.bar(places, totals, width, color=common.COLOURS[index], label=name)
            axis.bar(places, computes, width, color="white", alpha=0.55)
        axis.set_ylabel("iteration over ring's [ratio]")
        axis.set_title(f"communication {mode}", loc="left")
    axes[1][0].set_xticks(range(len(answers)), [name.replace("multitree_", "") for name in answers])
    axes[1][0].set_xlabel("workload (pale: computation)")
    axes[0][0].legend(ncols=4, loc="lower right", bbox_to_anchor=(1.0, 1.0), fontsize=8)
    figure.tight_layout()
    common.save_plot(figure, path)


def main():
    options = common.parse_options(__doc__, more=lambda parser: parser.add_argument(
        "--curve-end", default="16MiB",
        help="of the model flit: the largest size that is simulated"))
    name = "multitree_training"
    answers = measure(options.pleach)
    curves, flit_answers = measure_flit(options.pleach, options.curve_end)
    common.emit(options, name, "claims", claims_table({
        "flow": (answers, "multitree"),
        "flit, packets": (flit_answers, "multitree, packets"),
        "flit, messages": (flit_answers, "multitree, messages")}))
    for policy in MODES:
        common.emit(options, name, policy, times_table(answers, policy, "multitree"))
        common.emit(options, name, f"{policy}_flit",
                    times_table(flit_answers, policy, "multitree, messages"))
    common.write_csv(
        options.output / f"{name}.csv",
        ["model", "workload", "algorithm", "policy", "compute_s", "iteration_s", "bound_s"],
        [[model, workload, algorithm, policy] + [f"{row[key]:.9f}" for key in
                                                 ("compute_s", "iteration_s", "bound_s")]
         for model, by_workload in (("flow", answers), ("flit", flit_answers))
         for workload, times in by_workload.items() for algorithm, rows in times.items()
         for policy, row in rows.items()])
    common.write_csv(options.output / f"{name}_curves.csv", ["algorithm", "size_bytes", "time_s"],
                     [[algorithm, size_bytes, f"{time_s:.12f}"]
                      for algorithm, points in curves.items() for size_bytes, time_s in points])
    plot(options.output / f"{name}.svg", answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
