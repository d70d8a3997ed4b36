"""What the writer and the reader of a head agree on: the format, its beginning, its JSON.

Owns the constants, the checksum of a head, and which JSON is taken: no key twice, no number of a
thousand digits, no words that JSON has not. Needs neither torch nor numpy.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

__all__ = [
    "BEGIN",
    "FORMAT",
    "MANIFEST",
    "MAX_HEADER_NBYTES",
    "METADATA",
    "BadJsonError",
    "digest",
    "find_unsayable",
    "read_json",
    "write_json",
]

FORMAT = 1
MAX_HEADER_NBYTES = 100_000_000  # more is refused by every reader of safetensors

BEGIN = re.compile(
    rb'\{"__metadata__":\{"statekit\.format":"([1-9][0-9]{0,5})","statekit\.header":"([0-9a-f]{64})",'
)
"""How the header of every format begins: its number, and the checksum."""

METADATA = ["statekit.format", "statekit.header", "statekit.manifest", "statekit.version"]
MANIFEST = ["about", "created_at", "recipe", "storages"]

_MAX_DIGITS = 20
_MAX_DEPTH = 64


class BadJsonError(Exception):
    """A text is no JSON that is taken."""


def digest(header: bytes) -> bytes:
    """The checksum of a header that matches `BEGIN`: of all but the checksum's own digits."""
    begin = BEGIN.match(header)
    assert begin is not None
    found = hashlib.sha256(len(header).to_bytes(8, "little"))
    found.update(header[: begin.start(2)] + b"0" * 64)
    found.update(memoryview(header)[begin.end(2) :])
    return found.hexdigest().encode("ascii")


def write_json(value: Any) -> str:
    """The shortest text, in ASCII. Raises: ValueError, TypeError, RecursionError."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def read_json(text: str) -> Any:
    """The value. Raises: BadJsonError."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise BadJsonError("JSON that is nested too deep") from None
    except ValueError as error:
        raise BadJsonError(f"no JSON ({str(error)[:80]})") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadJsonError("JSON with a key twice")
    return found


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:  # Python reads many of them in the square of their number
        raise BadJsonError("JSON with a number of too many digits")
    return int(digits)


def _constant(word: str) -> Any:
    raise BadJsonError(f"JSON with {word}")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_whole, parse_constant=_constant)


def find_unsayable(value: Any, place: str) -> tuple[str, str] | None:
    """Where and what in `value` JSON cannot say exactly; None if there is no such part."""
    waiting: list[tuple[str, Any, int]] = [(place, value, 0)]
    while waiting:
        place, part, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            return place[:80], "is nested too deep"
        if isinstance(part, dict):
            for key, each in part.items():
                if type(key) is not str:
                    return place, f"has a key of type {type(key).__name__}"
                waiting.append((f"{place}.{key}", each, depth + 1))
        elif isinstance(part, list | tuple):
            waiting += [(f"{place}[{i}]", each, depth + 1) for i, each in enumerate(part)]
        elif type(part) is int:
            if part.bit_length() > 63:
                return place, "is a number beyond 64 bits"
        elif type(part) is float:
            if not math.isfinite(part):
                return place, f"is {part}"
        elif part is not None and type(part) not in (str, bool):
            return place, f"is an instance of {type(part).__qualname__}"
    return None
