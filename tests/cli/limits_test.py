#!/usr/bin/env python3
"""The command line under limits of the process and under settings that make no sense: one line that
says what is wrong, no signal, nothing left behind, and no control character on the terminal."""
import os
import pathlib
import re
import resource
import subprocess
import tempfile
import unittest

PLEACH = os.environ["PLEACH"]
# A slow build (sanitizers, a loaded machine) still has to end within this.
LIMIT_S = 120
RUN = ["run", "--sizes", "1KiB", "-n", "1"]
STARTERS = re.compile(r"(PLEACH_|OMPI_|PMI|PMIX_|SLURM_|RANK$|WORLD_SIZE$|LOCAL_|MASTER_)")


def call(words, folder=None, limits=(), **variables):
    """The exit code and what was printed. limits: (resource, value) of the process."""
    kept = {name: value for name, value in os.environ.items() if not STARTERS.match(name)}

    def set_limits():
        for what, value in limits:
            resource.setrlimit(what, (value, value))

    done = subprocess.run([PLEACH, *words], capture_output=True, cwd=folder, timeout=LIMIT_S,
                          env={**kept, **variables}, stdin=subprocess.DEVNULL, check=False,
                          preexec_fn=set_limits)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class OneLine(unittest.TestCase):
    def refused(self, words, says, **how):
        """Asserts that the command fails with lines that all say it, one for each rank at most."""
        code, _, error = call(words, **how)
        self.assertIn(code, (1, 2), error)
        lines = error.splitlines()
        self.assertTrue(lines)
        for line in lines:
            self.assertRegex(line, says)
            self.assertNotRegex(line, r"[\x00-\x1f\x7f]")
        self.assertNotIn("check failed", error)
        return lines


class Limits(OneLine):
    def test_a_small_stack(self):
        code, _, error = call([*RUN, "--ranks", "4"],
                              limits=[(resource.RLIMIT_STACK, 256 << 10)])
        self.assertEqual((code, error), (0, ""))
        lines = self.refused([*RUN, "--ranks", "4"], r"\(ulimit -s\)$",
                             limits=[(resource.RLIMIT_STACK, 64 << 10)])
        self.assertEqual(len(lines), 1)

    def test_few_descriptors_for_threads(self):
        lines = self.refused([*RUN, "--ranks", "1100", "--transport", "inproc"],
                             r"its 1024 descriptors \(ulimit -n\)$",
                             limits=[(resource.RLIMIT_NOFILE, 1024)])
        self.assertEqual(len(lines), 1)

    def test_few_descriptors_for_processes(self):
        """The limit is named by the rank that lacks a descriptor, and by those that hear of it.

        A rank that cannot be let in hears that the other one has ended.
        """
        for transport, count in (("shm", 16), ("tcp", 16), ("shm", 12), ("tcp", 6)):
            with self.subTest(f"{transport}, {count} descriptors"):
                limit = rf"of its {count} descriptors \(ulimit -n\)$"
                lines = self.refused([*RUN, "--ranks", "4", "--transport", transport],
                                     rf"{limit}|^rank \d: rank \d ended with code 1$",
                                     limits=[(resource.RLIMIT_NOFILE, count)])
                self.assertTrue(any(re.search(limit, line) for line in lines), lines)
        # Here it depends on the order in which ranks meet. No peer is at fault.
        _, _, error = call([*RUN, "--ranks", "4", "--transport", "shm", "--deadline", "3s"],
                           limits=[(resource.RLIMIT_NOFILE, 24)])
        self.assertNotIn("protocol", error)

    def test_small_files(self):
        with tempfile.TemporaryDirectory() as folder:
            limits = [(resource.RLIMIT_FSIZE, 1024)]
            lines = self.refused(
                ["synthesize", "--topology", "torus:4x4", "--algorithm", "ring", "-o", "a.json"],
                r"cannot write 'a.json': a file of this process may have 1024 bytes \(ulimit -f\)$",
                folder=folder, limits=limits)
            self.assertEqual(len(lines), 1)
            self.assertEqual(os.listdir(folder), [])
            # A memory that ranks share is a file to this limit.
            self.refused([*RUN, "--ranks", "2", "--transport", "shm"], r"\(ulimit -f\)",
                         folder=folder, limits=limits)
            printing = ["run", "--sizes", "1KiB:1MiB:2", "--ranks", "2", "--transport", "inproc"]
            for words in (["list"], printing):
                script = 'ulimit -f 1; exec "$0" "$@" > list.txt'
                done = subprocess.run(["bash", "-c", script, PLEACH, *words], cwd=folder,
                                      capture_output=True, text=True, timeout=LIMIT_S, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, r"cannot write to the standard output: .*ulimit -f")

    def test_a_program_that_is_launched_has_the_usual_signals(self):
        script = "ulimit -f 1; head -c 4096 /dev/zero > /dev/stdout"
        with tempfile.TemporaryDirectory() as folder, \
                open(pathlib.Path(folder, "out"), "w") as out:
            done = subprocess.run([PLEACH, "launch", "-n", "1", "--", "bash", "-c", script],
                                  stdout=out, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S,
                                  check=False)
        self.assertIn("File size limit exceeded", done.stderr)


class Settings(OneLine):
    """Every variable, with values that nothing can mean."""

    VALUES = {"empty": "", "huge": "9" * 100_000, "control": "\x1b[31mred\x07\n",
              "endless": "/dev/zero", "no text": os.fsdecode(b"\xff\xfe")}
    NAMES = ("TLS", "SECRET", "SECRET_FILE", "REQUIRE_SECRET", "HOST", "SOCKETS", "SOCKET_IFNAME",
             "STORE", "STORE_PORT", "RANK", "RANK_COUNT", "JOB", "LISTEN_DESCRIPTOR", "BOOK",
             "NETWORK", "FLIGHT_FOLDER", "FLIGHT_SIGNAL", "LOG")

    def told(self, words, codes, **variables):
        code, _, error = call(words, **variables)
        self.assertIn(code, codes, error)
        self.assertNotIn("check failed", error)
        self.assertNotRegex(error, r"[\x00-\x09\x0b-\x1f\x7f]")
        self.assertLess(len(error), 2000)
        return error

    def test_no_value_ends_a_command_by_a_signal(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in self.NAMES:
                for kind, value in self.VALUES.items():
                    with self.subTest(f"{name}, {kind}"):
                        self.told([*RUN, "--ranks", "2", "--transport", "inproc"], (0, 1, 2),
                                   folder=folder, **{f"PLEACH_{name}": value})

    def test_what_processes_and_their_starter_read(self):
        for kind, value in self.VALUES.items():
            if not value:
                continue
            for words in (["run", "--ranks", "2"], ["probe", "--ranks", "2"],
                          ["launch", "-n", "2", "--", "sh", "-c", "exit 3"]):
                with self.subTest(f"{kind}, {words[0]}"):
                    error = self.told(words, (1,), PLEACH_TLS=value)
                    self.assertRegex(error, r"^pleach \w+: PLEACH_TLS is '.*', not 1 or 0\n$")
            for name in ("SOCKETS", "HOST"):
                with self.subTest(f"{name}, {kind}"):
                    words = [*RUN, "--ranks", "2", "--transport", "tcp", "--deadline", "5s"]
                    self.told(words, (0, 1), **{f"PLEACH_{name}": value})

    def test_a_joined_job(self):
        """A rank of a job whose variables are wrong."""
        place = {"PLEACH_RANK": "0", "PLEACH_RANK_COUNT": "2", "PLEACH_STORE": "127.0.0.1:1"}
        for name in (*place, "PLEACH_SECRET_FILE", "PLEACH_LISTEN_DESCRIPTOR"):
            for kind, value in self.VALUES.items():
                with self.subTest(f"{name}, {kind}"):
                    self.told([*RUN, "--deadline", "100ms"], (1, 2),
                               **{**place, "PLEACH_TLS": "0", name: value})


class Terminal(OneLine):
    def test_what_comes_from_outside_is_escaped(self):
        with tempfile.TemporaryDirectory() as folder:
            # A C1 control character: terminals may take it for an escape sequence.
            energies = pathlib.Path(folder, "energies.toml")
            energies.write_text("[x]\n\u009b31mred = 1\n")
            self.refused(["simulate", "--model", f"flit,energy={energies}", "--topology", "ring:4",
                          "--algorithm", "ring", "--size", "1KiB"], r"saw '\\xc2\\x9b'$")
            self.refused([*RUN, "--ranks", "2"], r"\\x1b",
                         PLEACH_RANK="0", PLEACH_RANK_COUNT="2", PLEACH_STORE="a\x1b[31mb:1")
            self.refused([*RUN, "--ranks", "2"], r"\\x1b",
                         PLEACH_RANK="0", PLEACH_RANK_COUNT="2", PLEACH_STORE="a\x1b[31mb")
            self.refused(["topology", "ring:4\x1b[31m"], r"\\x1b")
            self.refused(["\x1b[31m"], r"\\x1b")
            self.refused(["list", "--\x1b[31m"], r"\\x1b")
            self.refused(["fred", "\x1b[31m"], r"\\x1b")

    def test_names_in_files_are_escaped_in_tables(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "es\x1b[31mcape.json")
            path.write_text(r'{"model":"evil \u001b[31mred\n","batch":1,"layers":[{"name":'
                            r'"a\u009b1m","ff_us":10,"bp_us":20,"tensors":[1000]}]}')
            for words in (["train", "--workload", str(path), "--topology", "ring:4"],
                          ["train", "--workload", str(path), "--topology", "ring:4", "--explain"]):
                code, output, error = call(words)
                self.assertEqual((code, error), (0, ""))
                self.assertNotRegex(output, r"[\x00-\x09\x0b-\x1f\x7f]")


class Endless(unittest.TestCase):
    def test_a_rate_at_which_nothing_happens(self):
        for rate in ("1e-18", "1e-300", "5e-324", "1e-12"):
            code, output, error = call(["traffic", "--topology", "torus:4x4", "--rate", rate])
            self.assertEqual((code, error), (0, ""), rate)
            self.assertRegex(output, r"accepted +0\.0000 ")
            self.assertIn("no packet arrived in the measured cycles", output)


if __name__ == "__main__":
    unittest.main()
