"""The Python blocks of the guides are run, one after the other, as they stand."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import torch

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def run(guide: str, **given: Any) -> dict[str, Any]:
    """Execute the Python blocks of one guide in one namespace."""
    names: dict[str, Any] = dict(given)
    blocks = re.findall(
        r"^```python\n(.*?)^```$", (GUIDES / guide).read_text(encoding="utf-8"), re.M | re.S
    )
    assert blocks
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{guide}, block {number}", "exec"), names)
    return names


class Transformer:
    """Encodes a branch on its first step, as Cosmos3's does, and counts how often it had to."""

    def __init__(self) -> None:
        self.cached_kv: Any = None
        self.cached_freqs_gen: Any = None
        self.encoded = 0

    def __call__(self, step: int, is_negative: bool) -> None:
        if self.cached_kv is None:
            self.encoded += 1
            self.cached_kv = [(torch.zeros(1, 4, 2, 8), torch.zeros(1, 4, 2, 8))]
            self.cached_freqs_gen = (torch.zeros(1, 4, 1, 8), torch.zeros(1, 4, 1, 8))


def test_budget_guide_when_run_then_every_block_holds(tmp_path: Path) -> None:
    """The guide's asserts hold, and what it prints has a line for each value."""
    names = run("budgets.md", folder=tmp_path)
    assert len(names["manager"]) == 0


def test_checking_guide_when_run_then_every_block_holds() -> None:
    """The findings that the guide shows are found, and its clean blocks have none."""
    names = run("checking.md")
    names["checking"].look(names["state"].session)


def test_steps_guide_when_run_then_every_block_holds() -> None:
    """A failed step leaves nothing behind, and the branch that was kept is the session."""
    names = run("steps.md")
    assert names["state"].call_count == 3


def test_snapshots_guide_when_run_then_every_block_holds(tmp_path: Path) -> None:
    """Saved, loaded, moved: every assert of the guide holds, and no thread is left."""
    names = run("snapshots.md", folder=tmp_path)
    assert len(names["moved"]) == 1
    assert not any(one.name == "statekit-snapshots" for one in threading.enumerate())


def test_hand_over_guide_when_run_then_each_branch_is_encoded_once() -> None:
    """Four steps of two branches encode twice, and leave the transformer's fields as they were."""
    transformer = Transformer()
    run("hand-over.md", transformer=transformer)
    assert transformer.encoded == 2
    assert transformer.cached_kv is None
