"""How long a group's collectives take, measured: `pleach train --costs measured:FILE` reads it."""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from pleach.policy import MeasuredCosts

from .exchange import Exchange
from .group_calls import Call, GroupCalls, Stretch
from .groups import watched_parent

LEAST_BYTES = 1 << 12
FACTOR = 4
REPEATS = 4
# A train has so many collectives, of so many bytes together.
LEAST_TRAIN, MOST_TRAIN = 2, 64
TRAIN_BYTES = 256 << 10
# A size that takes longer is the last one; larger ones follow its slope.
LONGEST_S = 0.5


@dataclasses.dataclass(frozen=True)
class Costs:
    """Times of collectives of one group.

    Attributes:
        rank_count: Of the group.
        points: Collective, bytes of one rank's whole buffer, seconds.
    """

    rank_count: int
    points: tuple[tuple[str, int, float], ...]

    def model(self) -> MeasuredCosts:
        """What policies are told; reduce and broadcast, unless measured, as all_reduce's halves."""
        kinds = {kind for kind, _, _ in self.points}
        halves = {"reduce_scatter": "reduce", "all_gather": "broadcast"}
        others = [
            (halves[kind], size_bytes, seconds)
            for kind, size_bytes, seconds in self.points
            if kind in halves and halves[kind] not in kinds
        ]
        return MeasuredCosts(self.rank_count, [*self.points, *others])

    def scaled(self, ratio: float, more_s: float = 0.0) -> Costs:
        """The same, so many times as long, and so much longer [s]."""
        return Costs(
            self.rank_count,
            tuple((kind, size, time * ratio + more_s) for kind, size, time in self.points),
        )

    @staticmethod
    def load(path: str | pathlib.Path) -> Costs:
        """Reads what `save` has written.

        Raises:
            ValueError: Another format or version, or something is missing.
        """
        given = json.loads(pathlib.Path(path).read_text(encoding="utf-8-sig"))
        found = given.get("format"), given.get("version")
        if found != ("pleach-costs", 1):
            raise ValueError(
                f"{path}: format {found[0]!r}, version {found[1]!r}: measured costs are "
                "'pleach-costs', version 1"
            )
        try:
            points = tuple(
                (one["collective"], one["size_bytes"], one["time_s"]) for one in given["points"]
            )
            return Costs(given["rank_count"], points)
        except KeyError as error:
            raise ValueError(f"{path}: {error} is missing") from error

    def to_json(self) -> str:
        """As a file of measured costs has it (docs/formats.md)."""
        points = [
            {"collective": kind, "size_bytes": size, "time_s": seconds}
            for kind, size, seconds in self.points
        ]
        return json.dumps(
            {
                "format": "pleach-costs",
                "version": 1,
                "rank_count": self.rank_count,
                "points": points,
            }
        )

    def save(self, path: str | pathlib.Path) -> None:
        """Writes that to a file."""
        pathlib.Path(path).write_text(self.to_json() + "\n")


def measure_costs(
    process_group: dist.ProcessGroup | None = None,
    *,
    device: torch.device | str = "cpu",
    most_bytes: int = 64 << 20,
) -> Costs:
    """Times a group's collectives, for `plan`, `data_parallel` and `pleach train`. Collective.

    Args:
        process_group: The group, with nothing under way in it; None: the default one.
        device: Of the tensors.
        most_bytes: The largest size, 8 KiB at least; smaller where one takes over half a second.

    Raises:
        ValueError: There is no process group.
    """
    group = process_group if process_group is not None else dist.group.WORLD
    if group is None:
        raise ValueError("measure_costs: call torch.distributed.init_process_group first")
    place = torch.device(device)
    with watched_parent(group, place) as exchange:
        return time_collectives(GroupCalls(group, place), exchange, place, most_bytes)


def time_collectives(
    calls: GroupCalls,
    exchange: Exchange,
    device: torch.device,
    most_bytes: int,
    kinds: Sequence[str] = ("all_reduce", "reduce_scatter", "all_gather"),
) -> Costs:
    """Times collectives of float32 of all sizes up to a model's, the slowest rank's. Collective.

    Args:
        calls: Of a group that nothing else is under way in.
        exchange: Of the same ranks, for what they tell each other.
        device: Of the tensors.
        most_bytes: The largest size, 8 KiB at least; measured unless smaller ones take long.
        kinds: Of all_reduce, reduce_scatter, all_gather, reduce and broadcast.
    """
    points = []
    for kind in kinds:
        most_bytes = max(most_bytes, 2 * LEAST_BYTES)  # a line wants two points
        size = LEAST_BYTES
        while True:
            elements = max(1, size // (4 * calls.size)) * calls.size
            # Two on the wire at once, as in training, each with memory of its own.
            pair = [_call_of(kind, calls, elements, device) for _ in range(2)]
            seconds = _time(pair, size, exchange, device)
            points.append((kind, 4 * elements, seconds))
            if size >= most_bytes or seconds > LONGEST_S:
                break
            size = min(size * FACTOR, most_bytes)
    return Costs(calls.size, tuple(points))


def _call_of(kind: str, calls: GroupCalls, elements: int, device: torch.device) -> Call:
    whole = torch.zeros(elements, device=device)
    shares = (elements // calls.size,) * calls.size
    if kind in ("reduce", "broadcast"):
        shares = (elements,) + (0,) * (calls.size - 1)
    stretch = Stretch(whole, (shares,))
    make: dict[str, Callable[[Stretch], list[Call]]] = {
        "all_reduce": calls.all_reduce,
        "reduce_scatter": calls.reduce,
        "reduce": calls.reduce,
        "all_gather": calls.distribute,
        "broadcast": calls.distribute,
    }
    (call,) = make[kind](stretch)
    return call


def _time(pair: Sequence[Call], size: int, exchange: Exchange, device: torch.device) -> float:
    """Seconds that a collective adds to a train of them, as in training; the slowest rank's.

    One by itself would be told too short and too long: links that have been idle let a burst
    through at once, and who waits for the end of each pays for starts that are hidden in training.
    So one train goes before, which leaves no burst, and the next one is timed. The least of several
    counts. What else a machine does makes collectives longer, never shorter: where half of the
    repeats are disturbed a median is of the disturbance, and plans made by it hold back what could
    travel.
    """
    length = min(max(LEAST_TRAIN, TRAIN_BYTES // size), MOST_TRAIN)
    own = []
    for _ in range(REPEATS):
        exchange.all_reduce(torch.zeros(1), is_maximum=True)  # all are here
        _travel(pair, length, device)
        begin = time.perf_counter()
        _travel(pair, length, device)
        own.append((time.perf_counter() - begin) / length)
    least = torch.tensor([min(own)], dtype=torch.float64)
    return float(exchange.all_reduce(least, is_maximum=True))


def _travel(pair: Sequence[Call], length: int, device: torch.device) -> None:
    """Runs so many collectives, as many at once as are given, each of them only once at a time."""
    flying: collections.deque[Any] = collections.deque()
    for index in range(length):
        if len(flying) == len(pair):
            flying.popleft().wait()
        flying.append(pair[index % len(pair)]())
    for work in flying:
        work.wait()
    if device.type != "cpu":
        torch.get_device_module(device).synchronize(device)
