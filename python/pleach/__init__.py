"""Pleach plans, proves, simulates and runs the communication of distributed training.

    torus = pleach.topology("torus:4x4")
    schedule = pleach.synthesize(torus, "multitree")
    assert pleach.verify(schedule, torus).correct
    print(pleach.simulate(schedule, torus, "64MiB").time_s)

Sizes, bandwidths and times are numbers (bytes, bytes per second, picoseconds) or texts with a unit:
`64MiB`, `16GB/s`, `150ns`. docs/python.md is a tour.
"""

from pleach import _core, errors
from pleach._core import (
    Book,
    Link,
    Node,
    Schedule,
    ScheduleBuilder,
    Topology,
    TopologyBuilder,
    Transfer,
    abi_version,
    version,
)
from pleach._folders import include_folder, library_folder
from pleach._progress import Progress
from pleach._results import (
    BookEntry,
    Bound,
    Bucket,
    Certificate,
    Choice,
    Comparison,
    ComparisonRow,
    Refusal,
    RegistryEntry,
    ScheduleSummary,
    Timing,
    TopologySummary,
    Training,
    TrainingRow,
    Verification,
)
from pleach.communicators import (
    ANY_RANK,
    Communicator,
    Endpoint,
    Operation,
    Received,
    empty,
    listen,
)
from pleach.errors import (
    DeadlineError,
    Error,
    FileError,
    InfeasibleError,
    InvalidArgumentError,
    PeerLostError,
    UnsupportedError,
    VerificationError,
)
from pleach.schedules import (
    describe,
    load,
    registry,
    sequence,
    summarize,
    synthesize,
    topology,
    verify,
)
from pleach.timing import compare, entries_of, load_book, plan, plan_book, simulate
from pleach.training import train

_core.know_errors(errors)

__version__ = version()

__all__ = [
    "ANY_RANK",
    "Book",
    "BookEntry",
    "Bound",
    "Bucket",
    "Certificate",
    "Choice",
    "Communicator",
    "Comparison",
    "ComparisonRow",
    "DeadlineError",
    "Endpoint",
    "Error",
    "FileError",
    "InfeasibleError",
    "InvalidArgumentError",
    "Link",
    "Node",
    "Operation",
    "PeerLostError",
    "Progress",
    "Received",
    "Refusal",
    "RegistryEntry",
    "Schedule",
    "ScheduleBuilder",
    "ScheduleSummary",
    "Timing",
    "Topology",
    "TopologyBuilder",
    "TopologySummary",
    "Training",
    "TrainingRow",
    "Transfer",
    "UnsupportedError",
    "Verification",
    "VerificationError",
    "__version__",
    "abi_version",
    "compare",
    "describe",
    "empty",
    "entries_of",
    "include_folder",
    "library_folder",
    "listen",
    "load",
    "load_book",
    "plan",
    "plan_book",
    "registry",
    "sequence",
    "simulate",
    "summarize",
    "synthesize",
    "topology",
    "train",
    "verify",
    "version",
]
