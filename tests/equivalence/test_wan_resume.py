"""A rollout that is saved at a step goes on in another process as if it had never stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.equivalence.resume_pipeline import MODELS, STEPS, serve

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("model", MODELS)
def test_rollout_when_it_goes_on_in_new_processes_then_bits_are_those_of_one_run(
    model: str, tmp_path: Path
) -> None:
    """Two processes, the first killed after it has saved: every output as in one run."""
    alone = tmp_path / "alone"
    alone.mkdir()
    wanted = list(serve(model, alone, 0, STEPS))
    assert len(set(wanted)) == STEPS

    folder = tmp_path / "sessions"
    folder.mkdir()
    got: list[str] = []
    for start, stop in ((0, 6), (6, STEPS)):
        child = subprocess.run(
            [sys.executable, "-m", "tests.equivalence.resume_pipeline",
             model, str(folder), str(start), str(stop)],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert child.returncode == -signal.SIGKILL, child.stderr
        got += json.loads(child.stdout)
    assert got == wanted
