"""A real browser without a window, for pages on disk; skipped with a word where there is none."""

from __future__ import annotations

import importlib.util
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic",
    "--no-first-run", "--no-default-browser-check", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--lang=en-US",
    "--force-color-profile=srgb", "--hide-scrollbars",
)  # fmt: skip


def _missing() -> str:
    if CHROMIUM is None or DRIVER is None:
        return "no browser: install chromium and chromium-driver (Debian's names)"
    for package in ("selenium", "axe_core_python", "pypdf"):
        if importlib.util.find_spec(package) is None:
            return f"no {package}: install the extra 'dev'"
    return ""


MISSING = _missing()


def pytest_configure(config: pytest.Config) -> None:
    """The marker, for those who want to leave these tests out."""
    config.addinivalue_line("markers", "browser: drives a real browser, skipped without one")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here is for a browser, and says so where there is none."""
    for item in items:
        if Path(item.path).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)
            if MISSING:
                item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """One browser with a profile of its own; what it logs and asks for is recorded."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for option in (*_OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # of its connection to the driver
            driver.quit()
