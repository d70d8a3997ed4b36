"""Scaffold: a draft schema and a draft subclass from the facts of a hand-rolled class.

Owns what is drafted from which fact. A draft passes the loader; what the source does not say is
asked in it under `questions`, beside a placeholder, and is never filled in silently.
"""

from __future__ import annotations

from statekit_codegen.scaffold.document import draft, model_name
from statekit_codegen.scaffold.subclass import subclass

__all__ = ["draft", "model_name", "subclass"]
