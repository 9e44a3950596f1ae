#!/usr/bin/env python3
"""No bound is below what a linear program attains, and those said to be exact are attained.

A program's variables are what every link carries of every flow, for a buffer of one. Where all
nodes take part, its optimum is that of schedules: broadcasts and all_gathers pack trees (Edmonds
1973), an all_reduce is a packing of in-trees and out-trees with the same roots, a scatter and,
backwards, a gather is a flow, an all_to_all is a multicommodity flow. Needs Debian's python3-scipy
(HiGHS).
"""
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import numpy
from scipy.optimize import linprog

PLEACH = os.environ["PLEACH"]
SEED = 20260702
GRAPHS = 200
GB = 10**9


class Program:
    """Maximises the variable 0, over variables ≥ 0."""

    def __init__(self):
        self.count = 1
        self.equal, self.at_most = [], []  # rows: coefficients by variable, right side

    def variables(self, count):
        first, self.count = self.count, self.count + count
        return range(first, self.count)

    def solve(self):
        def matrix(rows):
            if not rows:
                return None, None
            dense = numpy.zeros((len(rows), self.count))
            for row, (coefficients, _) in zip(dense, rows):
                for variable, value in coefficients:
                    row[variable] += value
            return dense, [right for _, right in rows]

        objective = numpy.zeros(self.count)
        objective[0] = -1
        equal, equal_to = matrix(self.equal)
        at_most, most = matrix(self.at_most)
        found = linprog(objective, A_ub=at_most, b_ub=most, A_eq=equal, b_eq=equal_to,
                        method="highs")
        assert found.status == 0, found.message
        return -found.fun

    def flow(self, graph, supply):
        """A flow over the links; `supply` maps nodes to what leaves them more than enters."""
        on = self.variables(len(graph.links))
        for node in range(graph.nodes):
            row = [(on[number], 1) for number, link in enumerate(graph.links) if link[0] == node]
            row += [(on[number], -1) for number, link in enumerate(graph.links) if link[1] == node]
            row += [(variable, -value) for variable, value in supply.get(node, ())]
            self.equal.append((row, 0))
        return on


class Graph:
    """Ranks 0 to n−1, relays after them; links (source, target, bandwidth in GB/s)."""

    def __init__(self, ranks, relays, links):
        self.ranks, self.nodes, self.links = ranks, ranks + relays, links

    def reversed(self):
        return Graph(self.ranks, self.nodes - self.ranks,
                     [(target, source, width) for source, target, width in self.links])

    def toml(self):
        lines = []
        for node in range(self.nodes):
            kind = "forwards = true" if node < self.ranks else 'kind = "switch"'
            lines += ["[[node]]", f'name = "n{node}"', kind]
        for source, target, width in self.links:
            lines += ["[[link]]", f'source = "n{source}"', f'target = "n{target}"',
                      f'bandwidth = "{width * GB}B/s"']
        return "\n".join(lines) + "\n"


def draw_graph(rng):
    ranks = rng.randint(2, 5)
    relays = rng.choice([0, 0, 1])
    nodes = ranks + relays
    order = rng.sample(range(nodes), nodes)
    pairs = list(zip(order, order[1:] + order[:1]))  # a cycle, so that all are connected
    pairs += [tuple(rng.sample(range(nodes), 2)) for _ in range(rng.randint(0, 8))]
    if rng.random() < 0.4:
        pairs += [(target, source) for source, target in pairs]
        return Graph(ranks, relays, [(*pair, 1) for pair in pairs])
    return Graph(ranks, relays, [(*pair, rng.randint(1, 9)) for pair in pairs])


def gather(graph, roots):
    """From each root as much as its weight says, to every rank; links are shared by copies."""
    program = Program()
    for target in range(graph.ranks):
        supply = {root: [(0, 1)] for root in roots if root != target}
        supply[target] = [(0, -1)] * len(supply)
        for number, on in enumerate(program.flow(graph, supply)):
            program.at_most.append(([(on, 1)], graph.links[number][2]))
    return program.solve()


def exchange(graph):
    program = Program()
    flows = []
    for source in range(graph.ranks):
        supply = {target: [(0, -1)] for target in range(graph.ranks) if target != source}
        supply[source] = [(0, 1)] * (graph.ranks - 1)
        flows.append(program.flow(graph, supply))
    for number, link in enumerate(graph.links):
        program.at_most.append(([(flow[number], 1) for flow in flows], link[2]))
    return graph.ranks * program.solve()


def scatter(graph):
    program = Program()
    supply = {target: [(0, -1)] for target in range(1, graph.ranks)}
    supply[0] = [(0, 1)] * (graph.ranks - 1)
    for number, on in enumerate(program.flow(graph, supply)):
        program.at_most.append(([(on, 1)], graph.links[number][2]))
    return graph.ranks * program.solve()


def reduce_everywhere(graph):
    """In-trees and out-trees of the same roots, `weights` of each, share the links."""
    program = Program()
    weights = program.variables(graph.ranks)
    program.equal.append(([(0, 1)] + [(weight, -1) for weight in weights], 0))
    loads = {}
    for way in (graph, graph.reversed()):
        loads[way] = program.variables(len(graph.links))
        for target in range(graph.ranks):
            supply = {root: [(weights[root], 1)] for root in range(graph.ranks) if root != target}
            supply[target] = [(weights[root], -1) for root in range(graph.ranks) if root != target]
            for number, on in enumerate(program.flow(way, supply)):
                program.at_most.append(([(on, 1), (loads[way][number], -1)], 0))
    for number, link in enumerate(graph.links):
        program.at_most.append(([(load[number], 1) for load in loads.values()], link[2]))
    return program.solve()


def attainable(graph):
    everyone = range(graph.ranks)
    found = {"broadcast": gather(graph, [0]), "reduce": gather(graph.reversed(), [0]),
             "all_gather": graph.ranks * gather(graph, everyone),
             "reduce_scatter": graph.ranks * gather(graph.reversed(), everyone),
             "all_to_all": exchange(graph),
             "scatter": scatter(graph), "gather": scatter(graph.reversed())}
    if graph.nodes == graph.ranks:  # relays can do less than flows say
        found["all_reduce"] = reduce_everywhere(graph)
    return found


class BoundsAgainstLinearPrograms(unittest.TestCase):
    def bounds(self, graph):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "graph.toml"
            path.write_text(graph.toml())
            done = subprocess.run([PLEACH, "topology", path, "--json"], capture_output=True,
                                  text=True, timeout=60, check=True)
        return json.loads(done.stdout)["bounds"]

    def test_no_bound_is_below_and_exact_ones_are_attained(self):
        exact, tight, checked = 0, 0, 0
        for case in range(GRAPHS):
            graph = draw_graph(random.Random(SEED * 1000 + case))
            bounds = self.bounds(graph)
            for collective, optimum in attainable(graph).items():
                with self.subTest(case=case, collective=collective, links=graph.links):
                    bound = bounds[collective]["algbw_bytes_per_s"] / GB
                    self.assertGreater(bound, optimum * (1 - 1e-6))
                    if bounds[collective]["exact"]:
                        self.assertLess(bound, optimum * (1 + 1e-6))
                    exact += bounds[collective]["exact"]
                    tight += bound < optimum * (1 + 1e-6)
                    checked += 1
        self.assertGreater(checked, 7 * GRAPHS)
        self.assertGreater(exact, checked // 2)
        self.assertGreater(tight, exact)


if __name__ == "__main__":
    unittest.main()
