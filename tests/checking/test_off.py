"""Off is free: nothing of checking mode is loaded, on any path, or left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from statekit import checking
from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.adapters.generated.dreamzero import DreamZeroState
from statekit.family import ObjectFamily
from statekit.manager import SessionStateManager
from statekit.on_commit import OnCommit
from statekit.settings import VALIDATE_VARIABLE, resolve_validation

pytestmark = pytest.mark.slow

CLASSES = (DreamZeroState, DreamZeroStateAdapter, Cosmos3StateAdapter)

OFF = """\
import sys
from tests.benchmarks.rollout import filled
filled(1, 3)
loaded = sorted(name for name in sys.modules if name.startswith("statekit.checking"))
print(*loaded)
"""
ON = """\
from statekit import DreamZeroStateAdapter, SessionStateManager
DreamZeroStateAdapter("robot", SessionStateManager()).call_count = 1
DreamZeroStateAdapter("robot", SessionStateManager()).language = "words"
"""


def run(code: str, value: str | None, *options: str) -> subprocess.CompletedProcess[str]:
    """A process with the variable set to `value`."""
    env = {name: text for name, text in os.environ.items() if name != VALIDATE_VARIABLE}
    if value is not None:
        env[VALIDATE_VARIABLE] = value
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env=env, cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip


def dictionaries() -> list[dict[str, int]]:
    """All that the classes hold, by identity; properties are new objects if anyone made them."""
    return [
        {name: id(value) for name, value in vars(cls).items() if name != "_carried_class"}
        for cls in CLASSES
    ]


def test_classes_when_checking_was_on_then_the_very_same_as_before() -> None:
    """Class dicts and the objects in them are untouched by checked adapters."""
    DreamZeroStateAdapter("robot", SessionStateManager())
    before = dictionaries()
    with checking.enabled():
        adapter = DreamZeroStateAdapter("robot", SessionStateManager())
        adapter.call_count += 1
        Cosmos3StateAdapter("robot", SessionStateManager()).get_branch_kv(False)
    assert type(adapter) is not DreamZeroStateAdapter
    assert isinstance(adapter, DreamZeroStateAdapter)
    assert type(adapter).__name__ == "DreamZeroStateAdapter"
    assert type(adapter).call_count is DreamZeroStateAdapter.call_count
    assert dictionaries() == before


def test_adapter_when_off_then_reads_and_writes_are_those_of_the_generated_class() -> None:
    """A plain value is an attribute whose class has its default; objects have plain steps."""
    state = DreamZeroStateAdapter("robot", SessionStateManager())
    assert type(state) is DreamZeroStateAdapter
    assert type.__getattribute__(DreamZeroState, "clip_feas") is None
    coerced: Any = type.__getattribute__(DreamZeroState, "call_count")
    assert coerced.fset.__code__.co_filename.endswith("statekit/attr.py")
    assert DreamZeroStateAdapter._object.__module__ == "statekit.adapter"
    assert type(state.vae_encoder_out_object._on_commit) is OnCommit
    cosmos3 = Cosmos3StateAdapter("request", SessionStateManager())
    assert type(cosmos3.und_kv("positive")) is ObjectFamily
    state.language = "what no schema says"  # type: ignore[assignment]
    assert vars(state) is state.session.attrs == {"language": "what no schema says"}


def test_process_when_the_variable_is_unset_then_loads_the_switch_alone() -> None:
    """Three forwards of DreamZero import no module of the checks."""
    ran = run(OFF, None)
    assert ran.stdout.split() == ["statekit.checking", "statekit.checking.mode"], ran.stderr


def test_process_when_the_variable_says_on_then_checks() -> None:
    """The variable turns checking on for the whole process."""
    ran = run(ON, "1")
    assert "DeclarationError: language (schemas/dreamzero.yaml:" in ran.stderr
    assert "it is a str, declared torch.Tensor | None, at <string>:3" in ran.stderr


def test_process_when_the_variable_says_off_then_does_not() -> None:
    """Off can be said, and is what the variable's absence means."""
    assert run(ON, "0", "-W", "error").returncode == 0


@pytest.mark.parametrize("value", ["1", "true", " YES ", "on", "0", "false", "No", "off", None])
def test_variable_when_parsable_then_as_the_other_variables(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    """The words of the package's other switches, without a warning; unset means off."""
    monkeypatch.delenv(VALIDATE_VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VALIDATE_VARIABLE, value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resolve_validation() is (value in ("1", "true", " YES ", "on"))


@pytest.mark.parametrize("value", ["maybe", "", "2"])
def test_variable_when_unparsable_then_ignored_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """A word that is neither leaves checking off, and says what to set."""
    monkeypatch.setenv(VALIDATE_VARIABLE, value)
    with pytest.warns(UserWarning, match="STATEKIT_VALIDATE='.*' is ignored: set 1/0"):
        assert resolve_validation() is False


def test_enabled_when_left_then_as_before_and_adapters_stay_what_they_are() -> None:
    """The context decides for adapters that are made inside it, and for no others."""
    manager = SessionStateManager()
    before = DreamZeroStateAdapter("before", manager)
    with checking.enabled():
        assert checking.is_on()
        inside = DreamZeroStateAdapter("inside", manager)
        with checking.enabled(False):
            not_checked = DreamZeroStateAdapter("inside", manager)
        wrong: Any = torch.zeros(1)
        before.prompt_embeds = wrong
    assert not checking.is_on()
    not_checked.prompt_embeds = wrong
    not_checked.reset()
    with pytest.raises(ValueError, match="prompt_embeds"):
        inside.prompt_embeds = wrong


def test_adapter_of_a_checked_class_when_made_then_checks_without_another_class() -> None:
    """Who makes an adapter by `type(adapter)` gets one of the same class, also when off by then."""
    with checking.enabled():
        state = DreamZeroStateAdapter("robot", SessionStateManager())
        again = type(state)("robot", SessionStateManager())
    assert type(again) is type(state)
    assert type(type(state)("robot", SessionStateManager())) is type(state)
