"""The guide on ranks is walked through: its files are written, its commands run over two ranks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.walk import walk

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "ranks.md"

_COUNTS = """
import json
import torch.distributed as dist
from statekit import DreamZeroStateAdapter, SessionStateManager
from statekit.declared import Ranks
from statekit.distributed import GroupSessions
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
manager = SessionStateManager(ranks=Ranks({"tp": 1}), model_device="cpu")
group, found = GroupSessions(manager, budgets={"cpu": "8GiB"}), {}
def count(row, call):
    before = group.collectives
    call()
    found[row] = group.collectives - before
def use(**begin):
    with group.lease("robot-1", **begin):
        pass
count("a begin where", lambda: use(begin=DreamZeroStateAdapter.SPEC))
count("a forward of a session that", use)
count("`relieve`", group.relieve)
count("`drop_session`", lambda: group.drop_session("robot-1"))
print(json.dumps(found))
"""


def test_ranks_guide_when_walked_through_then_it_prints_what_it_shows(tmp_path: Path) -> None:
    """No collective on a forward, one refusal for all, and a survivor that goes on."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "schemas").mkdir()
    shutil.copy(ROOT / "schemas" / "cosmos3.yaml", tmp_path / "schemas")
    walk(
        GUIDE,
        tmp_path,
        OMP_NUM_THREADS="1",
        PYTHONPATH=f"{tmp_path}:{ROOT}",
        TORCH_CPP_LOG_LEVEL="ERROR",
    )


def test_table_of_costs_when_counted_then_as_shown() -> None:
    """What each call costs in collectives, where nothing is under pressure; in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _COUNTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    text = GUIDE.read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| (.+?) \| (\d)[^|]*\|$", text, re.M))
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == 4
    for row, count in found.items():
        (words,) = [words for words in shown if words.startswith(row)]
        assert int(shown[words]) == count
