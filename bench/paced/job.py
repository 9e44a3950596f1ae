"""What a paced training measures: layers with sizes and times, and ways to train them. No PyTorch.
"""
from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class PacedLayer:
    """One layer: elements of its float32 tensors, and seconds of its computation."""

    name: str
    tensors: tuple[int, ...]
    forward_s: float
    backward_s: float


def equal_layers(count: int, elements: int, forward_s: float) -> list[PacedLayer]:
    """Layers of one tensor each, backward twice as long as forward, which takes so long in all."""
    share = forward_s / count
    return [PacedLayer(f"layer{i}", (elements,), share, 2 * share) for i in range(count)]


def read_workload(path: str | pathlib.Path, scale: float, slowdown: float) -> list[PacedLayer]:
    """A profile as `pleach train` reads it, its tensors `scale` times as large.

    Args:
        path: A workload file with measured times.
        scale: Of tensors; none has less than one element.
        slowdown: Of times.
    """
    layers = []
    for layer in json.loads(pathlib.Path(path).read_text())["layers"]:
        sizes = [one["elements"] if isinstance(one, dict) else one for one in layer["tensors"]]
        layers.append(
            PacedLayer(
                layer["name"],
                tuple(max(1, round(size * scale)) for size in sizes),
                layer["forward_us"] * 1e-6 * slowdown,
                layer["backward_us"] * 1e-6 * slowdown,
            )
        )
    return layers


def workload_of(layers: Sequence[PacedLayer], name: str) -> dict[str, Any]:
    """Those layers as a workload file has them."""
    return {
        "format": "pleach-workload", "version": 1, "name": name, "batch": 1, "element_bytes": 4,
        "layers": [
            {
                "name": layer.name, "tensors": list(layer.tensors),
                "forward_us": layer.forward_s * 1e6, "backward_us": layer.backward_s * 1e6,
            }
            for layer in layers
        ],
    }


@dataclasses.dataclass(frozen=True)
class Job:
    """What to measure.

    Attributes:
        models: By name: layers, as PacedLayer has them.
        variants: Names of variants.py, for each model all of them.
        warm_up: Iterations of each variant before the first that counts.
        rounds: Turns that every variant gets.
        iterations: Of a turn that are measured, after one that is not.
        costs_over: The backend whose collectives are timed, up to each model's size; policies that
            plan by times then know them, and what every way takes without communication is
            measured too. "": none of that.
    """

    models: dict[str, list[PacedLayer]]
    variants: list[str]
    warm_up: int = 5
    rounds: int = 5
    iterations: int = 5
    costs_over: str = ""

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Job:
        """The job that `to_json` wrote."""
        data = json.loads(text)
        models = {
            name: [PacedLayer(**{**layer, "tensors": tuple(layer["tensors"])}) for layer in layers]
            for name, layers in data.pop("models").items()
        }
        return Job(models=models, **data)
