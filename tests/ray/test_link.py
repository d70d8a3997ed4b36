"""A link in a process that is connected to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("ray")
pytestmark = pytest.mark.ray

CODE = """
import ray
from statekit.errors import ServiceError
from statekit.ray.link import RayLink
try:
    RayLink("a", "s/replica/a").call("count")
except ServiceError as error:
    print(error, ray.is_initialized())
"""


def test_call_when_connected_to_no_cluster_then_says_so_and_starts_none() -> None:
    """Ray would start a cluster on this machine by itself, and not find the replica there."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "this process is connected to no Ray cluster" in done.stdout
    assert done.stdout.rstrip().endswith("False")
