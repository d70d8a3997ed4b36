"""A change as Markdown for a comment on a pull request.

M1  At most `MAX_CHARS` characters: texts are shortened, and blocks that do not fit are left
    out with a word that says how many.
M2  Every block that is opened is closed.
M3  Nothing of a schema is read as markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from statekit_codegen.review_change.comparison import Edit, ModelChange, ValueChange
from statekit_codegen.review_change.words import (
    KINDS,
    UNEXPLAINED,
    counts,
    cut,
    effect,
    kind_words,
    on_top,
    outcome,
    row_words,
    said,
    signed,
)
from statekit_codegen.review_words import sessions_words
from statekit_codegen.units import format_nbytes

__all__ = ["MAX_CHARS", "to_markdown"]

MAX_CHARS = 60_000
"""GitHub takes 65,536 characters in a comment."""

_TEXT_CHARS = 300
_MARKUP = re.compile(r"([\\`*\[\]<>|~#&]|(?<![^\W_])_|_(?![^\W_]))")
"""What Markdown, HTML or GitHub gives a meaning to; an underscore within a word has none."""


def to_markdown(changes: Sequence[ModelChange], against: str) -> str:
    """The changes as one comment, with a part to unfold for each value."""
    first, *warnings = outcome(changes, cut(against, _TEXT_CHARS))
    lines = ["## Review of state decisions", "", f"**{_escaped(first)}**", ""]
    lines += [f"> :warning: {_escaped(warning)}" for warning in warnings[:20]]
    if len(warnings) > 20:
        lines.append(f"> :warning: {len(warnings) - 20} more moved without a changed reason.")
    text = "\n".join([*lines, ""] if warnings else lines)
    left_out = 0
    # The word on what is left out needs room too; a block that comes later may still fit.
    for change in changes:
        if change.kind != "same":
            for block in _blocks(change):
                if len(text) + len(block) > MAX_CHARS - 200:
                    left_out += 1
                else:
                    text += block
    if left_out:
        parts = f"{left_out} part{'s' if left_out > 1 else ''}"
        text += f"\n*Cut off here: {parts} left out. `statekit review --against` shows all.*\n"
    return text


def _blocks(change: ModelChange) -> Iterator[str]:
    yield "\n".join(_heading(change)) + "\n"
    if change.edits:
        count = f"{len(change.edits)} edit{'' if len(change.edits) == 1 else 's'}"
        yield _folded(f"Of the model: {count}", _edit_table(change.edits))
    for value in change.values:
        yield _value(value)


def _heading(change: ModelChange) -> Iterator[str]:
    yield f"\n### {_code(change.model)}"
    yield ""
    what = {"added": "New model. ", "removed": "Gone. "}.get(change.kind, "")
    yield f"{what}{counts([change]) or 'no value'}; {effect(change)}. Schema: {_code(change.file)}."
    yield ""
    one = change.now or change.was
    assert one is not None
    if any(total.changed for total in change.totals):
        yield f"| device | | before | after | difference | in {sessions_words(one)} |"
        yield "|---|---|---:|---:|---:|---:|"
        for total in change.totals:
            difference = total.difference_nbytes
            cells = [format_nbytes(total.was.nbytes), format_nbytes(total.now.nbytes)]
            cells += [signed(difference), signed(difference * one.sessions)]
            yield f"| {_code(total.device)} | a session | {' | '.join(cells)} |"
            for name, was, now in on_top(total):
                yield f"| {_code(total.device)} | {name} | {was} | {now} | | |"
        yield ""
    if change.unknown:
        names = cut(", ".join(change.unknown), _TEXT_CHARS)
        yield _escaped(f"Not counted, as its bytes are unknown: {names}.")
        yield ""


def _value(value: ValueChange) -> str:
    title = KINDS[value.kind] if value.kind == "moved" else value.kind.capitalize()
    detail = f": {kind_words(value)}" if value.kind == "moved" else ""
    head = f"{title}: <code>{_html(value.name)}</code>{_html(detail)}"
    if value.difference_nbytes != 0:
        head += f" ({signed(value.difference_nbytes)} a session)"
    body: list[str] = []
    if value.unexplained:
        head = f"&#9888;&#65039; {head}"
        body += [f"**It {UNEXPLAINED}.**", ""]
    if value.edits:
        body += _edit_table(value.edits)
    else:
        row = value.now or value.was
        assert row is not None
        why = _escaped(cut(row.why, _TEXT_CHARS)) or "**no decision is recorded**"
        body += [_escaped(cut(row_words(row), _TEXT_CHARS)), "", f"> {why}"]
    return _folded(head, body)


def _folded(summary: str, body: Sequence[str]) -> str:
    return f"<details><summary>{summary}</summary>\n\n" + "\n".join(body) + "\n\n</details>\n"


def _edit_table(edits: Sequence[Edit]) -> list[str]:
    rows = ["| what | before | after |", "|---|---|---|"]
    for edit in edits:
        was, now = (_escaped(cut(said(text), _TEXT_CHARS)) for text in (edit.was, edit.now))
        rows.append(f"| {_escaped(edit.name)} | {was} | {now} |")
    return rows


def _escaped(text: str) -> str:
    """`text` on one line, with nothing in it that is read as markup, or as somebody's name."""
    one_line = _MARKUP.sub(r"\\\1", " ".join(text.split()))
    return one_line.replace("@", "@<!-- -->").replace("://", ":\\//")


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: str) -> str:
    """`text` as code, which no backtick or bar in it ends."""
    return "`" + text.replace("`", "'").replace("|", "\\|") + "`"
