"""The watch guide is run as it stands, shell blocks while its server runs; alerts are checked."""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from statekit.watch.names import METRICS
from statekit.watch.service_names import SERVICE_METRICS
from tests.watch.test_dashboard import faults

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "watch.md"
TEXT = GUIDE.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S)


class App:
    """As much of a web framework as the guide uses."""

    def __init__(self) -> None:
        self.mounted: dict[str, Any] = {}

    def mount(self, path: str, app: Any) -> None:
        self.mounted[path] = app


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_guide_when_run_as_written_then_every_block_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python in order, and each shell block in a process of its own, after what it follows."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    names: dict[str, Any] = {"folder": tmp_path / "park", "port": free_port(), "app": App()}
    shown = []
    for language, block in re.findall(r"^```(python|sh)\n(.*?)^```$", TEXT, re.M | re.S):
        if language == "python":
            exec(compile(block, "watch.md", "exec"), names)
        elif "pip install" not in block:
            path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block],
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, "")
            shown.append(done.stdout)
    assert "robot-1" in shown[0]
    assert re.search(r"prompt_embeds +attrs +8.00 MiB  on cpu", shown[1])
    assert shown[1].splitlines()[-1] == "1"
    logger = logging.getLogger("statekit")
    logger.removeHandler(names["handler"])
    logger.setLevel(logging.NOTSET)
    assert "/metrics" in names["app"].mounted
    assert not list((tmp_path / "statekit").iterdir())


def test_alerts_when_read_then_names_and_labels_are_exported() -> None:
    """Each rule is valid YAML, queries what there is, and its text names labels that it has."""
    (text,) = blocks("yaml")
    (group,) = yaml.safe_load(text)["groups"]
    names = [rule["alert"] for rule in group["rules"]]
    assert len(set(names)) == len(names) == 12
    for rule in group["rules"]:
        assert faults(rule["expr"]) == []
        kept = re.search(r"sum by \(([^)]*)\)", rule["expr"])
        assert kept is not None
        for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]):
            assert label in kept[1].split(", ")
    told = " ".join(rule["expr"] for rule in group["rules"])
    for name in ("losses", "refusals", "park_failures", "restore_failures", "snapshot_failures"):
        assert f"statekit_{name}_total" in told


def test_guide_when_it_names_a_metric_then_it_is_one() -> None:
    """In the text too."""
    known = {metric.name for metric in (*METRICS, *SERVICE_METRICS)}
    for name in re.findall(r"\bstatekit_[a-z_]+", TEXT):
        assert re.sub(r"_bucket$", "", name) in known
