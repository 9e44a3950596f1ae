#!/usr/bin/env python3
"""Holds the C interface to what it promises: its header in C and C++, the library's symbols, and a
C program that four ranks run.

usage  c_interface_test.py C_COMPILER CXX_COMPILER LIBRARY PROGRAM SOURCE_FOLDER
"""
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

RANKS = 4
STRICT = ("-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only")


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def check_header(c_compiler, cxx_compiler, source):
    """It compiles alone, twice, in the oldest languages that it is for."""
    compilers = ((c_compiler, ".c", "-std=c99"), (cxx_compiler, ".cc", "-std=c++98"),
                 (cxx_compiler, ".cc", "-std=c++20"))
    with tempfile.TemporaryDirectory(prefix="pleach-header-") as folder:
        for compiler, suffix, standard in compilers:
            unit = pathlib.Path(folder, "unit" + suffix)
            unit.write_text('#include "pleach/api/pleach.h"\n' * 2)
            run(compiler, standard, *STRICT, f"-I{source}", unit)


def check_documented(c_compiler, source):
    """The program that the documents show compiles."""
    documents = (source / "docs/runtime.md").read_text()
    programs = re.findall(r"^```c\n(.*?)^```", documents, re.M | re.S)
    if len(programs) != 1:
        sys.exit(f"docs/runtime.md shows {len(programs)} programs in C")
    with tempfile.TemporaryDirectory(prefix="pleach-documents-") as folder:
        unit = pathlib.Path(folder, "unit.c")
        unit.write_text(programs[0])
        run(c_compiler, "-std=c99", *STRICT, f"-I{source}", unit)


def check_symbols(library, source):
    """The library exports what the header declares, and nothing else."""
    header = re.sub(r"//.*", "", (source / "pleach/api/pleach.h").read_text())
    declared = set(re.findall(r"\b(pleach_\w+)\(", header))
    lines = run("nm", "-D", "--defined-only", library).splitlines()
    exported = {line.split()[-1] for line in lines}
    if not declared or declared != exported:
        sys.exit(f"declared only: {sorted(declared - exported)}\n"
                 f"exported only: {sorted(exported - declared)}")
    version = re.search(r"#define PLEACH_ABI_VERSION (\d+)", header)[1]
    if f"[libpleach.so.{version}]" not in run("readelf", "-d", library):
        sys.exit(f"{library} is not called libpleach.so.{version}")


def run_ranks(program, *arguments):
    """What each rank says and how it ends, started as any program is."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        store = f"127.0.0.1:{listener.getsockname()[1]}"
        descriptor = listener.fileno()
        ranks = []
        for rank in range(RANKS):
            environment = dict(os.environ, PLEACH_RANK=str(rank), PLEACH_RANK_COUNT=str(RANKS),
                               PLEACH_STORE=store)
            if rank == 0:
                environment["PLEACH_LISTEN_DESCRIPTOR"] = str(descriptor)
            ranks.append(subprocess.Popen([program, *arguments], env=environment, text=True,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                          pass_fds=[descriptor] if rank == 0 else []))
    try:
        return [(rank.communicate(timeout=60)[0], rank.returncode) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()


def check_program(program):
    for transport in ("tcp", "shm"):
        for rank, ended in enumerate(run_ranks(program, transport)):
            expected = (f"rank {rank} of {RANKS} over {transport}: 0 wrong\n", 0)
            if ended != expected:
                sys.exit(f"{program} {transport}: {ended} is not {expected}")
    for said, status in run_ranks(program, "pigeon"):
        if status != 1 or not said.startswith("joining: ") or "'pigeon'" not in said:
            sys.exit(f"{program} pigeon: {said!r}, {status}")
    alone = subprocess.run([program], capture_output=True, text=True, check=False)
    if alone.returncode != 1 or "no starter has told which rank this is" not in alone.stderr:
        sys.exit(f"{program} alone: {alone}")


def main():
    c_compiler, cxx_compiler, library, program, source = sys.argv[1:]
    source = pathlib.Path(source)
    check_header(c_compiler, cxx_compiler, source)
    check_documented(c_compiler, source)
    check_symbols(library, source)
    check_program(program)


if __name__ == "__main__":
    main()
