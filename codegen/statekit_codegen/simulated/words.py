"""Words: the figures of a report as text, which the terminal, the page and the drawings share."""

from __future__ import annotations

from collections.abc import Iterator

from statekit.simulation.outcome import Outcome
from statekit_codegen.simulated.report import Report
from statekit_codegen.units import format_nbytes

__all__ = ["POLICY_WORDS", "assumptions", "figures", "load_words", "share", "sizes"]

POLICY_WORDS = {"count": "by count", "bytes": "by bytes", "parking": "with parking"}


def share(part: float) -> str:
    """A part of 1, in percent; what is there is never 0 %."""
    if part <= 0:
        return "0 %"
    percent = 100 * part
    if percent < 0.01:
        return "< 0.01 %"
    return f"{percent:.0f} %" if percent == round(percent) else f"{percent:.2f} %"


def load_words(load: float) -> str:
    """`load 3`, `load 1.5`."""
    return f"load {load:g}"


def sizes(report: Report) -> str:
    """How large the simulation is."""
    return (
        f"{report.replicas:,} replicas, {report.sessions:,} sessions, seed {report.seed}; "
        + ", ".join(f"{count} {name}" for name, count in report.parts.items())
        + "; "
        + ", ".join(
            f"{device} {format_nbytes(nbytes)}" for device, nbytes in report.budgets.items()
        )
        + " a replica"
    )


def assumptions(report: Report) -> list[str]:
    """What is simulated, in sentences."""
    rates = ", ".join(
        f"{rate / 1e9:g} GB/s to and from {name}"
        if name != "network"
        else f"{rate / 1e9:g} GB/s between replicas"
        for name, rate in report.bandwidths.items()
    )
    chance = f"{100 * report.pause_chance:g} %"
    return [
        "Load is the declared bytes of the sessions that live at a time, on average, over the "
        f"budgets for {report.model_device}.",
        f"Sessions arrive as a Poisson process and have {report.steps:g} steps on average, "
        f"geometrically distributed. A step takes {report.step_us / 1e6:g} s. After {chance} of "
        f"the steps the client pauses, for an exponential time of {report.pause_us / 1e6:g} s on "
        "average; after the others the next step follows at once.",
        f"Bytes move at {rates}, one transfer after the other in each direction.",
    ]


def figures(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """The figures of one policy, each with its name."""
    begun = outcome.begun or 1
    yield "finished", share(outcome.finished / begun)
    yield "refused", share(outcome.refused / begun)
    yield "interrupted", share(outcome.interrupted / begun)
    yield "states lost", f"{outcome.lost:,}"
    yield "evicted", f"{outcome.evicted:,}"
    yield "values released", f"{outcome.released:,}"
    yield "values rebuilt", f"{outcome.rebuilt:,}"
    yield "units parked", f"{outcome.parked:,}"
    yield "units restored", f"{outcome.restored:,}"
    yield "sessions moved", f"{outcome.moves:,}"
    for link, nbytes in outcome.moved.items():
        yield (
            f"bytes {link}" if link != "network" else "bytes between replicas",
            (format_nbytes(nbytes) if nbytes else "0"),
        )
    yield "time over a budget", share(outcome.over_share)
    yield "waits for bytes", f"{outcome.waited:,}"
    yield "... median", _wait(outcome.waited, outcome.wait_p50_us)
    yield "... 99 % within", _wait(outcome.waited, outcome.wait_p99_us)
    yield "waits after a move", f"{outcome.move_waited:,}"
    yield "... median", _wait(outcome.move_waited, outcome.move_wait_p50_us)
    yield "... 99 % within", _wait(outcome.move_waited, outcome.move_wait_p99_us)
    yield "planner asked", f"{outcome.planned:,}"
    yield "placement asked", f"{outcome.placed:,}"
    yield "decisions", f"{outcome.decisions:,}"
    yield "decisions a second", f"{outcome.decisions_per_s:,.0f}"


def _wait(count: int, wait_us: int) -> str:
    return f"{wait_us / 1000:,.0f} ms" if count else "none"
