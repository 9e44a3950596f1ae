#!/usr/bin/env python3
"""Runs the commands of transcripts and compares what they print, line by line.

A transcript is a text file, or the ```console blocks of a Markdown file:

    $ pleach verify schedule.json       the command; no shell, {folder} is an empty folder
    correct  yes: <*>                   its stdout; <*> stands for any text within a line
    ...                                 any number of lines
    ! pleach verify: <*>                its stderr, each line after "! "
    [exit 3]                            its exit code, when it is not 0
    json: correct violations=[]         stdout is one JSON object with these keys (and values)

Lines before the first command are comments. With --update, a text file that differs is rewritten.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

TIMEOUT_S = 60
ROOT = pathlib.Path(__file__).resolve().parents[2]


def commands_of(path):
    """(line number, command, expected lines) of each command of the file."""
    text = path.read_text()
    blocks = [(1, text)]
    if path.suffix == ".md":
        blocks = [(text[:match.start(1)].count("\n") + 1, match[1])
                  for match in re.finditer(r"^```console\n(.*?)^```", text, re.M | re.S)]
    result = []
    for first, block in blocks:
        for number, line in enumerate(block.splitlines(), first):
            if line.startswith("$ "):
                result.append((number, line[2:], []))
            elif result:
                result[-1][2].append(line)
    return [(number, command, strip_blank(lines)) for number, command, lines in result]


def strip_blank(lines):
    while lines and not lines[-1]:
        lines.pop()
    return lines


def run(command, folder):
    words = [word.replace("{folder}", folder) for word in shlex.split(command)]
    if words[0] == "pleach":
        words[0] = os.environ["PLEACH"]
    cache = {"XDG_CACHE_HOME": f"{folder}.cache"}
    result = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=TIMEOUT_S,
                            stdin=subprocess.DEVNULL, env={**os.environ, **cache}, check=False)
    hide = lambda text: text.replace(folder, "{folder}").splitlines()
    lines = hide(result.stdout) + ["! " + line for line in hide(result.stderr)]
    if result.returncode != 0:
        lines.append(f"[exit {result.returncode}]")
    return strip_blank(lines), result.stdout


def line_matches(expected, actual):
    pattern = ".*".join(re.escape(piece) for piece in expected.rstrip().split("<*>"))
    return re.fullmatch(pattern, actual.rstrip()) is not None


def lines_match(expected, actual):
    if not expected:
        return not actual
    if expected[0] == "...":
        return any(lines_match(expected[1:], actual[skip:]) for skip in range(len(actual) + 1))
    return bool(actual) and line_matches(expected[0], actual[0]) and \
        lines_match(expected[1:], actual[1:])


def json_problem(wanted, stdout):
    """Why stdout is not one JSON object with the wanted keys, or None."""
    try:
        document = json.loads(stdout)
    except ValueError as error:
        return f"stdout is not one JSON value: {error}"
    for want in wanted.split():
        key, equals, value = want.partition("=")
        found = document
        for part in key.split("."):
            if isinstance(found, list):
                found = found[0] if found else None
            if not isinstance(found, dict) or part not in found:
                return f"no key {key}"
            found = found[part]
        if equals and found != json.loads(value):
            return f"{key} is {json.dumps(found)}, not {value}"
    return None


def check(expected, actual, stdout):
    """Why the output is not as expected, or None."""
    wanted = [line[len("json: "):] for line in expected if line.startswith("json: ")]
    if wanted:
        rest = [line for line in expected if not line.startswith("json: ")]
        others = [line for line in actual if line.startswith(("! ", "[exit "))]
        problem = json_problem(" ".join(wanted), stdout)
        return problem or (None if lines_match(rest, others) else "\n".join(["got:", *others]))
    if lines_match(expected, actual):
        return None
    return "\n".join(["expected:", *expected, "got:", *actual])


def main():
    update = "--update" in sys.argv
    failures = 0
    for name in (word for word in sys.argv[1:] if word != "--update"):
        path = pathlib.Path(name).resolve()
        found = commands_of(path)
        if not found:
            print(f"{path}: no commands")
            failures += 1
        corrections = []
        with tempfile.TemporaryDirectory(prefix="pleach-transcript-") as folder:
            for number, command, expected in found:
                actual, stdout = run(command, folder)
                problem = check(expected, actual, stdout)
                if problem:
                    failures += 1
                    corrections.append((number, len(expected), actual))
                    print(f"{path.relative_to(ROOT)}:{number}: $ {command}\n{problem}\n")
        if update:
            lines = path.read_text().splitlines()
            for number, length, actual in reversed(corrections):
                lines[number:number + length] = actual
            path.write_text("\n".join(lines) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
