#!/usr/bin/python3
"""What network a training needs: iteration time against link bandwidth, and the least for a target.

    python3 bench/figures/network_needed.py --pleach build/release/pleach

64 ranks; latency and attained bandwidth from examples/nccl_tests_10gbe.json, measured on links of
10 Gb/s; latency stays as it is while the bandwidth is swept.
"""
import sys

import common

CALIBRATION = common.ROOT / "examples" / "nccl_tests_10gbe.json"
# Model, batch per rank, milliseconds of computation, target.
MODELS = [("resnet50", 64, 253, 300), ("bert_base", 64, 301, 360)]
POLICIES = ["sequential", "wfbp", "ddp", "mg_wfbp", "dear", "work_conserving"]
SWEEP = "1Gb/s:100Gb/s:1.2"
GBIT = 1e9 / 8


def sweep(binary, model, batch, compute_ms, target_ms):
    return common.run_pleach(
        binary, "train", "--workload", model, "--batch", batch, "--compute", f"{compute_ms}ms",
        "--accelerator", "rtx2080ti", "--ranks", 64, "--calibration", CALIBRATION,
        "--measured-link", "10Gb/s", "--bandwidths", SWEEP, "--target", f"{target_ms}ms",
        "--policy", ",".join(POLICIES))


def needed_table(answers):
    rows = []
    for policy in POLICIES:
        row = [f"`{policy}`"]
        for answer in answers.values():
            needed = {entry["policy"]: entry["bandwidth_bytes_per_s"] for entry in answer["needed"]}
            last = answer["points"][-1]
            best = {found["policy"]: found["iteration_s"] for found in last["rows"]}[policy]
            row.append(f"{needed[policy] / GBIT:.1f} Gb/s" if needed[policy] else "none")
            row.append(common.milliseconds(best))
        rows.append(row)
    header = ["policy"]
    for (model, _, _, target_ms), answer in zip(MODELS, answers.values()):
        fastest = answer["points"][-1]["bandwidth_bytes_per_s"] / GBIT
        header += [f"{model}: for {target_ms} ms", f"at {fastest:.0f} Gb/s [ms]"]
    return common.markdown_table(header, rows)


def plot(path, answers):
    figure, axes = common.new_plot(1, len(MODELS), width=9, height=4)
    for axis, (model, _, compute_ms, target_ms) in zip(axes[0], MODELS):
        answer = answers[model]
        speeds = [point["bandwidth_bytes_per_s"] / GBIT for point in answer["points"]]
        needed = {entry["policy"]: entry["bandwidth_bytes_per_s"] for entry in answer["needed"]}
        for index, policy in enumerate(POLICIES):
            times = [1e3 * point["rows"][index]["iteration_s"] for point in answer["points"]]
            axis.plot(speeds, times, color=common.COLOURS[index], linewidth=1.3, label=policy)
            if needed[policy]:
                axis.plot(needed[policy] / GBIT, target_ms, "o", color=common.COLOURS[index])
        axis.axhline(target_ms, color="black", linewidth=0.8, linestyle="--")
        axis.text(1, target_ms, f"target {target_ms} ms", va="bottom", fontsize=8)
        axis.axhline(compute_ms, color="#999999", linewidth=0.8)
        axis.text(1, compute_ms, f"computation {compute_ms} ms", va="top", fontsize=8,
                  color="#666666")
        axis.set_xscale("log")
        axis.set_xticks([1, 2, 5, 10, 20, 50, 100], [1, 2, 5, 10, 20, 50, 100])
        axis.minorticks_off()
        axis.set_ylim(0.8 * compute_ms, 3 * compute_ms)
        axis.set_xlabel("link bandwidth [Gb/s]")
        axis.set_title(f"{model}, 64 ranks", loc="left")
    axes[0][0].set_ylabel("iteration [ms]")
    axes[0][1].legend(fontsize=8)
    figure.tight_layout()
    common.save_plot(figure, path)


def main():
    options = common.parse_options(__doc__)
    name = "network_needed"
    answers = {model[0]: sweep(options.pleach, *model) for model in MODELS}
    common.emit(options, name, "needed", needed_table(answers))
    common.write_csv(
        options.output / f"{name}.csv",
        ["model", "policy", "bandwidth_bytes_per_s", "iteration_s", "bound_s"],
        [[model, row["policy"], point["bandwidth_bytes_per_s"], f"{row['iteration_s']:.6f}",
          f"{row['bound_s']:.6f}"]
         for model, answer in answers.items() for point in answer["points"]
         for row in point["rows"]])
    plot(options.output / f"{name}.svg", answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
