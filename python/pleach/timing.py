"""How long schedules take, and which of them to take."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pleach import _core
from pleach._arguments import in_one_line
from pleach._core import Book, Schedule, Topology
from pleach._progress import Progress, busy_with, progress_or_default
from pleach._results import BookEntries, BookEntry, Choice, Choices, Comparison, Timing, record_of
from pleach.schedules import Group, synthesize

Size = int | str
Source = str | os.PathLike[str] | Schedule


@contextlib.contextmanager
def sources_of(given: Source | Sequence[Source]) -> Iterator[list[str]]:
    """Names algorithms and schedules for the library: schedules are files for as long as needed."""
    several = [given] if isinstance(given, str | os.PathLike | Schedule) else given
    with tempfile.TemporaryDirectory(prefix="pleach-") as folder:
        names = []
        for number, source in enumerate(several):
            if isinstance(source, Schedule):
                path = str(Path(folder) / f"{number}.pleach")
                source.save(path)
                names.append(path)
            else:
                names.append(os.fspath(source))
        yield names


def _how(
    segments: int | None,
    gate: str,
    flow_control: str,
    landing_places: int,
    reduce_bandwidth: int | str | None,
    fold: bool,
    model: str = "flow",
    admission: str = "together",
    reconfiguration: int | str = 0,
) -> _core.HowSimulated:
    return _core.HowSimulated(
        model=model,
        segments=segments,
        gate=gate,
        flow_control=flow_control,
        admission=admission,
        landing_places=landing_places,
        reduce_bandwidth=reduce_bandwidth,
        fold=fold,
        reconfiguration=reconfiguration,
    )


@in_one_line
def simulate(
    schedule: Schedule | str | os.PathLike[str],
    topology: Topology,
    size: Size,
    *,
    collective: str | None = None,
    group: Group | None = None,
    root: int | None = None,
    model: str = "flow",
    segments: int | None = 1,
    gate: str = "dataflow",
    flow_control: str = "packet",
    landing_places: int = 0,
    reduce_bandwidth: int | str | None = None,
    fold: bool = True,
    cycle: int | str | None = None,
    admission: str = "together",
    reconfiguration: int | str = 0,
) -> Timing:
    """Simulates a schedule.

    Args:
        schedule: It, its file, or an algorithm that writes it, of `collective`, `group` and `root`.
        topology: Where.
        size: Whole buffer of one rank, `64MiB` or bytes.
        collective: As `synthesize` has it, where no schedule is given.
        group: The same.
        root: The same.
        model: A network model: `flow`, `analytic` or `flit,vcs=4,...`.
        segments: Of each chunk, which pipeline; None: the best of 1, 2, 4, ... 64.
        gate: `dataflow`, or steps that open one after another: `in_order`, begun by each rank,
            `lockstep`, by each rank's own time, `oracle`, for all ranks at once.
        flow_control: A header per `packet`, or per `message`.
        landing_places: Of each connection; 0: as many as needed.
        reduce_bandwidth: Of a rank's reductions, `100GB/s` or bytes per second; 0: they take no
            time; None: as the model has it.
        fold: Whether one rank may stand for all where symmetry allows.
        cycle: Length of a clock cycle, `1ns` or picoseconds; None: that of the model, or 1 ns
            where it has no clock.
        admission: What switches that do not carry whatever enters have inside: what they carry
            `together`, one `phase` at a time, or all, as if they were `free`.
        reconfiguration: Time in which such a switch changes its configuration, `100ns` or
            picoseconds; in `flow` alone.

    Returns:
        The time, and the use of every link.

    Raises:
        InvalidArgumentError: It does not fit the topology, or an option is none.
        UnsupportedError: The model cannot do what the options ask for.
    """
    how = _how(
        segments,
        gate,
        flow_control,
        landing_places,
        reduce_bandwidth,
        fold,
        model,
        admission,
        reconfiguration,
    )
    if not isinstance(schedule, Schedule):
        schedule = synthesize(
            topology, schedule, collective=collective, group=group, root=root, size=size
        )
    with busy_with(f"simulating {schedule.transfer_count} transfers by {model}"):
        text, busy_ps, wire_bytes = _core.simulate(schedule, topology, size, how, cycle)
    return _timing_of(text, busy_ps, wire_bytes)


def _timing_of(text: str, busy_ps: Sequence[int], wire_bytes: Sequence[int]) -> Timing:
    return record_of(
        Timing,
        {
            **json.loads(text),
            "link_busy_ps": np.array(busy_ps, np.int64),
            "link_wire_bytes": np.array(wire_bytes, np.int64),
        },
    )


@in_one_line
def compare(
    topologies: Topology | Sequence[Topology],
    algorithms: Source | Sequence[Source],
    sizes: Sequence[Size],
    *,
    collective: str | None = None,
    group: str | None = None,
    root: int | None = None,
    models: Sequence[str] = ("flow",),
    segments: int | None = None,
    gate: str = "dataflow",
    flow_control: str = "packet",
    landing_places: int = 0,
    reduce_bandwidth: int | str | None = None,
    fold: bool = True,
    progress: Progress | None = None,
) -> Comparison:
    """Times algorithms at sizes, on topologies, in network models.

    Args:
        topologies: Where.
        algorithms: Specs, schedules and their files.
        sizes: Whole buffers of one rank.
        collective: Of all; None: all_reduce, or what the schedules do.
        group: Ranks that take part, `0,1,4-7`; None: all.
        root: Of a collective that has one.
        models: Network models.
        segments: Of each chunk; None: in each row the number that is best for it.
        gate: As in `simulate`, like those that follow.
        flow_control: The same.
        landing_places: The same.
        reduce_bandwidth: The same.
        fold: The same.
        progress: Told what is timed next; None: lines on the standard error of a terminal.

    Returns:
        A row for each, and what cannot be, with its reason.

    Raises:
        InvalidArgumentError: Unknown names; or nothing of it is possible.
    """
    with sources_of(algorithms) as sources:
        what = _core.Compared(
            topologies=[topologies] if isinstance(topologies, Topology) else list(topologies),
            sources=sources,
            sizes=list(sizes),
            models=list(models),
            collective=collective,
            group=group,
            root=root,
        )
        how = _how(segments, gate, flow_control, landing_places, reduce_bandwidth, fold)
        return record_of(Comparison, _core.compare(what, how, progress_or_default(progress)))


@in_one_line
def plan(
    topology: Topology,
    sizes: Sequence[Size],
    *,
    algorithm: Source = "auto",
    collective: str | None = None,
    group: str | None = None,
    root: int | None = None,
    model: str = "flow",
    segments: int | None = None,
    gate: str = "dataflow",
    flow_control: str = "packet",
    landing_places: int = 0,
    reduce_bandwidth: int | str | None = None,
    fold: bool = True,
    progress: Progress | None = None,
) -> list[Choice]:
    """Says which algorithm is the fastest at each size, and in how many segments.

    Args:
        topology: Where.
        sizes: Whole buffers of one rank.
        algorithm: `auto`: all that there are; or one, whose segments are planned.
        collective: As in `compare`, like those that follow.
        group: The same.
        root: The same.
        model: A network model.
        segments: None: the best number.
        gate: As in `simulate`, like those that follow.
        flow_control: The same.
        landing_places: The same.
        reduce_bandwidth: The same.
        fold: The same.
        progress: As in `compare`.

    Returns:
        A choice for each size.

    Raises:
        InvalidArgumentError: Unknown names; what is not possible.
    """
    with sources_of(algorithm) as sources:
        what = _core.Compared(
            topologies=[topology],
            sources=sources,
            sizes=list(sizes),
            models=[model],
            collective=collective,
            group=group,
            root=root,
        )
        how = _how(segments, gate, flow_control, landing_places, reduce_bandwidth, fold, model)
        text = _core.plan(what, how, progress_or_default(progress))
    return record_of(Choices, text).choices


@in_one_line
def plan_book(
    topology: Topology,
    *,
    algorithm: str = "auto",
    sizes: Sequence[Size] | None = None,
    model: str = "flow",
    reduce_bandwidth: int | str | None = None,
) -> Book:
    """Plans what ranks run for every collective, at every size.

    Args:
        topology: Where.
        algorithm: `auto`, or one.
        sizes: That are planned, ascending; None: the powers of two from 256 B to 256 MiB.
        model: A network model.
        reduce_bandwidth: As in `simulate`.

    Returns:
        The book; `save` writes a file for PLEACH_BOOK.
    """
    how = _how(None, "dataflow", "packet", 0, reduce_bandwidth, True, model)
    with busy_with("planning a book"):
        return _core.plan_book(
            topology, algorithm=algorithm, sizes=None if sizes is None else list(sizes), how=how
        )


@in_one_line
def load_book(path: str | os.PathLike[str]) -> Book:
    """Reads a book's file, which this version of the library has written."""
    return _core.read_book(os.fspath(path))


@in_one_line
def entries_of(book: Book) -> list[BookEntry]:
    """Lists what a book has, by collective and size."""
    return record_of(BookEntries, book.json()).entries
