"""The review page in a real browser: sorted, filtered, dark, on a phone, on paper, offline."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from statekit_codegen.load import load_text
from statekit_codegen.model import Model
from statekit_codegen.review import review
from statekit_codegen.review_change.comparison import compare
from statekit_codegen.review_page import to_html

ROOT = Path(__file__).parents[2]
SCHEMAS = ("schemas/dreamzero.yaml", "tests/golden/every_kind/schema.yaml")
PHONE = 360
NAMES = "return [...document.querySelectorAll('#{0} .cards tbody tr')].filter("
NAMES += "r => r.offsetParent !== null).map(r => r.querySelector('th code').textContent)"


def model_of(file: str, *edits: tuple[str, str]) -> Model:
    """The model of a schema of this repository, with texts replaced."""
    text = (ROOT / file).read_text("utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return load_text(text.encode(), file)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of two models, and the page of what changed in one of them, on disk."""
    folder = tmp_path_factory.mktemp("pages")
    models = [model_of(file) for file in SCHEMAS]
    edits = (("H: 352", "H: 320"), ("operations: [park]", "operations: []"))
    before = {
        SCHEMAS[0]: model_of(SCHEMAS[0], *edits),
        "schemas/gone.yaml": model_of(SCHEMAS[1], ("model: every_kind", "model: gone")),
    }
    reviews = [review(model, {}, 64) for model in models]
    changes = compare(before, models[:1], {}, 64, all_schemas=True)
    texts = {"review": to_html(reviews, 64), "change": to_html(reviews[:1], 64, changes, "main")}
    for name, text in texts.items():
        (folder / f"{name}.html").write_bytes(text.encode())
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture
def show(browser: Any, pages: dict[str, Path]) -> Iterator[Callable[..., Any]]:
    """Opens a page from disk, at a width, in a colour scheme."""

    def open_page(name: str = "review", width: int = 1440, scheme: str = "light") -> Any:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        wishes = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wishes.items()]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get(pages[name].as_uri())
        return browser

    yield open_page
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def find(page: Any, selector: str) -> Any:
    """The first element that a selector finds."""
    return page.find_element("css selector", selector)


def names(page: Any, model: str = "model-dreamzero") -> list[str]:
    """The values whose rows can be seen, in order."""
    found: list[str] = page.execute_script(NAMES.format(model))
    return found


def press(page: Any, *keys: str) -> None:
    """Type keys at whatever has the focus."""
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(page).send_keys(*keys).perform()


def header(page: Any, column: str, model: str = "model-dreamzero") -> Any:
    """The header of one column."""
    return find(page, f"#{model} .cards thead th.{column}")


# -- the table ------------------------------------------------------------------------------------


def test_table_when_a_header_is_clicked_then_it_sorts_down_up_and_back(
    show: Callable[..., Any],
) -> None:
    """Figures sort by size, not by letter; the third click gives the schema's order back."""
    page = show()
    before = names(page)
    button = header(page, "session").find_element("css selector", "button")
    button.click()
    assert header(page, "session").get_attribute("aria-sort") == "descending"
    assert names(page)[:4] == [
        "vae_enc_feat_map",
        "prompt_embeds",
        "vae_pending_body_frames",
        "stitched_buffer",
    ]
    button.click()
    assert header(page, "session").get_attribute("aria-sort") == "ascending"
    assert names(page)[-1] == "vae_enc_feat_map"
    button.click()
    assert header(page, "session").get_attribute("aria-sort") is None
    assert names(page) == before


def test_table_when_sorted_by_the_keyboard_then_it_is_as_by_click(show: Callable[..., Any]) -> None:
    """Every header is reached by Tab, and Enter and Space sort."""
    page = show()
    page.execute_script("document.querySelector('#model-dreamzero form button').focus()")
    press(page, "\ue004")  # Tab, to the first header
    assert page.switch_to.active_element.text.startswith("value")
    press(page, "\ue007")  # Enter
    assert names(page) == sorted(names(page))
    press(page, "\ue00d")  # Space
    assert names(page) == sorted(names(page), reverse=True)
    reached = []
    for _ in range(9):
        press(page, "\ue004")
        reached.append(page.switch_to.active_element.text.split(" ")[0])
    assert " ".join(reached) == "bucket object, device a 64 bound cleared operations why"


def test_table_when_another_column_is_sorted_then_only_that_one_says_so(
    show: Callable[..., Any],
) -> None:
    """One header at a time has `aria-sort`; what is empty comes last both ways."""
    page = show()
    for column in ("device", "operations"):
        header(page, column).find_element("css selector", "button").click()
    assert len(page.find_elements("css selector", "[aria-sort]")) == 1
    cells = "return [...document.querySelectorAll('#model-dreamzero td.operations .main')].map("
    cells += "c => c.textContent)"
    up = page.execute_script(cells)
    header(page, "operations").find_element("css selector", "button").click()
    down = page.execute_script(cells)
    assert up[:5] == ["accumulate"] * 3 + ["park", "none"]
    assert down[:5] == ["park"] + ["accumulate"] * 3 + ["none"]


def test_table_when_filtered_then_rows_and_the_count_follow(show: Callable[..., Any]) -> None:
    """Bucket, device and words narrow the rows together; the button shows all again."""
    page = show()
    form = find(page, "#model-dreamzero form")
    output = form.find_element("css selector", "output")
    form.find_element("css selector", "[name=bucket] option:nth-child(3)").click()
    assert names(page) == [
        "stitched_buffer",
        "vae_enc_feat_map",
        "vae_encoder_out",
        "video_latents_across_time",
    ]
    form.find_element("css selector", "[name=device] option:nth-child(2)").click()
    assert names(page) == ["stitched_buffer", "video_latents_across_time"]
    form.find_element("css selector", "[name=text]").send_keys("ROLLOUT decode")
    assert names(page) == ["video_latents_across_time"]
    assert output.text == "1 of 12 values"
    assert len(names(page, "model-every_kind")) == 9
    form.find_element("css selector", "[name=text]").send_keys(" nowhere")
    assert find(page, "#model-dreamzero .none").is_displayed()
    form.find_element("css selector", "button").click()
    assert output.text == "12 of 12 values"
    assert len(names(page)) == 12


def test_table_when_filtered_by_the_keyboard_then_enter_does_not_leave_the_page(
    show: Callable[..., Any],
) -> None:
    """The controls are reached by Tab, in order, and Enter in the text field does nothing."""
    page = show()
    place = page.current_url
    page.execute_script("document.querySelector('#model-dreamzero [name=text]').focus()")
    press(page, "counter", "\ue007")
    assert page.current_url == place
    assert names(page) == ["call_count"]
    reached = []
    for _ in range(3):
        press(page, "\ue004")
        element = page.switch_to.active_element
        reached.append(element.get_attribute("name") or element.text)
    assert reached == ["bucket", "device", "Show all"]
    press(page, " ")
    assert len(names(page)) == 12


def test_table_when_something_changed_then_it_is_marked_and_can_be_asked_for(
    show: Callable[..., Any],
) -> None:
    """Changed values carry a word and the old text, and a box shows them alone."""
    page = show("change")
    find(page, "#model-dreamzero [name=changed]").click()
    shown = names(page)
    assert 0 < len(shown) < 12
    row = find(page, "#dreamzero-vae_enc_feat_map")
    assert row.find_element("css selector", ".tag").text == "changed"
    assert row.find_element("css selector", ".operations del").text == "none"
    assert "this model is gone" in find(page, "#model-gone").text.lower()


# -- how it looks ---------------------------------------------------------------------------------


def test_colours_when_the_reader_prefers_dark_then_the_page_is_dark(
    show: Callable[..., Any],
) -> None:
    """The sheet is lighter than its words in no scheme but dark's opposite."""
    script = "const s = getComputedStyle(document.querySelector('.model'));"
    script += "return [s.backgroundColor, s.color].map(c => c.match(/\\d+/g).slice(0, 3)"
    script += ".reduce((sum, x) => sum + Number(x), 0))"
    back, words = show(scheme="light").execute_script(script)
    assert back > 700 > 200 > words
    back, words = show(scheme="dark").execute_script(script)
    assert back < 150 < 600 < words


def test_page_when_of_any_width_then_it_does_not_scroll_sideways(
    show: Callable[..., Any],
) -> None:
    """What is wider than the window scrolls in a frame of its own, which keys reach."""
    page = show("change", PHONE)
    frames = "return [...document.querySelectorAll('.scroll')].every(e => e.tabIndex === 0)"
    assert page.execute_script(frames)
    outside = (
        "return [...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, svg,"
    )
    outside += " .vh, thead') && e.getBoundingClientRect().right > innerWidth + 1)"
    outside += ".map(e => e.outerHTML.slice(0, 80))"
    for width in (PHONE, 480, 768, 1024, 1280, 1281, 1920):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        script = "return [document.documentElement.scrollWidth, window.innerWidth]"
        wide, window = page.execute_script(script)
        assert wide <= window == width
        assert page.execute_script(outside) == []


def test_page_when_on_a_phone_then_every_cell_has_its_label_and_sorting_works(
    show: Callable[..., Any],
) -> None:
    """Rows become cards that keep the words of their columns, and the headers still sort."""
    page = show(width=PHONE)
    script = "return getComputedStyle(document.querySelector('#dreamzero-ys td.bound'),"
    script += " '::before').content"
    assert page.execute_script(script) == '"bound"'
    header(page, "session").find_element("css selector", "button").click()
    assert names(page)[0] == "vae_enc_feat_map"


def test_page_when_printed_then_all_rows_are_there_and_no_controls(
    show: Callable[..., Any],
) -> None:
    """Paper has every value, filtered away or not, no form, and names the columns on each sheet."""
    from pypdf import PdfReader

    page = show()
    find(page, "#model-dreamzero [name=text]").send_keys("counter")
    assert names(page) == ["call_count"]
    options = {"preferCSSPageSize": True, "printBackground": True}
    printed = base64.b64decode(page.execute_cdp_cmd("Page.printToPDF", options)["data"])
    sheets = PdfReader(io.BytesIO(printed)).pages
    texts = [sheet.extract_text() for sheet in sheets]
    solid = re.sub(r"\s", "", "".join(texts))
    for file in SCHEMAS:
        for name in model_of(file).schema.values:
            assert name in solid
    assert "603.28MiB" in solid
    assert "Showall" not in solid
    assert float(sheets[0].mediabox.width) > float(sheets[0].mediabox.height)
    assert sum("cleared by" in text and "operations" in text for text in texts) > len(SCHEMAS)


# -- what it does not do --------------------------------------------------------------------------


def test_page_when_opened_then_it_asks_for_nothing(show: Callable[..., Any], browser: Any) -> None:
    """The only request is the one for the file itself."""
    browser.get_log("performance")
    page = show("change")
    page.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if not url.endswith("/change.html")] == []


def test_page_when_something_is_put_in_then_the_policy_stops_it(show: Callable[..., Any]) -> None:
    """No other script, style or address gets through, even if it stood in the page."""
    page = show()
    script = """
        const box = document.createElement("div");
        box.innerHTML = "<img src='https://example.org/x.png' onerror='window.bad = 1'>";
        document.body.append(box);
        const script = document.createElement("script");
        script.textContent = "window.bad = 2";
        document.body.append(script);
        return window.bad === undefined;
    """
    assert page.execute_script(script)
    said = [entry["message"] for entry in page.get_log("browser")]
    assert said
    assert all("Content Security Policy" in message for message in said)


def test_page_when_scripts_are_blocked_then_all_content_is_there(
    show: Callable[..., Any], browser: Any
) -> None:
    """Without JavaScript all rows are shown, and no control that does nothing."""
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    page = show("change")
    rows = page.find_elements("css selector", ".cards tbody tr")
    assert len(rows) == 12
    assert all(row.is_displayed() for row in rows)
    assert not any(form.is_displayed() for form in page.find_elements("css selector", "form"))
    assert page.find_elements("css selector", "thead button") == []
    assert find(page, "#model-dreamzero .timeline").is_displayed()
    assert find(page, "#model-dreamzero .graph").is_displayed()


# -- for everybody --------------------------------------------------------------------------------


def test_keyboard_when_tab_is_pressed_then_the_first_stop_skips_to_the_models(
    show: Callable[..., Any],
) -> None:
    """The first stop is a link past the top of the page; what has the focus can be seen."""
    page = show()
    press(page, "\ue004")
    link = page.switch_to.active_element
    assert link.text == "Skip to the models"
    assert link.rect["y"] >= 0
    press(page, "\ue007")
    assert page.switch_to.active_element.get_attribute("id") == "content"
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    for _ in range(3):
        press(page, "\ue004")
        assert page.execute_script(outline) == "solid"


@pytest.mark.parametrize(
    ("width", "scheme", "rules"),
    [(1440, "light", []), (PHONE, "light", []), (1440, "dark", ["color-contrast"])],
)
def test_page_when_checked_for_accessibility_then_nothing_is_found(
    show: Callable[..., Any], width: int, scheme: str, rules: list[str]
) -> None:
    """axe finds nothing: contrast, names, roles, order of headings, landmarks, tables."""
    page = show("change", width, scheme)
    axe = resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    page.execute_script(axe)
    script = """
        const done = arguments[arguments.length - 1];
        const only = arguments[0].length ? {runOnly: arguments[0]} : {};
        axe.run(document, {resultTypes: ["violations"], ...only}).then(
            found => done(found.violations.map(
                one => [one.id, one.nodes.map(node => node.html + node.failureSummary)])),
            error => done([String(error)]));
    """
    assert page.execute_async_script(script, rules) == []
