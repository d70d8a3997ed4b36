"""The guide to scaffold and audit: its blocks run as shown, and it has every rule."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from statekit_codegen.audit.difference import AUDIT_RULES
from tests.docs.walk import walk

pytestmark = pytest.mark.slow

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "scaffold.md"


def test_scaffold_guide_when_walked_through_then_it_goes_as_shown(tmp_path: Path) -> None:
    """The files and commands of the page, in order, print what it says; the adapter imports."""
    walk(GUIDE, tmp_path)
    script = (
        "from reef.adapter import ReefStateAdapter as A; from statekit import SessionStateManager\n"
        "state = A('robot-1', SessionStateManager()); state.steps = 3\n"
        "assert state.started(); state.reset(keep_prompt=True); assert not state.started()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_scaffold_guide_when_it_lists_the_rules_then_none_is_missing() -> None:
    """Every rule of the audit is explained, and no other word looks like one."""
    text = GUIDE.read_text("utf-8")
    assert [rule for rule in AUDIT_RULES if f"`{rule}`" not in text] == []
