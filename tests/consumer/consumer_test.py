#!/usr/bin/env python3
"""Installs a build and builds a program against the install tree with find_package(pleach).

usage  consumer_test.py CMAKE BUILD_FOLDER CONSUMER_SOURCE_FOLDER
"""
import pathlib
import re
import subprocess
import sys
import tempfile


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def main():
    cmake, build, source = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="pleach-consumer-") as folder:
        prefix, consumer = pathlib.Path(folder, "install"), pathlib.Path(folder, "build")
        run(cmake, "--install", build, "--prefix", prefix)
        run(cmake, "-S", source, "-B", consumer, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
            "-DCMAKE_BUILD_TYPE=Release")
        run(cmake, "--build", consumer)
        output = run(consumer / "consumer")
        if not re.fullmatch(r"10 steps, [1-9]\d* ps\n2 steps, [1-9]\d* ps\n", output):
            sys.exit(f"the consumer printed {output!r}")
        version = run(prefix / "bin" / "pleach", "--version")
        if not version.startswith("pleach "):
            sys.exit(f"the installed command printed {version!r}")


if __name__ == "__main__":
    main()
