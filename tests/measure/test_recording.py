"""Recordings: data that goes to a file and comes back, and joins."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from statekit import measure
from statekit.manager import SessionStateManager
from statekit.measure.hardware import hardware, today
from statekit.measure.recording import Recording
from statekit_codegen.measured.reading import read_recording
from tests.measure.toy import Toy, good_step, measured


def test_recording_when_saved_and_read_then_equal(tmp_path: Path) -> None:
    """Nothing is lost on the way, specs included."""
    manager = SessionStateManager()
    with measure.record(manager) as record, manager.lease("robot", begin=Toy.SPEC,
                                                          overrides={"H": 16}):  # fmt: skip
        state = Toy("robot", manager)
        good_step(state, 0)
        state.session.attrs["odd"] = [{"a": state.pending[:, :3]}]
    file = tmp_path / "run.json"
    record.save(file)
    assert read_recording(file) == record.recording


def test_recordings_when_joined_then_all_sessions_are_there() -> None:
    """Several processes of one run give one recording."""
    one, two = measured(steps=2).recording, measured(steps=3).recording
    other = attrs.evolve(two, left_out=4, troubles=("a", "b"), hardware="")
    whole = Recording.joined([attrs.evolve(one, troubles=("a",)), other])
    assert whole.sessions == (*one.sessions, *two.sessions)
    assert (whole.left_out, whole.managers, whole.troubles) == (4, 2, ("a", "b"))
    assert whole.hardware == one.hardware
    assert Recording.joined([]) == Recording()


def test_json_when_written_then_plain(tmp_path: Path) -> None:
    """A recording is JSON without extensions."""
    json.loads(measured(steps=2).recording.to_json(), parse_constant=pytest.fail)


def test_hardware_when_asked_for_then_a_short_line() -> None:
    """What goes into a schema is one line that the schema's rules accept."""
    text = hardware({"cpu"})
    assert text.startswith("CPU, ")
    assert text.isprintable()
    assert 5 < len(text) <= 80
    assert hardware({"cpu", "xpu:0"}) == "xpu:0"
    assert len(today()) == 10
