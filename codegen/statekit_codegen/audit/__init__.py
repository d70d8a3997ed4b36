"""Audit: where a hand-rolled state class and a schema part ways.

Owns the comparison of facts that a file of source says (`reading`) with a schema that loads. A
difference is something that both say, and say differently, or that one has and the other has not;
what only one of them says, because the other cannot, is a note.
"""

from __future__ import annotations

from statekit_codegen.audit.comparison import audit
from statekit_codegen.audit.difference import AUDIT_RULES, Difference, Report

__all__ = ["AUDIT_RULES", "Difference", "Report", "audit"]
