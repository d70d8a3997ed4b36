"""Copies between CUDA memory and host memory, beside the work of the model.

Owns one side stream per device and the ordering between it and the stream that is current. Behind
`Engine` and `Copies`, so that all else can be tested without such a device.

    C1  A copy begins after all that the current stream was given before it, because that may write
        the source, or read what the memory held before; and after the copies named in `after`.
    C2  No memory is used again before the copy is done with it: the device's allocator knows of
        both streams (`record_stream`), host memory is kept by whoever waits.

The stream that is current at `begin_park` must be the one that produced the value, or wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch

__all__ = ["Copies", "CudaEngine", "Engine", "Pair"]

Pair = tuple[torch.Tensor, torch.Tensor]
"""Destination and source, of equal size; one of them on the device."""


class Copies(Protocol):
    """Copies under way."""

    def wait(self) -> None:
        """Return when they are done."""

    def join(self, tensors: Iterable[torch.Tensor]) -> None:
        """Let the current stream of each device wait for them; returns at once.

        Args:
            tensors: device memory that the stream is going to use.
        """


class Engine(Protocol):
    """What the host tier needs of a kind of device."""

    def serves(self, memory: torch.Tensor) -> bool:
        """Whether this memory is the device's, so that it can be parked in the host's."""

    def pin(self, nbytes: int) -> torch.Tensor:
        """New host memory that the device copies from and to directly. Raises: RuntimeError."""

    def copy(self, pairs: Sequence[Pair], after: Iterable[Copies]) -> Copies:
        """Begin to copy; if it raises, no copy is under way."""


class CudaEngine:
    """The engine of CUDA devices; costs nothing until the first copy."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: dict[torch.device, Any] = {}

    def serves(self, memory: torch.Tensor) -> bool:
        """Whether it is on a CUDA device."""
        return memory.is_cuda

    def pin(self, nbytes: int) -> torch.Tensor:
        """New page-locked memory. Raises: RuntimeError."""
        with torch.inference_mode(False):
            return torch.empty(nbytes, dtype=torch.uint8, device="cpu", pin_memory=True)

    def copy(self, pairs: Sequence[Pair], after: Iterable[Copies]) -> Copies:
        """Begin to copy on the side streams."""
        by_device: dict[torch.device, list[Pair]] = {}
        for pair in pairs:
            by_device.setdefault(_on_device(pair).device, []).append(pair)
        streams = [self._stream(device) for device in by_device]
        events = [event for copies in after for event in _events_of(copies)]
        try:
            for stream, (device, group) in zip(streams, by_device.items(), strict=True):
                stream.wait_stream(torch.cuda.current_stream(device))
                for event in events:
                    stream.wait_event(event)
                with torch.cuda.stream(stream):
                    for destination, source in group:
                        destination.copy_(source, non_blocking=True)
                for pair in group:
                    _on_device(pair).record_stream(stream)
            done = [stream.record_event(_sleeping_event()) for stream in streams]
        except BaseException:
            for stream in streams:
                stream.synchronize()
            raise
        return _CudaCopies(dict(zip(by_device, done, strict=True)))

    def _stream(self, device: torch.device) -> Any:
        with self._lock:
            if device not in self._streams:
                self._streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            return self._streams[device]


class _CudaCopies:
    """By device the event behind its last copy; holds no memory."""

    def __init__(self, events: dict[torch.device, Any]) -> None:
        self.events = events

    def wait(self) -> None:
        for event in self.events.values():
            event.synchronize()

    def join(self, tensors: Iterable[torch.Tensor]) -> None:
        for device, event in self.events.items():
            torch.cuda.current_stream(device).wait_event(event)
        for tensor in tensors:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))


def _sleeping_event() -> Any:
    """An event whose waiters sleep, and leave the core to others."""
    return torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]


def _on_device(pair: Pair) -> torch.Tensor:
    destination, source = pair
    return destination if destination.is_cuda else source


def _events_of(copies: Copies) -> list[Any]:
    assert isinstance(copies, _CudaCopies)
    return list(copies.events.values())
