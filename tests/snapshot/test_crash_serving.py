"""A server that is killed and started again: no session is torn or falls behind its snapshot."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from tests.snapshot import serve_helper
from tests.snapshot.serve_helper import SESSIONS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def restored_counts(folder: Path) -> dict[str, int]:
    """How far each session has come in its snapshot; fails where one is torn."""
    manager = SessionStateManager()
    if not (folder / "saved").exists():
        return {}
    loaded = manager.load_all(folder / "saved", DreamZeroStateAdapter.SPEC)
    assert not loaded.failed
    counts = {}
    for name in loaded.done:
        state = DreamZeroStateAdapter(name, manager)
        kept = [float(one.flatten()[0]) for one in state.video_latents_across_time]
        assert kept == [float(step) for step in range(1, state.call_count + 1)]
        counts[name] = state.call_count
    return counts


def last_begun(folder: Path) -> dict[str, int]:
    """The last step that each session has begun since the last start."""
    lines = (folder / "log").read_text(encoding="ascii").split("\n")[:-1]
    return {name: int(step) for name, step in (line.split() for line in lines)}


def kill_servers(folder: Path, times: int) -> int:
    """Kill and start a server so many times; how far all sessions came."""
    helper = subprocess.Popen(
        [sys.executable, serve_helper.__file__, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="ascii", cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert helper.stdin is not None
    assert helper.stdout is not None

    def ask(command: str) -> int:
        assert helper.stdin is not None
        assert helper.stdout is not None
        helper.stdin.write(command + "\n")
        helper.stdin.flush()
        return int(helper.stdout.readline())

    chance = random.Random(times)
    before: dict[str, int] = {}
    for _ in range(times):
        pid = ask("serve")
        time.sleep(chance.uniform(0.05, 0.5))
        os.kill(pid, signal.SIGKILL)
        assert ask(f"reap {pid}") == -signal.SIGKILL
        now, begun = restored_counts(folder), last_begun(folder)
        for name in before:
            assert before[name] <= now[name], "a session went back behind its snapshot"
        for name in now:
            assert now[name] <= begun[name], "a snapshot holds what never happened"
        before = now
    helper.stdin.close()
    assert helper.wait(60) == 0
    helper.stdout.close()
    return sum(before.values())


def test_server_when_killed_again_and_again_then_sessions_go_on_from_their_snapshots(
    tmp_path: Path,
) -> None:
    """Killed 8 times: each start goes on with whole sessions, and the rollouts get further."""
    assert kill_servers(tmp_path, 8) > 3 * len(SESSIONS)


@pytest.mark.soak
def test_server_when_killed_100_times_then_sessions_go_on_from_their_snapshots(
    tmp_path: Path,
) -> None:
    """The same for longer."""
    assert kill_servers(tmp_path, 100) > 100 * len(SESSIONS)
