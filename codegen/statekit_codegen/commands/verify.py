"""`statekit verify`: check every byte of snapshots, and name what is unfinished."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from statekit.errors import DamagedSnapshotError, IncompatibleSnapshotError, SnapshotError
from statekit.snapshot.folder import SUFFIX, files_in
from statekit.snapshot_file.source import failed
from statekit.snapshot_file.sweep import unfinished
from statekit.text import on_one_line
from statekit_codegen.units import format_nbytes

__all__ = ["verify"]

_BAD = ("damaged", "incompatible", "unfinished", "unread")
_WORDS = {DamagedSnapshotError: "damaged", IncompatibleSnapshotError: "incompatible"}


@click.command(short_help="Check every byte of snapshots.")
@click.argument("places", metavar="DIR|FILE...", nargs=-1, required=True, type=click.Path())
def verify(places: tuple[str, ...]) -> int:
    """Check snapshots: every byte, every checksum.

    Of a DIR, its snapshots, and the files that a dead writer left unfinished there, which the next
    save removes. One line for each file.

    \b
    Exit code: 0 all are as they were written, 1 one is not, or is unfinished,
    2 one could not be read.

    \b
    Example:
      $ statekit verify snapshots
      ok           snapshots/robot-7.statekit  603.2 MiB
      1 snapshot, all good
    """
    counts = dict.fromkeys(("ok", *_BAD), 0)
    for word, file, words in _findings(places):
        counts[word] += 1
        print(f"{word:<12} {on_one_line(file)}{words}")
    print(_summary(counts))
    if counts["unread"]:
        return 2
    return 1 if any(counts[word] for word in _BAD) else 0


def _findings(places: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """What each file is, its name, and what there is to say."""
    for place in places:
        if not os.path.isdir(place):
            yield _verify(place)
            continue
        try:
            files = list(files_in(place))
            left = unfinished(place)
        except (OSError, SnapshotError) as error:
            found = error if isinstance(error, SnapshotError) else failed(place, error)
            yield "unread", place, f": {found.found}; {found.todo}"
            continue
        for file in files:
            yield _verify(str(file))
        for name in left:
            words = ": its writer is dead; the next save into the folder removes it"
            yield "unfinished", str(Path(place) / name), words


def _verify(file: str) -> tuple[str, str, str]:
    from statekit.snapshot_file.file import open_snapshot  # loads torch

    try:
        with open_snapshot(file) as snapshot:
            snapshot.verify()
            return "ok", file, f"  {format_nbytes(snapshot.nbytes)}"
    except SnapshotError as error:
        return _WORDS.get(type(error), "unread"), file, f": {error.found}; {error.todo}"


def _summary(counts: dict[str, int]) -> str:
    total = sum(counts.values()) - counts["unfinished"]
    snapshots = "1 snapshot" if total == 1 else f"{total} snapshots"
    bad = [f"{counts[word]} {word}" for word in _BAD if counts[word]]
    return f"{snapshots}, {', '.join(bad) or 'all good' if total else f'none named *{SUFFIX}'}"
