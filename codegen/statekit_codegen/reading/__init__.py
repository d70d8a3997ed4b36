"""Reading: the facts of a hand-rolled state class, from its source alone.

Owns the way from `FILE.py:Class` to `HandRolled`. The file is parsed, never imported or run: what
a value is follows from annotations, literals and idioms, and what does not follow is unknown.
"""

from __future__ import annotations

from statekit_codegen.reading.facts import HandRolled
from statekit_codegen.reading.reader import read_class, read_source

__all__ = ["HandRolled", "read_class", "read_source"]
