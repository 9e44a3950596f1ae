"""Orders what runs on an accelerator's streams. On a CPU everything is in order already.

Communication and updates have a stream of their own. What it reads waits for the stream that wrote
it, and who reads what it wrote waits for it, by events: the host waits for nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_AS_IT_IS = contextlib.nullcontext()


class Streams:
    """Of a CPU: nothing to order."""

    are_many = False

    def mark(self) -> Any:
        """What the caller's present stream has been given so far."""
        return None

    def present(self) -> Any:
        """The caller's present stream."""
        return None

    def wait_for(self, mark: Any, stream: Any = None) -> None:
        """Lets what a stream, the caller's present one, is given from now on wait for that."""

    def beside(self) -> contextlib.AbstractContextManager[None]:
        """Makes the stream of communication the present one in a `with` block."""
        return _AS_IT_IS


class AcceleratorStreams(Streams):
    """Of a device with streams and events."""

    are_many = True

    def __init__(self, device: torch.device):
        self._module = torch.get_device_module(device)
        self._device = device
        self._stream = self._module.Stream(device=device)

    def mark(self) -> Any:
        """As Streams': an event."""
        event = self._module.Event()
        event.record(self.present())
        return event

    def present(self) -> Any:
        """As Streams'."""
        return self._module.current_stream(self._device)

    def wait_for(self, mark: Any, stream: Any = None) -> None:
        """As Streams'."""
        if mark is not None:
            (self.present() if stream is None else stream).wait_event(mark)

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """As Streams'."""
        with self._module.stream(self._stream):
            yield


def streams_of(device: torch.device) -> Streams:
    """What orders work on a device."""
    return Streams() if device.type == "cpu" else AcceleratorStreams(device)
