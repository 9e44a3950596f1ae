#!/usr/bin/env python3
"""FRED's switch again, from its description alone: what `pleach fred route` answers must agree.

Builds the cells and their wires by the recursion, lets payloads pass them in the modes that the
answer has, and compares what comes out with arithmetic. What does not route is held to a search
over all ways of all flows, with and without each flow of the conflict.
"""
import itertools
import json
import os
import random
import subprocess
import unittest

PLEACH = os.environ["PLEACH"]
SETS = 200
LARGE_SETS = 20


def route(ports, middle, flows):
    text = "; ".join(",".join(map(str, inputs)) + "->" + ",".join(map(str, outputs))
                     for inputs, outputs in flows)
    command = [PLEACH, "fred", "route", "--ports", str(ports), "--middle", str(middle),
               "--flows", text, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(result.stdout)


def cell_count(ports, middle):
    return 1 if ports == 2 else ports // 2 * 2 + middle * cell_count((ports + 1) // 2, middle)


def moves(mode):
    """[(inputs, outputs)] of "0+1>2", "1>0,1", "0>2 1>0", "idle"."""
    if mode == "idle":
        return []
    return [tuple([int(number) for number in side.replace("+", ",").split(",")]
                  for side in word.split(">")) for word in mode.split(" ")]


def act(mode, values, output_count):
    """What a cell does to what is at its inputs; None: nothing is there."""
    out = [None] * output_count
    for inputs, outputs in moves(mode):
        there = [values[number] for number in inputs if values[number] is not None]
        for number in outputs:
            assert out[number] is None, mode
            out[number] = sum(there) if there else None
    return out


def execute(modes, path, values, middle):
    """Lets values pass the (sub)network at `path`; `modes` by (kind, path, index)."""
    ports = len(values)
    if ports == 2:
        return act(modes["RD", path, 0], values, 2)
    pairs = ports // 2
    inside = [[] for _ in range(middle)]
    for index in range(pairs):
        mode = modes["R", path, index]
        assert "," not in mode, f"an R does not copy: {mode}"
        for part, value in zip(inside, act(mode, values[2 * index:2 * index + 2], middle)):
            part.append(value)
    if ports % 2:
        for part, value in zip(inside, act(modes["demux", path, 0], values[-1:], middle)):
            part.append(value)
    inside = [execute(modes, (*path, number), part, middle) for number, part in enumerate(inside)]
    out = []
    for index in range(pairs):
        mode = modes["D", path, index]
        assert "+" not in mode, f"a D does not add: {mode}"
        out += act(mode, [part[index] for part in inside], 2)
    if ports % 2:
        out += act(modes["mux", path, 0], [part[pairs] for part in inside], 1)
    return out


def routes(ports, middle, flows):
    """Every split of the flows over the subnetworks in which no cell's wire has two."""
    if ports == 2 or len(flows) < 2:
        return True
    places = [(frozenset(port // 2 for port in inputs), frozenset(port // 2 for port in outputs))
              for inputs, outputs in flows]
    rest = range(1, len(flows))
    for split in itertools.product(range(middle), repeat=len(flows) - 1):
        of = (0, *split)
        if any(of[one] == of[other] and (places[one][0] & places[other][0]
                                         or places[one][1] & places[other][1])
               for one in rest for other in range(one)):
            continue
        if all(routes((ports + 1) // 2, middle,
                      [places[flow] for flow in range(len(flows)) if of[flow] == number])
               for number in range(middle)):
            return True
    return False


def random_flows(ports, generator):
    """Flows of sides that have nothing to do with each other; some ports are idle."""
    count = generator.randint(1, ports)
    def side():
        chosen = generator.sample(range(ports), generator.randint(count, ports))
        parts = [[port] for port in chosen[:count]]
        for port in chosen[count:]:
            generator.choice(parts).append(port)
        return parts
    inputs = side()
    return list(zip(inputs, inputs if generator.random() < 0.4 else side()))


class FredAgreement(unittest.TestCase):
    def check_routed(self, ports, middle, flows, answer):
        self.assertEqual(len(answer["configuration"]), cell_count(ports, middle))
        modes = {(cell["kind"], tuple(cell["subnetwork"]), cell["index"]): cell["mode"]
                 for cell in answer["configuration"] + answer["multiplexers"]}
        self.assertEqual(len(modes), len(answer["configuration"]) + len(answer["multiplexers"]))
        values, expected = [None] * ports, [None] * ports
        for number, (inputs, outputs) in enumerate(flows):
            for port in inputs:
                values[port] = (number + 1) * 1000003 + 17 ** port
            for port in outputs:
                expected[port] = sum(values[port] for port in inputs)
        self.assertEqual(execute(modes, (), values, middle), expected)

    def check(self, ports, middle, flows, *, exhaustive):
        with self.subTest(ports=ports, middle=middle, flows=flows):
            answer = route(ports, middle, flows)
            self.assertEqual(answer["microswitch_count"], cell_count(ports, middle))
            self.assertEqual(answer["stages"], 2 * (ports - 1).bit_length() - 1)
            self.assertTrue(answer["proved"])
            if answer["routed"]:
                self.assertEqual(answer["conflict"], [])
                self.check_routed(ports, middle, flows, answer)
            else:
                self.assertEqual(answer["configuration"], [])
                self.assertTrue(answer["conflict"])
            for conflict in answer["conflict"] if exhaustive else []:
                chosen = [flows[number] for number in conflict["flows"]]
                self.assertFalse(routes(ports, middle, chosen))
                for left_out in range(len(chosen)):
                    rest = chosen[:left_out] + chosen[left_out + 1:]
                    self.assertTrue(routes(ports, middle, rest), left_out)
            return answer["routed"]

    def test_small_switches(self):
        generator = random.Random(1)
        refused = 0
        for _ in range(SETS):
            ports = generator.choice([2, 3, 4, 5, 6, 6, 7, 7, 8, 8, 9])
            middle = generator.choice([2, 2, 2, 3, 4, 5])
            flows = random_flows(ports, generator)
            refused += not self.check(ports, middle, flows, exhaustive=True)
        self.assertGreater(refused, 5)

    def test_large_switches(self):
        generator = random.Random(2)
        for _ in range(LARGE_SETS):
            ports, middle = generator.randint(10, 40), generator.choice([2, 3, 4])
            self.check(ports, middle, random_flows(ports, generator), exhaustive=False)

    def test_nothing(self):
        for ports in range(2, 6):
            self.assertTrue(self.check(ports, 2, [], exhaustive=True))


if __name__ == "__main__":
    unittest.main()
