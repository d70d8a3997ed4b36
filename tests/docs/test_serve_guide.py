"""The guide on services is run as it stands: first in one process, then on Ray."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from statekit.watch.service_names import SERVICE_METRICS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "serve.md"
TEXT = GUIDE.read_text(encoding="utf-8")
_BLOCK = re.compile(
    r"^```(?P<language>python|sh)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<text>.*?)^```$\n*(?P<left>\*Not run by the tests)?",
    re.M | re.S,
)
ON_RAY = range(TEXT.index("## 6. On Ray"), TEXT.index("## Size it"))
"""Where the page is about Ray."""

_IMPORTED = """
from robots import make
from statekit.errors import SessionRewoundError
from statekit.replicas.lane import Limits
from statekit.watch.service import serve_service
"""


@attrs.define
class Reader:
    """Does what the page says, in one folder; keeps the output of shell blocks."""

    folder: Path
    names: dict[str, Any]
    shown: list[str] = attrs.field(factory=list)

    def read(self, *, on_ray: bool) -> None:
        """The part about Ray, or all else."""
        for number, block in enumerate(_BLOCK.finditer(TEXT), 1):
            if block["title"]:
                (self.folder / block["title"]).write_text(block["text"], encoding="utf-8")
                if on_ray:  # what the first part of the page has imported by then
                    exec(_IMPORTED, self.names)
            elif (block.start() in ON_RAY) == on_ray and not block["left"]:
                if block["language"] == "sh":
                    self._run(block["text"])
                else:
                    exec(compile(block["text"], f"serve.md, block {number}", "exec"), self.names)

    def _run(self, text: str) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=ROOT,
            env={**os.environ, "PATH": path, "COLUMNS": "80"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), text
        self.shown.append(done.stdout)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "robots", raising=False)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    return Reader(tmp_path, {"folder": tmp_path / "snapshots", "port": port})


def test_guide_when_run_in_one_process_then_every_block_holds(reader: Reader) -> None:
    """Moves, deaths, losses, cancelled steps; a view of it; a plan and a simulation."""
    reader.read(on_ray=False)
    view, plan, simulated = reader.shown
    assert "statekit top: service robots" in view
    assert "lost" not in view.splitlines()[1]  # all were closed
    assert sum("dead" in line for line in view.splitlines() if line.startswith(tuple("abc"))) == 2
    assert "sessions fit" in plan
    assert "parking" in simulated
    assert not list((reader.folder / "statekit").iterdir())
    del sys.modules["robots"]


@pytest.mark.ray
def test_guide_when_run_on_ray_then_every_block_holds(reader: Reader) -> None:
    """The same calls, over actors of a cluster of its own on this machine."""
    ray = pytest.importorskip("ray")
    if ray.is_initialized():
        pytest.skip("this process is connected to a cluster already")
    path = os.pathsep.join([str(reader.folder), str(ROOT), os.environ.get("PYTHONPATH", "")])
    reader.names["ray_options"] = {
        "num_cpus": 2,
        "include_dashboard": False,
        "log_to_driver": False,
        "logging_level": "error",
        "object_store_memory": 256 * 2**20,
        "runtime_env": {"env_vars": {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}},
    }
    try:
        reader.read(on_ray=True)
    finally:
        ray.shutdown()
        sys.modules.pop("robots", None)
    (view,) = reader.shown
    rows = {line.split()[0]: line.split()[1] for line in view.splitlines() if " serving " in line}
    assert len(rows) == 1
    assert "1 session came out of snapshots" in view or "restores 1" in view


def test_guide_when_it_names_a_metric_then_it_is_one() -> None:
    """In the text too."""
    known = {metric.name for metric in SERVICE_METRICS}
    for name in re.findall(r"\bstatekit_[a-z_]+", TEXT):
        assert name in known
