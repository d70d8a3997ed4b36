"""ValueLimit: the most bytes that a schema gives a value, as a manager compares with it."""

from __future__ import annotations

import re

import attrs

__all__ = ["ValueLimit"]


@attrs.frozen
class ValueLimit:
    """The most bytes that a schema says a value holds; `pattern` matches its keys."""

    name: str
    pattern: re.Pattern[str]
    carried: bool
    nbytes: int
