"""The switch by itself: what it returns, what it imports, what it refuses."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from statekit.adapters.generated.dreamzero import DreamZeroState
from statekit.errors import SettingsError
from statekit.manager import SessionStateManager
from statekit.settings import ENABLE_VARIABLE, MAX_SESSIONS_VARIABLE, SessionStateSettings
from statekit.switch import ManagedStates, maybe_adapter

ADAPTER = "statekit.adapters.generated.dreamzero:DreamZeroState"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENABLE_VARIABLE, raising=False)
    monkeypatch.delenv(MAX_SESSIONS_VARIABLE, raising=False)


def hand_rolled(session_id: str | None) -> dict[str, Any]:
    return {"session_id": session_id}


@pytest.mark.parametrize("off", [None, False, {}, {"max_batch": 8}, SessionStateSettings()])
def test_switch_when_off_then_the_very_factory_comes_back(off: Any) -> None:
    """Off means untouched: the callable that was passed in, and an adapter that is not there."""
    assert maybe_adapter(hand_rolled, "no.such.module:Adapter", off) is hand_rolled


@pytest.mark.parametrize(
    "on",
    [True, {"enable_session_state_manager": True, "a": 1}, SessionStateSettings(True)],
)
@pytest.mark.parametrize("adapter", [ADAPTER, DreamZeroState])
def test_switch_when_on_then_adapters_look_at_one_manager(on: Any, adapter: Any) -> None:
    """Two adapters of one id see one session, those of two ids see two."""
    states = maybe_adapter(hand_rolled, adapter, on)
    assert isinstance(states, ManagedStates)
    states("a").call_count = 3
    assert type(states("a")) is DreamZeroState
    assert (states("a").call_count, states("b").call_count) == (3, 0)
    assert len(states.manager) == 2
    assert states(None).session is states().session is states("default").session


@pytest.mark.parametrize(("word", "config"), [("1", False), ("0", True)])
def test_switch_when_variable_set_then_it_beats_the_config(
    word: str, config: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable wins in both directions."""
    monkeypatch.setenv(ENABLE_VARIABLE, word)
    states = maybe_adapter(hand_rolled, DreamZeroState, config)
    assert isinstance(states, ManagedStates) is (word == "1")


def test_switch_when_manager_is_made_by_the_owner_then_it_gets_the_number_of_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A manager with budgets, say: its maker is told how many sessions to keep."""
    made = []

    def make(count: int) -> SessionStateManager:
        made.append(SessionStateManager(count, budgets={"cpu": "1GiB"}))
        return made[0]

    monkeypatch.setenv(MAX_SESSIONS_VARIABLE, "5")
    states = maybe_adapter(hand_rolled, DreamZeroState, True, max_sessions=9, make_manager=make)
    assert isinstance(states, ManagedStates)
    assert states.manager is made[0]
    assert states.manager.max_sessions == 5


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("statekit.adapters", "got 'statekit.adapters'"),
        (":DreamZeroState", "got ':DreamZeroState'"),
        ("no_such_module_at_all:A", "No module named 'no_such_module_at_all'"),
        ("statekit.spec:Missing", "no attribute 'Missing'"),
    ],
)
def test_switch_when_adapter_cannot_be_found_then_refused_with_its_place(
    place: str, found: str
) -> None:
    """A misspelt adapter is an error where the switch is on, naming what was asked for."""
    with pytest.raises(SettingsError, match=found):
        maybe_adapter(hand_rolled, place, True)


def test_switch_when_off_then_neither_torch_nor_the_manager_is_imported() -> None:
    """Off means untouched, seen in a process of its own."""
    code = (
        "import sys; from statekit import maybe_adapter\n"
        "f = lambda session_id: session_id\n"
        f"assert maybe_adapter(f, {ADAPTER!r}, False) is f\n"
        "assert not {'torch', 'statekit.manager', 'numpy'} & set(sys.modules), sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
