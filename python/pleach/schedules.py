"""Topologies and schedules: described, synthesised, read, written and proved."""

from __future__ import annotations

import os

from pleach import _core
from pleach._arguments import in_one_line
from pleach._core import Schedule, Topology
from pleach._progress import busy_with
from pleach._results import RegistryEntry, ScheduleSummary, TopologySummary, Verification, record_of

Group = str | list[int]


@in_one_line
def topology(spec: str | os.PathLike[str]) -> Topology:
    """Makes a topology.

    Args:
        spec: `torus:4x4,bandwidth=16GB/s,without_link=5-6`, or the path of a TOML file.

    Returns:
        The topology.

    Raises:
        InvalidArgumentError: The spec, or the file, is malformed.
        FileError: The file cannot be read.
    """
    return _core.parse_topology(os.fspath(spec))


@in_one_line
def describe(of: Topology) -> TopologySummary:
    """Describes a topology: its narrowest cut, and the bounds on what is possible on it."""
    return record_of(TopologySummary, of.summary_json())


def nodes_of(group: Group | None, on: Topology) -> list[int] | None:
    """Returns the nodes of a group of ranks, `0,1,4-7` or a list of ranks; None: all."""
    if group is None:
        return None
    return on.group(group if isinstance(group, str) else ",".join(map(str, group)))


@in_one_line
def synthesize(
    topology: Topology,
    algorithm: str | os.PathLike[str] = "auto",
    *,
    collective: str | None = None,
    group: Group | None = None,
    root: int | str | None = None,
    size: int | str = 0,
) -> Schedule:
    """Obtains a schedule, proved, with all its routes.

    Args:
        topology: Where.
        algorithm: `multitree,step_rule=published`; a schedule's file; or `auto`, which chooses by
            the size.
        collective: `all_reduce`, ...; None: an all_reduce, or what the file does.
        group: Ranks that take part, in this order, `0,1,4-7` or a list; None: all.
        root: Of a collective that has one, counted within the group; of a broadcast or a reduce
            also an I/O node, by name; None: 0, or the file's.
        size: Whole buffer of one rank, `64MiB` or bytes.

    Returns:
        The schedule.

    Raises:
        InvalidArgumentError: Unknown names, options and ranks; a file that is not correct.
        InfeasibleError: The topology does not allow it.
    """
    nodes = nodes_of(group, topology)
    source = os.fspath(algorithm)
    with busy_with(f"obtaining a schedule: {source}"):
        return _core.obtain_schedule(
            topology, source, collective=collective, group=nodes, root=root, size=size
        )


@in_one_line
def load(path: str | os.PathLike[str]) -> Schedule:
    """Reads a schedule's file, of any format. It is well-formed in its ranges, and not proved."""
    return _core.read_schedule(os.fspath(path))


@in_one_line
def sequence(first: Schedule, second: Schedule, collective: str) -> Schedule:
    """Joins two schedules of the same ranks: a reduce_scatter and an all_gather to an all_reduce.

    Args:
        first: Well-formed, as the second.
        second: Its steps come after those of the first.
        collective: What they do together.

    Returns:
        Both on the common refinement of their chunks.

    Raises:
        InvalidArgumentError: They do not fit: other participants, an all_to_all beside another.
    """
    return _core.sequence(first, second, collective)


@in_one_line
def summarize(schedule: Schedule, topology: Topology) -> ScheduleSummary:
    """Describes a well-formed schedule of a topology."""
    return record_of(ScheduleSummary, _core.schedule_json(schedule, topology))


@in_one_line
def verify(schedule: Schedule, topology: Topology | None = None) -> Verification:
    """Proves that every interleaving of a schedule gives the collective's result.

    Args:
        schedule: What is proved.
        topology: Then routes, switches and contention are checked too.

    Returns:
        The proof, or the violations. Nothing is raised for them.
    """
    with busy_with(f"proving {schedule.transfer_count} transfers"):
        return record_of(Verification, _core.verification_json(schedule, topology))


@in_one_line
def registry(name: str) -> list[RegistryEntry]:
    """Lists `topologies`, `algorithms`, `policies`, `workloads`, `transports`, `models`, ...

    Raises:
        InvalidArgumentError: There is no such registry; the message lists those that there are.
    """
    return [
        RegistryEntry(entry_name, summary, source, details)
        for entry_name, summary, source, details in _core.registry(name)
    ]
