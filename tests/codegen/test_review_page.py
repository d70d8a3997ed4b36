"""`statekit review --html`: what is on the page, and that nothing else can get onto it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from statekit_codegen.cli import main
from statekit_codegen.load import load_text
from statekit_codegen.model import Model
from statekit_codegen.review import Review, review
from statekit_codegen.review_change.comparison import compare
from statekit_codegen.review_page import to_html
from statekit_codegen.review_page.bars import devices
from statekit_codegen.review_page.graph import graph
from statekit_codegen.review_page.timeline import lanes, moments
from statekit_codegen.review_words import facts

ROOT = Path(__file__).parents[2]
DREAMZERO = "schemas/dreamzero.yaml"
EVERY_KIND = "tests/golden/every_kind/schema.yaml"
VOID = {"meta", "input", "br"}


def model_of(file: str, *edits: tuple[str, str]) -> Model:
    """The model of a schema of this repository, with texts replaced."""
    text = (ROOT / file).read_text("utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return load_text(text.encode(), file)


def reviewed(file: str, *edits: tuple[str, str]) -> Review:
    """The review of such a model, for 64 sessions."""
    return review(model_of(file, *edits), {}, 64)


class Dom(HTMLParser):
    """Reads a page: elements with the names of their attributes, text, and what is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.values: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.strange: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.values += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.strange.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.strange.append(f"<!--{data}-->")

    def of(self, name: str) -> list[str]:
        """The values of all attributes of a name."""
        return [value for _, attribute, value in self.values if attribute == name]


# -- the file -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page() -> str:
    """The page of two models."""
    return to_html([reviewed(DREAMZERO), reviewed(EVERY_KIND)], 64)


def test_page_when_parsed_then_it_is_well_formed_and_its_references_lead_somewhere(
    page: str,
) -> None:
    """Elements are closed in order, ids are unique, and what is referred to is there."""
    dom = Dom(page)
    assert (dom.open, dom.strange) == ([], [])
    ids = dom.of("id")
    assert len(ids) == len(set(ids))
    referred = [value.removeprefix("#") for value in dom.of("href")] + dom.of("aria-labelledby")
    referred += re.findall(r"url\(#([^)]+)\)", page)
    assert [one for one in referred if one not in ids] == []
    assert ("html", "lang", "en") in dom.values


def test_page_when_looked_through_then_it_refers_to_nothing_outside(page: str) -> None:
    """No address, no source, no import, no style or handler on an element."""
    dom = Dom(page)
    names = {name for _, names in dom.elements for name in names}
    assert names.isdisjoint({"src", "srcset", "style", "action", "data", "xlink:href"})
    assert [name for name in names if name.startswith("on")] == []
    assert {tag for tag, _ in dom.elements}.isdisjoint({"link", "img", "iframe", "object", "base"})
    assert all(value.startswith("#") for value in dom.of("href"))
    assert re.findall(r"https?:|//[a-z]|@import|url\([^#]", page.replace("// Sorting", "")) == []


def test_page_when_opened_then_its_policy_allows_its_own_style_and_script_alone(page: str) -> None:
    """The hashes are those of the very bytes between the tags."""
    policy = next(value for _, name, value in Dom(page).values if value.startswith("default-src"))
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_page_when_written_anywhere_then_its_bytes_are_the_same(tmp_path: Path) -> None:
    """Neither the order of hashes nor the folder shows in the page."""
    found = set()
    for seed in ("0", "1"):
        file = tmp_path / seed / "page.html"
        file.parent.mkdir()
        command = [sys.executable, "-m", "statekit_codegen", "review", DREAMZERO]
        command += ["--html", str(file)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
        found.add(file.read_bytes())
    assert len(found) == 1
    assert b"\r" not in found.pop()


def test_page_when_of_a_model_then_everything_of_its_review_is_there() -> None:
    """Names, figures, bounds, resets, reasons and recorded facts are all text of the page."""
    one = reviewed(DREAMZERO)
    text = " ".join(" ".join(Dom(to_html([one], 64)).texts).split())
    for row in one.rows:
        assert row.spec.name in text
        assert row.why in text
        assert facts(one, row) in text
    for word in ("603.28 MiB", "37.7 GiB", "616.21 MiB", "38.5 GiB", "+0.21 MiB a step"):
        assert word in text
    for reset in one.resets:
        assert reset.doc in text


def test_page_when_for_one_session_then_the_second_column_is_left_out() -> None:
    """Figures for one session are not said twice."""
    one = to_html([review(model_of(DREAMZERO), {}, 1)], 1)
    assert "1 session<" not in one
    assert Dom(one).open == []


def test_page_when_there_is_no_model_then_it_says_so() -> None:
    """A project whose last schema is gone has a page all the same."""
    assert "There is no model." in to_html([], 64)


# -- hostile text ---------------------------------------------------------------------------------

TEXTS = (
    ("doc",),
    ("outside", "weights"),
    ("parameters", "window", "doc"),
    ("families", "branch", "doc"),
    ("inputs", "prompt", "doc"),
    ("values", "counter", "doc"),
    ("values", "counter", "decision", "why"),
    ("values", "cache", "pending", "why"),
    ("values", "cache", "measured", 0, "hardware"),
    ("values", "history", "ring", "unbounded"),
    ("values", "prompt_embeds", "rebuild", "cost"),
    ("resets", "window", "doc"),
    ("may_be_lost",),
)  # fmt: skip
PIECES = (
    "<script>alert(1)</script>", "</script>", "</style>", "</td></tr></table>", "<!--",
    "-->", "]]>",
    "<img src=x onerror=alert(1)>", '" onclick="x', "' onclick='x", "&lt;", "&#60;", "&", "<", ">",
    '"', "'", "`", "\\", "{{ 7 * 7 }}", "{% raw %}", "<svg/onload=x>", "é", "~",
    "<a href=javascript:x>",
)  # fmt: skip


def hostile(texts: Iterator[str] | list[str]) -> Model:
    """A schema with every word of the language, in which each free text is another one."""
    data: Any = yaml.safe_load((ROOT / EVERY_KIND).read_text("utf-8"))
    for path, text in zip(TEXTS, texts, strict=True):
        place = data
        for key in path[:-1]:
            place = place[key]
        assert isinstance(place[path[-1]], str)
        place[path[-1]] = text
    return load_text(json.dumps(data, ensure_ascii=False).encode(), "schemas/every_kind.yaml")


def page_of(texts: list[str], before: list[str], against: str) -> str:
    """The page of such a schema, beside another one."""
    model, old = hostile(texts), hostile(before)
    changes = compare({"schemas/every_kind.yaml": old}, [model], {}, 64, all_schemas=True)
    return to_html([review(model, {}, 64)], 64, changes, against)


CALM = page_of(
    [f"text {number}" for number in range(len(TEXTS))],
    [f"other {number}" for number in range(len(TEXTS))],
    "main",
)


@settings(max_examples=15)
@given(st.data())
def test_page_when_texts_are_hostile_then_no_element_or_attribute_comes_of_them(
    data: st.DataObject,
) -> None:
    """Whatever a schema says is text; the elements of the page are those of the templates."""
    drawn = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map(" ".join)
    texts = [f"{data.draw(drawn)} {number}" for number in range(len(TEXTS))]
    before = [f"{data.draw(drawn)} before {number}" for number in range(len(TEXTS))]
    page = page_of(texts, before, data.draw(drawn))
    dom, calm = Dom(page), Dom(CALM)
    assert dom.elements == calm.elements
    assert dom.strange == []
    said = " ".join(" ".join(dom.texts).split())
    for text in texts:
        assert " ".join(text.split()) in said


# -- bars -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", [DREAMZERO, EVERY_KIND, "schemas/cosmos3.yaml"])
def test_bars_when_drawn_then_they_fill_their_device_and_the_largest_comes_first(file: str) -> None:
    """Parts of a bar follow each other without a gap, and the largest device fills its bar."""
    found = devices(reviewed(file))
    ends = []
    for device in found:
        place = 0
        for share in device.shares:
            assert abs(share.start - place) <= 1
            place = share.start + share.width
        ends.append(place)
        widths = [share.of_device for share in device.shares]
        assert widths == sorted(widths, reverse=True)
    assert max(ends) in (1000, 1001)


def test_bars_when_bytes_are_unknown_or_none_then_the_values_are_named() -> None:
    """A value without a size is named beside its device, not left out in silence."""
    edit = ("    shape: [T, H]\n", "")
    (device,) = [one for one in devices(reviewed(EVERY_KIND, edit)) if one.name == "model"]
    assert device.unknown == ("prompt_embeds",)
    assert "Unknown, and not counted: prompt_embeds." in to_html([reviewed(EVERY_KIND, edit)], 64)


# -- timeline -------------------------------------------------------------------------------------


def test_timeline_when_drawn_then_steps_come_first_and_the_smallest_reset_next() -> None:
    """Three steps, then each reset with a step behind it, and the last reset ends the session."""
    found = [moment.label for moment in moments(reviewed(DREAMZERO))]
    assert found == [
        "step 1", "step 2", "step 3", "video_latents", "step 4", "vae_encoder_stream", "step 5",
        "window", "step 6", "session",
    ]  # fmt: skip


def test_timeline_when_a_reset_clears_then_the_value_ends_and_begins_anew() -> None:
    """What a reset keeps goes on; what it clears begins with the bytes of a first step."""
    lanes_by_name = {lane.name: lane for lane in lanes(reviewed(DREAMZERO))}
    spells = lanes_by_name["vae_enc_feat_map"].spells
    assert [spell.kind for spell in spells] == [
        "lives", "lives", "lives", "kept", "lives", "cleared", "lives", "kept", "lives", "cleared",
    ]  # fmt: skip
    assert [spell.figure for spell in spells] == [
        "305.51 MiB", "603.28 MiB", "", "", "", "", "305.51 MiB", "", "603.28 MiB", "",
    ]  # fmt: skip
    assert [spell.starts for spell in spells].count(True) == 2
    assert spells[5].words == "cleared by reset vae_encoder_stream"


def test_timeline_when_a_buffer_grows_then_its_bar_rises_with_the_steps() -> None:
    """Bytes are those of so many steps since it was cleared last."""
    lanes_by_name = {lane.name: lane for lane in lanes(reviewed(DREAMZERO))}
    spells = lanes_by_name["video_latents_across_time"].spells
    steps = [spell for spell in spells if spell.kind == "lives"]
    assert [step.figure for step in steps[:3]] == ["0.21 MiB", "0.43 MiB", "0.64 MiB"]
    assert steps[0].right < steps[1].right < steps[2].right
    assert steps[3].figure == "0.21 MiB"


def test_timeline_when_a_copy_is_pending_then_it_is_there_only_in_steps() -> None:
    """The second copy of a value exists while a step runs, and in no reset."""
    spells = {lane.name: lane for lane in lanes(reviewed(EVERY_KIND))}["cache"].spells
    assert {spell.pending for spell in spells if spell.kind == "lives"} == {True}
    assert not any(spell.pending for spell in spells if spell.kind != "lives")
    assert spells[0].words.endswith("and 2.0 KiB beside it while the step runs")


def test_timeline_when_there_are_many_resets_then_those_that_clear_most_are_drawn() -> None:
    """A schema with a hundred resets does not make a page of megabytes, and it is said."""
    more = "".join(f"  r{number}: {{clears: [counter]}}\n" for number in range(100))
    one = reviewed(EVERY_KIND, ("resets:\n", f"resets:\n{more}"))
    found = [moment.label for moment in moments(one) if moment.kind == "reset"]
    assert len(found) == 8
    assert found[-3:] == ["stream", "window", "session"]
    page = to_html([one], 64)
    assert "The 8 resets that clear most are drawn." in page
    assert "<code>r0</code>" in page


# -- graph ----------------------------------------------------------------------------------------


def test_graph_when_nothing_belongs_together_then_there_is_none() -> None:
    """A model without sources and groups has words in place of a picture."""
    one = reviewed("tests/golden/minimal/schema.yaml")
    assert graph(one) is None
    said = "Nothing is rebuilt from anything, and no values belong together."
    assert said in to_html([one], 64)


@pytest.mark.parametrize("file", [DREAMZERO, EVERY_KIND, "schemas/cosmos3.yaml"])
def test_graph_when_drawn_then_sources_are_left_of_what_is_rebuilt(file: str) -> None:
    """Arrows go to the right, nodes do not touch, frames hold their values and no others."""
    one = reviewed(file)
    picture = graph(one)
    assert picture is not None
    nodes = {node.name: node for node in picture.nodes}
    for edge in picture.edges:
        assert nodes[edge.source].x + nodes[edge.source].width < nodes[edge.target].x
    for first in picture.nodes:
        assert 0 <= first.x <= picture.width - first.width
        assert 0 <= first.y <= picture.height - first.height
        for second in picture.nodes:
            if first is not second and first.x == second.x:
                assert abs(first.y - second.y) >= first.height
    for frame in picture.frames:
        inside = {
            node.name
            for node in picture.nodes
            if frame.x <= node.x <= frame.x + frame.width
            and frame.y <= node.y <= frame.y + frame.height
        }
        assert inside == set(one.model.spec.atomic[frame.name])


def test_graph_when_sources_go_round_or_are_unknown_then_it_is_drawn_all_the_same() -> None:
    """A circle, a value that is its own source and a source nobody describes have a place."""
    edits = (
        (
            "rebuild: {from: [prompt], cost",
            "rebuild: {from: [prompt, text_kv, prompt_embeds], cost",
        ),
        ("rebuild: {from: [prompt_embeds], cost", "rebuild: {from: [prompt_embeds, nowhere], cost"),
    )
    picture = graph(reviewed(EVERY_KIND, *edits))
    assert picture is not None
    kinds = {node.name: node.kind for node in picture.nodes}
    assert kinds["nowhere"] == "unknown"
    assert len(picture.edges) == 5


def test_graph_when_a_chain_is_long_then_its_length_does_not_matter() -> None:
    """A thousand values, each rebuilt from the one before, are placed one behind the other."""
    value = (
        "  v{0}: {{bucket: StateObject, object: HeldValue, type: int, device: none,"
        " rebuild: {{from: [v{1}], cost: some}}}}\n"
    )
    first = "  v0: {bucket: attrs, type: int, default: 0, device: none}\n"
    chain = first + "".join(value.format(number, number - 1) for number in range(1, 1100))
    text = f"statekit: 1\nmodel: chain\nclass: Chain\ndoc: A chain.\nvalues:\n{chain}"
    picture = graph(review(load_text(text.encode(), "chain.yaml"), {}, 64))
    assert picture is not None
    assert len({node.x for node in picture.nodes}) == 1100


# -- changes --------------------------------------------------------------------------------------


def test_page_when_beside_another_side_then_changed_values_are_marked() -> None:
    """A changed cell keeps what it said before, a moved value says so, gone models are named."""
    doc = "    doc: The decoder's convolution tails.\n"
    moved = (
        f"    bucket: StateObject\n{doc}    object: HeldValue\n",
        f"    bucket: attrs\n{doc}    default: []\n",
    )
    before = {
        EVERY_KIND: model_of(EVERY_KIND, moved),
        "schemas/gone.yaml": model_of("tests/golden/minimal/schema.yaml"),
    }
    model = model_of(EVERY_KIND)
    changes = compare(before, [model], {}, 64, all_schemas=True)
    page = to_html([review(model, {}, 64)], 64, changes, "main")
    assert page.count('class="StateObject is-moved"') == 1
    assert 'data-change="moved"' in page
    assert "moved, but its reason is still the one for the other bucket" in page
    assert "was <del>attrs</del>" in page
    assert "This model is gone;" in page
    assert "1 value moved" in page


def test_page_when_nothing_changed_then_no_value_is_marked() -> None:
    """The page says that no decision changed, and has no box to ask for changes."""
    model = model_of(EVERY_KIND)
    changes = compare({EVERY_KIND: model}, [model], {}, 64, all_schemas=True)
    page = to_html([review(model, {}, 64)], 64, changes, "main")
    assert "No decision changed. 1 model against main." in page
    assert "Only changed" not in page
    assert 'is-changed"' not in page


# -- the command ----------------------------------------------------------------------------------


def run(*args: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `statekit review`."""
    out, err = io.StringIO(), io.StringIO()
    return main(["review", *args], out, err), out.getvalue(), err.getvalue()


def test_review_when_a_page_is_asked_for_then_it_is_written_and_named(toy: Path) -> None:
    """The file holds the page, and stdout names it."""
    assert run("--html", "page.html") == (0, "wrote page.html\n", "")
    assert (toy / "page.html").read_text("utf-8").startswith("<!doctype html>\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--html", "schemas/toy.yaml"), "name a file that ends with .html"),
        (("--html", "no/page.html"), "name a file in a folder that is there"),
        (("--html", "page.html", "--format", "md"), "--html writes a page; leave out --format"),
        (("--html", "schemas"), "is a directory"),
    ],
)
def test_review_when_a_page_cannot_be_written_then_exit_2_and_nothing_is_touched(
    toy: Path, args: tuple[str, ...], message: str
) -> None:
    """A schema is never overwritten by a page, and a folder that is not there is named."""
    before = (toy / "schemas" / "toy.yaml").read_bytes()
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert message in err
    assert (toy / "schemas" / "toy.yaml").read_bytes() == before
