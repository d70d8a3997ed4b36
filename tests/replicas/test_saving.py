"""Stores of snapshots: the newest one counts, whoever writes, and whatever is in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from statekit.errors import SnapshotError
from statekit.replicas.saving import FolderStore, MemoryStore, Saved, Store

IDS = ["robot", "left/arm", "..", "a" * 300, "ünï", "A", "a"]


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else FolderStore(tmp_path / "kept")


def test_store_when_put_then_the_newest_is_got(store: Store) -> None:
    """Epoch first, then step; what is older does not replace what is newer."""
    assert store.get("robot") is None
    for epoch, step in ((3, 5), (3, 6), (2, 90), (3, 4), (4, 1), (3, 7)):
        store.put("robot", Saved(epoch, step, b"%d.%d" % (epoch, step)))
    assert store.get("robot") == Saved(4, 1, b"4.1")
    store.put("robot", Saved(4, 1, b"again"))
    assert store.get("robot") == Saved(4, 1, b"again")


def test_store_when_many_sessions_then_each_has_its_own(store: Store) -> None:
    """Whatever an id looks like."""
    for i, name in enumerate(IDS):
        store.put(name, Saved(1, i, name.encode()))
    assert [store.get(name) for name in IDS] == [
        Saved(1, i, name.encode()) for i, name in enumerate(IDS)
    ]
    for name in IDS:
        store.drop(name)
        store.drop(name)
    assert [store.get(name) for name in IDS] == [None] * len(IDS)


def test_folder_when_newer_are_put_then_one_file_a_session_is_left(tmp_path: Path) -> None:
    """What is older is removed, and so is the folder of a session that has ended."""
    store = FolderStore(tmp_path)
    for step in range(5):
        store.put("robot", Saved(1, step, b"x" * step))
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["1.4.statekit"]
    store.drop("robot")
    assert list(tmp_path.iterdir()) == []


def test_folder_when_there_are_other_files_then_they_are_not_touched(tmp_path: Path) -> None:
    """What was being written when a process died, or is somebody's, is no snapshot."""
    store = FolderStore(tmp_path)
    store.put("robot", Saved(1, 1, b"whole"))
    (place,) = tmp_path.iterdir()
    (place / f".9.9.statekit.{'0' * 32}.tmp").write_bytes(b"half")
    (place / "notes.txt").write_text("mine")
    assert store.get("robot") == Saved(1, 1, b"whole")
    store.put("robot", Saved(1, 2, b"newer"))
    store.drop("robot")
    assert (place / "notes.txt").read_text() == "mine"


def test_folder_when_it_cannot_be_used_then_error_names_it(tmp_path: Path) -> None:
    """A file where the folder should be: a SnapshotError with the place."""
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(SnapshotError, match="kept"):
        FolderStore(tmp_path / "kept").put("robot", Saved(1, 1, b""))
