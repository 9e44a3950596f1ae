"""What the figures share: running pleach, and writing CSV, Markdown tables and plots.

Every figure is a function of what pleach prints, and the same answers give the same bytes.
"""
import argparse
import csv
import json
import pathlib
import subprocess

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (the backend has to be chosen first)

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Okabe and Ito's palette, which colour-blind readers can tell apart.
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#999999", "#F0E442"]

# Batch per rank and measured or guessed milliseconds of one iteration on one RTX 2080 Ti.
MODELS_OF_DEAR = [
    ("resnet50", 64, 253),
    ("densenet201", 32, 200),
    ("inception_v4", 64, 700),
    ("bert_base", 64, 301),
    ("bert_large", 32, 550),
]


def parse_options(description, checks=False, more=None):
    """A figure's options: pleach, output (a folder, made if need be) and, if asked for, check.

    `more` adds its own to the parser.
    """
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pleach", required=True, help="the binary")
    parser.add_argument("--output", default=str(ROOT / "docs" / "validation"),
                        help="folder of the page, the CSV and the plot")
    if checks:
        parser.add_argument("--check", action="store_true", help="exit 1 when a limit is missed")
    if more:
        more(parser)
    options = parser.parse_args()
    options.output = pathlib.Path(options.output)
    options.output.mkdir(parents=True, exist_ok=True)
    return options


class PleachError(Exception):
    """pleach refused; its one line is the message."""


def run_pleach(binary, *arguments):
    """pleach's JSON object. Raises PleachError where it fails."""
    command = [str(binary), *(str(argument) for argument in arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PleachError(done.stderr.strip())
    return json.loads(done.stdout)


def train(binary, policies, **options):
    """Rows of `pleach train` by policy. An option's _ becomes -, and its value a string."""
    arguments = ["--policy", ",".join(policies)]
    for name, value in options.items():
        arguments += ["--" + name.replace("_", "-"), value]
    return {row["policy"]: row for row in run_pleach(binary, "train", *arguments)["rows"]}


def write_csv(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def markdown_table(header, rows):
    """Right-aligned but for the first column."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def emit(options, name, part, text):
    """Prints a generated part, and puts it between its two markers in docs/validation/NAME.md.

    Elsewhere than in docs/validation, or before the page has such markers, NAME-PART.md is written.
    """
    print(f"{name}: {part}\n\n{text}")
    page = options.output / f"{name}.md"
    begin, end = f"<!-- begin {part} -->\n", f"<!-- end {part} -->\n"
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    if begin not in old or end not in old:
        (options.output / f"{name}-{part}.md").write_text(text, encoding="utf-8")
        return
    before, rest = old.split(begin, 1)
    after = rest.split(end, 1)[1]
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def new_plot(rows=1, columns=1, width=8.0, height=4.0, **options):
    """A figure and its axes, without frames above and to the right."""
    matplotlib.rcParams.update({
        "svg.hashsalt": "pleach",
        "svg.fonttype": "none",
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "legend.frameon": False,
    })
    return pyplot.subplots(rows, columns, figsize=(width, height), squeeze=False, **options)


def save_plot(figure, path):
    """SVG without a date, so that a rerun gives the same bytes."""
    figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)


def milliseconds(seconds, digits=1):
    return f"{1e3 * seconds:.{digits}f}"


def percent(ratio, digits=1):
    """0.05 → +5.0 %."""
    return f"{100 * ratio:+.{digits}f} %"
