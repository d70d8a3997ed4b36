"""The folder of a manager's snapshots: one file a session.

Owns the names. A name shows the id as far as a file name can, and a digest of it makes it the only
one: ids may hold slashes, dots, or differ by case alone.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["SUFFIX", "file_of", "files_in"]

SUFFIX = ".statekit"
_SHOWN_CHARS = 40


def file_of(session_id: str) -> str:
    """The name of the file for a session."""
    digest = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
    shown = re.sub(r"[^A-Za-z0-9_-]", "_", session_id)[:_SHOWN_CHARS]
    return f"{shown}-{digest[:24]}{SUFFIX}"


def files_in(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """The snapshots of a folder by name, links and subfolders left out. Raises: OSError."""
    with os.scandir(folder) as entries:
        names = [
            entry.name
            for entry in entries
            if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False)
        ]
    for name in sorted(names):
        yield Path(folder) / name
