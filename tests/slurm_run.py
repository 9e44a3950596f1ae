#!/usr/bin/env python3
"""Runs ranks under a real Slurm of one node, which it starts and ends.

    usage  tests/slurm_run.py [--must-run] --pleach build/dev/pleach

munged, slurmctld and slurmd run in a folder of their own, on free ports of loopback, as this user.
Without --must-run the exit code is 0 also where Slurm cannot run here: then the line says why.
"""
import argparse
import getpass
import json
import os
import pathlib
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time

DAEMONS = ("munged", "slurmctld", "slurmd")
START_S, RUN_S = 60, 120
RANKS = 4

CONFIGURATION = """\
ClusterName=pleach
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
ReturnToService=2
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={ranks} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class CannotRun(Exception):
    """Slurm does not run here; the text says why."""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def tail(path):
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return " | ".join(lines[-3:]) or "it has logged nothing"


class Cluster:
    """One node, from the start of the block to its end."""

    def __init__(self, folder):
        self.folder = folder
        self.daemons = []
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def start(self, name, *arguments):
        output = open(self.folder / f"{name}.out", "wb")
        daemon = subprocess.Popen([shutil.which(name), *arguments], stdin=subprocess.DEVNULL,
                                  stdout=output, stderr=subprocess.STDOUT, env=self.environment)
        output.close()
        self.daemons.append((name, daemon))

    def ask(self, *command):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True,
                              timeout=RUN_S, check=False)

    def wait_until(self, what, condition, logs):
        end = time.monotonic() + START_S
        while not condition():
            dead = [name for name, daemon in self.daemons if daemon.poll() is not None]
            if dead or time.monotonic() > end:
                why = f"{dead[0]} has ended" if dead else f"not within {START_S} s"
                raise CannotRun(f"{what}: {why}: " +
                                "; ".join(f"{log}: {tail(self.folder / log)}" for log in logs))
            time.sleep(0.1)

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.end()
            raise
        return self

    def begin(self):
        for name in ("munge", "state", "spool"):
            (self.folder / name).mkdir(mode=0o755)
        key = self.folder / "munge" / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        host = socket.gethostname().split(".")[0]
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=host, controller_port=free_port(), node_port=free_port(),
            user=getpass.getuser(), folder=self.folder, ranks=RANKS))
        munge = self.folder / "munge"
        self.start("munged", "--foreground", "--force", f"--key-file={key}",
                   f"--socket={munge}/socket", f"--pid-file={munge}/pid",
                   f"--log-file={munge}/log", f"--seed-file={munge}/seed", "--num-threads=2")
        self.wait_until("munged answers", lambda: self.ask(
            "munge", "-n", f"--socket={munge}/socket").returncode == 0, ["munged.out"])
        self.start("slurmctld", "-D", "-i", "-f", f"{self.folder}/slurm.conf")
        self.wait_until("slurmctld answers", lambda: self.ask("scontrol", "ping").returncode == 0,
                        ["slurmctld.out", "slurmctld.log"])
        self.start("slurmd", "-D", "-f", f"{self.folder}/slurm.conf", "-N", host)
        self.wait_until("the node is idle", lambda: "idle" in self.ask(
            "sinfo", "-h", "-o", "%T").stdout.split(), ["slurmd.out", "slurmd.log",
                                                        "slurmctld.log"])

    def end(self):
        for _, daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def __exit__(self, *_):
        self.end()


def left_behind(folder):
    """Processes that mention the cluster's folder, this one's parents left out."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found


def expect(condition, what, run):
    if not condition:
        raise AssertionError(f"{what}: exit code {run.returncode}\n{run.stdout}\n{run.stderr}")


def check(cluster, pleach):
    command = ["srun", "--ntasks", str(RANKS), pleach, "run", "--algorithm", "ring", "--sizes",
               "4KiB,1MiB", "--iterations", "3", "--deadline", "30s"]
    for transport in ("tcp", "shm"):
        run = cluster.ask(*command, "--transport", transport, "--json")
        expect(run.returncode == 0, f"four ranks over {transport}", run)
        report = json.loads(run.stdout)
        expect(report["rank_count"] == RANKS, "the number of ranks", run)
        expect(all(row[place]["wrong_count"] == 0 for row in report["rows"]
                   for place in ("out_of_place", "in_place")), "right results", run)
        print(f"slurm: {RANKS} ranks over {transport}: right")
    run = cluster.ask(*command[:-1], "5s", "--ranks", "3")
    expect(run.returncode != 0 and "slurm started 4" in run.stderr, "another number of ranks", run)
    print("slurm: another number of ranks: refused")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pleach", required=True)
    parser.add_argument("--must-run", action="store_true",
                        help="fail where Slurm is missing or cannot be started")
    arguments = parser.parse_args()
    pleach = str(pathlib.Path(arguments.pleach).resolve())
    missing = [name for name in (*DAEMONS, "srun") if shutil.which(name) is None]
    if missing:
        print(f"slurm: skipped: no {', '.join(missing)} (packages slurm-wlm, munge)")
        return int(arguments.must_run)
    code = 0
    # Names of sockets are short, so the folder stands where paths are.
    with tempfile.TemporaryDirectory(prefix="pleach-slurm-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        try:
            with Cluster(folder) as cluster:
                check(cluster, pleach)
        except CannotRun as why:
            print(f"slurm: skipped: {why}")
            code = int(arguments.must_run)
        remaining = left_behind(folder)
        if remaining:
            raise AssertionError(f"processes are left behind: {remaining}")
    return code


if __name__ == "__main__":
    sys.exit(main())
