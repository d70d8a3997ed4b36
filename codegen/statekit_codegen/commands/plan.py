"""`statekit plan`: how many sessions a deployment holds, and what limits them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from statekit_codegen.console import console_of
from statekit_codegen.load import load_models
from statekit_codegen.plan import question
from statekit_codegen.plan.answer import answer
from statekit_codegen.plan.document import to_json
from statekit_codegen.plan.svg import write_svg
from statekit_codegen.plan.text import print_answer
from statekit_codegen.project import Project
from statekit_codegen.variant import in_variant, require_variant

__all__ = ["plan"]

SESSIONS = 64
"""As many as a manager keeps where nobody says otherwise."""


def _count(context: click.Context, option: click.Parameter, given: str | None) -> int | None:
    """A whole number from 1 on."""
    if given is None:
        return None
    if not given.isdecimal() or not given.isascii() or len(given) > 9 or int(given) < 1:
        raise click.BadParameter(f"{given!r}; write a whole number from 1 to 999,999,999")
    return int(given)


@click.command(short_help="Show how many sessions fit, and what limits them.")
@click.argument("schemas", metavar="[SCHEMA]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--sessions", metavar="N", callback=_count, help="Exit with 1 if so many do not fit.")
@click.option(
    "--budget",
    "budgets",
    metavar="DEVICE=AMOUNT",
    multiple=True,
    help="Bytes for session state. Can be repeated.",
)
@click.option(
    "--steps",
    metavar="K",
    callback=_count,
    default="100",
    help="Count after this step.  [default: 100]",
)
@click.option(
    "--set",
    "settings",
    metavar="NAME=NUMBER",
    multiple=True,
    help="Use this number. Can be repeated.",
)
@click.option("--variant", metavar="NAME", help="Use the numbers of this variant of a schema.")
@click.option(
    "--shard",
    "groups",
    metavar="GROUP=N",
    multiple=True,
    help="Cut over N ranks: tp, sp, cfg or pp.",
)
@click.option("--mix", metavar="A=N,B=N", help="Also plan models side by side, so many of each.")
@click.option(
    "--active",
    metavar="N",
    callback=_count,
    default="1",
    help="Sessions in use at a time.  [default: 1]",
)
@click.option(
    "--model-device",
    metavar="DEVICE",
    default="cuda",
    help="What schemas call `model`.  [default: cuda]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="For a person or for a program.",
)
@click.option(
    "--svg",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Draw the bytes over steps into this file.",
)
def plan(
    schemas: tuple[Path, ...],
    sessions: int | None,
    budgets: tuple[str, ...],
    steps: int,
    settings: tuple[str, ...],
    variant: str | None,
    groups: tuple[str, ...],
    mix: str | None,
    active: int,
    model_device: str,
    form: Literal["text", "json"],
    svg: Path | None,
) -> int:
    """Show how many sessions fit, what limits them, and what would make room.

    All is computed from the schemas. Budgets are written as a manager reads them.

    \b
    Example:
      statekit plan --budget cuda=80GiB --budget cpu=256GiB --sessions 64
    """
    models = load_models(Project.find(Path.cwd()), schemas)
    require_variant(models, variant)
    models = [in_variant(model, variant) for model in models]
    known = sorted({name for model in models for name in model.spec.environment()})
    parts = None if mix is None else question.mix(mix, [model.spec.model for model in models])
    asked = question.Question(
        budgets=question.budgets(budgets),
        step=steps,
        numbers=question.numbers(settings, known),
        model_device=question.model_device(model_device),
        groups=question.groups(groups),
        active=active,
        sessions=SESSIONS if sessions is None else sessions,
    )
    found = answer(models, asked, parts)
    if svg is not None:
        write_svg(found, svg)
    if form == "json":
        print(to_json(found))
    else:
        print_answer(found, console_of(None))
    return 1 if sessions is not None and not found.holds() else 0
