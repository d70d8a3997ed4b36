"""The order of what the CUDA engine asks of a device, on a device that only takes notes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from statekit.parking.cuda import CudaEngine

DEVICE = torch.device("cuda:0")


class NotingStream:
    def __init__(self, notes: list[Any], name: str) -> None:
        self._notes, self.name = notes, name

    def wait_stream(self, other: NotingStream) -> None:
        self._notes.append((self.name, "waits for", other.name))

    def wait_event(self, event: Any) -> None:
        self._notes.append((self.name, "waits for", event))

    def record_event(self, event: Any) -> Any:
        self._notes.append((self.name, "records", event))
        return event

    def synchronize(self) -> None:
        self._notes.append(("host", "waits for", self.name))


class NotingEvent:
    def __init__(self, notes: list[Any], blocking: bool) -> None:
        assert blocking
        self._notes = notes

    def __repr__(self) -> str:
        return "event"

    def __eq__(self, other: object) -> bool:
        return other == "event"

    __hash__ = None  # type: ignore[assignment]

    def synchronize(self) -> None:
        self._notes.append(("host", "waits for", "event"))


class NotingTensor:
    """Stands for memory: a copy and a use by a stream are noted."""

    def __init__(self, notes: list[Any], name: str, device: torch.device) -> None:
        self._notes, self.name, self.device = notes, name, device
        self.is_cuda = device.type == "cuda"
        self.fails = False

    def copy_(self, source: NotingTensor, non_blocking: bool) -> None:
        if self.fails:
            raise RuntimeError("CUDA error")
        assert non_blocking
        self._notes.append((self._notes.current[-1], "copies", source.name, self.name))  # type: ignore[attr-defined]

    def record_stream(self, stream: NotingStream) -> None:
        self._notes.append((self.name, "is used by", stream.name))


class Notes(list[Any]):
    def __init__(self) -> None:
        super().__init__()
        self.current = ["main"]


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    notes = Notes()

    @contextmanager
    def inside(stream: NotingStream) -> Iterator[None]:
        notes.current.append(stream.name)
        yield
        notes.current.pop()

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: NotingStream(notes, "side"))
    monkeypatch.setattr(torch.cuda, "Event", lambda blocking: NotingEvent(notes, blocking))
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda device: NotingStream(notes, notes.current[-1])
    )
    monkeypatch.setattr(torch.cuda, "stream", inside)
    return notes


def memory(notes: Notes) -> tuple[Any, Any]:
    return NotingTensor(notes, "device", DEVICE), NotingTensor(notes, "host", torch.device("cpu"))


def test_copy_when_begun_then_it_comes_after_the_work_given_before(notes: Notes) -> None:
    """The side stream waits for the current one, copies, and the allocator hears of it."""
    device, host = memory(notes)
    CudaEngine().copy([(host, device)], ())
    assert notes == [
        ("side", "waits for", "main"),
        ("side", "copies", "device", "host"),
        ("device", "is used by", "side"),
        ("side", "records", "event"),
    ]


def test_copy_when_the_buffer_is_busy_then_it_comes_after_the_copy_before(notes: Notes) -> None:
    """A copy into memory that another one reads waits on the device, not on the host."""
    device, host = memory(notes)
    engine = CudaEngine()
    first = engine.copy([(device, host)], ())
    notes.clear()
    engine.copy([(host, device)], [first])
    assert notes[:3] == [
        ("side", "waits for", "main"),
        ("side", "waits for", "event"),
        ("side", "copies", "device", "host"),
    ]


def test_join_when_called_then_the_current_stream_waits_and_may_use_the_memory(
    notes: Notes,
) -> None:
    """A restore does not make the host wait; `wait` does."""
    device, host = memory(notes)
    copies = CudaEngine().copy([(device, host)], ())
    notes.clear()
    notes.current.append("other")
    copies.join([device])
    assert notes == [("other", "waits for", "event"), ("device", "is used by", "other")]
    notes.clear()
    copies.wait()
    assert notes == [("host", "waits for", "event")]


def test_copy_when_it_fails_half_way_then_none_is_left_under_way(notes: Notes) -> None:
    """If a later copy cannot begin, the earlier ones are waited for before the error goes on."""
    device, host = memory(notes)
    second, _ = memory(notes)
    second.fails = True
    with pytest.raises(RuntimeError, match="CUDA error"):
        CudaEngine().copy([(device, host), (second, host)], ())
    assert notes[-1] == ("host", "waits for", "side")


def test_engine_when_asked_then_it_serves_cuda_memory_alone(notes: Notes) -> None:
    """Host memory is not the engine's."""
    device, host = memory(notes)
    assert [CudaEngine().serves(each) for each in (device, host)] == [True, False]
