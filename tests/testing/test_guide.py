"""The Python blocks of the guide are run, as they stand, and so are the tests that it shows."""

from __future__ import annotations

import re
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "testing.md"


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the blocks leave behind."""
    found: dict[str, Any] = {}
    text = GUIDE.read_text(encoding="utf-8")
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S), 1):
        exec(compile(block, f"testing.md, block {number}", "exec"), found)
    return found


def test_guide_when_run_then_every_block_holds(
    names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The guide's asserts hold, and the report that it shows is the one that is printed."""
    with pytest.raises(AssertionError) as caught:
        names["assert_equivalent"](
            names["HandRolled"], names["adapter"](names["Rounded"]), names["trace"]
        )
    shown = re.findall(r"^```text\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    assert shown == [f"{caught.value}\n"]


def test_guide_when_it_shows_a_state_machine_then_that_passes(names: dict[str, Any]) -> None:
    """The machine of the guide finds nothing wrong with DreamZero's adapter."""
    case = names["TestDreamZero"]
    case.settings = settings(case.settings, max_examples=8, phases=[Phase.generate])
    result = unittest.TestResult()
    case("runTest").run(result)
    assert [text for _, text in (*result.errors, *result.failures)] == []


FIXTURES = {
    "test_forward_when_it_fails_anywhere_then_as_if_it_had_not_been": (
        "statekit_manager",
        "statekit_faults",
    ),
    "test_bytes_when_on_the_accelerator_then_counted_there": ("statekit_fake_device",),
}


@pytest.mark.parametrize("name", FIXTURES)
def test_guide_when_it_shows_a_test_then_that_passes(
    names: dict[str, Any], request: pytest.FixtureRequest, name: str
) -> None:
    """Each test of the guide passes with the fixtures it asks for."""
    test: Callable[..., None] = names[name]
    test(*(request.getfixturevalue(fixture) for fixture in FIXTURES[name]))


@pytest.mark.statekit_manager(idle_timeout_s=60)
def test_guide_when_it_shows_an_idle_session_then_that_ends(
    names: dict[str, Any], statekit_manager: Any, statekit_clock: Any
) -> None:
    """The one that sets the manager up by a marker."""
    names["test_session_when_idle_for_a_minute_then_ends"](statekit_manager, statekit_clock)
