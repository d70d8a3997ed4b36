"""A report as a part of a page: Markdown, one table for each load."""

from __future__ import annotations

from collections.abc import Iterator

from statekit_codegen.simulated.report import Report
from statekit_codegen.simulated.words import POLICY_WORDS, figures, load_words

__all__ = ["table"]


def table(report: Report) -> str:
    """The figures, policies side by side."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    for number, load in enumerate(report.loads):
        outcomes = report.at(load)
        if number:
            yield ""
        yield (
            f"| {load_words(load)} | "
            + " | ".join(POLICY_WORDS[one.policy] for one in outcomes)
            + " |"
        )
        yield "| --- |" + " ---: |" * len(outcomes)
        rows = [list(figures(one)) for one in outcomes]
        for cells in zip(*rows, strict=True):
            yield f"| {cells[0][0]} | " + " | ".join(text for _, text in cells) + " |"
