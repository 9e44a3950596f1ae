#!/usr/bin/env python3
"""`pleach run` as processes: ranks that die or hang, and the starters of other systems.

Every test ends with no process of its own left behind.
"""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PLEACH = os.environ["PLEACH"]
# A slow build (sanitizers, a loaded machine) still has to start its ranks within this.
START_S = 60
DEADLINE_S = 3
LONG_RUN = ["--algorithm", "ring", "--sizes", "1MiB", "--iterations", "1000000",
            "--deadline", f"{DEADLINE_S}s"]
SHORT_RUN = ["run", "--algorithm", "ring", "--sizes", "4KiB", "--iterations", "2", "--deadline",
             "30s"]


def clean_environment(**variables):
    """The environment without anything that a starter of ours or of others would set."""
    starters = re.compile(r"(PLEACH_|OMPI_|PMI|PMIX_|SLURM_|RANK$|WORLD_SIZE$|LOCAL_|MASTER_)")
    kept = {name: value for name, value in os.environ.items() if not starters.match(name)}
    return {**kept, **variables}


def has_transport(name):
    listed = subprocess.run([PLEACH, "list", "transports"], check=True, capture_output=True)
    return re.search(rf"^ *{name} ".encode(), listed.stdout, re.MULTILINE) is not None


def children_of(process):
    path = pathlib.Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def rank_of(process):
    """The rank in a child's environment, or None while it is not there yet."""
    try:
        words = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    ranks = [word for word in words if word.startswith(b"PLEACH_RANK=")]
    return int(ranks[0].split(b"=")[1]) if ranks else None


def wait_until(condition, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {seconds} s")


def is_running(process):
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_measuring(test, rank_count, command, **environment):
    """The started command, and its ranks' processes once it measures; ended with the test."""
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           env=clean_environment(**environment))
    test.addCleanup(run.stdout.close)
    test.addCleanup(run.stderr.close)
    test.addCleanup(run.kill)
    for line in run.stdout:
        if "(elements)" in line:
            break
    processes = {rank_of(child): child for child in children_of(run.pid)}
    test.assertEqual(sorted(processes), list(range(rank_count)), processes)
    return run, processes


def memories_of(process):
    """The shared memories that a process has, its own and its peers'."""
    links = pathlib.Path(f"/proc/{process}/fd").iterdir()
    return {link.stat().st_ino for link in links if os.readlink(link).startswith("/memfd:")}


def connections_of(process):
    """How many TCP connections a process has."""
    links = [os.readlink(link) for link in pathlib.Path(f"/proc/{process}/fd").iterdir()]
    lines = pathlib.Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]
    established = [line.split()[9] for line in lines if line.split()[3] == "01"]
    return sum(f"socket:[{inode}]" in links for inode in established)


class SeveralHosts(unittest.TestCase):
    def test_ranks_share_memory_within_a_host_and_connections_beyond(self):
        run, processes = start_measuring(
            self, 4, [PLEACH, "run", "--ranks", "4", "--hosts", "2", "--algorithm",
                      "hierarchical,levels=2x2", *LONG_RUN[2:]])
        wait_until(lambda: connections_of(processes[3]) == 2, START_S, "a peer's and the store's")
        for one, other in ((0, 1), (2, 3)):
            wait_until(lambda: len(memories_of(processes[one]) & memories_of(processes[other])) > 1,
                       START_S, "each other's memory")
        hosts = [memories_of(processes[rank]) | memories_of(processes[rank + 1]) for rank in (0, 2)]
        self.assertFalse(hosts[0] & hosts[1])
        run.terminate()
        run.communicate(timeout=START_S)


class LostRanks(unittest.TestCase):
    def start(self, rank_count, transport):
        """Starts a long run and waits until every rank is measuring."""
        hosts = "2" if transport == "host" else "1"
        started = start_measuring(self, rank_count, [PLEACH, "run", "--ranks", str(rank_count),
                                                     "--hosts", hosts, "--transport", transport,
                                                     *LONG_RUN])
        time.sleep(0.2)
        return started

    def lose(self, lost, how, transport):
        run, processes = self.start(3, transport)
        begin = time.monotonic()
        os.kill(processes[lost], how)
        try:
            _, error = run.communicate(timeout=DEADLINE_S + START_S)
        finally:
            for process in processes.values():
                if is_running(process):
                    os.kill(process, signal.SIGKILL)
                    self.fail(f"process {process} was left behind")
        self.assertLess(time.monotonic() - begin, 4 * DEADLINE_S + 10)
        self.assertEqual(run.returncode, 1, error)
        lines = [line for line in error.splitlines() if re.match(r"rank \d+: ", line)]
        others = {line.split(":")[0] for line in lines}
        self.assertEqual(others, {f"rank {rank}" for rank in range(3)} - {f"rank {lost}"}, error)
        for line in lines:
            self.assertIn(f"rank {lost}", line.split(": ", 1)[1])

    def test_who_has_read_enough_ends_it_quietly(self):
        for transport in ("tcp", "shm", "inproc"):
            process = subprocess.Popen(
                [PLEACH, "run", "--ranks", "3", "--algorithm", "ring", "--transport", transport,
                 "--sizes", "1KiB:64MiB:2", "--iterations", "20"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment())
            process.stdout.readline()
            process.stdout.close()
            with process.stderr:
                self.assertEqual(process.stderr.read(), b"", transport)
            self.assertEqual(process.wait(timeout=START_S), 0)

    def test_a_full_disk_is_told(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PLEACH, *SHORT_RUN, "--ranks", "2"], stdout=full,
                                  stderr=subprocess.PIPE, text=True, env=clean_environment())
        self.assertEqual(done.stderr, "rank 0: cannot write to the standard output\n")
        self.assertEqual(done.returncode, 1)

    def test_more_than_a_stream_holds_back_fails_as_little_does(self):
        for ports in ("2", "64"):
            shown = [PLEACH, "fred", "show", "--ports", ports, "--json"]
            with open("/dev/full", "w") as full:
                done = subprocess.run(shown, stdout=full, stderr=subprocess.PIPE, text=True,
                                      env=clean_environment())
            self.assertEqual(done.stderr, "pleach: cannot write to the standard output\n", ports)
            self.assertEqual(done.returncode, 1, ports)
            reader, writer = os.pipe()
            os.close(reader)  # who read has read enough
            with open(writer, "wb") as pipe:
                done = subprocess.run(shown, stdout=pipe, stderr=subprocess.PIPE, text=True,
                                      env=clean_environment(), restore_signals=False)
            self.assertEqual((done.stderr, done.returncode), ("", 0), ports)

    def test_closed_streams_are_no_connections(self):
        for closed in ("<&- >&-", "<&- >&- 2>&-"):
            done = subprocess.run(
                ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", PLEACH, *SHORT_RUN, "--ranks", "2"],
                stderr=subprocess.PIPE, text=True, env=clean_environment(), timeout=START_S)
            self.assertEqual(done.returncode, 1, closed)
            if "2>" not in closed:
                self.assertEqual(done.stderr, "rank 0: cannot write to the standard output\n")

    def test_a_killed_rank_is_named_by_all_others(self):
        cases = [(0, "tcp"), (1, "tcp"), (0, "shm"), (2, "shm"), (1, "host")]
        if has_transport("ucx"):
            cases.append((1, "ucx"))
        for lost, transport in cases:
            with self.subTest(f"{lost} {transport}"):
                self.lose(lost, signal.SIGKILL, transport)

    def test_a_stopped_rank_is_named_by_all_others(self):
        for transport in ("tcp", "shm", "host"):
            with self.subTest(transport):
                self.lose(2, signal.SIGSTOP, transport)

    def test_a_job_that_is_suspended_goes_on(self):
        for transport in ("tcp", "shm"):
            run = subprocess.Popen(
                [PLEACH, "run", "--ranks", "3", "--transport", transport, "--algorithm", "ring",
                 "--sizes", "1MiB", "--iterations", "300", "--deadline", "2s"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment())
            self.addCleanup(run.kill)
            for line in run.stdout:
                if "(elements)" in line:
                    break
            processes = children_of(run.pid)
            for process in processes:
                os.kill(process, signal.SIGSTOP)
            time.sleep(5)
            self.assertTrue(all(map(is_running, processes)), "it was over before")
            for process in processes:
                os.kill(process, signal.SIGCONT)
            output, error = run.communicate(timeout=START_S)
            self.assertEqual((run.returncode, error), (0, ""), transport)
            self.assertIn("# Out of bounds values : 0 OK", output)

    def test_a_rank_that_never_comes_is_named_at_once(self):
        """The starter tells the others of it: they do not wait until their deadline."""
        begin = time.monotonic()
        run = subprocess.Popen([PLEACH, *SHORT_RUN[:-1], "60s", "--ranks", "4"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=clean_environment())
        self.addCleanup(run.kill)
        lost = wait_until(lambda: next((child for child in children_of(run.pid)
                                        if rank_of(child) == 3), None), START_S, "rank 3")
        os.kill(lost, signal.SIGKILL)
        _, error = run.communicate(timeout=START_S)
        self.assertLess(time.monotonic() - begin, 40)
        self.assertEqual(run.returncode, 1)
        self.assertIn("pleach run: rank 3 was ended by signal 9 (Killed)\n", error)
        # Who comes when rank 0 has left already hears nothing more.
        self.assertRegex(error, r"(?m)^rank [0-2]: .*rank 3 was ")

    def test_rank_0_that_never_comes_is_named_to_all(self):
        """It would serve the store at which the others hear of failures."""
        script = 'test $PLEACH_RANK != 0 || kill -9 $$; exec "$0" "$@"'
        done = subprocess.run(
            [PLEACH, "launch", "-n", "3", "--", "sh", "-c", script, PLEACH, *SHORT_RUN[:-1],
             "300s"],
            capture_output=True, text=True, env=clean_environment(), timeout=120)
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertEqual(sorted(done.stderr.splitlines()), [
            "pleach launch: rank 0 was ended by signal 9 (Killed)",
            "rank 1: rank 0 was ended by signal 9", "rank 2: rank 0 was ended by signal 9"])

    def test_ranks_end_when_a_killed_starter_leaves_them(self):
        run = subprocess.Popen(
            ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "3", PLEACH, "run",
             *LONG_RUN], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=clean_environment())
        self.addCleanup(run.stdout.close)
        for line in run.stdout:
            if "(elements)" in line:
                break
        processes = children_of(run.pid)
        self.assertEqual(len(processes), 3)
        run.kill()
        run.wait()
        try:
            wait_until(lambda: not any(map(is_running, processes)), START_S, "the end")
        finally:
            for process in filter(is_running, processes):
                os.kill(process, signal.SIGKILL)

    def test_an_interrupt_ends_every_rank(self):
        run, processes = self.start(3, "shm")
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=START_S)
        self.assertNotEqual(run.returncode, 0)
        wait_until(lambda: not any(map(is_running, processes.values())), START_S, "the end")


class Launched(unittest.TestCase):
    """`pleach launch`, and the flight files that its ranks leave."""

    def start(self, folder, *options):
        return start_measuring(self, 3, [PLEACH, "launch", "-n", "3", "--", PLEACH, "run",
                                         *options],
                               PLEACH_FLIGHT_FOLDER=folder, PLEACH_FLIGHT_SIGNAL="USR2")

    def flight(self, folder):
        result = subprocess.run([PLEACH, "flight", folder, "--json"], capture_output=True,
                                text=True, timeout=START_S, check=False)
        return json.loads(result.stdout) if result.returncode == 0 else None

    def test_runs_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            run, _ = self.start(folder, *SHORT_RUN[1:])
            output, error = run.communicate(timeout=START_S)
            self.assertEqual((run.returncode, error), (0, ""))
            self.assertIn("# Out of bounds values : 0 OK", output)
            self.assertEqual(os.listdir(folder), [])

    def test_a_probe_has_as_many_ranks_as_were_started(self):
        done = subprocess.run([PLEACH, "launch", "-n", "1", "--", PLEACH, "probe", "--ranks", "4"],
                              capture_output=True, text=True, env=clean_environment(),
                              timeout=START_S)
        self.assertIn("pleach probe: --ranks is 4, but pleach started 1\n", done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_lines_that_cannot_be_written_are_told(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PLEACH, "launch", "-n", "2", "--label", "--", "echo", "word"],
                                  stdout=full, stderr=subprocess.PIPE, text=True,
                                  env=clean_environment(), timeout=START_S)
        self.assertEqual(done.stderr, "pleach launch: cannot write to the standard output\n")
        self.assertEqual(done.returncode, 1)

    def test_a_rank_whose_socket_was_closed_on_the_way_listens_anew(self):
        with_closed = ("import subprocess, sys; "
                       "sys.exit(subprocess.run(sys.argv[1:]).returncode)")
        for holds in (False, True):  # what lies between holds it itself
            keep = "" if holds else "import os; os.closerange(3, 64); "
            done = subprocess.run([PLEACH, "launch", "-n", "2", "--", sys.executable, "-c",
                                   keep + with_closed, PLEACH, *SHORT_RUN],
                                  capture_output=True, text=True, env=clean_environment(),
                                  timeout=START_S)
            self.assertEqual(done.returncode, 1 if holds else 0, done.stderr)
            if holds:
                self.assertIn("PLEACH_LISTEN_DESCRIPTOR", done.stderr)

    def test_leaves_nobody_behind_when_it_is_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            run, processes = self.start(folder, *LONG_RUN)
            run.kill()
            run.wait()
            wait_until(lambda: not any(map(is_running, processes.values())), START_S, "the end")

    def test_flight_files_tell_of_a_killed_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            run, processes = self.start(folder, *LONG_RUN)

            def ask():
                os.kill(run.pid, signal.SIGUSR2)  # passed on: the ranks go on
                report = self.flight(folder)
                return report if report and len(report["places"]) == 3 else None

            report = wait_until(ask, START_S, "a flight file of every rank")
            self.assertEqual(report["failures"], [])
            self.assertEqual([place["rank"] for place in report["places"]], [0, 1, 2])
            os.kill(processes[1], signal.SIGKILL)
            _, error = run.communicate(timeout=START_S)
            self.assertEqual(run.returncode, 128 + signal.SIGKILL)
            self.assertIn("pleach launch: rank 1 was ended by signal 9 (Killed)", error)
            report = self.flight(folder)
            self.assertEqual(report["failures"][0]["ranks"], [0, 2])
            self.assertIn("rank 1", report["failures"][0]["message"])


class Starters(unittest.TestCase):
    def check_output(self, output, rank_count):
        self.assertEqual(len(re.findall(r"^#  Rank ", output, re.M)), rank_count, output)
        self.assertIn("# Out of bounds values : 0 OK", output)
        self.assertEqual(output.count("Collective test concluded"), 1, output)

    def run_command(self, command, **variables):
        result = subprocess.run(command, capture_output=True, text=True, timeout=START_S,
                                env=clean_environment(**variables), check=False)
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        return result.stdout

    def run_mpi(self, name, *options):
        mpirun = shutil.which(name)
        if mpirun is None:
            self.fail(f"{name} is not installed; tools/install_packages.sh test brings it")
        # Twice: what one job leaves behind must not disturb the next.
        for _ in range(2):
            output = self.run_command([mpirun, *options, "-np", "3", PLEACH, *SHORT_RUN])
            self.check_output(output, 3)

    def test_open_mpi(self):
        self.run_mpi("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe")

    def test_mpich(self):
        self.run_mpi("mpirun.mpich")

    def test_mpi_with_the_wrong_rank_count_says_so(self):
        mpirun = shutil.which("mpirun.mpich")
        if mpirun is None:
            self.fail("mpirun.mpich is not installed; tools/install_packages.sh test brings it")
        result = subprocess.run([mpirun, "-np", "2", PLEACH, *SHORT_RUN, "--ranks", "3"],
                                capture_output=True, text=True, timeout=START_S,
                                env=clean_environment(), check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("--ranks is 3, but mpich started 2", result.stderr + result.stdout)

    def run_by_hand(self, variables_of_rank):
        """Starts three ranks as a starter would that only sets variables."""
        ranks = [subprocess.Popen([PLEACH, *SHORT_RUN], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True,
                                  env=clean_environment(**variables_of_rank(rank)))
                 for rank in range(3)]
        outputs = [rank.communicate(timeout=START_S) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0, 0], outputs)
        self.check_output(outputs[0][0], 3)
        self.assertEqual(outputs[1:], [("", ""), ("", "")])

    def test_torchrun_variables(self):
        port = free_port()
        self.run_by_hand(lambda rank: {
            "RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "3",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port - 1),
            "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_USE_AGENT_STORE": "True"})

    def test_slurm_variables(self):
        job = str(os.getpid())
        self.run_by_hand(lambda rank: {
            "SLURM_PROCID": str(rank), "SLURM_NTASKS": "3", "SLURM_LOCALID": str(rank),
            "SLURM_NODEID": "0", "SLURM_NNODES": "1", "SLURM_JOB_ID": job, "SLURM_STEP_ID": "0"})

    def test_a_rank_started_with_other_options_is_named(self):
        port = str(free_port())
        ranks = [subprocess.Popen([PLEACH, *SHORT_RUN, *(["--seed", "7"] if rank == 1 else [])],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=clean_environment(RANK=str(rank), WORLD_SIZE="3",
                                                        PLEACH_STORE=f"127.0.0.1:{port}"))
                 for rank in range(3)]
        errors = [rank.communicate(timeout=START_S)[1] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [1, 1, 1], errors)
        for error in errors:
            self.assertIn("rank 1 was started with seed=7, rank 0 with seed=1", error)

    def test_what_one_rank_lacks_is_told_as_its_own(self):
        """The rank says what is wrong; the others say which rank that is, once."""
        def few_descriptors():
            resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))

        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        cases = {"descriptors": ("shm", few_descriptors, {}, "its 8 descriptors"),
                 "files": ("shm", small_files, {}, r"make \d+ bytes of shared memory"),
                 "sockets": ("tcp", None, {"PLEACH_SOCKETS": "x"}, "PLEACH_SOCKETS"),
                 "folder": ("shm", None, {"PLEACH_FLIGHT_FOLDER": "/dev/null/x"}, "/dev/null/x")}
        for name, (transport, limit, variables, what) in cases.items():
            with self.subTest(name):
                store = f"127.0.0.1:{free_port()}"
                ranks = [subprocess.Popen(
                    [PLEACH, *SHORT_RUN, "--transport", transport], stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True, preexec_fn=limit if rank == 1 else None,
                    env=clean_environment(RANK=str(rank), WORLD_SIZE="3", PLEACH_STORE=store,
                                          **(variables if rank == 1 else {})))
                         for rank in range(3)]
                errors = [rank.communicate(timeout=START_S)[1] for rank in ranks]
                self.assertEqual([rank.returncode for rank in ranks], [1, 1, 1], errors)
                said = rf"(?!.*rank \d).*{what}.*\n"
                self.assertRegex(errors[1], rf"^rank 1: {said}$")
                for rank in (0, 2):
                    self.assertRegex(errors[rank], rf"^rank {rank}: rank 1: {said}$")

    def test_nonsense_variables_are_named(self):
        result = subprocess.run([PLEACH, *SHORT_RUN], capture_output=True, text=True,
                                timeout=START_S, check=False,
                                env=clean_environment(RANK="seven", WORLD_SIZE="3"))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"^pleach run: .*RANK.*seven.*\n$")


class TransportOfTheEnvironment(unittest.TestCase):
    def run_with(self, *options, transport):
        return subprocess.run([PLEACH, *SHORT_RUN, "--ranks", "2", "--json", *options],
                              capture_output=True, text=True, timeout=START_S, check=False,
                              env=clean_environment(PLEACH_TRANSPORT=transport))

    def test_is_taken_where_no_option_names_one(self):
        shm = ("--transport", "shm")
        for options, transport, taken in (((), "tcp", "tcp"), (shm, "tcp", "shm"),
                                          (shm, "typo", "shm")):
            result = self.run_with(*options, transport=transport)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads(result.stdout)["transport"], taken)

    def test_is_refused_where_it_is_none(self):
        for transport, told in (("typo", "unknown transport 'typo'"),
                                ("tcp,sockets=99", "'99' is outside 1 to 16"),
                                ("\x1b[31m", "unknown transport '\\x1b[31m'")):
            result = self.run_with(transport=transport)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stderr.count("\n"), 1)
            self.assertTrue(result.stderr.startswith("pleach run: PLEACH_TRANSPORT: "))
            self.assertIn(told, result.stderr)


class OutputFile(unittest.TestCase):
    def test_is_nccl_tests_json_and_keeps_what_was_there(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "result.json"
            path.write_text("kept")
            command = [PLEACH, *SHORT_RUN, "--ranks", "2", "--output-file", str(path)]
            for name in ("result.json.0", "result.json.1"):
                result = subprocess.run(command, capture_output=True, text=True, timeout=START_S,
                                        env=clean_environment(), check=True)
                self.assertIn(f"# Writing JSON output to {folder}/{name}\n", result.stdout)
                self.check(json.loads((pathlib.Path(folder) / name).read_text()))
            self.assertEqual(path.read_text(), "kept")

    def check(self, document):
        self.assertEqual(document["version"], 3)
        self.assertEqual(document["env"], [])
        self.assertEqual([device["rank"] for device in document["config"]["devices"]], [0, 1])
        result = document["results"][0]
        self.assertEqual((result["size"], result["count"], result["type"], result["redop"],
                          result["root"]), (4096, 1024, "float", "sum", "-1"))
        for place in ("out_of_place", "in_place"):
            self.assertEqual(sorted(result[place]), ["alg_bw", "bus_bw", "nwrong", "time"])
            self.assertEqual(result[place]["nwrong"], 0)
        self.assertEqual(document["out_of_bounds"], {"count": 0, "okay": "true"})
        self.assertRegex(document["start_time"], r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")

    def test_a_failed_run_leaves_none(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [PLEACH, *SHORT_RUN, "--ranks", "2", "--output-file", f"{folder}/no/r.json"]
            result = subprocess.run(command, capture_output=True, text=True, timeout=START_S,
                                    env=clean_environment(), check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"--output-file: cannot write '{folder}/no/r.json': No such file",
                          result.stderr)
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
