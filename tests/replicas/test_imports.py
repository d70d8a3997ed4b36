"""What a client and a directory load: processes that hold no session have no use for torch."""

from __future__ import annotations

import subprocess
import sys

LIGHT = ["placement", "saving", "directory", "service", "sessions"]


def test_client_and_directory_when_imported_then_without_torch_and_numpy() -> None:
    """Only where there is a manager is torch loaded."""
    modules = ", ".join(f"statekit.replicas.{name}" for name in LIGHT)
    code = f"import sys, {modules}; print(sorted({{'torch', 'numpy', 'ray'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
