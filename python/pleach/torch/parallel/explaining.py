"""Tells where communication was exposed, and what each bucket waited for."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pleach.policy import LoggedCollective

PICOSECONDS_PER_SECOND = 1e12
# Shorter waits are the interpreter's.
NOTHING_S = 50e-6


@dataclasses.dataclass(frozen=True)
class Bucket:
    """One collective of the plan, medians over the iterations that the log has.

    Attributes:
        kind: all_reduce, reduce_scatter, ...
        first, last: Parameters that it begins and ends with.
        size_bytes: Of the whole.
        ready_s, started_s, finished_s: From the start of the forward whose gradients it carries.
        exposed_s: Of its time on the wire, how long computation stood still.
        waited_for: `gradients` (or the update, for what is distributed: it went when it was there),
            `policy` (its turn in the plan came later) or `channel` (others were on the wire).
    """

    kind: str
    first: str
    last: str
    size_bytes: int
    ready_s: float
    started_s: float
    finished_s: float
    exposed_s: float
    waited_for: str


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What a plan's collectives did, on this rank.

    Attributes:
        policy: That it is a plan of.
        iterations: That were looked at.
        buckets: In the plan's order.
    """

    policy: str
    iterations: int
    buckets: tuple[Bucket, ...]

    @property
    def exposed_s(self) -> float:
        """Of all buckets; those that are on the wire at once both count."""
        return sum(bucket.exposed_s for bucket in self.buckets)

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            (
                "bucket",
                "parameters",
                "size",
                "ready",
                "started",
                "finished",
                "exposed",
                "waited for",
            )
        ]
        for one in self.buckets:
            names = one.first if one.first == one.last else f"{one.first} .. {one.last}"
            times = [one.ready_s, one.started_s, one.finished_s, one.exposed_s]
            rows.append(
                (
                    one.kind,
                    names,
                    _size(one.size_bytes),
                    *(f"{each * 1e3:.3f} ms" for each in times),
                    one.waited_for,
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  "
            + "  ".join(
                cell.rjust(width) if 2 <= column <= 6 else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        head = f"{self.policy}, medians of {self.iterations} iterations, from the start of forward:"
        return "\n".join([head, *lines])


def _size(size_bytes: int) -> str:
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.4g} {name}"
    return f"{size_bytes} B"


@dataclasses.dataclass(frozen=True)
class Described:
    """A collective of a plan, in words and bytes."""

    kind: str
    first: str
    last: str
    size_bytes: int

    @property
    def reduces(self) -> bool:
        """Whether it reduces gradients."""
        return self.kind in ("all_reduce", "reduce_scatter", "reduce")

    def __str__(self) -> str:
        return f"{self.kind} of {self.first} to {self.last} ({self.size_bytes} bytes)"


def explain_log(
    policy: str,
    described: Sequence[Described],
    log: Sequence[LoggedCollective],
    starts_ps: Mapping[int, int],
) -> Explanation:
    """Sums up a replay's log.

    Args:
        policy: The plan's.
        described: Its collectives.
        log: Of iterations whose starts are known, finished or not.
        starts_ps: When the forwards of iterations began.
    """
    found: list[list[LoggedCollective]] = [[] for _ in described]
    for one in log:
        if one.finished_ps >= 0 and one.iteration in starts_ps:
            found[one.index].append(one)
    buckets = []
    for what, lives in zip(described, found, strict=True):
        if not lives:
            continue

        def median_s(of: Any, lives: list[LoggedCollective] = lives) -> float:
            return float(statistics.median(of(one) for one in lives)) / PICOSECONDS_PER_SECOND

        held_s = median_s(lambda one: one.issued_ps - one.ready_ps)
        queued_s = median_s(lambda one: one.started_ps - one.issued_ps)
        waited = "gradients" if what.reduces else "update"
        if max(held_s, queued_s) > NOTHING_S:
            waited = "policy" if held_s > queued_s else "channel"
        buckets.append(
            Bucket(
                what.kind,
                what.first,
                what.last,
                what.size_bytes,
                median_s(lambda one: one.ready_ps - starts_ps[one.iteration]),
                median_s(lambda one: one.started_ps - starts_ps[one.iteration]),
                median_s(lambda one: one.finished_ps - starts_ps[one.iteration]),
                median_s(lambda one: one.exposed_ps),
                waited,
            )
        )
    iterations = len({one.iteration for lives in found for one in lives})
    return Explanation(policy, iterations, tuple(buckets))


@dataclasses.dataclass(frozen=True)
class Span:
    """Something that took time on a rank, in a line of a trace. Times since 1970."""

    line: str
    name: str
    begin_ns: int
    end_ns: int
    details: Mapping[str, Any]


def save_spans(
    path: str | pathlib.Path,
    spans: Sequence[Span],
    rank: int,
    beside: str | pathlib.Path | None = None,
) -> None:
    """Writes spans as a trace that Perfetto opens.

    Args:
        path: The file.
        spans: Any order.
        rank: Whose.
        beside: A trace of torch.profiler of the same time, whose events are written too.
    """
    given: dict[str, Any] = json.loads(pathlib.Path(beside).read_text()) if beside else {}
    base_ns = int(given.get("baseTimeNanoseconds", 0))
    events = list(given.get("traceEvents", []))
    process = f"pleach rank {rank}"
    lines = {line: index for index, line in enumerate(sorted({one.line for one in spans}))}
    events.append({"ph": "M", "name": "process_name", "pid": process, "args": {"name": process}})
    for line, index in lines.items():
        events.append(
            {"ph": "M", "name": "thread_name", "pid": process, "tid": index, "args": {"name": line}}
        )
    for one in spans:
        events.append(
            {
                "ph": "X",
                "cat": "pleach",
                "name": one.name,
                "pid": process,
                "tid": lines[one.line],
                "ts": (one.begin_ns - base_ns) / 1e3,
                "dur": (one.end_ns - one.begin_ns) / 1e3,
                "args": dict(one.details),
            }
        )
    pathlib.Path(path).write_text(json.dumps({**given, "traceEvents": events}))


@dataclasses.dataclass(frozen=True)
class History:
    """What has happened. Times in ps, of the engine's clock.

    Attributes:
        log: The lives of collectives.
        starts_ps: By iteration, when its forward began.
        stalls: Layers that forward has waited for, from when to when.
    """

    log: list[LoggedCollective]
    starts_ps: dict[int, int]
    stalls: list[tuple[int, int, int]]


def spans_of(
    history: History,
    described: Sequence[Described],
    names: Sequence[Sequence[str]],
    unix_ns: Callable[[int], int],
) -> list[Span]:
    """What happened in the last iterations, for a trace.

    Args:
        history: Of the present plan.
        described: By index in the plan: collectives in words.
        names: By layer: its parameters.
        unix_ns: Turns a time of the history [ps] into one since 1970.
    """
    spans = [
        Span(
            "collectives" if described[one.index].reduces else "collectives, distributing",
            str(described[one.index]),
            unix_ns(one.started_ps),
            unix_ns(one.finished_ps),
            {
                "iteration": one.iteration,
                "bytes": described[one.index].size_bytes,
                "waited_us": (one.started_ps - one.ready_ps) / 1e6,
                "exposed_us": one.exposed_ps / 1e6,
            },
        )
        for one in history.log
        if one.finished_ps >= 0
    ]
    return spans + [
        Span(
            "forward waits",
            f"for {names[layer][0]}",
            unix_ns(begin_ps),
            unix_ns(end_ps),
            {"layer": layer, "parameters": list(names[layer])},
        )
        for layer, begin_ps, end_ps in history.stalls
    ]
