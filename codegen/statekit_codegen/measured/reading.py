"""Reading: recordings from the files that processes left, or that somebody saved.

Owns nothing but the way from JSON to `Recording`: a file is from a process of ours, and is refused
with a word where it is not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cattrs

from statekit.errors import GenerateError
from statekit.measure.recording import FORMAT, Recording

__all__ = ["read_folder", "read_recording"]

_CONVERTER = cattrs.Converter()


def read_recording(file: Path) -> Recording:
    """The recording in `file`.

    Raises:
        GenerateError: it cannot be read, or is none.
    """
    try:
        data: Any = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        found = f"unreadable: {error.strerror or error}"
        raise GenerateError(str(file), found, "name a file that a recording was saved to") from None
    except ValueError:
        raise _none(file) from None
    if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
        raise _none(file)
    try:
        return _CONVERTER.structure(data, Recording)
    except Exception:  # what cattrs raises is a tree of any exceptions
        raise _none(file) from None


def read_folder(folder: Path) -> Recording:
    """The recordings that the processes of a run left in `folder`, as one.

    Raises:
        GenerateError: one of them cannot be read.
    """
    return Recording.joined(read_recording(file) for file in sorted(folder.glob("*.json")))


def _none(file: Path) -> GenerateError:
    todo = "name a file that `record.save` wrote, with this version of statekit"
    return GenerateError(str(file), "no recording", todo)
