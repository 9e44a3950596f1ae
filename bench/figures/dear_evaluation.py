#!/usr/bin/python3
"""DeAR's evaluation: five models on 64 ranks, 10 Gb Ethernet and 100 Gb InfiniBand, every policy.

    python3 bench/figures/dear_evaluation.py --pleach build/release/pleach

Rings of two numbers, 15 us per hop and 1.18 GB/s, or 4 us and 5.2 GB/s. Writes one table for each
network, the ratios that a claim like "up to 83 %" is made of, and the deviations from an
independent model's predictions.
"""
import sys

import common

NETWORKS = {
    "10GbE": {"alpha": "15us", "bandwidth": "1.18GB/s"},
    "100GbIB": {"alpha": "4us", "bandwidth": "5.2GB/s"},
}
RANKS = 64
NO_OVERHEAD = [
    "sequential", "wfbp", "ddp", "horovod", "mg_wfbp", "mg_wfbp,merge=optimal", "p3",
    "byte_scheduler", "prophet", "zero1", "fsdp", "fsdp,reshard_after_forward=0", "lancet",
    "dear,bucket=0", "dear", "dear_bo", "work_conserving",
]
# What may be charged to coordination: about 4 ms per tensor was reported of Horovod without a cache
# (horovod/horovod 1454); ByteScheduler negotiates every partition, at least a tick of 1 ms.
WITH_OVERHEAD = [
    "horovod,negotiation=1ms", "horovod,negotiation=4ms", "horovod,cycle=5ms,fusion=64MiB",
    "byte_scheduler,negotiation=1ms", "byte_scheduler,negotiation=4ms",
]
# dear's bucket by a grid, as the independent model has it.
GRID_MIB = [1, 2, 4, 8, 16, 25, 32, 48, 64, 80, 96, 128, 192, 256]
# Milliseconds on 10GbE that a separate small model predicts; DeAR's buckets in MB of 2^20.
INDEPENDENT = {
    "resnet50": {"one all_reduce": 172, "wfbp": 559, "dear,bucket=0": 373, "ddp": 273,
                 "mg_wfbp": 268, "dear": 297, "best grid": 274, "bound": 253},
    "densenet201": {"one all_reduce": 135, "wfbp": 1342, "dear,bucket=0": 893, "ddp": 215,
                    "mg_wfbp": 240, "dear": 246, "best grid": 218, "bound": 200},
    "inception_v4": {"one all_reduce": 287, "wfbp": 1367, "dear,bucket=0": 893, "ddp": 730,
                     "mg_wfbp": 702, "dear": 743, "best grid": 706, "bound": 700},
    "bert_base": {"one all_reduce": 737, "wfbp": 1252, "dear,bucket=0": 988, "ddp": 919,
                  "mg_wfbp": 886, "dear": 842, "best grid": 835, "bound": 737},
    "bert_large": {"one all_reduce": 2246, "wfbp": 3196, "dear,bucket=0": 2663, "ddp": 2565,
                   "mg_wfbp": 2469, "dear": 2397, "best grid": 2337, "bound": 2246},
}
BASELINES = ["wfbp", "ddp", "horovod", "mg_wfbp", "byte_scheduler"]
PLOTTED = ["sequential", "wfbp", "horovod", "ddp", "mg_wfbp", "byte_scheduler", "dear", "dear_bo",
           "work_conserving"]


def measure(binary, network):
    """Seconds by model and policy; "bound", "best grid" and "one all_reduce" too."""
    grid = [f"dear,bucket={size}MiB" for size in GRID_MIB]
    answers = {}
    for model, batch, compute_ms in common.MODELS_OF_DEAR:
        rows = common.train(
            binary, NO_OVERHEAD + WITH_OVERHEAD + grid, workload=model, batch=batch,
            compute=f"{compute_ms}ms", accelerator="rtx2080ti", ranks=RANKS, costs="alpha_beta",
            iterations=200, **NETWORKS[network])
        times = {policy: row["iteration_s"] for policy, row in rows.items()}
        times["bound"] = rows["ddp"]["bound_s"]
        times["best grid"] = min(times[policy] for policy in grid)
        times["one all_reduce"] = times["sequential"] - compute_ms * 1e-3
        answers[model] = times
    return answers


def times_table(times):
    models = list(times)
    rows = []
    for policy in [*NO_OVERHEAD, "best grid", *WITH_OVERHEAD, "bound"]:
        name = "dear, best bucket of a grid" if policy == "best grid" else policy
        row = [f"`{name}`" if policy not in ("bound", "best grid") else name]
        for model in models:
            row.append(common.milliseconds(times[model][policy]))
            row.append(common.percent(times[model][policy] / times[model]["bound"] - 1))
        rows.append(row)
    header = ["policy"]
    for model in models:
        header += [f"{model} [ms]", "over bound"]
    return common.markdown_table(header, rows)


def gains_table(answers):
    """What one may divide by DeAR's time: by how much a baseline takes longer."""
    rivals = {
        "the best of WFBP, DDP, Horovod, MG-WFBP, ByteScheduler": lambda times: min(
            times[policy] for policy in BASELINES),
        "`ddp`": lambda times: times["ddp"],
        "`mg_wfbp`": lambda times: times["mg_wfbp"],
        "`horovod`": lambda times: times["horovod"],
        "`horovod,negotiation=4ms`": lambda times: times["horovod,negotiation=4ms"],
        "`byte_scheduler`": lambda times: times["byte_scheduler"],
        "`byte_scheduler,negotiation=1ms`": lambda times: times["byte_scheduler,negotiation=1ms"],
        "`byte_scheduler,negotiation=4ms`": lambda times: times["byte_scheduler,negotiation=4ms"],
        "`wfbp`": lambda times: times["wfbp"],
    }
    rows = []
    for name, rival in rivals.items():
        row = [name]
        for times in answers.values():
            gains = {model: rival(found) / min(found["best grid"], found["dear_bo"]) - 1
                     for model, found in times.items()}
            most = max(gains, key=gains.get)
            row.append(f"{common.percent(gains[most])} ({most})")
        rows.append(row)
    without = ["`wfbp` over `dear,bucket=0`: both without fusion"]
    planned = ["tuned DeAR over `work_conserving`"]
    for times in answers.values():
        gains = {model: found["wfbp"] / found["dear,bucket=0"] - 1
                 for model, found in times.items()}
        most = max(gains, key=gains.get)
        without.append(f"{common.percent(gains[most])} ({most})")
        gains = {model: min(found["best grid"], found["dear_bo"]) / found["work_conserving"] - 1
                 for model, found in times.items()}
        most = max(gains, key=gains.get)
        planned.append(f"{common.percent(gains[most])} ({most})")
    header = ["takes longer than DeAR with the best bucket, at most by", *answers]
    return common.markdown_table(header, [*rows, without, planned])


def deviations_table(times):
    columns = list(next(iter(INDEPENDENT.values())))
    rows = []
    for model, predicted in INDEPENDENT.items():
        row = [model]
        for column in columns:
            ours = 1e3 * times[model][column]
            row.append(f"{ours:.0f} / {predicted[column]} "
                       f"({common.percent(ours / predicted[column] - 1, 0)})")
        rows.append(row)
    return common.markdown_table(["model", *columns], rows)


def plot(path, answers):
    figure, axes = common.new_plot(2, 1, width=9, height=6.4)
    width = 0.8 / len(PLOTTED)
    for axis, (network, times) in zip(axes[:, 0], answers.items()):
        top = 3.2
        for index, policy in enumerate(PLOTTED):
            shift = (index - (len(PLOTTED) - 1) / 2) * width
            places = [model + shift for model in range(len(times))]
            ratios = [found[policy] / found["bound"] for found in times.values()]
            colour = (common.COLOURS + ["#000000"])[index]
            axis.bar(places, [min(ratio, top) for ratio in ratios], width, color=colour,
                     label=policy)
            for place, ratio in zip(places, ratios):
                if ratio > top:
                    axis.text(place, top, f"{ratio:.1f}", ha="center", va="bottom", fontsize=7)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_ylim(0, top * 1.06)
        axis.set_ylabel("iteration over bound [ratio]")
        axis.set_xticks(range(len(times)), [f"{model}\nbound {1e3 * found['bound']:.0f} ms"
                                            for model, found in times.items()])
        axis.set_title(f"{network}, {RANKS} ranks", loc="left")
    axes[0][0].legend(ncols=5, loc="lower center", bbox_to_anchor=(0.55, 1.0), fontsize=8)
    figure.tight_layout()
    common.save_plot(figure, path)


def main():
    options = common.parse_options(__doc__)
    name = "dear_evaluation"
    answers = {network: measure(options.pleach, network) for network in NETWORKS}
    for network, times in answers.items():
        common.emit(options, name, network, times_table(times))
    common.emit(options, name, "gains", gains_table(answers))
    common.emit(options, name, "deviations", deviations_table(answers["10GbE"]))
    common.write_csv(
        options.output / f"{name}.csv", ["network", "model", "policy", "iteration_s", "over_bound"],
        [[network, model, policy, f"{seconds:.6f}", f"{seconds / found['bound']:.4f}"]
         for network, times in answers.items() for model, found in times.items()
         for policy, seconds in found.items() if policy != "one all_reduce"])
    plot(options.output / f"{name}.svg", answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
