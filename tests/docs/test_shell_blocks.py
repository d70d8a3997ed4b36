"""Every shell block of every guide is run as it stands, or says on the page why it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.walk import SHELLS, blocks, walk

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [DOCS / "index.md", DOCS / "how-it-works.md", *sorted((DOCS / "guides").glob("*.md"))]

WALKED = [
    "index.md",
    *(
        pytest.param(f"guides/{name}.md", marks=pytest.mark.slow)
        for name in ("describe", "integrate", "port")
    ),
]
"""Pages that are run from the first block to the last, in an empty folder."""


@pytest.mark.parametrize("page", WALKED)
def test_page_when_walked_through_then_it_goes_as_shown(page: str, tmp_path: Path) -> None:
    """The files and commands of the page, in order, print what the page says."""
    walk(DOCS / page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_shell_block_when_no_test_runs_it_then_the_page_says_why(page: Path) -> None:
    """A page is walked through here, has a test of its own that runs it, or gives a reason."""
    silent = [
        block.text for block in blocks(page) if block.language in SHELLS and block.reason is None
    ]
    own = Path(__file__).with_name(f"test_{page.stem}_guide.py")
    if page.relative_to(DOCS).as_posix() in [getattr(one, "values", (one,))[0] for one in WALKED]:
        silent = []
    elif own.exists():
        assert "subprocess.run(" in own.read_text(encoding="utf-8")
        silent = [text for text in silent if "pip install" in text]  # no test installs anything
    assert silent == []


def test_walk_when_a_page_shows_something_else_then_it_fails(tmp_path: Path) -> None:
    """The walk compares: a wrong word, a missing line and a failing command are all found."""
    for number, text in enumerate(
        (
            "```console\n$ echo a\nb\n```\n",
            "```console\n$ echo a; echo b\na\n```\n",
            "```sh\nfalse | cat\n```\n",
        )
    ):
        page = tmp_path / f"{number}.md"
        page.write_text(text, encoding="utf-8")
        with pytest.raises(AssertionError):
            walk(page, tmp_path)


def test_walk_when_a_page_is_right_then_it_ends_and_leaves_its_files(tmp_path: Path) -> None:
    """Files are written, `...` stands for anything, and a block with a reason is left out."""
    page = tmp_path / "page.md"
    page.write_text(
        '- in a list:\n\n    ```json title="a/b.json"\n    {"c": 1}\n    ```\n\n'
        "```console\n$ cat a/b.json\n{...}\n$ printf 'x\\ny\\nz\\n' \\\n    | sort\nx\n...\n```\n"
        "```sh\nexit 7\n```\n\n*Not run by the tests: it never ends.*\n",
        encoding="utf-8",
    )
    walk(page, tmp_path)
    assert (tmp_path / "a" / "b.json").read_text(encoding="utf-8") == '{"c": 1}\n'
    assert [block.reason for block in blocks(page)] == [None, None, "it never ends."]
