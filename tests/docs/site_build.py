"""Builds the site as `make docs-site` does, with every proxy pointing nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

__all__ = ["build_site"]

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
