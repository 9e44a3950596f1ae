"""Times on a device, read without ever waiting for it."""

from __future__ import annotations

import time
from typing import Any

import torch


class Clock:
    """Of a CPU: the host's time."""

    def now(self) -> Any:
        """A mark at the present point of what the device is given."""
        return time.perf_counter_ns()

    def seconds(self, begin: Any, end: Any) -> float:
        """Between two marks; the device must have come to both."""
        return float(end - begin) * 1e-9

    def wait(self) -> None:
        """Returns when the device has done all that it was given."""


class AcceleratorClock(Clock):
    """Of a device with streams: its events."""

    def __init__(self, device: torch.device):
        self._module = torch.get_device_module(device)
        self._device = device

    def now(self) -> Any:
        """As Clock's: an event."""
        event = self._module.Event(enable_timing=True)
        event.record(self._module.current_stream(self._device))
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        """As Clock's."""
        return float(begin.elapsed_time(end)) * 1e-3

    def wait(self) -> None:
        """As Clock's."""
        self._module.synchronize(self._device)


def clock_of(device: torch.device) -> Clock:
    """The clock of a device."""
    return Clock() if device.type == "cpu" else AcceleratorClock(device)
