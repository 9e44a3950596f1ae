"""Topologies and schedules: described, synthesised, read, written, proved and timed."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pleach

PLEACH = os.environ.get("PLEACH", "pleach")


def command(*words: str, status: int = 0) -> str:
    """Runs the command line; returns what it prints."""
    run = subprocess.run([PLEACH, *words], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == status, run.stderr
    return run.stdout if status == 0 else run.stderr


def test_topology_is_what_the_command_line_says() -> None:
    for spec in ("torus:4x4", "ring:8,latency=1us", "mesh:3x5,without_link=5-6", "switch:4"):
        topology = pleach.topology(spec)
        told = json.loads(command("topology", spec, "--json"))
        summary = pleach.describe(topology)
        assert topology.name == told["name"]
        assert summary.rank_count == topology.rank_count == told["rank_count"]
        assert summary.link_count == len(topology.links) == told["link_count"]
        assert summary.diameter == told["diameter"]
        assert summary.bounds["all_reduce"].witness == told["bounds"]["all_reduce"]["witness"]


def test_topology_built_in_python() -> None:
    builder = pleach.TopologyBuilder("line")
    nodes = [builder.add_node(name, forwards=True) for name in ("a", "b", "c")]
    for first, second in itertools.pairwise(nodes):
        builder.add_cable(first, second, bandwidth="1GB/s", latency="1us")
    line = builder.build()
    assert [node.name for node in line.nodes] == ["a", "b", "c"]
    assert line.links[0].bandwidth_bytes_per_s == 10**9
    assert line.links[0].latency_ps == 10**6
    assert line.link_name(0) == "a->b"
    assert line.group("0,2") == [0, 2]
    assert pleach.describe(line).diameter == 2
    schedule = pleach.synthesize(line, "ring", collective="all_gather")
    assert pleach.verify(schedule, line).correct
    with pytest.raises(pleach.InvalidArgumentError, match="has been built"):
        builder.add_node("d")


def test_switches_take_time_and_links_have_lanes() -> None:
    builder = pleach.TopologyBuilder("box")
    hub = builder.add_node("hub", kind="switch", latency="30ns")
    ranks = [builder.add_node(name) for name in ("a", "b")]
    for node in ranks:
        builder.add_cable(node, hub, bandwidth="1GB/s", latency="100ns", lanes=2)
    with pytest.raises(pleach.InvalidArgumentError, match="0 lanes"):
        builder.add_link(ranks[0], hub, bandwidth="1GB/s", lanes=0)
    box = builder.build()
    assert box.nodes[hub].latency_ps == 30_000
    assert {link.lanes for link in box.links} == {2}
    schedule = pleach.synthesize(box, "direct", collective="broadcast")
    assert pleach.verify(schedule, box).correct
    assert pleach.simulate(schedule, box, 1_000).time_ps == 1_000_000 + 230_000


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ("torus:4y4", "4y4"),
        ("torsu:4x4", "torus"),
        ("ring:4,bandwidth=fast", "fast"),
        ("nowhere/at_all.toml", "nowhere/at_all.toml"),
    ],
)
def test_bad_topologies_name_the_value(spec: str, what: str) -> None:
    with pytest.raises(pleach.Error, match=what) as raised:
        pleach.topology(spec)
    assert "\n" not in str(raised.value)


class Nameless:
    """Nobody can say what it is."""

    def __repr__(self) -> str:
        raise RuntimeError


def test_types_that_do_not_fit_are_named_in_one_line() -> None:
    ring = pleach.topology("ring:4")
    calls: tuple[tuple[Callable[..., Any], dict[str, Any], str], ...] = (
        (pleach.topology, {"spec": 5}, "topology: .*spec=5"),
        (pleach.synthesize, {"topology": ring, "root": 1.5}, "synthesize: .*root=1.5"),
        (pleach.synthesize, {"topology": None}, "synthesize: .*topology=None"),
        (pleach.simulate, {"schedule": "ring", "topology": ring, "size": [1]}, r"size=\[1\]"),
        (pleach.plan_book, {"topology": ring, "sizes": 7}, "plan_book: .*sizes=7"),
        (pleach.compare, {"topologies": [None], "algorithms": "ring", "sizes": [8]}, "None"),
        (pleach.describe, {"of": Nameless()}, "of=<Nameless instance|of=a Nameless"),
    )
    for call, given, what in calls:
        with pytest.raises(pleach.InvalidArgumentError, match=what) as raised:
            call(**given)
        assert "\n" not in str(raised.value)


def test_roots_are_ranks_or_io_nodes() -> None:
    wafer = pleach.topology("wafer_mesh:2x2")
    for group, ranks in ((None, 4), ([3, 0], 2)):
        schedule = pleach.synthesize(
            wafer, "io_tree", collective="broadcast", group=group, root="left0"
        )
        assert schedule.rank_count == ranks + 1
        assert pleach.verify(schedule, wafer).correct
    with pytest.raises(pleach.InvalidArgumentError, match="unknown rank or I/O node 'left9'"):
        pleach.synthesize(wafer, "io_tree", collective="broadcast", root="left9")
    with pytest.raises(pleach.InvalidArgumentError, match="rank '-1'"):
        pleach.synthesize(wafer, "ring", group=[-1])


def test_exceptions_are_of_pythons_kinds() -> None:
    with pytest.raises(ValueError, match="ring"):
        pleach.synthesize(pleach.topology("ring:4"), "rnig")
    with pytest.raises(OSError, match="none\\.json"):
        pleach.load("/none.json")


def test_schedules_survive_files(tmp_path: Path) -> None:
    torus = pleach.topology("torus:4x4")
    for algorithm in ("ring", "multitree", "ring,form=explicit"):
        schedule = pleach.synthesize(torus, algorithm)
        for name in ("a.json", "a.pleach"):
            schedule.save(str(tmp_path / name))
            again = pleach.load(tmp_path / name)
            assert again == schedule
            assert hash(again) == hash(schedule)
            assert pleach.verify(again, torus).correct
    assert schedule != "a string"


def neighbour_exchange(topology: pleach.Topology) -> pleach.Schedule:
    """An all_reduce of a ring of ranks by passing everything on, written in Python."""
    builder = pleach.ScheduleBuilder(topology, "all_reduce", chunk_count=topology.rank_count)
    ranks = builder.rank_count
    for step in range(ranks - 1):
        for rank in range(ranks):
            chunk = (rank - step) % ranks
            builder.send(rank, (rank + 1) % ranks, chunk=chunk, step=step, op="reduce")
            chunk = (rank + 1 - step) % ranks
            builder.send(rank, (rank + 1) % ranks, chunk=chunk, step=ranks - 1 + step)
    return builder.finish("passing", phase_steps=[ranks - 1, ranks - 1])


def test_schedule_written_in_python_is_everybodys(tmp_path: Path) -> None:
    ring = pleach.topology("ring:5")
    schedule = neighbour_exchange(ring)
    proof = pleach.verify(schedule, ring)
    assert proof.correct
    assert proof.contention_free
    assert proof.bitwise_replicated
    assert schedule.algorithm == "passing"
    assert (schedule.step_count, schedule.transfer_count) == (8, 40)
    assert pleach.summarize(schedule, ring).certificate.fraction == 0.5
    path = str(tmp_path / "passing.json")
    schedule.save(path)
    assert "yes: all_reduce on 5 ranks" in command("verify", path, "--topology", "ring:5")
    told = json.loads(command("simulate", path, "--topology", "ring:5", "--size", "1MiB", "--json"))
    timing = pleach.simulate(schedule, ring, "1MiB")
    assert timing.time_ps == told["time_ps"]
    assert timing.time_ps == pleach.simulate("ring", ring, 1 << 20).time_ps
    printed = command("run", path, "--ranks", "5", "--sizes", "64KiB", "-n", "2", "--warmup", "0")
    assert "Out of bounds values : 0 OK" in printed
    chosen = pleach.compare(ring, [schedule, "ring"], ["1MiB"], segments=1)
    assert [row.time_ps for row in chosen.rows] == [timing.time_ps, timing.time_ps]


def test_schedules_in_sequence() -> None:
    ring = pleach.topology("ring:4")
    halves = [
        pleach.synthesize(ring, "ring,form=explicit", collective=kind)
        for kind in ("reduce_scatter", "all_gather")
    ]
    whole = pleach.sequence(halves[0], halves[1], "all_reduce")
    assert whole.step_count == sum(half.step_count for half in halves)
    assert pleach.verify(whole, ring).correct
    other = pleach.synthesize(pleach.topology("ring:5"), "ring", collective="all_gather")
    with pytest.raises(pleach.InvalidArgumentError):
        pleach.sequence(halves[0], other, "all_reduce")


def test_wrong_schedules_are_refused_with_the_first_violation(tmp_path: Path) -> None:
    ring = pleach.topology("ring:3")
    builder = pleach.ScheduleBuilder(ring, "broadcast", root=1)
    builder.send(1, 2)
    with pytest.raises(pleach.VerificationError, match="rank 0"):
        builder.finish("half")
    half = builder.finish("half", prove=False)
    proof = pleach.verify(half)
    assert not proof.correct
    assert proof.contention_free is None
    half.save(str(tmp_path / "half.json"))
    assert "rank 0" in command("verify", str(tmp_path / "half.json"), status=3)
    builder.send(1, 0)
    assert pleach.verify(builder.finish("whole"), ring).correct
    for words, what in (
        ({"source": 3, "target": 0}, "rank 3"),
        ({"source": 0, "target": -1}, "rank -1"),
        ({"source": 0, "target": 1, "op": "add"}, "add"),
    ):
        with pytest.raises(pleach.InvalidArgumentError, match=what):
            builder.send(**words)
    with pytest.raises(pleach.InvalidArgumentError, match="chunk_count"):
        pleach.ScheduleBuilder(ring, chunk_count=0)
    with pytest.raises(pleach.InvalidArgumentError, match="chunk_weights"):
        pleach.ScheduleBuilder(ring, chunk_weights=[1, 0])


def test_what_is_not_proved_or_of_another_topology_is_refused() -> None:
    ring, torus = pleach.topology("ring:3"), pleach.topology("torus:4x4")
    builder = pleach.ScheduleBuilder(ring, "broadcast")
    builder.send(0, 1)
    half = builder.finish("half", prove=False)
    schedule = pleach.synthesize(torus, "multitree")
    for call in (
        lambda: pleach.simulate(half, ring, 1),
        lambda: pleach.summarize(half, ring),
        lambda: half.expanded(ring),
        lambda: pleach.simulate(schedule, ring, 1),
        lambda: pleach.summarize(schedule, ring),
        lambda: schedule.expanded(ring),
    ):
        with pytest.raises(pleach.InvalidArgumentError):
            call()


def test_random_transfers_are_refused_or_simulated() -> None:
    chance = random.Random(11)
    ring = pleach.topology("ring:3")
    proved = 0
    for trial in range(600):
        junk = trial % 3 == 0
        builder = pleach.ScheduleBuilder(ring, "broadcast", chunk_count=2)
        for _ in range(chance.randrange(2, 5)):
            builder.send(
                chance.randrange(3),
                chance.randrange(3),
                chunk=chance.choice([-1, 0, 1, 2]) if junk else 0,
                chunk_count=chance.choice([-1, 0, 1, 2**31 - 1]) if junk else 2,
                step=chance.choice([-5, 0, 2, 2**31 - 1]) if junk else chance.randrange(3),
                op=chance.choice(["copy", "copy", "copy", "reduce"]),
                route=chance.choice([None, [0], [99], []]) if junk else None,
            )
        schedule = builder.finish("random", prove=False)
        if pleach.verify(schedule, ring).correct:
            proved += 1
            assert pleach.simulate(schedule, ring, 1000).time_ps > 0
        else:
            with pytest.raises(pleach.VerificationError):
                pleach.simulate(schedule, ring, 1000)
            with pytest.raises(pleach.VerificationError):
                builder.finish("random")
    assert proved > 0


def test_timing_has_every_link() -> None:
    torus = pleach.topology("torus:4x4")
    timing = pleach.simulate("multitree", torus, "64MiB", segments=None)
    assert timing.link_wire_bytes.shape == (torus.link_count,)
    assert timing.link_wire_bytes.dtype == np.int64
    assert int(timing.link_wire_bytes.sum()) == timing.bytes_on_wire
    assert int(timing.link_busy_ps.max()) <= timing.time_ps
    assert timing.time_s == timing.time_ps / 1e12
    for words in (
        {"gate": "open"},
        {"flow_control": "none"},
        {"admission": "some"},
        {"model": "guess"},
        {"cycle": 0},
    ):
        with pytest.raises(pleach.InvalidArgumentError):
            pleach.simulate("ring", torus, 1, **words)
    with pytest.raises(pleach.InvalidArgumentError, match="many"):
        pleach.simulate("ring", torus, "many")


def test_switches_admit_as_they_are_told() -> None:
    wafer = pleach.topology("fred:D")
    times = {
        rule: pleach.simulate("in_switch", wafer, "1MiB", admission=rule).time_ps
        for rule in ("together", "phase", "free")
    }
    assert len(set(times.values())) == 1  # one stream is in nobody's way


def test_reductions_and_cycles_are_the_models_unless_they_are_given() -> None:
    ring = pleach.topology("ring:4,bandwidth=16GB/s")
    for gate in ("dataflow", "in_order"):
        times = {
            (model, bandwidth): pleach.simulate(
                "ring", ring, "64KiB", model=model, gate=gate, reduce_bandwidth=bandwidth
            ).time_ps
            for model in ("flow", "flit")
            for bandwidth in (None, 0, "1GB/s")
        }
        assert times["flow", None] == times["flow", 0] < times["flow", "1GB/s"]
        assert times["flit", 0] < times["flit", None] < times["flit", "1GB/s"]
    rows = pleach.compare(ring, "ring", ["64KiB"], models=["flit"], segments=1).rows
    assert rows[0].time_ps == pleach.simulate("ring", ring, "64KiB", model="flit").time_ps
    with pytest.raises(pleach.InvalidArgumentError, match="the clock of flit is"):
        pleach.simulate("ring", ring, "64KiB", model="flit", cycle="1ns")


def test_plans_and_books_agree_with_the_command_line(tmp_path: Path) -> None:
    topology = pleach.topology("torus:2x2,overhead=1us")
    told: list[str] = []
    choices = pleach.plan(topology, ["1KiB", "1MiB"], progress=told.append)
    assert told
    printed = command(
        "plan", "--topology", "torus:2x2,overhead=1us", "--sizes", "1KiB,1MiB", "--json"
    )
    expected = json.loads(printed)["choices"]
    assert [choice.algorithm for choice in choices] == [row["algorithm"] for row in expected]
    assert [choice.time_ps for choice in choices] == [row["time_ps"] for row in expected]
    book = pleach.plan_book(topology, sizes=["1KiB", "1MiB"])
    path = str(tmp_path / "a.book")
    book.save(path)
    assert pleach.entries_of(pleach.load_book(path)) == pleach.entries_of(book)
    assert "all_reduce" in command("plan", path)


def test_what_progress_raises_comes_out() -> None:
    def stop(what: str) -> None:
        raise KeyError(what)

    with pytest.raises(KeyError):
        pleach.compare(pleach.topology("ring:4"), ["ring", "direct"], [1024], progress=stop)


def test_registries() -> None:
    names = [entry.name for entry in pleach.registry("algorithms")]
    assert "multitree" in names
    with pytest.raises(pleach.InvalidArgumentError, match="policies"):
        pleach.registry("polices")
