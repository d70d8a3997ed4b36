"""Messages and pictures from whoever is at the other end: words where they are wrong, no more."""

from __future__ import annotations

import contextlib
import json
from io import StringIO
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from statekit.watch import wire
from statekit.watch.picture import Device, Happening, Picture, Session, Value
from statekit_codegen.top_view import View, layout

TEXT = st.text(max_size=12)
COUNT = st.integers(0, 2**63 - 1)
SECONDS = st.floats(0, 1e10)
BYTES = st.dictionaries(TEXT, COUNT, max_size=3)
PICTURES = st.builds(
    Picture,
    pid=COUNT,
    name=TEXT,
    session_count=COUNT,
    max_sessions=COUNT,
    leases=COUNT,
    hits=COUNT,
    misses=COUNT,
    evictions=COUNT,
    devices=st.lists(st.builds(Device, TEXT, COUNT, st.none() | COUNT), max_size=3).map(tuple),
    parked=BYTES,
    sessions=st.lists(
        st.builds(Session, TEXT, TEXT, COUNT, st.none() | SECONDS, st.booleans(), BYTES, BYTES),
        max_size=4,
    ).map(tuple),
    happenings=st.lists(
        st.builds(Happening, COUNT, SECONDS, TEXT, st.booleans(), TEXT), max_size=3
    ).map(tuple),
    values_of=st.none() | TEXT,
    values=st.none()
    | st.lists(st.builds(Value, TEXT, TEXT, TEXT, BYTES, TEXT), max_size=3).map(tuple),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(PICTURES)
def test_picture_when_it_goes_through_a_line_then_it_is_the_same(picture: Picture) -> None:
    """Whatever clients called their sessions."""
    line = wire.answer_line(picture)
    assert line.count(b"\n") == 1
    assert wire.read_answer(line) == picture


@settings(max_examples=60)
@given(PICTURES, st.booleans(), st.booleans(), st.sampled_from([10, 24, None]))
def test_picture_when_shown_then_no_control_character_comes_of_it(
    picture: Picture, live: bool, values: bool, height: int | None
) -> None:
    """Any picture that can be read can be laid out, and drives no terminal."""
    text = StringIO()
    console = Console(file=text, width=80, highlight=False)
    console.print(layout(picture, View(live=live, values=values), 80, height))
    assert text.getvalue().replace("\n", "").isprintable()


@given(st.binary(max_size=80) | JSON.map(lambda data: json.dumps(data).encode()))
def test_line_when_it_is_anything_then_a_value_error_at_most(line: bytes) -> None:
    """Neither side can be brought down by the other."""
    for reader in (wire.read_ask, wire.read_answer):
        with pytest.raises(ValueError, match=r"a line|a message"):
            reader(line)


@settings(max_examples=200)
@given(PICTURES, st.data())
def test_picture_when_one_field_is_anything_then_it_is_read_or_refused(
    picture: Picture, data: st.DataObject
) -> None:
    """A field of another type, or a number of no use, is named; what is read can be shown."""
    message: dict[str, Any] = json.loads(wire.answer_line(picture))
    place = message["picture"]
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            break
        place = place[key]
    with contextlib.suppress(ValueError):
        found = wire.read_answer(json.dumps(message).encode())
        try:
            Console(file=StringIO(), width=80).print(layout(found, View(), 80, 24))
        except ValueError as error:
            pytest.fail(f"what was read cannot be shown: {error!r}")


@given(
    st.builds(
        wire.Ask,
        st.integers(0, wire.MAX_TOP),
        st.sampled_from(wire.SORTS),
        COUNT,
        st.none() | TEXT,
    )
)
def test_ask_when_it_goes_through_a_line_then_it_is_the_same(ask: wire.Ask) -> None:
    """Both ways."""
    assert wire.read_ask(wire.ask_line(ask)) == ask


def test_ask_when_it_leaves_something_out_then_the_defaults() -> None:
    """A client that wants a picture need not say more; one from later may say more."""
    assert wire.read_ask(b'{"statekit": 1, "ask": "picture"}') == wire.Ask()
    assert wire.read_ask(b'{"statekit": 1, "ask": "picture", "more": [1]}') == wire.Ask()
    assert attrs.asdict(wire.Ask())["sort"] == "bytes"
