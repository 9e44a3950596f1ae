#!/usr/bin/env python3
"""Emulated clusters: what a star's links carry, what runs on it, and that nothing of it stays.

What makes namespaces is skipped, with the reason, where they may not be made.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from testbed import namespaces, star  # noqa: E402

STAR = [sys.executable, str(ROOT / "testbed/star.py")]
WHY_NOT = namespaces.why_not()
NAME = f"test{os.getpid()}"


def call(*words):
    """The exit code, output and errors of star.py with those words."""
    ended = subprocess.run([*STAR, *words], capture_output=True, text=True, timeout=60,
                           check=False)
    return ended.returncode, ended.stdout, ended.stderr


def standing(text):
    return [network.name for network in namespaces.networks() if text in network.name]


class Texts(unittest.TestCase):
    def test_rates(self):
        for text, bits in (("200Mbit", 2e8), ("1.5gbit", 1.5e9), ("100000bit", 1e5),
                           (" 300kbit/s ", 3e5)):
            self.assertEqual(namespaces.bits_per_s(text), bits, text)
        for text in ("", "fast", "200", "-1Mbit", "0Mbit", "1MB", "1.Mbit", "99kbit", "nanMbit"):
            with self.assertRaisesRegex(ValueError, f"'{text}' is no rate"):
                namespaces.bits_per_s(text)

    def test_usage_errors_are_one_line(self):
        for words, message in (
                (["up", "0", "--rate", "1Mbit"], "0 is no number of hosts from 1 to 250"),
                (["up", "2", "--rate", "1MB"], "'1MB' is no rate"),
                (["down", "--name", "../x"], "'../x' is no name for a star")):
            code, _, errors = call(*words)
            if WHY_NOT and words[0] == "up":
                self.assertEqual(code, 77)
                continue
            self.assertEqual(code, 2, errors)
            self.assertRegex(errors, f"^star: {message}")
            self.assertEqual(errors.count("\n"), 1)

    def test_a_star_that_is_not_there_is_named(self):
        code, _, errors = call("exec", "0", "--name", "nowhere", "--", "true")
        self.assertEqual(code, 1)
        self.assertRegex(errors, "^star: there is no star 'nowhere'; there are: ")
        self.assertEqual(call("down", "--name", "nowhere")[0], 0)

    def test_without_rights_the_reason_is_said(self):
        if os.getuid():
            self.skipTest("only root can give its rights away")
        ended = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", *STAR, "up", "2",
                                "--rate", "1Mbit"], capture_output=True, text=True, timeout=60,
                               check=False)
        self.assertEqual(ended.returncode, 77, ended.stderr)
        self.assertRegex(ended.stderr, "^star: not possible here: ip netns add .*[Pp]ermi")


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Stars(unittest.TestCase):
    def test_links_carry_their_rate_both_ways(self):
        best = {}
        with star.Star(3, "100Mbit") as made:
            for _ in range(6):  # other work on the machine makes links slower, never faster
                for link, rate in star.measure(made, 1.0).items():
                    self.assertLess(rate, 100e6, link)
                    best[link] = max(rate, best.get(link, 0))
                if min(best.values()) >= 90e6:
                    break
        self.assertEqual(list(best), ["0-1", "1-2", "2-0"])
        for link, rate in best.items():
            self.assertGreaterEqual(rate, 90e6, link)
        self.assertEqual(standing(made.network.name), [])

    def test_two_stand_beside_each_other(self):
        with star.Star(2, "100Mbit") as first, star.Star(2, "100Mbit") as second:
            for made in (first, second):
                ends = made.run(["sh", "-c", "echo $RANK of $WORLD_SIZE at $MASTER_ADDR"], 20)
                self.assertEqual([(ended.code, ended.output) for ended in ends],
                                 [(0, f"{rank} of 2 at 10.88.0.1\n") for rank in range(2)])
        self.assertEqual(standing(f"owned.{os.getpid()}."), [])

    def test_the_first_failure_ends_all(self):
        begin = time.monotonic()
        with star.Star(3, "100Mbit") as made:
            ends = made.run(["sh", "-c", "test $RANK = 1 && exit 7; sleep 100; true"], 60)
        self.assertEqual([ended.code for ended in ends], [-9, 7, -9])
        self.assertLess(time.monotonic() - begin, 20)

    def test_those_that_do_not_end_are_named(self):
        with star.Star(2, "100Mbit") as made:
            with self.assertRaisesRegex(TimeoutError, r"ranks \[1\] have not ended after 1 s; "
                                                      "rank 1 said: am here"):
                made.run(["sh", "-c", "test $RANK = 0 || { echo am here >&2; sleep 100; }"], 1)
            self.assertEqual(namespaces.processes(made.network), [])

    def test_the_next_star_removes_what_a_killed_program_left(self):
        program = ("import sys; sys.path.insert(0, sys.argv[1]); from testbed import star\n"
                   "with star.Star(2, '100Mbit') as made:\n"
                   "    made.start(1, ['sleep', '1000'])\n"
                   "    print(made.network.name, flush=True)\n"
                   "    sys.stdin.read()\n")
        with subprocess.Popen([sys.executable, "-c", program, str(ROOT)], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as maker:
            name = maker.stdout.readline().strip()
            self.assertEqual(standing(name), [name])
            self.assertEqual(namespaces.remove_leftovers(), [])  # it lives
            maker.send_signal(signal.SIGKILL)
        self.assertEqual(standing(name), [name])
        with star.Star(1, "100Mbit"):
            self.assertEqual(standing(name), [])

    def test_the_command_line(self):
        self.addCleanup(call, "down", "--name", NAME)
        self.assertEqual(call("up", "2", "--rate", "100Mbit", "--name", NAME)[:2],
                         (0, f"star '{NAME}': 2 hosts, 10.88.0.1 to 10.88.0.2, 100Mbit both "
                             "ways\n"))
        code, _, errors = call("up", "2", "--rate", "100Mbit", "--name", NAME)
        self.assertEqual(code, 1)
        self.assertRegex(errors, f"^star: star '{NAME}' exists")
        code, output, _ = call("run", "--name", NAME, "--", "sh", "-c", "echo rank $RANK")
        self.assertEqual((code, sorted(output.split("\n"))), (0, ["", "[0] rank 0", "[1] rank 1"]))
        code, _, errors = call("run", "--name", NAME, "--", "sh", "-c", "exit $((RANK * 3))")
        self.assertEqual((code, errors), (1, "star: rank 1 ended with 3\n"))
        self.assertEqual(call("exec", "1", "--name", NAME, "--", "printenv", "RANK")[1], "1\n")
        self.assertEqual(call("exec", "2", "--name", NAME, "--", "true")[0::2],
                         (2, "star: rank 2 is not below 2\n"))
        rows = json.loads(call("measure", "--name", NAME, "--json")[1])["rows"]
        self.assertEqual([row["link"] for row in rows], ["0-1", "1-0"])

    def test_down_ends_what_runs_and_takes_what_is_left(self):
        self.assertEqual(call("up", "2", "--rate", "100Mbit", "--name", NAME)[0], 0)
        with subprocess.Popen([*STAR, "exec", "1", "--name", NAME, "--", "sh", "-c",
                               "trap '' TERM; echo on; sleep 1000 & wait; sleep 1000"], text=True,
                              stdout=subprocess.PIPE) as stubborn:
            self.assertEqual(stubborn.stdout.readline(), "on\n")
            namespaces.ip("netns", "del", f"pleach-star-{NAME}-hub")  # as one killed half-way
            self.assertRegex(call("exec", "1", "--name", NAME, "--", "true")[2], "is not whole")
            self.assertEqual(call("down", "--name", NAME)[0], 0)
            self.assertEqual(stubborn.wait(timeout=10), -9)
        self.assertEqual(standing(NAME), [])


if __name__ == "__main__":
    unittest.main()
