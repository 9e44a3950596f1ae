#!/usr/bin/python3
"""DeAR's evaluation: five models on 64 ranks, 10 Gb Ethernet and 100 Gb InfiniBand, every policy.

    python3 bench/figures/dear_evaluation.py --pleach build/release/pleach

Rings of two numbers, 15 us per hop and 1.18 GB/s, or 4 us and 5.2 GB/s. Every policy runs as it
comes and, where it has settings, with each of as many of its own as DeAR is given buckets. Writes
one table for each network, and the ratios that a claim like "up to 83 %" is made of.
"""
import sys

import common

NETWORKS = {
    "10GbE": {"alpha": "15us", "bandwidth": "1.18GB/s"},
    "100GbIB": {"alpha": "4us", "bandwidth": "5.2GB/s"},
}
RANKS = 64
AS_THEY_COME = [
    "sequential", "wfbp", "ddp", "horovod", "mg_wfbp", "p3", "byte_scheduler", "prophet", "zero1",
    "fsdp", "fsdp,reshard_after_forward=0", "dear,bucket=0", "dear", "dear_bo", "work_conserving",
]
# What may be charged to coordination: about 4 ms per tensor was reported of Horovod without a cache
# (horovod/horovod 1454); ByteScheduler negotiates every partition, at least a tick of 1 ms.
WITH_NEGOTIATION = [
    "horovod,negotiation=1ms", "horovod,negotiation=4ms",
    "byte_scheduler,negotiation=1ms", "byte_scheduler,negotiation=4ms",
]
# What is searched for every policy that has settings: 14 of its own each (mg_wfbp has two).
GRID_MIB = [1, 2, 4, 8, 16, 25, 32, 48, 64, 80, 96, 128, 192, 256]
SEARCHED = {
    "ddp": [f"ddp,bucket={size}MiB" for size in GRID_MIB],
    "horovod": [f"horovod,cycle={cycle}ms,fusion={fusion}MiB"
                for cycle in (1, 2, 5, 10, 20, 50, 100) for fusion in (64, 128)],
    "mg_wfbp": ["mg_wfbp", "mg_wfbp,merge=optimal"],
    "p3": [f"p3,slice={size}MiB" for size in GRID_MIB],
    "byte_scheduler": [f"byte_scheduler,partition={size}MiB,credit={window * size}MiB"
                       for size in (1, 2, 4, 8, 16, 32, 64) for window in (1, 4)],
    "zero1": [f"zero1,bucket={size}MiB" for size in GRID_MIB],
    "fsdp": [f"fsdp,bucket={size}MiB,reshard_after_forward={reshard}"
             for size in (1, 8, 25, 48, 64, 128, 256) for reshard in (0, 1)],
    "dear": [f"dear,bucket={size}MiB" for size in GRID_MIB],
}
BASELINES = ["wfbp", "ddp", "horovod", "mg_wfbp", "byte_scheduler"]


def best_of(policy):
    """The name of a policy's best searched setting."""
    return f"best of {len(SEARCHED[policy])}: {policy}"


PLOTTED = ["sequential", "wfbp", *(best_of(policy) for policy in (
    "horovod", "ddp", "mg_wfbp", "byte_scheduler", "dear")), "dear_bo", "work_conserving"]


def measure(binary, network):
    """Seconds by model and policy; "bound" and the best searched settings too."""
    specs = AS_THEY_COME + WITH_NEGOTIATION
    specs += [spec for own in SEARCHED.values() for spec in own if spec not in specs]
    answers = {}
    for model, batch, compute_ms in common.MODELS_OF_DEAR:
        rows = common.train(
            binary, specs, workload=model, batch=batch, compute=f"{compute_ms}ms",
            accelerator="rtx2080ti", ranks=RANKS, costs="alpha_beta", iterations=200,
            **NETWORKS[network])
        times = {policy: row["iteration_s"] for policy, row in rows.items()}
        times["bound"] = rows["ddp"]["bound_s"]
        for policy, own in SEARCHED.items():
            times[best_of(policy)] = min([times[spec] for spec in own] + [times[policy]])
        answers[model] = times
    return answers


def times_table(times):
    models = list(times)
    rows = []
    best = [best_of(policy) for policy in SEARCHED]
    for policy in [*AS_THEY_COME, *best, *WITH_NEGOTIATION, "bound"]:
        row = [policy if policy == "bound" or policy in best else f"`{policy}`"]
        for model in models:
            row.append(common.milliseconds(times[model][policy]))
            row.append(common.percent(times[model][policy] / times[model]["bound"] - 1))
        rows.append(row)
    header = ["policy"]
    for model in models:
        header += [f"{model} [ms]", "over bound"]
    return common.markdown_table(header, rows)


def tuned(times, policy):
    return times[best_of(policy)] if policy in SEARCHED else times[policy]


def tuned_dear(times):
    return min(times[best_of("dear")], times["dear_bo"])


def gains_table(answers):
    """What one may divide by DeAR's time: by how much a baseline takes longer."""
    rivals = {
        "the best of WFBP, DDP, Horovod, MG-WFBP, ByteScheduler, tuned": lambda times: min(
            tuned(times, policy) for policy in BASELINES),
    }
    for policy in BASELINES[1:]:
        rivals[f"`{policy}`, tuned"] = lambda times, policy=policy: tuned(times, policy)
    for policy in [*BASELINES, *WITH_NEGOTIATION]:
        rivals[f"`{policy}`"] = lambda times, policy=policy: times[policy]
    rows = []
    for name, rival in rivals.items():
        rows.append([name, *extremes(answers, lambda times, rival=rival: (
            rival(times) / tuned_dear(times) - 1))])
    rows.append(["`wfbp` over `dear,bucket=0`: both without fusion", *extremes(
        answers, lambda times: times["wfbp"] / times["dear,bucket=0"] - 1)])
    rows.append(["tuned DeAR over `work_conserving`", *extremes(
        answers, lambda times: tuned_dear(times) / times["work_conserving"] - 1)])
    header = ["takes longer than tuned DeAR by, at most and at least"]
    for network in answers:
        header += [f"{network}: most", "least"]
    return common.markdown_table(header, rows)


def extremes(answers, gain_of):
    """The greatest and the least gain of a network's models, network by network."""
    cells = []
    for times in answers.values():
        gains = {model: gain_of(found) for model, found in times.items()}
        for choose in (max, min):
            model = choose(gains, key=gains.get)
            cells.append(f"{common.percent(gains[model])} ({model})")
    return cells


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
    common.write_csv(
        options.output / f"{name}.csv", ["network", "model", "policy", "iteration_s", "over_bound"],
        [[network, model, policy, f"{seconds:.6f}", f"{seconds / found['bound']:.4f}"]
         for network, times in answers.items() for model, found in times.items()
         for policy, seconds in found.items()])
    plot(options.output / f"{name}.svg", answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
