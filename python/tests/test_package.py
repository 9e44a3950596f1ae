"""The package as such: what it is made of, and where."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import pleach

ROOT = Path(__file__).resolve().parents[2]


def test_versions_agree() -> None:
    project = (ROOT / "CMakeLists.txt").read_text()
    stated = re.search(r"project\(pleach VERSION (\S+)", project)
    assert stated is not None
    assert pleach.__version__ == stated[1]
    assert f'version = "{stated[1]}"' in (ROOT / "pyproject.toml").read_text()


def test_has_library_and_headers() -> None:
    assert (pleach.library_folder() / "libpleach.so").exists()
    header = (pleach.include_folder() / "pleach/api/pleach.h").read_text()
    assert f"#define PLEACH_ABI_VERSION {pleach.abi_version()}\n" in header


def say(program: str) -> str:
    """Runs a program in a Python of its own; returns what it says."""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    return ended.stdout + ended.stderr


def test_without_pytorch_one_line_says_so() -> None:
    said = say("import sys; sys.modules['torch'] = None; import pleach; import pleach.torch")
    last = said.strip().splitlines()[-1]
    assert last.startswith("ImportError: pleach.torch needs PyTorch")


def test_pytorch_finds_the_backend_and_imports_nothing_for_it() -> None:
    pytest.importorskip("torch")
    said = say(
        "import sys, torch.distributed as distributed;"
        "print('pleach' in distributed.Backend.backend_list, 'pleach._core' in sys.modules)"
    )
    assert said.split() == ["True", "False"]


def test_the_entry_point_never_raises() -> None:
    said = say(
        "import sys; sys.modules['torch'] = None; sys.modules['pleach._core'] = None\n"
        "from importlib.metadata import distribution\n"
        "entry, = distribution('pleach').entry_points.select(group='torch.backends')\n"
        "print(entry.value); entry.load()()"
    )
    assert said.startswith("_pleach_torch_entry:register")
    assert "Error" not in said
