#!/usr/bin/env python3
"""Installs the source tree with pip into an empty environment, and runs the package's tests there.

python3 python/tests/install_check.py [--folder build/install_check]
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("package", "schedules", "communicators", "training", "policy", "examples")
INSTALL_DEADLINE_S = 3600


def run(*words: str, environment: dict[str, str] | None = None) -> str:
    """Runs a program, which must succeed; returns what it prints."""
    ended = subprocess.run(
        words,
        text=True,
        stdout=subprocess.PIPE,
        env=environment,
        cwd=ROOT / "python" / "tests",
        timeout=INSTALL_DEADLINE_S,
        check=False,
    )
    if ended.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit code {ended.returncode}\n{ended.stdout}")
    return ended.stdout


def main() -> None:
    """Installs, tests, and removes what it made."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "install_check")
    folder: Path = parser.parse_args().folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "venv", str(folder))
    programs = folder / "bin"
    python = str(programs / "python")
    print("install check: pip install", ROOT, file=sys.stderr, flush=True)
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
    run(*pip, str(ROOT), "pytest", "pytest-timeout")
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PLEACH")
    }
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    tests = [f"test_{name}.py" for name in TESTS]
    print(
        run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, environment=environment)
    )
    import_torch = "import pleach.torch"
    ended = subprocess.run(
        [python, "-c", import_torch], capture_output=True, text=True, timeout=60, check=False
    )
    last = ended.stderr.strip().splitlines()[-1]
    if ended.returncode == 0 or "needs PyTorch" not in last:
        sys.exit(f"{import_torch} without PyTorch says: {ended.stderr}")
    shutil.rmtree(folder)
    print("install check: ok")


if __name__ == "__main__":
    main()
