"""`statekit review`: show what a session of each model holds, and why; or what changed of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import click

from statekit.errors import GenerateError
from statekit_codegen.against import OtherSide, read_other_side
from statekit_codegen.console import console_of
from statekit_codegen.fault import closest
from statekit_codegen.load import load_models
from statekit_codegen.model import Model
from statekit_codegen.project import Project
from statekit_codegen.review import review as review_model
from statekit_codegen.review_change import markdown, records
from statekit_codegen.review_change.comparison import ModelChange, compare, unexplained
from statekit_codegen.review_change.text import print_changes
from statekit_codegen.review_json import to_json
from statekit_codegen.review_markdown import to_markdown
from statekit_codegen.review_text import print_review
from statekit_codegen.variant import in_variant, require_variant

__all__ = ["review"]

Format = Literal["text", "md", "json", "github"]


@click.command()
@click.argument("schemas", metavar="[SCHEMA]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--against",
    metavar="REV|DIR",
    help="Only what changed since a revision, or a copy.",
)
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit 1 if a bucket changed and its reason did not.",
)
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a page for the browser; it works offline.",
)
@click.option(
    "--format",
    "form",
    metavar="FORM",
    type=click.Choice(["text", "md", "json", "github"]),
    help="text (default), md, json; github with --against.",
)
@click.option(
    "--set",
    "settings",
    metavar="NAME=NUMBER",
    multiple=True,
    callback=lambda context, option, given: dict(map(_setting, given)),
    help="A number for a symbol, constant or parameter.",
)
@click.option("--variant", metavar="NAME", help="Use the numbers of this variant.")
@click.option(
    "--sessions",
    metavar="N",
    type=click.IntRange(1, 1_000_000),
    default=64,
    show_default=True,
    help="Show bytes of N sessions as well.",
)
@click.option(
    "--width",
    metavar="COLUMNS",
    type=click.IntRange(min=40),
    help="Of the text.  [default: terminal's; 80 in a pipe]",
)
def review(
    schemas: tuple[Path, ...],
    against: str | None,
    exit_code: bool,
    html: Path | None,
    form: Format | None,
    settings: dict[str, int],
    variant: str | None,
    sessions: int,
    width: int | None,
) -> int:
    """Show what a session holds, and why.

    For each model: values by bucket, bytes, bounds, resets, decisions, computed from the schema.
    Without SCHEMA, all schemas of the project.

    \b
    Examples:
      statekit review schemas/toy.yaml --set H=480 --set W=832
      statekit review --against main --format md   what changed, for a comment
      statekit review --html review.html           a page to sort and filter
    """
    _check_usage(against, exit_code, html, form)
    project = Project.find(Path.cwd())
    if against is None:
        models = load_models(project, schemas)
        require_variant(models, variant)
        models = [in_variant(model, variant) for model in models]
        _check_names(settings, models)
        if html is None:
            _print(models, form, settings, sessions, width)
        else:
            _write_page(html, models, settings, sessions)
        return 0
    models = _today(project, schemas)
    other = read_other_side(project, against)
    require_variant([*models, *other.models.values()], variant)
    models = [in_variant(model, variant) for model in models]
    before = {file: in_variant(model, variant) for file, model in other.models.items()}
    _check_names(settings, [*models, *before.values()])
    changes = compare(before, models, settings, sessions, all_schemas=not schemas)
    if html is None:
        _print_changes(changes, other, form, sessions, width)
    else:
        _write_page(html, models, settings, sessions, changes, against)
    return 1 if exit_code and unexplained(changes) else 0


def _print(
    models: Sequence[Model],
    form: Format | None,
    settings: dict[str, int],
    sessions: int,
    width: int | None,
) -> None:
    reviews = [review_model(model, settings, sessions) for model in models]
    if form == "json":
        print(to_json(reviews, sessions))
    elif form == "md":
        print(to_markdown(reviews), end="")
    else:
        console = console_of(width)
        for one in reviews:
            print_review(one, console)


def _print_changes(
    changes: Sequence[ModelChange],
    other: OtherSide,
    form: Format | None,
    sessions: int,
    width: int | None,
) -> None:
    if form == "json":
        print(records.to_json(changes, other.name, sessions))
    elif form == "md":
        print(markdown.to_markdown(changes, other.name), end="")
    elif form == "github":
        for line in records.to_annotations(changes):
            print(line)
    else:
        print_changes(changes, other.name, console_of(width))


def _write_page(
    file: Path,
    models: Sequence[Model],
    settings: dict[str, int],
    sessions: int,
    changes: Sequence[ModelChange] = (),
    against: str = "",
) -> None:
    from statekit_codegen.review_page import to_html  # loads the templates

    reviews = [review_model(model, settings, sessions) for model in models]
    page = to_html(reviews, sessions, changes, against)
    try:
        file.write_bytes(page.encode())
    except OSError as error:
        found = error.strerror or str(error)
        raise GenerateError(
            f"--html {file}", found, "name a file in a folder that is there"
        ) from None
    print(f"wrote {file.as_posix()}")


def _today(project: Project, schemas: tuple[Path, ...]) -> list[Model]:
    """The models of today; none where the project has no schema left."""
    folder = project.schemas
    if not schemas and not (folder.is_dir() and any(map(project.is_schema, folder.iterdir()))):
        return []
    return load_models(project, schemas)


def _check_usage(
    against: str | None, exit_code: bool, html: Path | None, form: Format | None
) -> None:
    if against is None and (exit_code or form == "github"):
        given = "--exit-code" if exit_code else "--format github"
        raise click.UsageError(f"{given} looks at a change; add --against REV or DIR")
    if html is not None and form is not None:
        raise click.UsageError("--html writes a page; leave out --format")
    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        raise click.BadParameter(
            f"{str(html)!r}; name a file that ends with .html", param_hint="--html"
        )


def _setting(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name or not number.isdecimal() or not number.isascii() or int(number) < 1:
        raise click.BadParameter(
            f"{text!r}; write a name and a whole number above 0, such as H=480"
        )
    return name, int(number)


def _check_names(names: Iterable[str], models: Iterable[Model]) -> None:
    known = sorted({name for model in models for name in model.spec.environment()})
    for name in names:
        if name not in known:
            todo = f"{closest(name, known)}known: {', '.join(known) or 'none'}"
            raise click.BadParameter(f"no schema has a number {name!r}; {todo}", param_hint="--set")
