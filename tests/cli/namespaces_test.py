#!/usr/bin/env python3
"""`pleach run` over two network namespaces that a cable joins: two hosts, as far as ranks see.

Needs the rights to make namespaces, and says so where there are none.
"""
import json
import os
import pathlib
import re
import subprocess
import time
import unittest

PLEACH = os.environ["PLEACH"]
START_S = 60
PORT = 29517


def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


class TwoHosts:
    """Namespaces with an interface `card` each, 10.97.0.1 and 10.97.0.2."""

    def __init__(self):
        self.names = [f"pleach-{os.getpid()}-{side}" for side in (0, 1)]
        try:
            for name in self.names:
                ip("netns", "add", name)
            ip("link", "add", "card", "netns", self.names[0], "type", "veth", "peer", "name",
               "card", "netns", self.names[1])
            for side, name in enumerate(self.names):
                ip("-n", name, "address", "add", f"10.97.0.{side + 1}/24", "dev", "card")
                ip("-n", name, "link", "set", "card", "up")
                ip("-n", name, "link", "set", "lo", "up")
            end = time.monotonic() + START_S
            while not all("state UP" in ip("-n", name, "link", "show", "card")
                          for name in self.names) and time.monotonic() < end:
                time.sleep(0.02)
        except (OSError, subprocess.CalledProcessError) as error:
            self.end()
            raise unittest.SkipTest(f"no network namespaces: {error}") from error

    def end(self):
        for name in self.names:
            if pathlib.Path(f"/run/netns/{name}").exists():
                ip("netns", "delete", name)


def clean_environment(**variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLEACH_")}
    return {**kept, **variables}


class Namespaces(unittest.TestCase):
    def setUp(self):
        self.hosts = TwoHosts()
        self.addCleanup(self.hosts.end)

    def run_ranks(self, places, *options, interface="card"):
        """Rank r runs in namespace places[r]; the exit codes, outputs and errors of all."""
        ranks = []
        for rank, place in enumerate(places):
            environment = clean_environment(
                PLEACH_RANK=str(rank), PLEACH_RANK_COUNT=str(len(places)), PLEACH_JOB="test",
                PLEACH_STORE=f"10.97.0.{places[0] + 1}:{PORT}", PLEACH_SECRET="s" * 32,
                PLEACH_SOCKET_IFNAME=interface)
            ranks.append(subprocess.Popen(
                ["ip", "netns", "exec", self.hosts.names[place], PLEACH, "run", *options],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment))
            self.addCleanup(ranks[-1].kill)
        ends = []
        for rank in ranks:
            output, error = rank.communicate(timeout=START_S)
            ends.append((rank.returncode, output, error))
        return ends

    def test_the_transport_is_what_joins_the_ranks(self):
        for places, transport in (([0, 0, 1, 1], "host"), ([1, 0, 1], "host"), ([0, 1], "tcp"),
                                  ([1, 1], "shm")):
            with self.subTest(places=places):
                ends = self.run_ranks(places, "--sizes", "4KiB,1MiB", "--iterations", "3",
                                      "--json")
                self.assertEqual([end[0] for end in ends], [0] * len(places), ends)
                report = json.loads(ends[0][1])
                self.assertEqual(report["transport"], transport)
                self.assertEqual(report["wrong_count"], 0)

    def test_every_transport_that_spans_hosts_does(self):
        names = subprocess.run([PLEACH, "list", "transports"], check=True, capture_output=True,
                               text=True).stdout
        for transport in ("tcp", "host", "ucx") if "\n  ucx " in names else ("tcp", "host"):
            ends = self.run_ranks([0, 1, 1, 0], "--transport", transport, "--algorithm", "ring",
                                  "--sizes", "100KiB", "--iterations", "3")
            self.assertEqual([end[0] for end in ends], [0] * 4, ends)
            self.assertIn("# Out of bounds values : 0 OK", ends[0][1])

    def test_shm_says_that_it_does_not(self):
        ends = self.run_ranks([0, 1], "--transport", "shm", "--algorithm", "ring", "--sizes",
                              "1KiB", "--deadline", "5s")
        for code, _, error in ends:
            self.assertEqual(code, 1, error)
            self.assertRegex(error, r"transport shm: rank \d is on another host")

    def test_an_interface_that_is_not_there_is_named(self):
        ends = self.run_ranks([0], "--algorithm", "ring", interface="=nocard")
        self.assertEqual(ends[0][0], 1)
        self.assertTrue(re.search("nocard.*card", ends[0][2]), ends[0][2])


if __name__ == "__main__":
    unittest.main()
