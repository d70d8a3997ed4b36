"""Snapshot files: written whole or not at all, opened without reading a tensor.

Owns the three calls that others use. How it is done stands in `statekit.snapshot_file.writing`,
`temporary` and `reading`; the format in `statekit.snapshot_file.head`.

    write_snapshot("a.snap", {"attrs": {"step": 3}}, {"session_id": "a"})
    with open_snapshot("a.snap") as snapshot:
        snapshot.about, snapshot.read()

Any thread, any number of processes: who writes a name last has it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from statekit.snapshot_file.reading import Snapshot
from statekit.snapshot_file.source import Given, failed, open_source
from statekit.snapshot_file.temporary import replace_file
from statekit.snapshot_file.writing import Draft

__all__ = ["Snapshot", "open_snapshot", "snapshot_bytes", "write_snapshot"]


def write_snapshot(
    path: str | os.PathLike[str],
    value: Any,
    about: Mapping[str, Any],
    *,
    created_at: datetime | None = None,
    fsync: bool = True,
) -> int:
    """A file at `path` holds `value`, and is on the disk; returns its bytes.

    Args:
        path: what is there is replaced in one step, at the end. Only the owner may read the file.
        value: whatever `statekit.image.taking` takes a picture of; must not change meanwhile.
        about: what JSON can say: text, numbers, truth values, None, lists and dicts of such.
        created_at: instead of now.
        fsync: without, a crash of the machine can leave a damaged file, a crash of the process
            still none.

    Raises:
        UnsavableError: a part of `value` or `about` cannot be saved; nothing was touched.
        SnapshotError: the file cannot be written; what was at `path` is still there.
    """
    draft = Draft(value, about, created_at)
    replace_file(os.fspath(path), partial(draft.write, flush=fsync), fsync=fsync)
    return draft.nbytes


def snapshot_bytes(
    value: Any, about: Mapping[str, Any], *, created_at: datetime | None = None
) -> bytes:
    """What `write_snapshot` would put into a file.

    Raises:
        UnsavableError: a part of `value` or `about` cannot be saved.
        SnapshotError: there is no memory.
    """
    draft = Draft(value, about, created_at)
    try:
        return draft.to_bytes()
    except (MemoryError, RuntimeError) as error:
        raise failed("the bytes", error) from error


def open_snapshot(source: Given) -> Snapshot:
    """The snapshot, open: its head was read and checked, no tensor was touched.

    Args:
        source: a path, or the bytes of a snapshot, which must not change until it is closed.

    Raises:
        DamagedSnapshotError: it is no snapshot, or not the one that was written.
        IncompatibleSnapshotError: its format is newer than this statekit.
        SnapshotError: it cannot be read.
    """
    return Snapshot(open_source(source))
