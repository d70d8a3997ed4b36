"""The site in a real browser, from a folder: nothing is fetched or overflows, search works."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.site_build import shared_site

pytestmark = pytest.mark.slow

PAGES = ["index.html", "how-it-works.html", "guides/describe.html", "rules.html"]
SIZES = {"desk": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a built site."""
    folder, _ = shared_site(tmp_path_factory)
    return folder


@pytest.fixture
def driver(browser: Any) -> Iterator[Any]:
    """The browser with empty records, and as it was afterwards."""
    browser.get("about:blank")
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    # No page remembers in which colours the one before it was shown.
    forget = browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": "localStorage.clear()"}
    )
    yield browser
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", forget)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def look(driver: Any, page: Path, scheme: str = "light", size: str = "desk") -> None:
    """Open a page in a colour scheme and a size."""
    width, height = SIZES[size]
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    driver.get(page.as_uri())


def requests(driver: Any) -> set[str]:
    """The addresses that were asked for since the records were emptied."""
    events = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    return {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_when_opened_then_it_fits_complains_of_nothing_and_fetches_nothing(
    driver: Any, site: Path, scheme: str, size: str
) -> None:
    """In light and dark, on a desk and a phone: no message, no address but files, no overflow."""
    for page in PAGES:
        look(driver, site / page, scheme, size)
        wide = driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= SIZES[size][0], page
        shown = driver.execute_script("return document.body.dataset.mdColorScheme")
        assert shown == {"light": "default", "dark": "slate"}[scheme]
    assert driver.get_log("browser") == []
    assert [one for one in requests(driver) if not one.startswith(("file:", "data:"))] == []


def test_search_when_opened_from_a_folder_then_it_finds_pages(driver: Any, site: Path) -> None:
    """The search field finds pages without a server."""
    look(driver, site / "guides" / "plan.html")
    field = driver.find_element("css selector", ".md-search__input")
    field.click()
    field.send_keys("budget")
    found: list[Any] = []
    give_up = time.monotonic() + 30
    while not found and time.monotonic() < give_up:
        found = driver.find_elements("css selector", ".md-search-result__link")
        time.sleep(0.1)
    assert any("budgets.html" in link.get_attribute("href") for link in found)


def test_drawing_when_the_page_turns_dark_then_it_does_too(driver: Any, site: Path) -> None:
    """The words of a drawing have the colour of the page's, whatever the system prefers."""
    look(driver, site / "how-it-works.html")
    ink = "return getComputedStyle(document.querySelector('svg.drawing text')).fill"
    text = "return getComputedStyle(document.querySelector('.md-typeset')).color"
    assert driver.execute_script(ink) == driver.execute_script(text)
    light = driver.execute_script(ink)
    driver.execute_script(
        "[...document.querySelectorAll('[data-md-component=palette] label')]"
        ".find((label) => !label.hidden).click()"
    )
    assert driver.execute_script(ink) == driver.execute_script(text) != light
