"""Numbers: what symbols mean in a run, and who says so."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from statekit import measure
from statekit.manager import SessionStateManager
from statekit.measure.numbers import numbers_of
from statekit.measure.recording import MeasuredSession
from tests.measure.toy import H, Toy, W, good_step, measured


def session_of(record: measure.Measurement) -> MeasuredSession:
    (session,) = record.recording.sessions
    return session


def test_symbols_when_shapes_say_them_then_taken_from_the_first_that_does() -> None:
    """H / 8 is enough to know H; members of a counted family say how many there are."""
    numbers = numbers_of(Toy.SPEC, session_of(measured()))
    assert numbers.values == {"H": H, "W": W, "TOKENS": 6, "LAYERS": 2, "FRAMES": 4}
    assert numbers.sources == {
        "H": "latent", "W": "latent", "TOKENS": "text", "LAYERS": "text", "FRAMES": "the schema",
    }  # fmt: skip


def test_symbols_when_given_then_nobody_else_is_asked() -> None:
    """A lease's numbers stand before shapes, and those of the command line before all."""
    manager, overrides = SessionStateManager(), {"H": 24, "W": 40}
    with (
        measure.record(manager) as record,
        manager.lease("robot", begin=Toy.SPEC, overrides=overrides),
    ):
        good_step(Toy("robot", manager), 0)
    numbers = numbers_of(Toy.SPEC, session_of(record), {"W": 48, "no such name": 1})
    assert (numbers.values["H"], numbers.sources["H"]) == (24, "the run")
    assert (numbers.values["W"], numbers.sources["W"]) == (48, "given")


def test_symbols_when_nothing_says_them_then_the_schema_does() -> None:
    """`elements` say nothing: they would be compared with themselves."""

    def forward(state: Any, step: int) -> None:
        state.cache = [torch.zeros(H, W)]

    numbers = numbers_of(Toy.SPEC, session_of(measured(forward)))
    assert (numbers.values["H"], numbers.sources["H"]) == (352, "the schema")


def test_recordings_when_there_is_no_torch_then_they_can_be_judged() -> None:
    """What compares a recording with a schema runs where no model does."""
    code = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['numpy'] = None\n"
        "import statekit.measure.findings, statekit.measure.recording, statekit.measure.registry\n"
        "import statekit_codegen.commands.measure, statekit_codegen.measured.reading\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_measuring_when_nobody_asks_for_it_then_not_loaded() -> None:
    """A manager alone loads the registry and nothing else of it."""
    code = (
        "import sys, statekit; statekit.SessionStateManager()\n"
        "loaded = sorted(one for one in sys.modules if one.startswith('statekit.measure'))\n"
        "assert loaded == ['statekit.measure', 'statekit.measure.registry'], loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
