"""What a real training measures. No PyTorch."""
from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Job:
    """What the ranks do with one model of models.py.

    Attributes:
        model: Its name.
        compare: Ways of training whose losses are compared with those of the first of them, in
            float64; empty: none are.
        steps: Of that.
        forwards: Forward passes that are timed, all ranks at once; 0: none are.
        choices: Ways of training that differ in the sizes of buckets; the fastest of each is found
            first, and measured beside those of the others.
        rounds: Turns that each of these gets.
        iterations: Of a turn that are measured, after one that is not.
    """

    model: str
    compare: tuple[str, ...] = ()
    steps: int = 0
    forwards: int = 0
    choices: tuple[Sequence[str], ...] = ()
    rounds: int = 0
    iterations: int = 0

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """The job that `to_json` wrote."""
        data = json.loads(text)
        return Job(**{k: tuple(v) if isinstance(v, list) else v for k, v in data.items()})
