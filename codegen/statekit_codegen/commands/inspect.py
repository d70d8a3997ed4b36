"""`statekit inspect`: show what a snapshot holds, without loading a tensor."""

from __future__ import annotations

from typing import Literal

import click

from statekit.snapshot_file.head import read_head
from statekit.snapshot_file.source import open_source
from statekit_codegen.console import console_of
from statekit_codegen.inspection import print_inspection, to_json

__all__ = ["inspect"]


@click.command(short_help="Show what a snapshot holds.")
@click.argument("file", metavar="FILE", type=click.Path())
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For a person, or for a program.",
)
@click.option(
    "--width",
    type=click.IntRange(min=40),
    help="Columns of the text.  [default: the terminal's; 80 in a pipe]",
)
def inspect(file: str, form: Literal["text", "json"], width: int | None) -> int:
    """Show what a snapshot holds.

    The session, its model and schema, and each value with its bytes. Only the head of the file is
    read and checked; `statekit verify` checks the rest.

    \b
    Exit code: 0 shown, 2 it is no snapshot, or not as it was written.

    \b
    Example:
      $ statekit inspect snapshots/robot-7.statekit
    """
    source = open_source(file)
    try:
        head = read_head(source)
    finally:
        source.close()
    if form == "json":
        print(to_json(file, head))
    else:
        print_inspection(file, head, console_of(width))
    return 0
