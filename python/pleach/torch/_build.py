"""Compiles the backend's C++ against the PyTorch that is installed, once, and loads it.

`python -m pleach.torch._build` compiles ahead of the first use.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import IO

import torch

import pleach

_SOURCES = Path(__file__).parent / "shim"
_MODULE = "pleach.torch._shim"
_DEADLINE_S = 900.0
_VERSION_DEADLINE_S = 20.0
# What every compiler of PyTorch's headers understands; debug information would be most of it.
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w")


def load_shim() -> ModuleType:
    """Returns the shim's module; compiles it where the cache has none for this PyTorch.

    Raises:
        ImportError: It does not compile, not in time, or there is no compiler. One line; a log has
            the rest.
    """
    loaded = loaded_shim()
    if loaded is not None:
        return loaded
    path = build_shim()
    specification = importlib.util.spec_from_file_location(_MODULE, path)
    assert specification is not None
    assert specification.loader is not None
    try:
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
    except ImportError as error:
        raise ImportError(
            f"pleach.torch: {path} cannot be loaded: {error}: remove it to have it made again"
        ) from None
    sys.modules[_MODULE] = module
    return module


def loaded_shim() -> ModuleType | None:
    """Returns the shim's module if it has been loaded."""
    return sys.modules.get(_MODULE)


def build_shim() -> Path:
    """Returns the path of the compiled shim, made now if it is not there.

    Several processes compile it once: the first does, the others wait for it, and fail with it.

    Raises:
        ImportError: As `load_shim`.
    """
    key = _key()
    compiler = _find_compiler()
    if not compiler:
        return _find_compiled(key)
    folder = cache_folder() / "torch" / f"{key}-{_mark_of(compiler)}"
    target = folder / "_shim.so"
    if target.exists():
        return target
    wanted_ns = time.time_ns()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock"):
            if not target.exists():
                _compile_once(compiler, target, wanted_ns)
    except OSError as error:
        raise ImportError(
            f"pleach.torch: cannot write {folder}: {error.strerror}: set PLEACH_CACHE to a folder "
            "that can be written"
        ) from None
    return target


def cache_folder() -> Path:
    """Returns where what is compiled is kept: $PLEACH_CACHE, else $XDG_CACHE_HOME/pleach."""
    chosen = os.environ.get("PLEACH_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pleach"


def _find_compiler() -> list[str]:
    """The compiler as a command: $CXX, which may have words before it; empty if there is none."""
    wanted = shlex.split(os.environ.get("CXX", ""))
    for command in [wanted] if wanted else [["g++"], ["c++"], ["clang++"]]:
        if shutil.which(command[0]):
            return command
    return []


def _find_compiled(key: str) -> Path:
    """What somebody has compiled of this, with whichever compiler."""
    for path in sorted((cache_folder() / "torch").glob(f"{key}-*/_shim.so")):
        return path
    raise ImportError(
        f"pleach.torch: there is no C++ compiler ({os.environ.get('CXX') or 'g++'}), and nothing "
        f"compiled in {cache_folder()}: the backend is compiled against the PyTorch that is "
        "installed"
    )


def _mark_of(compiler: list[str]) -> str:
    asked = [*compiler, "--version"]
    try:
        told = subprocess.run(
            asked, capture_output=True, text=True, check=False, timeout=_VERSION_DEADLINE_S
        )
    except subprocess.TimeoutExpired:
        raise ImportError(
            f"pleach.torch: `{shlex.join(asked)}` has not ended within {_VERSION_DEADLINE_S:.0f} s"
        ) from None
    return hashlib.sha256(" ".join([*compiler, told.stdout]).encode()).hexdigest()[:8]


def _key() -> str:
    """The name of what would be made: by all that it is made of, but the compiler."""
    parts = [torch.__version__, sys.version, *_FLAGS, *_links()]
    headers = pleach.include_folder() / "pleach" / "api"
    for path in [*sorted(_SOURCES.glob("*.[hc]*")), *sorted(headers.glob("pleach*.h"))]:
        parts += [path.name, path.read_text(encoding="utf-8")]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{torch.__version__.replace('+', '-')}-{digest[:16]}"


def _links() -> list[str]:
    library = pleach.library_folder().resolve()
    torch_library = Path(torch.__file__).resolve().parent / "lib"
    return [
        f"-L{torch_library}", "-ltorch", "-ltorch_cpu", "-lc10", "-ltorch_python",
        f"-L{library}", "-lpleach", f"-Wl,-rpath,{library}", f"-Wl,-rpath,{torch_library}",
    ]  # fmt: skip


def _includes() -> list[str]:
    torch_include = Path(torch.__file__).parent / "include"
    folders = [
        torch_include, torch_include / "torch" / "csrc" / "api" / "include",
        sysconfig.get_path("include"),
    ]  # fmt: skip
    found = [part for folder in folders for part in ("-isystem", str(folder))]
    return [f"-I{_SOURCES}", f"-I{pleach.include_folder()}", *found]


def _compile_once(compiler: list[str], target: Path, wanted_ns: int) -> None:
    """Compiles it, unless somebody has failed to since `wanted_ns`: who waited fails alike."""
    failed = target.with_name("failed")
    with contextlib.suppress(FileNotFoundError):
        if failed.stat().st_mtime_ns >= wanted_ns:
            raise ImportError(failed.read_text(encoding="utf-8"))
    try:
        _compile(compiler, target)
    except ImportError as error:
        failed.write_text(str(error), encoding="utf-8")
        raise


def _compile(compiler: list[str], target: Path) -> None:
    print(
        f"pleach: compiling the backend for PyTorch {torch.__version__} (once, about 40 s)",
        file=sys.stderr,
        flush=True,
    )
    for left in target.parent.glob("*.tmp"):  # by who was ended in the middle
        left.unlink(missing_ok=True)
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    made = target.with_suffix(f".{os.getpid()}.tmp")
    command = [
        *compiler, *_FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={abi}", "-DTORCH_EXTENSION_NAME=_shim",
        *_includes(), str(_SOURCES / "shim.cc"), *_links(), "-o", str(made),
    ]  # fmt: skip
    log = target.with_name("compile.log")
    with log.open("w", encoding="utf-8") as output:
        output.write(" ".join(command) + "\n")
        output.flush()
        code = _run(command, output)
    if code == 0:
        made.replace(target)
        return
    made.unlink(missing_ok=True)
    if code is None:
        raise ImportError(
            f"pleach.torch: {compiler[0]} has not compiled the backend within {_DEADLINE_S:.0f} s: "
            f"{log} has the command"
        )
    raise ImportError(
        f"pleach.torch: the backend, made for PyTorch 2.13 and 2.11, does not compile against "
        f"{torch.__version__}: {log} says why"
    )


def _run(command: list[str], output: IO[str]) -> int | None:
    """Returns a command's exit code; None where it has not ended in time."""
    with subprocess.Popen(
        command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            return process.wait(_DEADLINE_S)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.returncode is None:  # a compiler has processes of its own
                os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    deadline = time.monotonic() + _DEADLINE_S
    with path.open("w", encoding="utf-8") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise ImportError(
                        f"pleach.torch: another process has compiled the backend for "
                        f"{_DEADLINE_S:.0f} s: {path} is locked"
                    ) from None
                time.sleep(0.1)
        yield


if __name__ == "__main__":
    print(build_shim())
