"""Words: what a plan says in sentences, which the text and the picture share."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from statekit_codegen.plan.answer import Answer, Fit, MixPlan, ModelPlan
from statekit_codegen.plan.gain import Gain
from statekit_codegen.plan.question import Question
from statekit_codegen.units import format_nbytes

__all__ = [
    "assumptions",
    "computed_with",
    "fit_words",
    "gain_words",
    "gains_note",
    "mix_words",
    "names",
    "percent",
    "remarks",
    "sessions_words",
]


def sessions_words(count: int) -> str:
    """`1 session`, `64 sessions`."""
    return "1 session" if count == 1 else f"{count:,} sessions"


def percent(part: int, whole: int) -> str:
    """A share, rounded half up; what is there is never 0 %."""
    if not part or not whole:
        return "0 %"
    return f"{(200 * part + whole) // (2 * whole)} %" if 200 * part >= whole else "< 1 %"


def names(found: Collection[str], most: int = 4) -> str:
    """Names in a sentence, the first so many of them."""
    first = list(found)[:most]
    left = len(found) - len(first)
    return ", ".join(first) + (f" and {left} more" if left else "")


def computed_with(plan: ModelPlan) -> str:
    """The numbers and the rank that figures are for."""
    numbers = ", ".join(f"{name}={number}" for name, number in plan.numbers.items())
    variant = f"variant {plan.variant}: " if plan.variant else ""
    said = f"Computed with {variant}{numbers}." if numbers else ""
    ranks = plan.ranks
    if ranks.count > 1:
        sizes = ", ".join(f"{name}={size}" for name, size in ranks.groups.items())
        said += f" Figures are those of rank {ranks.rank} of {ranks.count} ({sizes}), the fullest."
    return said.strip()


def fit_words(fit: Fit, asked: Question, crowd: int) -> list[str]:
    """How many fit, what is in the way of more, and what that means for as many as asked for.

    Args:
        crowd: how many sessions come at a time: 1, or those of a mix together.
    """
    if fit.sessions is None:
        return ["Nothing here limits the number of sessions: no budget is for what they hold."]
    limit = fit.limit
    assert limit is not None
    count = "Not one session fits" if not fit.sessions else sessions_words(fit.sessions)
    count += "." if not fit.sessions else (" fits." if fit.sessions == 1 else " fit.")
    said = [
        f"{count} {limit.device} is full first: {percent(limit.value_nbytes, limit.used_nbytes)} "
        f"of it is {limit.value}. {'One more' if crowd == 1 else f'The next {crowd:,}'} would need "
        f"{format_nbytes(limit.short_nbytes)} more there."
    ]
    missing = asked.sessions - fit.sessions
    if missing > 0:
        said.append(f"{sessions_words(asked.sessions)}: {missing:,} too many.")
    return said


def gain_words(gain: Gain, models: Collection[str]) -> str:
    """A change, as something that one could do, and what is full then."""
    of = f" of {gain.model}" if len(models) > 1 else ""
    if gain.change == "bound":
        change = f"{gain.names[0]}{of} one less: {gain.to}"
    elif gain.change == "growth":
        change = f"keep only one item{of} of {names(gain.names)}"
    else:
        change = f"{gain.change} {names(gain.names)}"
    if gain.more == 0:
        return change
    return f"{change}; then {gain.full} is full" if gain.full else f"{change}; then nothing is full"


def gains_note(fit: Fit, asked: Question, models: Collection[str]) -> str:
    """What the changes that put sessions away assume; empty where there is none."""
    if not any(gain.change in ("park", "rebuild") for gain in fit.gains):
        return ""
    used = sessions_words(asked.active)
    said = f"Parked and rebuilt: of sessions that wait, with {used} at a time in use (--active)"
    said += ", at least one of each model." if len(models) > 1 else "."
    parks = any(gain.change == "park" for gain in fit.gains)
    if parks and "cpu" not in asked.budgets:
        said += " Without a budget for cpu, any number of bytes is parked there."
    if parks and "disk" not in asked.budgets:
        said += " Nothing is parked on a disk: it has no budget."
    return said


def mix_words(mix: MixPlan) -> str:
    """The proportions of a mix."""
    return " to ".join(f"{count} {name}" for name, count in mix.parts.items())


def remarks(plan: ModelPlan) -> list[str]:
    """What the figures leave out or count in a way that one may not expect."""
    values = plan.need.values
    free = [one.name for one in values if one.device == "none"]
    found = []
    if plan.need.unknown:
        found.append(f"Not counted, as its bytes are unknown: {', '.join(plan.need.unknown)}.")
    pending: Mapping[str, int] = {v.name: v.pending_nbytes for v in values if v.pending_nbytes}
    brief = {one.name for one in values if one.of_a_request}
    for name, nbytes in pending.items():
        when = "only while a request runs" if name in brief else "while a step runs"
        found.append(f"+{format_nbytes(nbytes)} of {name} {when}, counted for every session.")
    if plan.idle_groups:
        found.append(f"No value is cut over {' or '.join(plan.idle_groups)}: nothing is divided.")
    if free:
        found.append(f"Without memory to speak of: {', '.join(free)}.")
    return found


def assumptions(answer: Answer) -> list[str]:
    """What a reader must know about all figures."""
    if not answer.asked.budgets:
        return ["No budget is given: --budget cuda=80GiB says how many sessions fit."]
    return [
        "Budgets are for session state alone: weights, activations and what schemas list as "
        "`outside` come off them first."
    ]
