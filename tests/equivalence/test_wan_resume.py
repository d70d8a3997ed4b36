"""A rollout that is saved at a step goes on in another process as if it had never stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.equivalence.resume_pipeline import MODELS, STEPS, serve

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_rollouts_when_they_go_on_in_new_processes_then_bits_are_those_of_one_run(
    tmp_path: Path,
) -> None:
    """Two processes, the first killed after it has saved: every output as in one run."""
    alone = tmp_path / "alone"
    alone.mkdir()
    wanted = {model: list(serve(model, alone, 0, STEPS)) for model in MODELS}
    assert all(len(set(digests)) == STEPS for digests in wanted.values())

    folder = tmp_path / "sessions"
    folder.mkdir()
    got: dict[str, list[str]] = {model: [] for model in MODELS}
    for start, stop in ((0, 6), (6, STEPS)):
        child = subprocess.run(
            [sys.executable, "-m", "tests.equivalence.resume_pipeline",
             str(folder), str(start), str(stop)],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert child.returncode == -signal.SIGKILL, child.stderr
        for model, digests in json.loads(child.stdout).items():
            got[model] += digests
    assert got == wanted
