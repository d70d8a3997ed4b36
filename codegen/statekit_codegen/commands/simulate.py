"""`statekit simulate`: what a service of many replicas would do, in virtual time."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from statekit_codegen.console import console_of
from statekit_codegen.load import load_models
from statekit_codegen.plan import question
from statekit_codegen.project import Project

if TYPE_CHECKING:
    from statekit.simulation.run import PolicyName

__all__ = ["simulate"]

_DEVICE = "cuda:0"
_BUDGETS = {_DEVICE: "80GiB", "cpu": "512GiB", "disk": "4TiB"}
_POLICIES = "count,bytes,parking"
_MOST = 10**7


def _count(context: click.Context, option: click.Parameter, given: str) -> int:
    """A whole number from 0 on."""
    if not given.isdecimal() or not given.isascii() or int(given) > _MOST:
        raise click.BadParameter(f"{given!r}; write a whole number up to {_MOST:,}")
    return int(given)


def _loads(context: click.Context, option: click.Parameter, given: str) -> tuple[float, ...]:
    """Numbers above 0, each once."""
    found: list[float] = []
    for text in given.split(","):
        try:
            number = float(Decimal(text.strip()))
        except InvalidOperation:
            number = 0.0
        if not 0 < number <= 1000 or number in found:
            raise click.BadParameter(f"{text!r}; write numbers up to 1,000, as in 1,2,4.5")
        found.append(number)
    return tuple(found)


def _policies(context: click.Context, option: click.Parameter, given: str) -> tuple[str, ...]:
    """Names of policies, each once."""
    names = tuple(text.strip() for text in given.split(","))
    if set(names) - set(_POLICIES.split(",")) or len(set(names)) < len(names):
        raise click.BadParameter(f"{given!r}; choose from {_POLICIES}")
    return names


@click.command(short_help="Run a service of many replicas in virtual time.")
@click.argument("schemas", metavar="[SCHEMA]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--replicas", metavar="N", callback=_count, default="20", help="[default: 20]")
@click.option("--sessions", metavar="N", callback=_count, default="10000", help="[default: 10000]")
@click.option("--seed", metavar="N", callback=_count, default="0", help="[default: 0]")
@click.option("--mix", metavar="A=N,B=N", help="So many of each.  [default: those that fit]")
@click.option(
    "--load",
    "loads",
    metavar="X,X",
    callback=_loads,
    default="3",
    help="Bytes asked for, over budgets.  [default: 3]",
)
@click.option(
    "--policy",
    "policies",
    metavar="P,P",
    callback=_policies,
    default=_POLICIES,
    help=f"[default: {_POLICIES}]",
)
@click.option(
    "--budget",
    "budgets",
    metavar="DEVICE=AMOUNT",
    multiple=True,
    help="Of a replica. Can be repeated.",
)
@click.option(
    "--drains", metavar="N", callback=_count, default="0", help="Empty N replicas, one by one."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="For a person or for a program.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the report and drawings there.",
)
def simulate(
    schemas: tuple[Path, ...],
    replicas: int,
    sessions: int,
    seed: int,
    mix: str | None,
    loads: tuple[float, ...],
    policies: tuple[PolicyName, ...],
    budgets: tuple[str, ...],
    drains: int,
    form: Literal["text", "json"],
    out: Path | None,
) -> int:
    """Run a service of many replicas in virtual time, and compare policies.

    Bytes are those of the schemas; the planner and the placement are the real
    ones. Each policy meets the same sessions.

    \b
    Example:
      statekit simulate --replicas 100 --sessions 100000 --load 1,3,6
    """
    if not replicas or not sessions:
        raise click.UsageError("there is nothing to simulate without replicas and sessions")
    models = load_models(Project.find(Path.cwd()), schemas)
    specs = {model.spec.model: model.spec for model in models}
    usual = question.budgets([f"{device}={amount}" for device, amount in _BUDGETS.items()])
    limits = {**usual, **question.budgets(budgets)}
    from statekit.simulation.run import Deployment  # here: it needs numpy
    from statekit_codegen.simulated import asking
    from statekit_codegen.simulated.report import to_json
    from statekit_codegen.simulated.text import print_report

    deployment = Deployment(replicas, limits, _DEVICE, drains=drains)
    known = list(specs)
    parts = asking.fitting(deployment, specs) if mix is None else question.mix(mix, known)
    chosen = [specs[name] for name in parts]
    asking.require_room(deployment, chosen)
    asked = asking.Asked(deployment, parts, sessions, seed, loads, policies, usual)
    report = asking.run(asked, chosen)
    if out is not None:
        asking.write(report, out)
    if form == "json":
        print(to_json(report))
    else:
        print_report(report, console_of(None))
    return 0
