"""The reference pages: `python -m statekit_codegen.reference docs [--check]`.

Owns writing and checking `docs/language.md`, `docs/rules.md`, `docs/cli.md` and
`docs/breaking.md`. What they say is `reference_pages` and `reference_breaking`, out of the same
classes, records and commands that the tool runs on. A tool of this repository: it reads the example
and the rule cases beside the folder that it writes.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import click

from statekit_codegen.json_schema import json_schema_text
from statekit_codegen.reference_api import api_page
from statekit_codegen.reference_breaking import breaking_page
from statekit_codegen.reference_metrics import metrics_page
from statekit_codegen.reference_pages import HEADER, cli_page, language_page, rules_page

__all__ = ["pages", "reference"]


def pages(docs: Path) -> dict[str, str]:
    """The text of each page, by its file name in `docs`."""
    return {
        "api.md": api_page(HEADER),
        "breaking.md": breaking_page(HEADER, (docs / "example.yaml").read_text(encoding="utf-8")),
        "cli.md": cli_page(),
        "language.md": language_page(docs / "example.yaml"),
        "metrics.md": metrics_page(HEADER),
        "rules.md": rules_page(docs.parent / "tests" / "rules"),
        "statekit.schema.json": json_schema_text(),
    }


@click.command()
@click.argument("docs", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--check", is_flag=True, help="Write nothing; show what is stale.")
def reference(docs: Path, check: bool) -> int:
    """Write the generated reference pages into DOCS. Exit code 1 if --check finds a stale one."""
    stale = 0
    for name, text in pages(docs.resolve()).items():
        page = docs / name
        old = page.read_bytes().decode() if page.exists() else None
        if old == text:
            print(f"unchanged {page.as_posix()}")
        elif check:
            stale += 1
            print(f"{'missing' if old is None else 'changed'} {page.as_posix()}")
            before, after = (old or "").splitlines(), text.splitlines()
            labels = (f"{page.as_posix()} (there)", f"{page.as_posix()} (wanted)")
            print(*difflib.unified_diff(before, after, *labels, lineterm=""), sep="\n")
        else:
            page.write_bytes(text.encode())
            print(f"wrote {page.as_posix()}")
    if stale:
        print("stale pages; run: make docs")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(reference.main(standalone_mode=False))
