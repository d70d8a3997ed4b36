"""What the site's builder does beyond its configuration.

Owns patterns in the navigation: `adr/*.md` is every page of the folder that has no place yet. And
the drawings: an image of one becomes part of its page, so that it takes the page's colours, in the
light and in the dark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["on_config", "on_page_content"]

_IMAGE = re.compile(r'<img alt="[^"]*" src="(?:\.\./)*(drawings/[a-z-]+\.svg)"\s*/?>')


def on_config(config: Any) -> Any:
    """Write out every `FOLDER/*.md` of the navigation."""
    docs, named = Path(config["docs_dir"]), set(_pages(config["nav"]))
    config["nav"] = [_written_out(entry, docs, named) for entry in config["nav"]]
    return config


def _pages(entry: Any) -> Iterator[str]:
    """The pages that the navigation names."""
    if isinstance(entry, str):
        yield entry
    else:
        for below in entry.values() if isinstance(entry, dict) else entry:
            yield from _pages(below)


def _written_out(entry: Any, docs: Path, named: set[str]) -> Any:
    if isinstance(entry, dict):
        return {title: _written_out(below, docs, named) for title, below in entry.items()}
    if not isinstance(entry, list):
        return entry
    pages: list[Any] = []
    for below in entry:
        if isinstance(below, str) and below.endswith("/*.md"):
            found = sorted(path.relative_to(docs).as_posix() for path in docs.glob(below))
            pages += [page for page in found if page not in named]
        else:
            pages.append(_written_out(below, docs, named))
    return pages


def on_page_content(html: str, config: Any, **_: Any) -> str:
    """Put each drawing into the page in the place of its image."""

    def drawing(found: re.Match[str]) -> str:
        text = (Path(config["docs_dir"]) / found[1]).read_text(encoding="utf-8")
        return f'<div class="drawing-frame">{text}</div>'

    return _IMAGE.sub(drawing, html)
