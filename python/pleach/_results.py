"""What calls return: plain records, made of the JSON that the command line prints too."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_Record = TypeVar("_Record")


def record_of(kind: type[_Record], content: str | dict[str, Any]) -> _Record:
    """Makes a record of a JSON object; keys that it has no field for are left out.

    Args:
        kind: A dataclass whose fields are named as the keys.
        content: The object, or its text.

    Returns:
        The record; fields that are dataclasses, or lists or dicts of such, are made alike.
    """
    values = json.loads(content) if isinstance(content, str) else content
    hints = typing.get_type_hints(kind)
    given = {
        item.name: _value_of(hints[item.name], values[item.name])
        for item in dataclasses.fields(kind)  # type: ignore[arg-type]
        if item.name in values
    }
    return kind(**given)


def _value_of(hint: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return record_of(hint, value)
    arguments = typing.get_args(hint)
    if isinstance(value, list) and arguments:
        return [_value_of(arguments[0], one) for one in value]
    if isinstance(value, dict) and len(arguments) == 2:
        return {key: _value_of(arguments[1], one) for key, one in value.items()}
    if isinstance(value, int) and hint is float:
        return float(value)
    if typing.get_origin(hint) in (types.UnionType, typing.Union) and value is not None:
        return _value_of(arguments[0], value)
    return value


@dataclass(frozen=True)
class Bound:
    """The best that any schedule can do, and why not more."""

    algbw_bytes_per_s: float
    exact: bool
    witness: str


@dataclass(frozen=True)
class TopologySummary:
    """A topology, described: `bounds` by collective, over all ranks, with root 0."""

    name: str
    rank_count: int
    node_count: int
    link_count: int
    bisection_bytes_per_s: int
    bisection_exact: bool
    diameter: int
    bounds: dict[str, Bound]


@dataclass(frozen=True)
class Certificate:
    """How good a schedule is for large sizes; 0: unknown."""

    bound_algbw_bytes_per_s: float
    algbw_bytes_per_s: float
    fraction: float
    exact: bool
    witness: str
    alpha_s: float
    beta_s_per_byte: float


@dataclass(frozen=True)
class ScheduleSummary:
    """A schedule on its topology, described."""

    algorithm: str
    options: str
    collective: str
    rank_count: int
    step_count: int
    phase_steps: list[int]
    chunk_count: int
    transfer_count: int
    max_transfers_per_link_step: int
    symmetric: bool
    period: int
    certificate: Certificate


@dataclass(frozen=True)
class Verification:
    """A proof, or why there is none: `violations`, at most 20 of them.

    `contention_free` and `planned_for_topology` are None where no topology was given, or where the
    schedule does not say for which it was planned.
    """

    correct: bool
    bitwise_replicated: bool
    violations: list[str]
    contention_free: bool | None = None
    planned_for_topology: bool | None = None


@dataclass(frozen=True)
class Timing:
    """How long a schedule takes, and how busy that keeps the links.

    `link_busy_ps` and `link_wire_bytes` have an entry per link of the topology; they are empty
    where the model has no links.
    """

    algorithm: str
    collective: str
    model: str
    size_bytes: int
    segments: int
    time_ps: int
    cycles: int
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    bytes_on_wire: int
    link_utilization_mean: float
    link_busy_mean: float
    bottleneck_link: str
    bottleneck_utilization: float
    bottleneck_busy: float
    messages_are_free: bool
    events: int
    folded: bool
    certificate: Certificate
    link_busy_ps: NDArray[np.int64] = field(repr=False, compare=False, kw_only=True)
    link_wire_bytes: NDArray[np.int64] = field(repr=False, compare=False, kw_only=True)

    @property
    def time_s(self) -> float:
        """The time in seconds."""
        return self.time_ps / 1e12


@dataclass(frozen=True)
class ComparisonRow:
    """One algorithm at one size, on one topology, in one model."""

    topology: str
    algorithm: str
    model: str
    rank_count: int
    size_bytes: int
    segments: int
    time_ps: int
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    messages_are_free: bool
    best: bool
    fraction_of_bound: float | None = None


@dataclass(frozen=True)
class Refusal:
    """What cannot be done on a topology, and why."""

    topology: str
    algorithm: str
    why: str


@dataclass(frozen=True)
class Comparison:
    """Algorithms side by side: rows by topology, algorithm, model and size."""

    collective: str
    rows: list[ComparisonRow]
    refused: list[Refusal]


@dataclass(frozen=True)
class Choice:
    """What is the fastest at a size."""

    size_bytes: int
    algorithm: str
    segments: int
    time_ps: int
    fraction_of_bound: float | None = None


@dataclass(frozen=True)
class Choices:
    """What `pleach plan` prints."""

    choices: list[Choice]


@dataclass(frozen=True)
class BookEntry:
    """What a collective takes up to a size."""

    collective: str
    up_to_bytes: int
    algorithm: str
    segments: int


@dataclass(frozen=True)
class BookEntries:
    """What `pleach plan FILE.book` prints."""

    entries: list[BookEntry]


@dataclass(frozen=True)
class Bucket:
    """One collective of an iteration's gradients or parameters, and what kept it.

    Times are from the iteration's start; negative: in the one before.
    """

    group: str
    collective: str
    first_layer: str
    last_layer: str
    size_bytes: int
    ready_s: float
    issued_s: float
    started_s: float
    finished_s: float
    exposed_s: float
    waited_for: str


@dataclass(frozen=True)
class TrainingRow:
    """What one policy costs a training. docs/training.md says what each figure means."""

    policy: str
    iteration_s: float
    compute_s: float
    exposed_communication_s: float
    bound_s: float
    gradient_wait_s: float
    collective_wait_s: float
    receive_wait_s: float
    load_wait_s: float
    bubble_wait_s: float
    input_wait_s: float
    planned_on_curves: bool
    memory_bytes: int
    activation_bytes: int
    bucket_bytes: int
    steady: bool
    iterations: int
    period: int
    deviation_s: float
    workers: int
    events: int
    wall_s: float
    speedup: float | None = None
    over_bound: float | None = None
    curve_end_bytes: int | None = None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    mfu: float | None = None
    buckets: list[Bucket] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class Training:
    """A training simulated under several policies, a row for each."""

    workload: str
    topology: str
    strategy: str
    algorithm: str
    costs: str
    rank_count: int
    memory_bytes: int
    rows: list[TrainingRow]
    wall_s: float

    def row(self, policy: str) -> TrainingRow:
        """Returns the row of a policy, named as it was asked for.

        Raises:
            KeyError: There is none.
        """
        for one in self.rows:
            if one.policy == policy:
                return one
        raise KeyError(policy)


@dataclass(frozen=True)
class RegistryEntry:
    """A thing that goes by name."""

    name: str
    summary: str
    source: str
    details: str
