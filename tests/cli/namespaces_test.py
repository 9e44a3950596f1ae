#!/usr/bin/env python3
"""`pleach run` over two network namespaces that a cable joins: two hosts, as far as ranks see.

Needs the rights to make namespaces, and says so where there are none.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from testbed import namespaces  # noqa: E402
from testbed.namespaces import Network  # noqa: E402

PLEACH = os.environ["PLEACH"]
START_S = 60
PORT = 29517


class TwoHosts:
    """Hosts with an interface `card` each, 10.97.0.1 and 10.97.0.2."""

    def __init__(self):
        self.network = Network(namespaces.owned_name("hosts"), ["0", "1"])
        try:
            self.network.make()
            self.network.cable("0", "card", "1", "card")
            for side in (0, 1):
                namespaces.ip("-n", self.network.namespace(str(side)), "address", "add",
                              f"10.97.0.{side + 1}/24", "dev", "card")
            self.network.wait_until_up([("0", "card"), ("1", "card")])
        except namespaces.Unavailable as error:
            self.network.remove()
            raise unittest.SkipTest(f"no network namespaces: {error}") from error


def clean_environment(**variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLEACH_")}
    return {**kept, **variables}


class Namespaces(unittest.TestCase):
    def setUp(self):
        self.hosts = TwoHosts()
        self.addCleanup(self.hosts.network.remove)

    def run_ranks(self, places, *options, interface="card"):
        """Rank r runs in namespace places[r]; the exit codes, outputs and errors of all."""
        ranks = []
        for rank, place in enumerate(places):
            environment = clean_environment(
                PLEACH_RANK=str(rank), PLEACH_RANK_COUNT=str(len(places)), PLEACH_JOB="test",
                PLEACH_STORE=f"10.97.0.{places[0] + 1}:{PORT}", PLEACH_SECRET="s" * 32,
                PLEACH_SOCKET_IFNAME=interface)
            ranks.append(subprocess.Popen(
                self.hosts.network.command(str(place), [PLEACH, "run", *options]),
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
