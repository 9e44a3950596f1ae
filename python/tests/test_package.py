"""The package as such: what it is made of, and where."""

import re
from pathlib import Path

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
