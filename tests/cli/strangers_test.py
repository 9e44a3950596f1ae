#!/usr/bin/env python3
"""Foreign connections to the ranks of a job, before, while and after they join: none gets past the
hello, and the job ends right.

With PLEACH_LONG: more than 5,000 of them for each of three jobs of 16 ranks, one of which has three
sockets a pair, and one encrypts.
"""
import os
import pathlib
import random
import re
import secrets
import select
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

PLEACH = os.environ["PLEACH"]
IS_LONG = bool(os.environ.get("PLEACH_LONG"))
RANKS, STRANGERS = (16, 8000) if IS_LONG else (4, 400)
JOBS = [{}, {"PLEACH_SOCKETS": "3"}, {"PLEACH_TLS": "1", "PLEACH_SOCKETS": "2"}]
LIMIT_S = 240
CLAIM_BYTES, PROOF_BYTES = 64, 32
SEED = int(os.environ.get("PLEACH_SEED", "1"))


def claim(random_source, purpose, rank, acceptor):
    """What a rank says first, well formed."""
    return (b"PLEACH2\n" + struct.pack("<QIiii", random_source.getrandbits(64), purpose, rank,
                                       acceptor, RANKS) + random_source.randbytes(PROOF_BYTES))


def listening_ports(processes):
    """The ports that those processes listen on, from /proc."""
    inodes = set()
    for process in processes:
        try:
            for link in pathlib.Path(f"/proc/{process}/fd").iterdir():
                found = re.match(r"socket:\[(\d+)\]", os.readlink(link))
                if found:
                    inodes.add(found[1])
        except OSError:
            pass
    ports = set()
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            ports.add(int(fields[1].split(":")[1], 16))
    return sorted(ports)


class Flood:
    """Comes to every port of a job again and again, in a thread of its own."""

    def __init__(self, store_port, recorded):
        self.random = random.Random(SEED)
        self.store_port = store_port
        self.recorded = recorded  # what ranks of other jobs said
        self.processes = []
        self.open = []
        self.count = 0
        self.refused = 0
        self.broken_in = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def words(self):
        kind = self.random.randrange(5)
        if kind == 0:
            return b""
        if kind == 1:
            return self.random.randbytes(self.random.randrange(1, 300))
        if kind == 2:  # half a hello
            return claim(self.random, 1, 1, 0)[:self.random.randrange(1, CLAIM_BYTES)]
        if kind == 3 and self.recorded:
            return self.random.choice(self.recorded)
        # A whole one, and what is no proof.
        return (claim(self.random, self.random.randrange(1, 3), self.random.randrange(-1, RANKS),
                      0) + self.random.randbytes(PROOF_BYTES))

    def come(self, port):
        stranger = socket.socket()
        stranger.settimeout(0.5)
        try:
            stranger.connect(("127.0.0.1", port))
            stranger.setblocking(False)
            words = self.words()
            if words:
                stranger.send(words)
        except OSError:
            self.refused += 1
            stranger.close()
            return
        self.count += 1
        self.open.append(stranger)

    def look(self):
        """Reads what strangers were told: at most a nonce and a proof, never a welcome."""
        kept = []
        for stranger in self.open:
            try:
                heard = stranger.recv(4096)
                self.broken_in += len(heard) > CLAIM_BYTES
                if heard and self.random.randrange(2):
                    stranger.send(self.random.randbytes(1))  # the next byte trickles in
            except BlockingIOError:
                kept.append(stranger)
                continue
            except OSError:
                heard = b""
            if heard:
                kept.append(stranger)
            else:
                stranger.close()
        self.open = kept
        while len(self.open) > 800:
            self.open.pop(0).close()

    def run(self):
        while not self.is_over.is_set():
            ports = [self.store_port, *listening_ports(self.processes)]
            for _ in range(50):
                self.come(self.random.choice(ports))
            self.look()
            time.sleep(0.001 if self.count < STRANGERS else 0.05)

    def wait_for(self, count):
        end = time.monotonic() + LIMIT_S
        while self.count < count and time.monotonic() < end:
            time.sleep(0.01)

    def end(self):
        self.is_over.set()
        self.thread.join()
        self.look()
        for stranger in self.open:
            stranger.close()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def record_hellos(port, how_many):
    """Listens where a job's ranks look for their store, and keeps what they say."""
    hellos = []
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        end = time.monotonic() + 20
        while len(hellos) < how_many and time.monotonic() < end:
            if select.select([listener], [], [], 0.1)[0]:
                with listener.accept()[0] as rank:
                    rank.settimeout(2)
                    hellos.append(rank.recv(CLAIM_BYTES) + bytes(PROOF_BYTES))
    return hellos


class Strangers(unittest.TestCase):
    def start(self, rank, port, secret, job):
        variables = {"PLEACH_RANK": str(rank), "PLEACH_RANK_COUNT": str(RANKS),
                     "PLEACH_STORE": f"127.0.0.1:{port}", "PLEACH_SECRET": secret, **job}
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith("PLEACH_")}
        process = subprocess.Popen(
            [PLEACH, "run", "--algorithm", "ring", "--sizes", "1KiB:64KiB:8", "--transport",
             "tcp", "--iterations", "20", "--deadline", "60s"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**kept, **variables})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process

    def test_strangers_change_nothing(self):
        port = free_port()
        ranks = [self.start(rank, port, secrets.token_hex(32), {}) for rank in range(1, 3)]
        recorded = record_hellos(port, 4)
        for rank in ranks:
            rank.kill()
        self.assertTrue(recorded)
        for job in JOBS:
            with self.subTest(f"job {job}, PLEACH_SEED={SEED}"):
                self.flood(recorded, job)

    def flood(self, recorded, job):
        port, secret = free_port(), secrets.token_hex(32)
        flood = Flood(port, recorded)
        ranks = [self.start(0, port, secret, job)]
        flood.processes = [rank.pid for rank in ranks]
        flood.thread.start()
        try:
            for rank in range(1, RANKS):
                # Most come before the last rank does, between any two of them; the rest to a job
                # that runs.
                flood.wait_for(rank * STRANGERS * 2 // (3 * (RANKS - 1)))
                ranks.append(self.start(rank, port, secret, job))
                flood.processes = [one.pid for one in ranks]
            outputs = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
        finally:
            flood.end()
        self.assertEqual([rank.returncode for rank in ranks], [0] * RANKS, outputs)
        self.assertIn("# Out of bounds values : 0 OK", outputs[0][0])
        self.assertEqual(flood.broken_in, 0)
        print(f"{flood.count} strangers came, {flood.refused} found no door", file=sys.stderr)
        self.assertGreater(flood.count, STRANGERS * 2 // 3)


if __name__ == "__main__":
    sys.exit(unittest.main())
