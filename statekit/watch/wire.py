"""The messages between server and client: one JSON object a line, each way one for the other.

    {"statekit": 1, "ask": "picture", "top": 50, "sort": "bytes", "since": 0, "values_of": null}
    {"statekit": 1, "picture": {...}}     of a manager
    {"statekit": 1, "service": {...}}     of a service
    {"statekit": 1, "error": "..."}

Owns the forms and their limits. Loads without torch.

    O1  A line that is too long, no UTF-8, no JSON, or of another version is a ValueError that says
        so; nothing else is raised, and nothing is guessed.
"""

from __future__ import annotations

import json
from typing import Any

import attrs

from statekit.watch.picture import Picture, read
from statekit.watch.service_picture import ServicePicture

__all__ = [
    "MAX_ANSWER",
    "MAX_ID",
    "MAX_REQUEST",
    "MAX_TOP",
    "SORTS",
    "VERSION",
    "Ask",
    "answer_line",
    "ask_line",
    "error_line",
    "read_answer",
    "read_ask",
]

VERSION = 1
MAX_REQUEST = 16 * 1024
"""Bytes of a request's line."""
MAX_ANSWER = 8 * 1024 * 1024
"""Bytes of an answer's line."""
MAX_TOP = 1000
"""Sessions, and values of one, in an answer."""
MAX_ID = 256
"""Characters of a session id in an answer; longer ones are cut."""
SORTS = ("bytes", "idle", "leases", "id")


@attrs.frozen
class Ask:
    """What a client wants to see.

    `top` sessions in the order of `sort`, or replicas of a service; happenings after number
    `since`; the values of the session `values_of`, which a service does not know.
    """

    top: int = 50
    sort: str = "bytes"
    since: int = 0
    values_of: str | None = None


def ask_line(ask: Ask) -> bytes:
    """A request as its line."""
    return _line({"ask": "picture", **attrs.asdict(ask)})


def answer_line(picture: Picture | ServicePicture) -> bytes:
    """A picture as its line."""
    kind = "picture" if isinstance(picture, Picture) else "service"
    return _line({kind: attrs.asdict(picture)})


def error_line(found: str) -> bytes:
    """What a client is told in place of a picture."""
    return _line({"error": found})


def read_ask(line: bytes) -> Ask:
    """A request. Raises: ValueError."""
    data = _read(line, MAX_REQUEST)
    if data.get("ask") != "picture":
        raise ValueError(f"asks for {str(data.get('ask'))[:40]!r}; this server knows 'picture'")
    ask = read(Ask, {**attrs.asdict(Ask()), **data})
    if ask.sort not in SORTS:
        raise ValueError(f"$.sort: one of {', '.join(SORTS)}")
    if not 0 <= ask.top <= MAX_TOP:
        raise ValueError(f"$.top: from 0 to {MAX_TOP}")
    return ask


def read_answer(line: bytes) -> Picture | ServicePicture:
    """A picture. Raises: ValueError, also where the server says that something went wrong."""
    data = _read(line, MAX_ANSWER)
    if "error" in data:
        raise ValueError(f"the server says: {str(data['error'])[:200]}")
    if "service" in data:
        return read(ServicePicture, data["service"])
    return read(Picture, data.get("picture"))


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps({"statekit": VERSION, **data}, separators=(",", ":")).encode() + b"\n"


def _read(line: bytes, limit: int) -> dict[str, Any]:
    if len(line) > limit:
        raise ValueError(f"a line of more than {limit} bytes")
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("a line that is no JSON") from None
    if not isinstance(data, dict) or "statekit" not in data:
        raise ValueError("a line that is no message of statekit")
    if data["statekit"] != VERSION:
        found = f"version {str(data['statekit'])[:20]}; this side speaks {VERSION}"
        raise ValueError(f"a message of {found}")
    return data
