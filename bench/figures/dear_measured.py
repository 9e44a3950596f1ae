#!/usr/bin/python3
"""DeAR's evaluation, really run: five models' tensors on an emulated switch, every policy in turns.

    python3 bench/figures/dear_measured.py --pleach build/dev/pleach [--models resnet50]

Tensors have 1/32 of their size, links 200 and 880 Mbit/s for 10 Gb Ethernet and 100 Gb InfiniBand,
and layers take what the profile of an RTX 2080 Ti says, which is waited for (bench/paced). Five
times ten iterations count, after ten; sizes of buckets are 1/32 of DeAR's too. Beside each figure
stands what `pleach train` says of what the layers took without communication, over what the
collectives took by themselves, all in the same run. DeAR's search of a bucket size is compared with
others over iterations that were measured at many sizes.

Every model's run is kept in --parts as it ends; one that is there is not run again, so that the
figure can go on where it was broken off, or be made anew (--kept of what is there alone, --fresh
measures all again).
Writes tables into docs/validation/dear_measured.md, all figures as CSV, and a plot. Where the star
cannot be made, or PyTorch is not there, it says so and writes nothing.
"""
import contextlib
import fcntl
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import common

sys.path.insert(0, str(common.ROOT))

from bench.paced.cluster import Cluster, NotHere  # noqa: E402
from bench.paced.job import Job, PacedLayer, read_workload, workload_of  # noqa: E402

NAME = "dear_measured"
NETWORKS = {"10GbE": "200Mbit", "100GbIB": "880Mbit"}
RANKS = 4
SCALE = 1 / 32
TIMEOUT_S = 3000
AGREES, DIFFERS = 0.10, 0.10
# Models with so many short layers that the interpreters of all ranks do not keep up with them on
# few cores: all of their times, tensors and buckets are so many times as long and large.
DILATED = {"densenet201": 4}
SEARCH = "dear_bo,first=800KiB,least=32KiB,most=8MiB"


def ways_of(dilation=1):
    """What is run, and what the simulator calls it; "": it has no counterpart."""
    mib = 25 / 32 * dilation
    bucket = f"{800 * dilation}KiB"
    search = (f"dear_bo,first={800 * dilation}KiB,least={32 * dilation}KiB,"
              f"most={8 * dilation}MiB")
    return {
        "sequential@pleach": "sequential",
        "wfbp@pleach": "wfbp",
        f"torch_ddp:{mib}@pleach": f"ddp,bucket={bucket},first_bucket={bucket}",
        "mg_wfbp@pleach": "mg_wfbp",
        "dear,bucket=0@pleach": "dear,bucket=0",
        f"dear,bucket={bucket}@pleach": f"dear,bucket={bucket}",
        f"{search}@pleach": "what the search has found",
        "work_conserving@pleach": "work_conserving,gathers=after_step,collectives=scatter",
        f"fsdp2:{mib}@pleach": "",
    }


def shown_ways():
    """As tables have them, dilated or not."""
    return [way.split("@")[0] for way in ways_of()]


# Where searches are compared, and the sizes that are measured for that.
SEARCHED_ON = ("10GbE", "resnet50")
SIZES = [f"{size}KiB" for size in (32, 48, 64, 96, 128, 192, 256, 384, 512, 800, 1024, 1536, 2048,
                                   3072, 4096, 8192)]
SEARCH_ROUNDS, SEARCH_ITERATIONS = 3, 4
NEAR = 0.05  # of the best
METHODS = {"bayesian": "Bayesian (`dear_bo`)", "random": "random", "grid": "grid"}


def layers_of(pleach, model, compute_ms):
    """The model's layers at this scale, dilated if it has to be."""
    dilation = DILATED.get(model, 1)
    with tempfile.TemporaryDirectory() as folder:
        whole = pathlib.Path(folder, "whole.json")
        common.run_pleach(pleach, "train", "--workload", model, "--accelerator", "rtx2080ti",
                          "--compute", f"{compute_ms}ms", "--costs", "alpha_beta", "--bandwidth",
                          "1GB/s", "--ranks", RANKS, "--policy", "sequential",
                          "--export-profile", whole)
        return read_workload(whole, SCALE * dilation, dilation)


def measured(options, name, make_job):
    """What a job reported, now or before; it is in a file of that name."""
    path = options.parts / f"{name}.json"
    if path.exists() and not options.fresh:
        return json.loads(path.read_text(encoding="utf-8"))
    network, model = name.split("-")[:2]
    with locked(options.lock):
        begin_s = time.monotonic()
        report = Cluster(options.pleach, options.python, RANKS, NETWORKS[network]).train(
            make_job(), TIMEOUT_S)[model]
    options.parts.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report), encoding="utf-8")
    print(f"{NAME}: {name} measured in {time.monotonic() - begin_s:.0f} s", file=sys.stderr,
          flush=True)
    return report


@contextlib.contextmanager
def locked(path):
    """Has the machine to itself among those that lock that file, if there is one."""
    if not path:
        yield
        return
    with open(path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def simulate(options, model, layers, report):
    """Seconds of an iteration by way, of those that the simulator knows."""
    times = {}
    with tempfile.TemporaryDirectory() as name:
        costs, profile = pathlib.Path(name, "costs.json"), pathlib.Path(name, "profile.json")
        costs.write_text(json.dumps(report["costs"]), encoding="utf-8")
        for way, spec in ways_of(DILATED.get(model, 1)).items():
            if not spec or way not in report["computes"]:
                continue
            took = report["computes"][way]
            tensors = report["tensors"][way] or [layer.tensors for layer in layers]
            profile.write_text(json.dumps(workload_of([
                PacedLayer(layer.name, tuple(own), forward_s, backward_s)
                for layer, own, forward_s, backward_s in zip(
                    layers, tensors, took["forward_s"], took["backward_s"])], "measured")))
            if way.startswith("dear_bo"):
                spec = report["policy"][way]
            (row,) = common.run_pleach(options.pleach, "train", "--workload", profile, "--costs",
                                       f"measured:{costs}", "--policy", spec, "--settled")["rows"]
            times[way] = row["iteration_s"]
    return times


def rows_of(network, model, batch, report, simulated):
    """A row for each way."""
    rows = []
    dilation = DILATED.get(model, 1)
    for way, shown in zip(ways_of(dilation), shown_ways()):
        times = [one / dilation for one in report["time_s"][way]]
        rates = [batch * RANKS / one for one in times]
        time_s = statistics.median(times)
        took = report["computes"].get(way)
        computes_s = (sum(took["forward_s"]) + sum(took["backward_s"])) / dilation if took else 0.0
        without_gathers_s = report["reduces_s"].get(way, time_s * dilation) / dilation
        rows.append({
            "network": network, "model": model, "way": shown, "dilation": dilation,
            "samples_per_s": statistics.mean(rates),
            "spread": 1.96 * statistics.stdev(rates) if len(rates) > 1 else 0.0,
            "time_s": time_s, "computes_s": computes_s,
            "reduce_s": max(0.0, without_gathers_s - computes_s) if took else 0.0,
            "gather_s": max(0.0, time_s - max(without_gathers_s, computes_s)) if took else 0.0,
            "simulated_s": simulated.get(way, 0.0) / dilation,
            "policy": report["policy"][way],
            "turns": report["rounds"], "iterations": report["iterations"],
        })
    return rows


def find(rows, model, way):
    return next((row for row in rows if (row["model"], row["way"]) == (model, way)), None)


def rates_table(rows, models):
    lines = []
    for way in shown_ways():
        line = [f"`{way}`"]
        for model in models:
            row = find(rows, model, way)
            line.append(f"{row['samples_per_s']:.1f} ± {row['spread']:.1f}" if row else "")
            line.append(f"{row['simulated_s'] / row['time_s']:.3f}"
                        if row and row["simulated_s"] else "")
        lines.append(line)
    header = ["way"]
    for model in models:
        header += [f"{model} [samples/s]", "simulated / measured"]
    return common.markdown_table(header, lines)


def breakdown_table(rows, models):
    keys = ("time_s", "computes_s", "reduce_s", "gather_s")
    lines = [[f"{model}, `{way}`", *(common.milliseconds(row[key]) for key in keys)]
             for model in models for way in shown_ways()
             if (row := find(rows, model, way)) and row["computes_s"]]
    return common.markdown_table(
        ["", "iteration [ms]", "without communication", "and for reductions",
         "and for all_gathers"], lines)


def agreement(rows):
    """How many cells the simulator is right in, and how many orders of two policies it has."""
    known = [row for row in rows if row["simulated_s"]]
    right = sum(abs(row["simulated_s"] / row["time_s"] - 1) <= AGREES for row in known)
    wrong, pairs = [], 0
    for one in known:
        for other in known:
            if (one["network"], one["model"]) == (other["network"], other["model"]) and \
                    one["time_s"] > other["time_s"] * (1 + DIFFERS):
                pairs += 1
                if one["simulated_s"] <= other["simulated_s"]:
                    wrong.append((one["network"], one["model"], one["way"], other["way"]))
    return right, len(known), wrong, pairs


def agreement_text(rows):
    right, cells, wrong, pairs = agreement(rows)
    lines = [f"{right} of {cells} cells are within {AGREES:.0%} of the simulator's; of {pairs} "
             f"pairs that differ by over {DIFFERS:.0%}, it has {len(wrong)} in the wrong order."]
    lines += [f"\n* {network}, {model}: `{one}` takes longer than `{other}`"
              for network, model, one, other in wrong]
    far = [row for row in rows
           if row["simulated_s"] and abs(row["simulated_s"] / row["time_s"] - 1) > AGREES]
    if far:
        lines.append("\nBeyond that: " + "; ".join(
            f"{row['network']}, {row['model']}, `{row['way']}`: "
            f"{row['simulated_s'] / row['time_s']:.3f}" for row in far) + ".")
    counts = {}
    for row in rows:
        models = counts.setdefault((row["turns"], row["iterations"]), [])
        if f"{row['model']} ({row['network']})" not in models:
            models.append(f"{row['model']} ({row['network']})")
    lines.append("\nTurns and iterations of each: " + "; ".join(
        f"{turns} x {iterations}: {', '.join(models)}"
        for (turns, iterations), models in counts.items()) + ".")
    return "\n".join(lines) + "\n"


def compare_searches(options):
    """Best iteration after so many trials, over the best there is; by method, run after run."""
    network, model = SEARCHED_ON
    _, _, compute_ms = next(one for one in common.MODELS_OF_DEAR if one[0] == model)
    report = measured(options, f"{network}-{model}-sizes", lambda: Job(
        {model: layers_of(options.pleach, model, compute_ms)},
        [f"dear,bucket={size}@pleach" for size in SIZES], 4, SEARCH_ROUNDS, SEARCH_ITERATIONS))
    times = {way.split("=")[1].split("@")[0]: turns for way, turns in report["time_s"].items()}
    python = options.python or str(common.ROOT / "build/venv/bin/python")
    done = subprocess.run(
        [python, str(common.ROOT / "bench/paced/search.py"), SEARCH], check=True,
        input=json.dumps({int(size[:-3]) << 10: turns for size, turns in times.items()}),
        capture_output=True, text=True,
        env={"PYTHONPATH": str(pathlib.Path(options.pleach).resolve().parent / "python")})
    return times, json.loads(done.stdout)


def trials_until(run):
    return next((index + 1 for index, over in enumerate(run) if over <= 1 + NEAR), None)


def searches_table(searches):
    lines = []
    for method, name in METHODS.items():
        needed = [trials_until(run) for run in searches[method]]
        found = [one for one in needed if one]
        middle = sorted(one or len(searches[method][0]) + 1 for one in needed)[len(needed) // 2]
        at_end = statistics.median(run[-1] for run in searches[method])
        lines.append([name, len(needed), middle if middle <= len(searches[method][0]) else "never",
                      f"{max(found)}" if len(found) == len(needed) else
                      f"{len(needed) - len(found)} runs never", f"{100 * (at_end - 1):.1f} %"])
    return common.markdown_table(
        ["search", "runs", f"trials until within {NEAR:.0%} of the best, median", "most",
         "over the best after all trials, median"], lines)


def plot(path, rows, models, searches):
    networks = list(dict.fromkeys(row["network"] for row in rows))
    figure, axes = common.new_plot(len(networks) + 1, 1, width=9, height=3.2 * len(networks) + 3)
    width = 0.8 / len(ways_of())
    colours = [*common.COLOURS, "#000000"]
    for axis, network in zip(axes[:, 0], networks):
        own = [row for row in rows if row["network"] == network]
        for index, way in enumerate(shown_ways()):
            shift = (index - (len(ways_of()) - 1) / 2) * width
            found = [(place, find(own, model, way), find(own, model, "sequential"))
                     for place, model in enumerate(models)]
            found = [one for one in found if one[1] and one[2]]
            axis.bar([place + shift for place, _, _ in found],
                     [row["samples_per_s"] / base["samples_per_s"] for _, row, base in found],
                     width, color=colours[index], label=f"{way}" if axis is axes[0][0] else None,
                     yerr=[row["spread"] / base["samples_per_s"] for _, row, base in found],
                     error_kw={"elinewidth": 0.7})
            told = [one for one in found if one[1]["simulated_s"]]
            axis.plot([place + shift for place, _, _ in told],
                      [base["time_s"] / row["simulated_s"] for _, row, base in told], "_",
                      color="black", markersize=5, markeredgewidth=1.1,
                      label="simulated" if axis is axes[0][0] and way == shown_ways()[0] else None)
        axis.set_xticks(range(len(models)), models)
        axis.set_ylabel("throughput over sequential")
        axis.set_title(f"{network}: links of {NETWORKS[network]}/s, {RANKS} ranks", loc="left")
    axes[0][0].legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.08), fontsize=7)
    plot_searches(axes[-1][0], searches)
    figure.tight_layout()
    common.save_plot(figure, path)


def plot_searches(axis, searches):
    for colour, (method, name) in zip(common.COLOURS, METHODS.items()):
        runs = searches[method]
        count = len(runs[0])
        trials = range(1, count + 1)
        ordered = [sorted(run[index] for run in runs) for index in range(count)]
        axis.plot(trials, [statistics.median(one) for one in ordered], color=colour, marker="o",
                  markersize=3, label=name.replace("`", ""))
        axis.fill_between(trials, [one[len(one) // 10] for one in ordered],
                          [one[-1 - len(one) // 10] for one in ordered], color=colour, alpha=0.15,
                          linewidth=0)
    axis.axhline(1 + NEAR, color="black", linewidth=0.6, linestyle=":")
    axis.set_xlabel("trials of a bucket size")
    axis.set_ylabel("best iteration so far over the best")
    axis.set_title(f"searches on {SEARCHED_ON[1]}, {SEARCHED_ON[0]}: medians, and 10 % to 90 %",
                   loc="left")
    axis.legend(fontsize=8)


def main():
    options = parse()
    models = [one for one in common.MODELS_OF_DEAR if one[0] in options.models.split(",")]
    names = [model for model, _, _ in models]
    networks = options.networks.split(",")
    try:
        if not options.kept:
            Cluster(options.pleach, options.python, RANKS, NETWORKS[networks[0]]).check()
    except NotHere as error:
        print(f"{NAME}: not here: {error}", file=sys.stderr)
        return 0
    rows = []
    for network in networks:
        for model, batch, compute_ms in models:
            if options.kept and not (options.parts / f"{network}-{model}.json").exists():
                continue
            layers = layers_of(options.pleach, model, compute_ms)
            report = measured(options, f"{network}-{model}", lambda model=model, layers=layers: Job(
                {model: layers}, list(ways_of(DILATED.get(model, 1))), options.warm_up,
                options.rounds, options.iterations, "pleach"))
            rows += rows_of(network, model, batch, report, simulate(options, model, layers, report))
    times, searches = compare_searches(options)
    for network in networks:
        own = [row for row in rows if row["network"] == network]
        there = [name for name in names if any(row["model"] == name for row in own)]
        common.emit(options, NAME, network, rates_table(own, there))
        common.emit(options, NAME, f"{network} breakdown", breakdown_table(own, there))
    common.emit(options, NAME, "agreement", agreement_text(rows))
    common.emit(options, NAME, "searches", searches_table(searches))
    common.write_csv(options.output / f"{NAME}.csv", list(rows[0]), [
        [f"{value:.6g}" if isinstance(value, float) else value for value in row.values()]
        for row in rows])
    common.write_csv(options.output / f"{NAME}_sizes.csv", ["bucket", "iteration_s"], [
        [size, f"{one:.6f}"] for size, turns in times.items() for one in turns])
    there = [name for name in names if any(row["model"] == name for row in rows)]
    plot(options.output / f"{NAME}.svg", rows, there, searches)
    return 0


def parse():
    def more(parser):
        parser.add_argument("--python", help="with PyTorch (build/venv/bin/python)")
        parser.add_argument("--models", default=",".join(one[0] for one in common.MODELS_OF_DEAR))
        parser.add_argument("--networks", default=",".join(NETWORKS))
        parser.add_argument("--warm-up", type=int, default=10, help="iterations of each way (10)")
        parser.add_argument("--rounds", type=int, default=5, help="turns of each way (5)")
        parser.add_argument("--iterations", type=int, default=10, help="of a turn (10)")
        parser.add_argument("--parts", type=pathlib.Path,
                            default=common.ROOT / "build" / NAME, help="what was measured")
        parser.add_argument("--fresh", action="store_true", help="measures what is there, too")
        parser.add_argument("--kept", action="store_true",
                            help="makes the figure of what is there, and measures nothing")
        parser.add_argument("--lock", help="a file that is locked while something is measured")

    return common.parse_options(__doc__, more=more)


if __name__ == "__main__":
    sys.exit(main())
