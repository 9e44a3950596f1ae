#!/usr/bin/env python3
"""What `pleach simulate --model flow` says is what an independent simulator says."""
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

from event_simulator import Link, Options, Simulation, Topology

PLEACH = os.environ["PLEACH"]
SEED = 20260701
CASES = 300
ALGORITHMS = ["ring", "bidirectional_ring", "direct", "multitree", "recursive_doubling",
              "halving_doubling"]


def draw_topology(rng):
    """Ranks that forward, a cycle of links and some more; bandwidths and latencies vary or not."""
    ranks = rng.randint(2, 5)
    is_even = rng.random() < 0.5
    bandwidths = [10**9] if is_even else [10**9, 1_234_567_890, 3 * 10**9, 7 * 10**8]
    latencies_ps = [rng.choice([0, 150_000])] if is_even else [0, 1_000, 150_000, 777_777]
    pairs = [(rank, (rank + 1) % ranks) for rank in range(ranks)]
    pairs += [(target, source) for source, target in pairs]
    for _ in range(rng.randint(0, 4)):
        pairs.append(tuple(rng.sample(range(ranks), 2)))
    links = [Link(*pair, rng.choice(bandwidths), rng.choice(latencies_ps)) for pair in pairs]
    overheads_ps = [rng.choice([0, 0, 50_000]) for _ in range(ranks)]
    header = rng.choice([0, 0, 16])
    return Topology(overheads_ps, [True] * ranks, links, header, rng.choice([64, 256]))


def toml_of(topology):
    lines = ["[framing]", f"header = {topology.header}", f"packet = {topology.packet}"]
    for rank, overhead_ps in enumerate(topology.overheads_ps):
        lines += ["[[node]]", f'name = "n{rank}"', "forwards = true",
                  f'overhead = "{overhead_ps}ps"']
    for link in topology.links:
        lines += ["[[link]]", f'source = "n{link.source}"', f'target = "n{link.target}"',
                  f'bandwidth = "{link.bandwidth}B/s"', f'latency = "{link.latency_ps}ps"']
    return "\n".join(lines) + "\n"


def draw_trees(rng, ranks):
    """An all_reduce: every chunk to a random rank over a random tree, and back over another."""
    chunks = rng.randint(1, 4)
    transfers = []

    def move(chunk, count, source, target, op, step):
        transfers.append({"step": step, "first_chunk": chunk, "chunk_count": count,
                          "source": source, "target": target, "op": op})

    chunk = 0
    while chunk < chunks:
        count = rng.randint(1, chunks - chunk)
        order = rng.sample(range(ranks), ranks)
        ready = [0] * ranks
        for place in range(ranks - 1, 0, -1):
            parent = rng.randrange(place)
            step = ready[place] + rng.randrange(2)
            move(chunk, count, order[place], order[parent], "reduce", step)
            ready[parent] = max(ready[parent], step + 1)
        down = [ready[0]] * ranks
        for place in range(1, ranks):
            parent = rng.randrange(place)
            step = down[parent] + rng.randrange(2)
            move(chunk, count, order[parent], order[place], "copy", step)
            down[place] = step + 1
        chunk += count
    steps = 1 + max(transfer["step"] for transfer in transfers)
    schedule = {"format": "pleach_schedule", "version": 1, "collective": "all_reduce",
                "participants": list(range(ranks)), "period": rng.randint(1, steps),
                "phase_steps": [steps], "transfers": transfers}
    if rng.random() < 0.5:
        schedule["chunk_weights"] = [rng.randint(1, 5) for _ in range(chunks)]
    else:
        schedule["chunk_count"] = chunks
    return schedule


def draw_options(rng):
    return Options(segments=rng.randint(1, 3), lockstep=rng.random() < 0.3,
                   by_message=rng.random() < 0.3, landing_places=rng.choice([0, 0, 1, 2]),
                   reduce_bandwidth=rng.choice([0, 0, 2 * 10**9, 5 * 10**8]))


def arguments_of(options):
    words = ["--segments", str(options.segments), "--landing-places", str(options.landing_places)]
    words += ["--gate", "lockstep"] if options.lockstep else []
    words += ["--flow-control", "message"] if options.by_message else []
    if options.reduce_bandwidth:
        words += ["--reduce-bandwidth", f"{options.reduce_bandwidth}B/s"]
    return words


def pleach(*words):
    done = subprocess.run([PLEACH, *map(str, words)], capture_output=True, text=True, timeout=60,
                          check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


class FlowAgreement(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def draw_schedule(self, rng, topology, spec):
        """A file: random trees, or what an algorithm writes on the topology."""
        path = self.folder / "schedule.json"
        if rng.random() < 0.5:
            algorithm = rng.choice(ALGORITHMS)
            if pleach("synthesize", "--topology", spec, "--algorithm", algorithm, "-o", path,
                      "--json"):
                return path
        path.write_text(json.dumps(draw_trees(rng, len(topology.forwards))))
        return path

    def test_times_and_bytes_are_those_of_the_independent_simulator(self):
        different, times = [], set()
        for case in range(CASES):
            rng = random.Random(SEED * 1000 + case)
            topology, options = draw_topology(rng), draw_options(rng)
            spec = self.folder / "topology.toml"
            spec.write_text(toml_of(topology))
            path = self.draw_schedule(rng, topology, spec)
            size = rng.choice([rng.randint(1, 40), rng.randint(100, 9_999), 65_536])
            expected = Simulation(topology, json.loads(path.read_text()), size, options)
            time_ps = expected.run()
            times.add(time_ps)
            found = pleach("simulate", path, "--topology", spec, "--size", size, "--json",
                           *arguments_of(options))
            self.assertIsNotNone(found, f"case {case}")
            if (found["time_ps"], found["bytes_on_wire"]) != (time_ps, expected.wire_bytes):
                different.append((case, found["time_ps"] - time_ps, time_ps, options))
        self.assertEqual(different, [], f"case, difference [ps], time [ps]: {different}")
        self.assertGreater(len(times), CASES * 3 // 4)


if __name__ == "__main__":
    unittest.main()
