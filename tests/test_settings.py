"""Settings: the config's word, and the environment's, which beats it in both directions."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from statekit.errors import SettingsError
from statekit.settings import (
    ENABLE_VARIABLE,
    MAX_SESSIONS_VARIABLE,
    SessionStateSettings,
    resolve_session_state_config,
)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the variables of the shell that runs it."""
    monkeypatch.delenv(ENABLE_VARIABLE, raising=False)
    monkeypatch.delenv(MAX_SESSIONS_VARIABLE, raising=False)


def test_variables_when_read_then_named_as_deployments_know_them() -> None:
    """The names are part of the contract."""
    assert ENABLE_VARIABLE == "OMNI_DIFFUSION_SESSION_STATE_MANAGER"
    assert MAX_SESSIONS_VARIABLE == "OMNI_DIFFUSION_SESSION_STATE_MANAGER_MAX_SESSIONS"


@pytest.mark.parametrize("enable", [None, True, False])
@pytest.mark.parametrize("max_sessions", [None, 1, 300])
def test_resolve_when_environment_is_unset_then_config_decides(
    enable: bool | None, max_sessions: int | None
) -> None:
    """Unset variables leave the config's values; None is off, and 64 sessions."""
    expected = (bool(enable), 64 if max_sessions is None else max_sessions)
    assert resolve_session_state_config(enable, max_sessions) == expected


@pytest.mark.parametrize("config", [None, True, False])
@pytest.mark.parametrize(
    ("word", "on"),
    [
        *((word, True) for word in ("1", "true", "yes", "on", "TRUE", "Yes", "oN", " on\n")),
        *((word, False) for word in ("0", "false", "no", "off", "FALSE", "No", "oFF", "\t0 ")),
    ],
)
def test_resolve_when_word_is_set_then_it_beats_the_config(
    monkeypatch: pytest.MonkeyPatch, word: str, on: bool, config: bool | None
) -> None:
    """Every word, in any case and with blanks around it, decides in both directions."""
    monkeypatch.setenv(ENABLE_VARIABLE, word)
    assert resolve_session_state_config(config) == (on, 64)
    assert SessionStateSettings(bool(config)).resolve() == (on, 64)


@pytest.mark.parametrize("config", [True, False])
@pytest.mark.parametrize("word", ["", "  ", "2", "y", "enabled", "truee", "None", "01", "on off"])
def test_resolve_when_word_is_unreadable_then_warning_and_config(
    monkeypatch: pytest.MonkeyPatch, word: str, config: bool
) -> None:
    """A word that is none is named in a warning with the cure, and the config's value stays."""
    monkeypatch.setenv(ENABLE_VARIABLE, word)
    with pytest.warns(UserWarning, match=r"MANAGER=.* is ignored: set 1/0, true/false") as caught:
        assert resolve_session_state_config(config, 5) == (config, 5)
    assert repr(word) in str(caught[0].message)


@pytest.mark.parametrize("ask", [resolve_session_state_config, SessionStateSettings().resolve])
def test_warning_when_raised_then_points_at_the_caller(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[], object]
) -> None:
    """The warning's place is the line that asked, whichever way it asked."""
    monkeypatch.setenv(ENABLE_VARIABLE, "perhaps")
    with pytest.warns(UserWarning, match="perhaps") as caught:
        ask()
    assert [warning.filename for warning in caught] == [__file__]


def test_settings_when_imported_then_neither_torch_nor_manager_is_loaded() -> None:
    """Off means untouched: asking for the switch loads nothing that the switch would turn on."""
    code = (
        "import sys; from statekit import SessionStateSettings;"
        "assert SessionStateSettings.from_mapping({}).resolve() == (False, 64);"
        "print(sorted({'torch', 'numpy', 'yaml', 'statekit.manager'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(("text", "count"), [("1", 1), ("64", 64), (" 7 ", 7), ("007", 7)])
@pytest.mark.parametrize("config", [None, 3])
def test_resolve_when_count_is_set_then_it_beats_the_config(
    monkeypatch: pytest.MonkeyPatch, text: str, count: int, config: int | None
) -> None:
    """A positive whole number in the environment is the number of sessions."""
    monkeypatch.setenv(MAX_SESSIONS_VARIABLE, text)
    assert resolve_session_state_config(True, config) == (True, count)


@pytest.mark.parametrize(
    "text", ["", "0", "000", "-1", "+1", "1.5", "1e3", "1_0", "ten", "٣", "²", "9" * 5000]
)
def test_resolve_when_count_is_unreadable_then_warning_and_config(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Anything else, absurd lengths included, warns and leaves the config's number."""
    monkeypatch.setenv(MAX_SESSIONS_VARIABLE, text)
    with pytest.warns(UserWarning, match=r"MAX_SESSIONS=.* is ignored: set a whole number above 0"):
        assert resolve_session_state_config(True, 9) == (True, 9)


def test_resolve_when_both_are_set_then_no_warning_and_both_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The two variables are independent."""
    monkeypatch.setenv(ENABLE_VARIABLE, "on")
    monkeypatch.setenv(MAX_SESSIONS_VARIABLE, "2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SessionStateSettings().resolve(8) == (True, 2)


@pytest.mark.parametrize("enable", ["false", 1, 0, [], "on"])
def test_resolve_when_config_is_no_boolean_then_error(enable: Any) -> None:
    """A text such as "false" is not taken for true."""
    with pytest.raises(SettingsError, match=r"enable_session_state_manager: .* is no boolean"):
        resolve_session_state_config(enable)


@pytest.mark.parametrize("max_sessions", [0, -1, True, 1.0, "64"])
def test_resolve_when_config_count_is_wrong_then_error(max_sessions: Any) -> None:
    """The config's number is held to what the environment's is."""
    with pytest.raises(SettingsError, match=r"max_sessions: got .*; set a whole number above 0"):
        resolve_session_state_config(True, max_sessions)


def test_settings_when_made_then_off_by_default() -> None:
    """Off unless somebody says on."""
    assert SessionStateSettings().enable_session_state_manager is False
    assert SessionStateSettings().resolve() == (False, 64)


@pytest.mark.parametrize(
    ("config", "on"),
    [
        ({}, False),
        ({"enable_session_state_manager": None}, False),
        ({"enable_session_state_manager": True, "model": "dreamzero", "tp": 4}, True),
        ({"enable_session_state_manager": False, 3: "odd key"}, False),
    ],
)
def test_from_mapping_when_other_keys_are_there_then_ignored(config: Any, on: bool) -> None:
    """The field is read from among the keys of others."""
    assert SessionStateSettings.from_mapping(config) == SessionStateSettings(on)


@pytest.mark.parametrize("value", ["true", 1, 0.0, [True], {}])
def test_settings_when_value_is_no_boolean_then_error(value: Any) -> None:
    """A wrong type names the field and the cure, from a mapping and from the class."""
    words = r"enable_session_state_manager: .* true or false"
    with pytest.raises(SettingsError, match=words):
        SessionStateSettings(value)
    with pytest.raises(SettingsError, match=words):
        SessionStateSettings.from_mapping({"enable_session_state_manager": value})


@pytest.mark.parametrize("config", [None, [], "text", 3])
def test_from_mapping_when_no_mapping_then_error(config: Any) -> None:
    """What is no mapping is refused by the type it has."""
    with pytest.raises(SettingsError, match=f"deploy config: got a {type(config).__name__}"):
        SessionStateSettings.from_mapping(config)


def test_settings_when_changed_then_refused() -> None:
    """Settings are frozen."""
    with pytest.raises(AttributeError):
        SessionStateSettings().enable_session_state_manager = True  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("model: dreamzero\nenable_session_state_manager: true\nstages:\n  - {gpu: 0}\n", True),
        ("enable_session_state_manager: false\n", False),
        ("model: x\n", False),
        ("# nothing\n", False),
        ("", False),
        ("\ufeffenable_session_state_manager: yes\n", True),
    ],
)
def test_from_file_when_yaml_then_field_among_others(tmp_path: Path, text: str, on: bool) -> None:
    """The field is read from a deploy YAML; an empty one has no fields."""
    file = tmp_path / "deploy.yaml"
    file.write_text(text, encoding="utf-8")
    assert SessionStateSettings.from_file(file) == SessionStateSettings(on)
    assert SessionStateSettings.from_file(str(file)) == SessionStateSettings(on)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"- a\n- b\n", "got a list"),
        (b"enable_session_state_manager: 'true'\n", "'true' is no boolean; set true or false"),
        (b"a: [1\n", "not YAML"),
        (b"a: !!python/object:os.system x\n", "not YAML"),
        (b"a: 2026-13-45\n", "not YAML"),
        (b"\xff\xfe\x00", "not YAML"),
        (b"[" * 700, "not YAML"),
    ],
)
def test_from_file_when_unusable_then_error_names_the_file(
    tmp_path: Path, content: bytes, words: str
) -> None:
    """Whatever is wrong with a file is one error in one line that begins with its path."""
    file = tmp_path / "deploy.yaml"
    file.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        SessionStateSettings.from_file(file)
    message = str(caught.value)
    assert message.startswith(str(file))
    assert words in message
    assert "\n" not in message


def test_from_file_when_missing_or_a_folder_then_error_names_it(tmp_path: Path) -> None:
    """A path that cannot be read says so and what to do."""
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(SettingsError, match="check the path") as caught:
            SessionStateSettings.from_file(path)
        assert str(path) in str(caught.value)


def test_from_file_when_pyyaml_is_missing_then_error_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without PyYAML the message offers from_mapping."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(SettingsError, match=r"PyYAML is not installed; .*from_mapping"):
        SessionStateSettings.from_file(tmp_path / "deploy.yaml")
