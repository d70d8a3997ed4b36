"""Whether the manager is on, and how many sessions it keeps: config field and environment.

A variable that is set beats the config in both directions, so that the same deploy config can be
run twice with only the variable flipped. One that is set and cannot be read is ignored with a
warning. Off by default, and off means untouched: whoever asks here and is told "off" has imported
neither the manager nor torch.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from statekit.errors import SettingsError

__all__ = [
    "DEFAULT_MAX_SESSIONS",
    "ENABLE_VARIABLE",
    "MAX_SESSIONS_VARIABLE",
    "VALIDATE_VARIABLE",
    "SessionStateSettings",
    "resolve_session_state_config",
    "resolve_validation",
]

DEFAULT_MAX_SESSIONS = 64
"""The number of sessions that DreamZero's hand-rolled state keeps."""

ENABLE_VARIABLE = "OMNI_DIFFUSION_SESSION_STATE_MANAGER"
MAX_SESSIONS_VARIABLE = "OMNI_DIFFUSION_SESSION_STATE_MANAGER_MAX_SESSIONS"
VALIDATE_VARIABLE = "STATEKIT_VALIDATE"
_FIELD = "enable_session_state_manager"
_WORDS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
_WANTED_WORDS = "1/0, true/false, yes/no or on/off"


def resolve_session_state_config(
    enable: bool | None = None, max_sessions: int | None = None
) -> tuple[bool, int]:
    """Whether the manager is on, and how many sessions it keeps.

    Args:
        enable: the config's value; None means the default, off.
        max_sessions: the config's value; None means 64.

    Raises:
        SettingsError: a config value is of another type, or `max_sessions` is below 1; also where
            the environment would beat it.
    """
    return _resolve(enable, max_sessions)


def _resolve(enable: bool | None, max_sessions: int | None) -> tuple[bool, int]:
    """Called by public functions alone, so that warnings name the line that called them."""
    if enable is not None:
        _require_boolean(_FIELD, enable)
    if max_sessions is not None and (type(max_sessions) is not int or max_sessions < 1):
        raise SettingsError("max_sessions", f"got {max_sessions!r}", "set a whole number above 0")
    on = _from_environment(ENABLE_VARIABLE, _word, _WANTED_WORDS)
    count = _from_environment(MAX_SESSIONS_VARIABLE, _positive, "a whole number above 0")
    if on is None:
        on = bool(enable)
    if count is None:
        count = DEFAULT_MAX_SESSIONS if max_sessions is None else max_sessions
    return on, count


def resolve_validation() -> bool:
    """Whether `STATEKIT_VALIDATE` turns checking mode on (`statekit.checking`); else it is off."""
    return bool(_from_environment(VALIDATE_VARIABLE, _word, _WANTED_WORDS))


@attrs.frozen
class SessionStateSettings:
    """The session-state fields of a deploy config; all others are the owner's business."""

    enable_session_state_manager: bool = attrs.field(default=False)

    @enable_session_state_manager.validator
    def _check(self, attribute: object, value: object) -> None:
        _require_boolean(_FIELD, value)

    @classmethod
    def from_mapping(cls, config: Mapping[str, Any]) -> SessionStateSettings:
        """The settings in a deploy config that is loaded already; other keys are ignored.

        Raises:
            SettingsError: `config` is no mapping, or the field is no boolean.
        """
        return cls._read(config, place="")

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> SessionStateSettings:
        """The settings in a deploy config file; needs PyYAML.

        Raises:
            SettingsError: the file cannot be read or is no YAML mapping, or PyYAML is missing.
        """
        try:
            import yaml
        except ImportError:
            raise SettingsError(
                str(path),
                "PyYAML is not installed",
                "install it, or load the file and use from_mapping",
            ) from None
        try:
            config = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingsError(
                str(path), error.strerror or "unreadable", "check the path"
            ) from None
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            found = str(error).replace("\n", " ")
            raise SettingsError(str(path), f"not YAML: {found}", "mend the file") from None
        return cls._read({} if config is None else config, place=f"{path}: ")

    @classmethod
    def _read(cls, config: object, place: str) -> SessionStateSettings:
        if not isinstance(config, Mapping):
            found = f"got a {type(config).__name__}, not a mapping"
            raise SettingsError(f"{place}deploy config", found, f"put {_FIELD} at its top level")
        value = config.get(_FIELD)
        if value is None:
            return cls()
        _require_boolean(place + _FIELD, value)
        return cls(value)

    def resolve(self, max_sessions: int | None = None) -> tuple[bool, int]:
        """`resolve_session_state_config` of these settings."""
        return _resolve(self.enable_session_state_manager, max_sessions)


def _require_boolean(setting: str, value: object) -> None:
    if not isinstance(value, bool):
        raise SettingsError(setting, f"{value!r} is no boolean", "set true or false")


def _from_environment(variable: str, parse: Any, wanted: str) -> Any:
    """The variable's value; None where it is unset, or set and unreadable (with a warning)."""
    text = os.environ.get(variable)
    if text is None:
        return None
    value = parse(text.strip())
    if value is None:
        warnings.warn(f"{variable}={text!r} is ignored: set {wanted}", stacklevel=4)
    return value


def _word(text: str) -> bool | None:
    return _WORDS.get(text.lower())


def _positive(text: str) -> int | None:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        return None
    return int(text) or None
