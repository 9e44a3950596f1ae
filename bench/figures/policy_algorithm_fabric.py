#!/usr/bin/python3
"""Policy by all_reduce algorithm by fabric: 64 ranks where communication matters.

    python3 bench/figures/policy_algorithm_fabric.py --pleach build/release/pleach

Every algorithm of the registry on every fabric; a cell that cannot be has a footnote that says why.
"""
import pathlib
import sys
import tempfile

import common

LINKS = "bandwidth=10Gb/s,latency=5us"
FABRICS = {
    "torus": f"torus:8x8,{LINKS}",
    "mesh": f"mesh:8x8,{LINKS}",
    "switch": f"switch:64,{LINKS}",
    "reducing switch": f"switch:64,reduce,multicast,{LINKS}",
    "two levels": None,
}
WORKLOADS = [("resnet50", 64, 253), ("bert_large", 32, 550)]
POLICIES = ["sequential", "wfbp", "ddp", "mg_wfbp", "dear", "work_conserving"]
HOSTS, RANKS_PER_HOST = 8, 8


def two_levels():
    """Eight hosts of eight ranks: 100 Gb/s from a rank to its switch, 40 Gb/s from there on."""
    lines = ['name = "two_levels"', "node = ["]
    lines += [f'  {{ name = "r{host}.{rank}" }},' for host in range(HOSTS)
              for rank in range(RANKS_PER_HOST)]
    lines += [f'  {{ name = "s{host}", kind = "switch" }},' for host in range(HOSTS)]
    lines += ['  { name = "core", kind = "switch" },', "]", "cable = ["]
    lines += [f'  {{ source = "r{host}.{rank}", target = "s{host}", bandwidth = "100Gb/s", '
              'latency = "1us" },' for host in range(HOSTS) for rank in range(RANKS_PER_HOST)]
    lines += [f'  {{ source = "s{host}", target = "core", bandwidth = "40Gb/s", latency = "5us" }},'
              for host in range(HOSTS)]
    return "\n".join([*lines, "]"]) + "\n"


def measure(binary, topology, algorithm, workload):
    """Seconds by policy and of the bound; a string instead where pleach refuses."""
    model, batch, compute_ms = workload
    options = {"workload": model, "batch": batch, "compute": f"{compute_ms}ms",
               "accelerator": "rtx2080ti", "topology": topology, "algorithm": algorithm}
    try:
        rows = common.train(binary, POLICIES, **options)
        return {policy: row["iteration_s"] for policy, row in rows.items()} | {
            "bound": rows[POLICIES[0]]["bound_s"]}
    except common.PleachError as error:
        cells = {policy: str(error).removeprefix("pleach train: ") for policy in POLICIES}
    for policy in POLICIES:
        # An algorithm without this fabric has none of the policies; one without a collective, some.
        if "needs" not in cells[policy]:
            break
        try:
            rows = common.train(binary, [policy], **options)
            cells[policy] = rows[policy]["iteration_s"]
            cells["bound"] = rows[policy]["bound_s"]
        except common.PleachError as error:
            cells[policy] = str(error).removeprefix("pleach train: ")
    return cells


def reason(text):
    """A refusal in the words of the footnotes, without the names that differ from cell to cell."""
    if "needs" in text:
        return "it has no reduce_scatter"
    for words, meaning in {"is no torus of two": "it knows no disjoint cycles of this grid",
                           "tells them apart into groups": "it needs groups with rails",
                           "no switch": "it needs a switch",
                           "does not reduce": "the switch does not reduce",
                           "is no grid": "it needs a grid of two dimensions",
                           "cannot reach": "it needs direct links between ranks"}.items():
        if words in text:
            return meaning
    return text


def fabric_table(answers, fabric, algorithms, model):
    notes = []
    rows = []
    for algorithm in algorithms:
        cells = answers[model, fabric, algorithm]
        row = [f"`{algorithm}`"]
        for policy in [*POLICIES, "bound"]:
            value = cells.get(policy)
            if isinstance(value, float):
                row.append(common.milliseconds(value))
            elif policy == "bound":
                row.append("-")
            else:
                why = reason(value)
                if why not in notes:
                    notes.append(why)
                row.append(f"- [{notes.index(why) + 1}]")
        rows.append(row)
    text = common.markdown_table(["algorithm", *(f"`{policy}` [ms]" for policy in POLICIES),
                                  "bound [ms]"], rows)
    if notes:
        text += "\n" + "; ".join(f"[{at}] {why}" for at, why in enumerate(notes, 1)) + ".\n"
    return text


def winners_table(answers, algorithms):
    """By workload and fabric: the best, what the choice of each of the two is worth."""
    rows = []
    for model, _, _ in WORKLOADS:
        for fabric in FABRICS:
            known = {(policy, algorithm): answers[model, fabric, algorithm][policy]
                     for algorithm in algorithms for policy in POLICIES
                     if isinstance(answers[model, fabric, algorithm].get(policy), float)}
            best = min(known, key=known.get)
            ring = {policy: known[policy, "ring"] for policy in POLICIES}
            ddp = [time for (policy, _), time in known.items() if policy == "ddp"]
            rows.append([model, fabric, f"`{best[0]}`, `{best[1]}`",
                         common.milliseconds(known[best]), common.milliseconds(ring["ddp"]),
                         f"{ring['ddp'] / min(ring.values()):.2f}x",
                         f"{ring['ddp'] / min(ddp):.2f}x",
                         f"{ring['ddp'] / known[best]:.2f}x"])
    return common.markdown_table(
        ["workload", "fabric", "best policy, algorithm", "its iteration [ms]", "`ddp`, `ring` [ms]",
         "by policy alone", "by algorithm alone", "by both"], rows)


def plot(path, answers, algorithms):
    figure, axes = common.new_plot(len(WORKLOADS), len(FABRICS), width=13, height=7.5,
                                   sharex=True, sharey=True)
    columns = [*POLICIES, "bound"]
    for line, (model, _, compute_ms) in zip(axes, WORKLOADS):
        for axis, fabric in zip(line, FABRICS):
            grid = [[answers[model, fabric, algorithm].get(column) for column in columns]
                    for algorithm in algorithms]
            ratios = [[value / compute_ms * 1e3 if isinstance(value, float) else float("nan")
                       for value in row] for row in grid]
            image = axis.imshow(ratios, cmap="viridis_r", vmin=1, vmax=5, aspect="auto")
            for y, row in enumerate(ratios):
                for x, ratio in enumerate(row):
                    known = ratio == ratio
                    text = f"{ratio:.{1 if ratio >= 10 else 2}f}" if known else "-"
                    axis.text(x, y, text, ha="center", va="center", fontsize=6.5,
                              color="white" if known and ratio > 2.6 else "black")
            axis.set_title(f"{model}, {fabric}", fontsize=9)
            axis.set_xticks(range(len(columns)), columns, rotation=60, ha="right")
            axis.set_yticks(range(len(algorithms)), algorithms)
            axis.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, fraction=0.02, extend="max")
    bar.set_label("iteration over computation [ratio]")
    common.save_plot(figure, path)


def main():
    options = common.parse_options(__doc__)
    name = "policy_algorithm_fabric"
    listed = common.run_pleach(options.pleach, "list", "algorithms")["algorithms"]
    algorithms = [entry["name"] for entry in listed if "all_reduce" in entry["details"]]
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "two_levels.toml"
        file.write_text(two_levels(), encoding="utf-8")
        for workload in WORKLOADS:
            for fabric, spec in FABRICS.items():
                for algorithm in algorithms:
                    answers[workload[0], fabric, algorithm] = measure(
                        options.pleach, spec or str(file), algorithm, workload)
    common.emit(options, name, "winners", winners_table(answers, algorithms))
    for model, _, _ in WORKLOADS:
        text = "\n".join(
            f"**{model}, {fabric}**\n\n{fabric_table(answers, fabric, algorithms, model)}"
            for fabric in FABRICS)
        common.emit(options, name, model, text)
    common.write_csv(
        options.output / f"{name}.csv",
        ["workload", "fabric", "algorithm", "policy", "iteration_s"],
        [[*key, policy, f"{value:.9f}" if isinstance(value, float) else ""]
         for key, cells in answers.items() for policy, value in cells.items()])
    plot(options.output / f"{name}.svg", answers, algorithms)
    return 0


if __name__ == "__main__":
    sys.exit(main())
