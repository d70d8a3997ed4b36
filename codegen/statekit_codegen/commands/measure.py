"""`statekit measure`: run a command and say what its sessions hold, and what is declared wrong."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import click

from statekit.errors import GenerateError
from statekit.measure.recording import Recording
from statekit_codegen.console import console_of
from statekit_codegen.measured.blocks import blocks_of
from statekit_codegen.measured.document import to_json
from statekit_codegen.measured.picture import pictures_of
from statekit_codegen.measured.png import require_pillow, write_png
from statekit_codegen.measured.reading import read_folder, read_recording
from statekit_codegen.measured.report import Report, report_of
from statekit_codegen.measured.running import exit_words, run
from statekit_codegen.measured.schemas import SchemaFile, files_of, named
from statekit_codegen.measured.svg import write_svg
from statekit_codegen.measured.text import print_report
from statekit_codegen.measured.write_back import write_back
from statekit_codegen.plan import question
from statekit_codegen.review_words import one_line

__all__ = ["measure"]

Format = Literal["text", "json"]

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(
    short_help="Show what the sessions of a run hold, and what is declared wrong.",
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click.option("--from", "saved", metavar="FILE", type=_FILE, help="A saved recording, no command.")
@click.option("--save", metavar="FILE", type=_FILE, help="Save the recording, for --from.")
@click.option(
    "--schema", "schemas", metavar="FILE", multiple=True, type=_FILE, help="Compare with this."
)
@click.option(
    "--set", "settings", metavar="NAME=NUMBER", multiple=True, help="A number of the run."
)
@click.option("--write", is_flag=True, help="Write `measured` blocks into the schemas.")
@click.option("--hardware", metavar="TEXT", help="For them.  [default: detected]")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="For whom."
)
@click.option("--output", metavar="FILE", type=_FILE, help="Report into FILE, not stdout.")
@click.option("--svg", metavar="FILE", type=_FILE, help="Draw bytes over steps.")
@click.option("--png", metavar="FILE", type=_FILE, help="Likewise; needs Pillow.")
@click.option("--exit-code", is_flag=True, help="Exit 1 if a declaration is wrong.")
def measure(
    command: tuple[str, ...],
    saved: Path | None,
    save: Path | None,
    schemas: tuple[Path, ...],
    settings: tuple[str, ...],
    write: bool,
    hardware: str | None,
    form: Format,
    output: Path | None,
    svg: Path | None,
    png: Path | None,
    exit_code: bool,
) -> int:
    """Show what the sessions of a run hold, and what is declared wrong.

    COMMAND is run as it is; its exit code is ours, or 2 if it made no manager.

    \b
    Example:
      statekit measure --write -- python serve.py --steps 100
    """
    if bool(command) == (saved is not None):
        raise click.UsageError("name a command after --, or a recording with --from")
    _check_places({"--save": save, "--output": output, "--svg": svg, "--png": png})
    if png is not None:
        require_pillow(png)
    given = named(schemas)
    code, recording = (0, read_recording(saved)) if saved is not None else _run(command)
    if not recording.sessions:
        print(f"statekit measure: {_nothing(recording)}", file=sys.stderr)
        return code or 2
    with _kept(recording) if saved is None and save is None else contextlib.nullcontext():
        if save is not None:
            _write_text(save, recording.to_json() + "\n", "--save")
        files = files_of(recording, given)
        report = _report(recording, files, settings)
        _print(report, form, output)
        if svg is not None:
            write_svg(pictures_of(report), svg)
        if png is not None:
            write_png(pictures_of(report), png)
        if write:
            written = write_back(blocks_of(report, hardware), files)
            print(written, file=sys.stderr if form == "json" and output is None else sys.stdout)
    if code:
        print(f"statekit measure: {exit_words(code)}", file=sys.stderr)
    return code or int(exit_code and report.wrong > 0)


def _check_places(places: dict[str, Path | None]) -> None:
    """Refuse files that could not be written before anything is run for hours.

    Raises:
        GenerateError: the folder of one of them is not there.
    """
    for option, file in places.items():
        if file is not None and not file.parent.is_dir():
            found = "cannot be written: no such folder"
            todo = "name a file in a folder that is there"
            raise GenerateError(f"{option} {file}", found, todo)


def _run(command: tuple[str, ...]) -> tuple[int, Recording]:
    with tempfile.TemporaryDirectory(prefix="statekit-measure-") as folder:
        sys.stdout.flush()
        code = run(command, Path(folder))
        return code, read_folder(Path(folder))


@contextlib.contextmanager
def _kept(recording: Recording) -> Iterator[None]:
    """Keep what a run has given, where something goes wrong with telling of it."""
    try:
        yield
    except Exception:
        with tempfile.NamedTemporaryFile(
            "w", prefix="statekit-recording-", suffix=".json", delete=False, encoding="utf-8"
        ) as file:
            file.write(recording.to_json() + "\n")
        words = f"the run's recording is in {file.name}; go on with --from {file.name}"
        print(f"statekit measure: {words}", file=sys.stderr)
        raise


def _nothing(recording: Recording) -> str:
    """Why there is nothing to tell."""
    if recording.troubles:
        return f"nothing was measured: {one_line(recording.troubles[0])}"
    if recording.managers:
        return "no session of its managers took a step; nothing to compare"
    return (
        "the command made no SessionStateManager, so there is nothing to measure; is it started "
        "with the Python that statekit is installed for, and is the state manager turned on?"
    )


def _report(
    recording: Recording, files: Mapping[str, SchemaFile], settings: Iterable[str]
) -> Report:
    """The report, by the schemas of today where they are here."""
    specs = {**recording.specs, **{name: file.model.spec for name, file in files.items()}}
    known = sorted({name for spec in specs.values() for name in spec.environment()})
    places = {name: file.model.loaded.positions for name, file in files.items()}
    return report_of(recording, specs.values(), question.numbers(settings, known), places)


def _print(report: Report, form: Format, output: Path | None) -> None:
    if output is None:
        if form == "json":
            print(to_json(report))
        else:
            print_report(report, console_of(None))
        return
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        _print(report, form, None)
    _write_text(output, text.getvalue(), "--output")


def _write_text(file: Path, text: str, option: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        found = f"cannot be written: {error.strerror or error}"
        todo = "name a file in a folder that you may write"
        raise GenerateError(f"{option} {file}", found, todo) from None
