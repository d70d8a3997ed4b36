"""Words: how a draft speaks of lines and of what they do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from statekit_codegen.reading.facts import Attribute

__all__ = ["lines_words", "seen", "series"]

_MAX_LINES = 4


def series(parts: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def lines_words(lines: Iterable[int]) -> str:
    """`line 3`, or `lines 3, 5 and 9`; the first few where there are many."""
    numbers = list(lines)
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    if len(numbers) > _MAX_LINES:
        shown = [str(number) for number in numbers[: _MAX_LINES - 1]]
        return f"lines {', '.join(shown)} and {len(numbers) - len(shown)} more"
    return f"lines {series([str(number) for number in numbers])}"


def seen(attribute: Attribute) -> str:
    """What the lines of the file do with an attribute, as a sentence without its full stop."""
    first = attribute.site
    sets = [line for line in attribute.lines("set") if line != first.line]
    clears = attribute.lines("clear", "delete")
    parts = [f"starts in line {first.line}"] if not attribute.table else []
    done = (
        ("assigned whole in", sets),
        ("appended to in", attribute.lines("append")),
        ("kept short in", attribute.lines("trim")),
        ("entries replaced in", attribute.lines("entry")),
        ("written into in", attribute.lines("write")),
        ("counted in", attribute.lines("augment")),
        ("cleared in", clears),
        ("read in", attribute.lines("read")),
    )
    parts += [f"{what} {lines_words(lines)}" for what, lines in done if lines]
    text = ", ".join(parts) or f"declared in line {attribute.site.line}"
    return text[:1].upper() + text[1:]
