#!/usr/bin/python3
"""Simulated against published throughput on 10 Gb Ethernet, calibrated at 8 ranks only.

    python3 bench/figures/published_throughput.py --pleach build/release/pleach [--check]

Published: ddl-benchmarks, results/2020-05-29 (samples/s, RTX 2080 Ti, 10GbE). The constants of the
network are fitted to the BSP and WFBP rows at 8 ranks; 16 and 32 ranks are predicted. With --check
the exit status is 1 when a BSP or WFBP row that was not fitted is off by more than 10 %.
"""
import sys

import common

RANKS = [8, 16, 32]
LIMIT = 0.10
# Batch per rank and milliseconds of one iteration on one GPU.
MODELS = {"resnet50": (64, 252.9), "bert_base": (64, 300.8), "bert_large": (8, 163.3)}
FITTED = ["sequential", "wfbp"]
NAMES = {"sequential": "BSP", "wfbp": "WFBP", "mg_wfbp": "MG-WFBP",
         "byte_scheduler": "ByteScheduler"}
PUBLISHED = {
    ("resnet50", "sequential"): (1282.3, 2485.1, 4920.8),
    ("resnet50", "wfbp"): (1795.7, 3146.8, 5113.2),
    ("resnet50", "mg_wfbp"): (1980.6, 3785.0, 6883.6),
    ("resnet50", "byte_scheduler"): (1319.1, 2701.5, 4754.3),
    ("bert_base", "sequential"): (518.9, 984.9, 1926.6),
    ("bert_base", "wfbp"): (582.3, 1069.5, 2013.4),
    ("bert_base", "mg_wfbp"): (611.4, 1153.2, 1925.8),
    ("bert_base", "byte_scheduler"): (624.0, 1177.4, 2259.8),
    ("bert_large", "sequential"): (29.0, 54.3, 105.1),
    ("bert_large", "wfbp"): (29.1, 53.4, 102.0),
    ("bert_large", "mg_wfbp"): (30.0, 54.3, 105.0),
    ("bert_large", "byte_scheduler"): (30.4, 56.0, 108.8),
}
# Startup of an all_reduce on another 10GbE cluster, seconds: the table in MG-WFBP's public code.
STARTUP_ELSEWHERE = {8: 5.230e-4, 16: 9.081e-4, 32: 1.3476e-3}


def overhead_share():
    """The part of the startup at 8 ranks that the number of ranks does not change.

    From the least squares line through STARTUP_ELSEWHERE over ranks - 1, which are hops.
    """
    hops = [ranks - 1 for ranks in STARTUP_ELSEWHERE]
    startups = list(STARTUP_ELSEWHERE.values())
    mean_hops, mean_startup = sum(hops) / len(hops), sum(startups) / len(startups)
    slope = (sum((hop - mean_hops) * (startup - mean_startup)
                 for hop, startup in zip(hops, startups))
             / sum((hop - mean_hops) ** 2 for hop in hops))
    constant = mean_startup - slope * mean_hops
    return constant / (constant + slope * (RANKS[0] - 1))


class Network:
    """Startup of an all_reduce at 8 ranks [s], seconds per byte, the startup's constant share."""

    def __init__(self, startup, beta, share):
        hops = 2 * (RANKS[0] - 1)
        self.alpha_ps = round(1e12 * startup * (1 - share) / hops)
        self.overhead_ps = round(1e12 * startup * share)
        self.bandwidth = round(1 / beta)


def throughputs(binary, network, ranks, policies):
    """Samples per second by (model, policy)."""
    rates = {}
    for model, (batch, one_gpu_ms) in MODELS.items():
        rows = common.train(
            binary, policies, workload=model, batch=batch, compute=f"{one_gpu_ms}ms",
            accelerator="rtx2080ti", ranks=ranks, costs="alpha_beta",
            alpha=f"{network.alpha_ps}ps", overhead=f"{network.overhead_ps}ps",
            bandwidth=f"{network.bandwidth}B/s")
        for policy in policies:
            rates[model, policy] = ranks * batch / rows[policy]["iteration_s"]
    return rates


def residuals(binary, startup, beta):
    """Relative errors of times at 8 ranks, where the startup's parts do not matter."""
    rates = throughputs(binary, Network(startup, beta, 0), RANKS[0], FITTED)
    return [PUBLISHED[row][0] / rate - 1 for row, rate in rates.items()]


def fit(binary):
    """Startup and beta of least squared relative errors at 8 ranks, by Gauss-Newton."""
    startup, beta = 3e-4, 1 / 1.2e9
    for _ in range(6):
        here = residuals(binary, startup, beta)
        # Derivatives by the logarithm of each number; a step of 1 % spans the corners of max().
        step = 0.01
        d_startup = [(there - before) / step for there, before
                     in zip(residuals(binary, startup * (1 + step), beta), here)]
        d_beta = [(there - before) / step for there, before
                  in zip(residuals(binary, startup, beta * (1 + step)), here)]
        aa, bb = sum(d * d for d in d_startup), sum(d * d for d in d_beta)
        ab = sum(a * b for a, b in zip(d_startup, d_beta))
        a1 = sum(d * value for d, value in zip(d_startup, here))
        b1 = sum(d * value for d, value in zip(d_beta, here))
        determinant = aa * bb - ab * ab
        startup *= 1 - (a1 * bb - b1 * ab) / determinant
        beta *= 1 - (aa * b1 - ab * a1) / determinant
    return startup, beta


def compare(binary, network):
    """Errors of throughput by (model, policy), in the order of RANKS."""
    by_ranks = [throughputs(binary, network, ranks, list(NAMES)) for ranks in RANKS]
    return {row: [(rates[row], rates[row] / PUBLISHED[row][at] - 1)
                  for at, rates in enumerate(by_ranks)]
            for row in PUBLISHED}


def worst(errors, policies, ranks):
    """The largest |error| of those policies at those ranks, and how many are above the limit."""
    found = [abs(cells[RANKS.index(rank)][1]) for row, cells in errors.items()
             for rank in ranks if row[1] in policies]
    return max(found), sum(value > LIMIT for value in found), len(found)


def share_table(binary, startup, beta, chosen):
    rows = []
    for share in sorted([0, 0.25, 0.5, 0.62, 0.75, 1, chosen]):
        rates = [throughputs(binary, Network(startup, beta, share), ranks, FITTED)
                 for ranks in RANKS[1:]]
        errors = [[abs(found[row] / PUBLISHED[row][at + 1] - 1) for row in found]
                  for at, found in enumerate(rates)]
        rows.append([f"{share:.2f}{' (taken)' if share == chosen else ''}",
                     *(f"{100 * max(found):.1f} %" for found in errors),
                     sum(error > LIMIT for found in errors for error in found)])
    return common.markdown_table(
        ["share of the startup at 8 ranks that is constant", "worst at 16", "worst at 32",
         "predictions off by more than 10 %"], rows)


def error_table(variants):
    header = ["model", "algorithm"]
    for ranks in RANKS:
        header += [f"{ranks}: published"] + [f"{ranks}: {name}" for name in variants]
    rows = []
    for model, policy in PUBLISHED:
        row = [model, NAMES[policy]]
        for at, _ in enumerate(RANKS):
            row.append(f"{PUBLISHED[model, policy][at]:.0f}")
            row += [common.percent(errors[model, policy][at][1]) for errors in variants.values()]
        rows.append(row)
    return common.markdown_table(header, rows)


def summary_table(networks, variants):
    rows = []
    for name, network in networks.items():
        errors = variants[name]
        fitted, _, _ = worst(errors, FITTED, RANKS[:1])
        sixteen, _, _ = worst(errors, FITTED, [16])
        thirty_two, _, _ = worst(errors, FITTED, [32])
        _, missed, count = worst(errors, FITTED, RANKS[1:])
        rows.append([name, f"{network.alpha_ps / 1e6:.1f} us",
                     f"{network.overhead_ps / 1e6:.0f} us",
                     f"{network.bandwidth / 1e9:.3f} GB/s", f"{100 * fitted:.1f} %",
                     f"{100 * sixteen:.1f} %", f"{100 * thirty_two:.1f} %", f"{missed} of {count}"])
    return common.markdown_table(
        ["fit", "per hop", "per collective", "bandwidth", "worst at 8 (fitted)", "worst at 16",
         "worst at 32", "predictions off by more than 10 %"], rows)


def plot(path, variants):
    figure, axes = common.new_plot(1, 2, width=9, height=4, sharex=True, sharey=True)
    for axis, (name, errors) in zip(axes[0], variants.items()):
        axis.axhspan(-100 * LIMIT, 100 * LIMIT, color="#eeeeee")
        axis.axhline(0, color="black", linewidth=0.6)
        for colour, policy in zip(common.COLOURS, NAMES):
            for marker, model in zip("os^", MODELS):
                axis.plot(RANKS, [100 * cell[1] for cell in errors[model, policy]], color=colour,
                          marker=marker, linewidth=0.9, markersize=4,
                          linestyle="-" if policy in FITTED else ":")
        axis.set_title(name)
        axis.set_xscale("log", base=2)
        axis.set_xticks(RANKS, [f"{ranks} (fitted)" if ranks == 8 else ranks for ranks in RANKS])
        axis.set_xlabel("ranks")
    axes[0][0].set_ylabel("simulated throughput over published [%]")
    legend = [axes[0][1].plot([], [], color=colour, label=name,
                              linestyle="-" if policy in FITTED else ":")[0]
              for colour, (policy, name) in zip(common.COLOURS, NAMES.items())]
    legend += [axes[0][1].plot([], [], color="black", linestyle="", marker=marker, label=model)[0]
               for marker, model in zip("os^", MODELS)]
    figure.legend(handles=legend, ncols=len(legend), loc="lower center",
                  bbox_to_anchor=(0.5, -0.07), columnspacing=1.2)
    common.save_plot(figure, path)


def main():
    options = common.parse_options(__doc__, checks=True)
    startup, beta = fit(options.pleach)
    share = overhead_share()
    networks = {"two numbers": Network(startup, beta, 0),
                "with overhead": Network(startup, beta, share)}
    variants = {name: compare(options.pleach, network) for name, network in networks.items()}
    name = "published_throughput"
    common.emit(options, name, "fits", summary_table(networks, variants))
    common.emit(options, name, "rows", error_table(variants))
    common.emit(options, name, "shares", share_table(options.pleach, startup, beta, share))
    common.write_csv(
        options.output / f"{name}.csv",
        ["fit", "model", "algorithm", "ranks", "published_samples_per_s", "simulated_samples_per_s",
         "error"],
        [[fit_name, model, NAMES[policy], RANKS[at], PUBLISHED[model, policy][at],
          f"{cell[0]:.2f}", f"{cell[1]:.4f}"]
         for fit_name, errors in variants.items() for (model, policy), cells in errors.items()
         for at, cell in enumerate(cells)])
    plot(options.output / f"{name}.svg", variants)
    largest, missed, count = worst(variants["with overhead"], FITTED, RANKS[1:])
    print(f"predictions with overhead: worst {100 * largest:.1f} %, {missed} of {count} off by "
          f"more than {100 * LIMIT:.0f} %")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
