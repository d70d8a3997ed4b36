"""Annotation: a workflow command of GitHub, which the log viewer shows beside the line."""

from __future__ import annotations

from typing import Literal

__all__ = ["annotation"]


def annotation(
    level: Literal["error", "notice"], file: str, line: int, column: int, title: str, message: str
) -> str:
    """The command that shows `message` under `title` at a place of a file."""
    properties = {"file": file, "line": str(line), "col": str(column), "title": title}
    listed = ",".join(
        f"{name}={_escaped(text).replace(':', '%3A').replace(',', '%2C')}"
        for name, text in properties.items()
    )
    return f"::{level} {listed}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
