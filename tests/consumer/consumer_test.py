#!/usr/bin/env python3
"""Installs a build and builds programs, in C++ and C, against the install tree.

usage  consumer_test.py CMAKE BUILD_FOLDER CONSUMER_SOURCE_FOLDER
"""
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile


def run(*command, pass_fds=(), **environment):
    result = subprocess.run(command, capture_output=True, text=True, check=False,
                            pass_fds=pass_fds, env=dict(os.environ, **environment))
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def check_c_programs(prefix, consumer, source):
    """One rank of the same program, built with CMake's package and with that of pkg-config."""
    (library,) = prefix.rglob("libpleach.so")
    flags = run("pkg-config", "--cflags", "--libs", "pleach",
                PKG_CONFIG_PATH=str(library.parent / "pkgconfig")).split()
    program = consumer / "from_pkg_config"
    run("cc", source, "-o", program, *flags)
    for built in (consumer / "c_consumer", program):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            output = run(built, pass_fds=[listener.fileno()], PLEACH_RANK="0",
                         PLEACH_RANK_COUNT="1", LD_LIBRARY_PATH=str(library.parent),
                         PLEACH_STORE=f"127.0.0.1:{listener.getsockname()[1]}",
                         PLEACH_LISTEN_DESCRIPTOR=str(listener.fileno()))
        if output != "rank 0 of 1 over shm: 0 wrong\n":
            sys.exit(f"{built} printed {output!r}")


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
        check_c_programs(prefix, consumer, pathlib.Path(source, "../../examples/all_reduce.c"))
        version = run(prefix / "bin" / "pleach", "--version")
        if not version.startswith("pleach "):
            sys.exit(f"the installed command printed {version!r}")


if __name__ == "__main__":
    main()
