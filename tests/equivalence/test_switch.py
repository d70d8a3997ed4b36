"""The switch, as its users prove it: one deploy config, one pipeline, one variable flipped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from statekit.settings import ENABLE_VARIABLE, MAX_SESSIONS_VARIABLE
from tests.equivalence.switch_pipeline import open_states

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DEPLOY = HERE / "switch_deploy.yaml"
PIPELINE = [sys.executable, "-m", "tests.equivalence.switch_pipeline", str(DEPLOY)]


@pytest.fixture(scope="module")
def reports() -> dict[str, Any]:
    """The pipeline's report by the variable's value; both processes run at the same time."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    environment.pop(MAX_SESSIONS_VARIABLE, None)
    running = {
        value: subprocess.Popen(
            PIPELINE,
            cwd=ROOT,
            env={**environment, ENABLE_VARIABLE: value},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for value in ("0", "1")
    }
    finished = {value: (*process.communicate(), process) for value, process in running.items()}
    for _, err, process in finished.values():
        assert process.returncode == 0, err
    return {value: json.loads(out) for value, (out, _, _) in finished.items()}


def test_switch_when_flipped_then_the_other_path_gives_the_same_digest(
    reports: dict[str, Any],
) -> None:
    """All outputs of all sessions have one sha256, whichever of the two states served them."""
    assert reports["0"]["states"] == "hand-rolled"
    assert reports["1"]["states"] == "manager"
    assert reports["1"]["sha256"] == reports["0"]["sha256"]
    assert reports["1"]["resets"] == reports["0"]["resets"]


def test_switch_when_on_then_the_run_met_every_kind_of_reset(reports: dict[str, Any]) -> None:
    """The equal digests cover new, restarted, evicted and full sessions, not only smooth ones."""
    resets = reports["1"]["resets"]
    assert resets.count("left: session") == 1
    assert resets.count("right: session") == 2
    assert resets.count("arm: session") == 2
    assert resets.count("visitor: session") == 2
    assert {"left: inference", "right: inference", "arm: inference"} <= set(resets)


def test_switch_when_off_then_no_manager_is_imported(reports: dict[str, Any]) -> None:
    """Off means untouched: of statekit, only what reads the switch is loaded."""
    assert reports["0"]["imported"] == [
        "statekit",
        "statekit._version",
        "statekit.errors",
        "statekit.settings",
        "statekit.switch",
    ]
    assert "statekit.manager" in reports["1"]["imported"]


@pytest.mark.parametrize(("field", "path"), [("true", "manager"), ("false", "hand-rolled")])
def test_switch_when_variable_unset_then_the_config_decides(
    field: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the variable, the same deploy config says which path is taken."""
    monkeypatch.delenv(ENABLE_VARIABLE, raising=False)
    monkeypatch.delenv(MAX_SESSIONS_VARIABLE, raising=False)
    deploy = tmp_path / "deploy.yaml"
    text = DEPLOY.read_text(encoding="utf-8")
    key = "enable_session_state_manager: "
    assert f"{key}true" in text
    deploy.write_text(text.replace(f"{key}true", key + field), encoding="utf-8")
    assert open_states(deploy)[0] == path
