"""Log records of events: level, message, fields; quiet by default, and cheap when off."""

from __future__ import annotations

import inspect
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from statekit import events
from statekit.errors import SessionStateLostError
from statekit.events import Event
from statekit.manager import SessionStateManager
from statekit.watch.logs import KINDS, LEVELS, log_events, message_of, name_of
from tests.pressure.toys import KEPT

EVENTS = sorted(
    (
        cls
        for _, cls in inspect.getmembers(events, inspect.isclass)
        if issubclass(cls, Event) and cls is not Event
    ),
    key=lambda cls: cls.__name__,
)
QUIET = {"created", "departed", "dropped", "evicted", "expired", "leased", "parked", "rebuilt"}
QUIET |= {"released", "restored", "saved"}


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """What the logger `statekit` is given while the test runs, debug messages too."""
    kept: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = kept.append  # type: ignore[method-assign]
    logger = logging.getLogger("statekit")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield kept
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def made(cls: type[Event], text: str = "word") -> Event:
    """An event with every field filled."""
    values: dict[str, Any] = {"str": text, "int": 3, "float": 0.25, "tuple[str, ...]": (text,)}
    return cls(
        **{field.name: values.get(str(field.type), {"cpu": 1}) for field in attrs.fields(cls)}
    )


@pytest.mark.parametrize("cls", EVENTS)
def test_record_when_an_event_is_published_then_it_has_its_level_and_every_field(
    cls: type[Event], records: list[logging.LogRecord]
) -> None:
    """No field's name is one that logging keeps for itself, and none is left out."""
    manager = SessionStateManager()
    event = made(cls)
    stop = log_events(manager)
    manager._events.publish(event)
    stop()
    manager._events.publish(event)
    (record,) = records
    assert record.name == "statekit"
    assert vars(record)["event"] == name_of(event)
    for field in attrs.fields(cls):
        assert vars(record)[field.name] == getattr(event, field.name)
    assert (record.levelno < logging.WARNING) == (name_of(event) in QUIET)
    assert record.getMessage().startswith("session 'word'")


@pytest.mark.parametrize("cls", EVENTS)
def test_message_when_a_client_chose_the_words_then_it_is_one_harmless_line(
    cls: type[Event],
) -> None:
    """A session id with line ends and escapes can neither forge a line nor drive a terminal."""
    text = message_of(made(cls, "a\nERROR forged \x1b[2J\u202e{0}{x}%s"))
    assert text.isprintable()


def test_levels_when_the_logger_keeps_warnings_then_only_those_come(
    records: list[logging.LogRecord],
) -> None:
    """What an operator should see is a warning; the rest is there when asked for."""
    logging.getLogger("statekit").setLevel(logging.WARNING)
    manager = SessionStateManager(2)
    log_events(manager)
    with manager.lease("a", begin=KEPT):
        pass
    with pytest.raises(SessionStateLostError):
        manager.lease("nobody").begin()
    assert [vars(one)["event"] for one in records] == ["lost"]
    assert "no session of this id is remembered" in records[0].getMessage()


def test_logger_when_off_then_nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the level off no message is put together."""
    from statekit.watch import logs

    monkeypatch.setattr(logs, "message_of", lambda event: pytest.fail("built"))
    manager = SessionStateManager(1)
    log_events(manager, logging.getLogger("statekit.off"))
    logging.getLogger("statekit.off").setLevel(logging.CRITICAL)
    manager.get_or_create_session("a")
    manager.get_or_create_session("b")


@pytest.mark.slow
def test_program_when_it_sets_no_logging_up_then_it_prints_nothing() -> None:
    """Warnings too: the library's logger does not fall back to stderr."""
    code = (
        "from statekit import SessionStateManager\n"
        "from statekit.watch.logs import log_events\n"
        "manager = SessionStateManager()\n"
        "log_events(manager)\n"
        "try: manager.lease('gone').begin()\n"
        "except RuntimeError: pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_fields_when_a_json_formatter_reads_them_then_they_are_data(
    records: list[logging.LogRecord],
) -> None:
    """Structured output needs no parsing of messages."""
    manager = SessionStateManager()
    log_events(manager, "statekit.robots")
    manager.lease("robot 1", begin=KEPT).begin()
    told = [json.loads(json.dumps(vars(one), default=str)) for one in records]
    assert [one["event"] for one in told] == ["created", "leased"]
    assert told[0]["session_id"] == "robot 1"
    assert told[0]["declared_nbytes"]["cpu"] > 0
    assert told[0]["name"] == "statekit.robots"


def test_levels_when_listed_then_every_event_has_one() -> None:
    """A new kind of event gets a level on purpose."""
    assert {cls for cls in EVENTS if not issubclass(cls, events.Departed)} <= LEVELS.keys()
    assert {*KINDS} == {cls for cls in EVENTS if cls is not events.Departed}
