"""A review as Markdown for a pull request: tables, and nothing that reads schema text as markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from statekit_codegen.review import Review, Row
from statekit_codegen.review_words import (
    BUCKETS,
    bound_words,
    bytes_words,
    device_words,
    facts,
    notes,
    number_words,
    object_words,
    sections,
    sessions_words,
    total_extras,
)
from statekit_codegen.units import format_nbytes

__all__ = ["to_markdown"]

_MARKDOWN = re.compile(r"([\\`*\[\]<>|~#&]|(?<![^\W_])_|_(?![^\W_]))")
"""What Markdown or HTML gives a meaning to; an underscore within a word has none."""


def to_markdown(reviews: Iterable[Review]) -> str:
    """The reviews as one Markdown text, a section for each model."""
    return "\n".join(line for review in reviews for line in _markdown(review))


def _markdown(review: Review) -> Iterator[str]:
    model = review.model
    yield f"## {_code(model.spec.model)}"
    yield ""
    yield f"{_escaped(model.schema.doc)} Schema: {_code(model.file)}."
    if review.numbers:
        yield f"Computed with {_code(number_words(review))}."
    yield ""
    for bucket, meaning in BUCKETS.items():
        rows = review.bucket(bucket)
        if rows:
            yield f"### {_code(bucket)}: {meaning}"
            yield ""
            yield from _table(
                ["value", "object", "device", "bound", "a session", sessions_words(review)],
                ["cleared by", "why"],
                (_cells(review, row) for row in rows),
            )
    yield "### Declared bytes by device"
    yield ""
    yield from _table(
        ["device", "a session", sessions_words(review)],
        ["on top"],
        (
            [
                _code(total.device),
                format_nbytes(total.nbytes),
                format_nbytes(total.nbytes * review.sessions),
                "; ".join(total_extras(total)),
            ]
            for total in review.totals
        ),
    )
    for note in notes(review):
        yield _escaped(note)
        yield ""
    for title, entries in sections(review):
        yield f"### {title}"
        yield ""
        yield from (f"- {_code(name)}: {_escaped(text)}" for name, text in entries)
        yield ""


def _cells(review: Review, row: Row) -> list[str]:
    more = facts(review, row)
    why = _escaped(row.why) or "**no decision is recorded**"
    return [
        _code(row.spec.name),
        object_words(row),
        _escaped(device_words(row)),
        _escaped(bound_words(row)),
        bytes_words(row.nbytes),
        bytes_words(None if row.nbytes is None else row.nbytes * review.sessions),
        _escaped(", ".join(row.cleared_by) or "nothing"),
        f"{why}<br>*{_escaped(more)}*" if more else why,
    ]


def _table(left: list[str], right: list[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table with figures aligned to the right: columns whose names speak of sessions."""
    names = [*left, *right]
    yield f"| {' | '.join(names)} |"
    yield "|" + "|".join("---:" if "session" in name else "---" for name in names) + "|"
    for cells in rows:
        yield f"| {' | '.join(cells)} |"
    yield ""


def _escaped(text: str) -> str:
    """`text` on one line, with nothing in it that Markdown or HTML would read as markup."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """`text` as code, which no backtick or bar in it ends."""
    return "`" + text.replace("`", "'").replace("|", "\\|") + "`"
