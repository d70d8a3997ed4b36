"""The site: built without a network and without a warning, every link in it leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import attrs
import pytest

from tests.docs.site_build import shared_site

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

_LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("use", "href")}


@attrs.frozen
class Page:
    """What a built page offers and asks for.

    Attributes:
        ids: the anchors.
        links: the targets of its links, as written.
        loaded: what a browser loads to show it.
    """

    ids: frozenset[str]
    links: tuple[str, ...]
    loaded: tuple[str, ...]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value)
            elif (tag, name) in _LOADED:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


def read(path: Path) -> Page:
    """The page in a built file."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return Page(frozenset(reader.ids), tuple(reader.links), tuple(reader.loaded))


@attrs.frozen
class Built:
    """A build: what was said, how long it took, the pages by their place."""

    folder: Path
    log: str
    pages: dict[str, Page]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The site, in a folder beside those of the tests."""
    folder, log = shared_site(tmp_path_factory)
    pages = {path.relative_to(folder).as_posix(): read(path) for path in folder.rglob("*.html")}
    return Built(folder, log, pages)


def test_site_when_built_then_nothing_is_warned_of(built: Built) -> None:
    """No line of the log is a warning."""
    assert "WARNING" not in built.log


def test_site_when_built_then_every_page_of_the_docs_is_in_it(built: Built) -> None:
    """Each page under docs/ has become one, and the start page leads on to the guides."""
    sources = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    wanted = {
        path.with_name("index.html" if path.name == "README.md" else f"{path.stem}.html").as_posix()
        for path in sources
    }
    assert wanted <= built.pages.keys()
    assert "guides/describe.html" in built.pages["index.html"].links


def test_links_when_followed_within_the_site_then_each_leads_to_its_place(built: Built) -> None:
    """No link leads to a file that is not there, or to an anchor that its page does not have."""
    assert list(_broken(built)) == []


def _broken(built: Built) -> Iterator[str]:
    for place, page in built.pages.items():
        if place == "404.html":  # its links are for a server's root
            continue
        for link in page.links:
            if urlsplit(link).scheme or link == "javascript:void(0)":
                continue
            target, _, anchor = urljoin(f"/{place}", link).lstrip("/").partition("#")
            target = unquote(target) or "index.html"
            if target.endswith("/") or target == ".":
                target = f"{target.rstrip('/.')}/index.html".lstrip("/")
            if not (built.folder / target).is_file():
                yield f"{place}: {link}: no such file"
            anchors = built.pages[target].ids if target in built.pages else {unquote(anchor)}
            if anchor and unquote(anchor) not in anchors:
                yield f"{place}: {link}: no such anchor"


def test_pages_when_opened_then_nothing_is_loaded_from_elsewhere(built: Built) -> None:
    """Scripts, styles, fonts and images are files of the site."""
    loaded = {
        what
        for page in built.pages.values()
        for what in page.loaded
        if urlsplit(what).scheme not in ("", "data") or what.startswith("//")
    }
    assert loaded == set()
    for style in built.folder.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert re.findall(r"(?:url\(|@import)[\"' ]*(?:https?:)?//[^)]*", text) == []


def test_drawings_when_shown_then_they_are_part_of_the_page_and_have_words(built: Built) -> None:
    """Each drawing stands in its page, in the page's colours, with a title and a description."""
    drawings = sorted((ROOT / "docs" / "drawings").glob("*.svg"))
    html = (built.folder / "how-it-works.html").read_text(encoding="utf-8")
    assert drawings
    for drawing in drawings:
        text = drawing.read_text(encoding="utf-8")
        assert text in html
        assert re.search(r"<title>[^<]+</title>\n<desc>[^<]+</desc>", text)
    assert 'src="drawings/' not in html


def test_reference_when_built_then_signatures_and_docstrings_are_there(built: Built) -> None:
    """The page of the API has an anchor for each public name, and its methods under it."""
    ids = built.pages["api.html"].ids
    for name in (
        "statekit.manager.SessionStateManager",
        "statekit.manager.SessionStateManager.lease",
        "statekit.manager.SessionStateManager.save_every",
        "statekit.errors.SessionStateLostError",
        "statekit.handover.hand_over",
    ):
        assert name in ids
