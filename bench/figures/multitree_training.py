#!/usr/bin/python3
"""MultiTree's training evaluation: seven workloads on an 8x8 torus, by all_reduce algorithm.

    python3 bench/figures/multitree_training.py --pleach build/release/pleach

Links of 16 GB/s and 150 ns without headers; 16 systolic arrays of 32x32 at 1 GHz; 16 samples per
rank; fp32. Communication after backward (`sequential`), or layer by layer beside it (`wfbp`).
"""
import sys

import common

WORKLOADS = ["multitree_alexnet", "alphagozero", "faster_rcnn", "multitree_googlenet",
             "multitree_resnet50", "ncf", "transformer"]
DENSE = {"ncf", "transformer"}
# Name, algorithm, segments of a chunk.
ALGORITHMS = [("ring", "ring", 1), ("ring_2d", "ring_2d", 1), ("multitree", "multitree", 1),
              ("multitree, 4 segments", "multitree", 4)]
MODES = {"sequential": "after backward", "wfbp": "overlapped"}


def measure(binary):
    """Rows of pleach by workload, algorithm's name and policy."""
    return {workload: {name: common.train(binary, list(MODES), workload=workload,
                                          topology="torus:8x8", algorithm=algorithm,
                                          segments=segments, accelerator="systolic", batch=16)
                       for name, algorithm, segments in ALGORITHMS}
            for workload in WORKLOADS}


def reduction(times, policy, base):
    """How much less time than with `base` an iteration takes with multitree."""
    return 1 - (times["multitree"][policy]["iteration_s"] / times[base][policy]["iteration_s"])


def times_table(answers, policy):
    header = ["workload", "compute [ms]", *(f"{name} [ms]" for name, _, _ in ALGORITHMS)]
    if policy == "sequential":
        header += ["communication with ring", "all_reduce speedup over ring", "over ring_2d"]
    header += ["less time than ring", "than ring_2d"]
    rows = []
    for workload, times in answers.items():
        compute_s = times["ring"][policy]["compute_s"]
        row = [workload, common.milliseconds(compute_s, 2)]
        row += [common.milliseconds(times[name][policy]["iteration_s"], 2)
                for name, _, _ in ALGORITHMS]
        if policy == "sequential":
            spent = {name: times[name][policy]["iteration_s"] - compute_s for name in times}
            row.append(f"{100 * spent['ring'] / (spent['ring'] + compute_s):.0f} %")
            row += [f"{spent[base] / spent['multitree']:.2f}x" for base in ("ring", "ring_2d")]
        row += [f"{100 * reduction(times, policy, base):.1f} %" for base in ("ring", "ring_2d")]
        rows.append(row)
    return common.markdown_table(header, rows)


def claims_table(answers):
    """The published claims, and the same figure here."""
    def most(policy, base, workloads):
        best = max(workloads, key=lambda workload: reduction(answers[workload], policy, base))
        return f"{100 * reduction(answers[best], policy, base):.0f} % ({best})"

    def mean_speedup(base):
        ratios = []
        for times in answers.values():
            compute_s = times["ring"]["sequential"]["compute_s"]
            ratios.append((times[base]["sequential"]["iteration_s"] - compute_s)
                          / (times["multitree"]["sequential"]["iteration_s"] - compute_s))
        return f"{sum(ratios) / len(ratios):.2f}x"

    def overlapped_ratio(base):
        ratios = [answers[workload][base]["wfbp"]["iteration_s"]
                  / answers[workload]["multitree"]["wfbp"]["iteration_s"]
                  for workload in sorted(DENSE)]
        return " and ".join(f"{ratio:.2f}x" for ratio in ratios)

    convolutional = [workload for workload in WORKLOADS if workload not in DENSE]
    rings = [times["ring"]["sequential"] for times in answers.values()]
    shares = [1 - ring["compute_s"] / ring["iteration_s"] for ring in rings]
    return common.markdown_table(["claim", "published", "here"], [
        ["communication in an iteration with ring", "30-88 %",
         f"{100 * min(shares):.0f}-{100 * max(shares):.0f} %"],
        ["all_reduce over ring, mean", "2.2x (2.3x without packets' headers)",
         mean_speedup("ring")],
        ["all_reduce over 2D-ring, mean", "1.51x (1.56x)", mean_speedup("ring_2d")],
        ["NCF and Transformer: less time than ring, at most", "81 %",
         most("sequential", "ring", DENSE)],
        ["the same, than 2D-ring", "30 %", most("sequential", "ring_2d", DENSE)],
        ["CNNs: less time than ring, at most", "34 %",
         most("sequential", "ring", convolutional)],
        ["the same, than 2D-ring", "15 %", most("sequential", "ring_2d", convolutional)],
        ["CNNs overlapped: less time than ring, at most", "10 %",
         most("wfbp", "ring", convolutional)],
        ["NCF and Transformer overlapped: speedup over ring", "about 2x", overlapped_ratio("ring")],
        ["the same, over 2D-ring", "1.37x", overlapped_ratio("ring_2d")],
    ])


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
    options = common.parse_options(__doc__)
    name = "multitree_training"
    answers = measure(options.pleach)
    common.emit(options, name, "claims", claims_table(answers))
    for policy in MODES:
        common.emit(options, name, policy, times_table(answers, policy))
    common.write_csv(
        options.output / f"{name}.csv",
        ["workload", "algorithm", "policy", "compute_s", "iteration_s", "bound_s"],
        [[workload, algorithm, policy] + [f"{row[key]:.9f}" for key in
                                          ("compute_s", "iteration_s", "bound_s")]
         for workload, times in answers.items() for algorithm, rows in times.items()
         for policy, row in rows.items()])
    plot(options.output / f"{name}.svg", answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
