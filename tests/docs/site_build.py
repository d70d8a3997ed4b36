"""Builds the site as `make docs-site` does, with every proxy pointing nowhere."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

__all__ = ["build_site", "shared_site"]

CONFIG = Path(__file__).parents[2] / "docs" / "site" / "mkdocs.yml"
NEEDED = ("mkdocs", "material", "mkdocstrings")


def build_site(folder: Path) -> str:
    """The site in `folder`, and what the builder said; skips where the extra `docs` is missing."""
    for package in NEEDED:
        pytest.importorskip(package, reason="the site is built with the extra 'docs'")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(CONFIG), "-d", str(folder)],
        env={**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def shared_site(factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The site and what its builder said, built once for all workers of a run."""
    base = factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (root / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = root / "site.log"
        if not said.exists():
            said.write_text(build_site(root / "site"), encoding="utf-8")
    return root / "site", said.read_text(encoding="utf-8")
