"""Write back: what goes into a schema, and that nothing else of the file changes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statekit.declared import declared_bytes
from statekit.errors import GenerateError, SchemaError
from statekit.spec import Measured
from statekit_codegen.load import load_text
from statekit_codegen.measured import write_back
from statekit_codegen.measured.write_back import edited
from statekit_codegen.rules import vet
from tests.conftest import Ran
from tests.measure.toy import SCHEMA, H, W, measured

ROOT = Path(__file__).parents[2]
SCHEMAS = sorted((ROOT / "schemas").glob("*.yaml"))
NEW = "NEW, with 'quotes', \"more\" and: a colon # {[,]}"
DATE = "2026-11-30"

HEAD = """\
statekit: 1
model: toy
class: ToyState
doc: A toy.
values:
"""
DECISION = "decision: {operations: [], why: 'It is, I say'}"
OLD = '{nbytes: 8, hardware: "OLD, [1]", date: "2026-01-01"}'


@attrs.frozen
class Laid:
    """How one value is laid out."""

    flow: bool
    measured: str
    decision: str
    comment: str


LAID = st.builds(
    Laid,
    flow=st.booleans(),
    measured=st.sampled_from(["no", "block", "block, deeper", "block of blocks", "flow", "empty"]),
    decision=st.sampled_from(["first", "last", "block"]),
    comment=st.sampled_from(["", "  # said: {so} [it] 'is", "   #"]),
)


def lines_of(name: str, laid: Laid) -> list[str]:
    """The lines of one value, as a person may write them."""
    plain = ["bucket: attrs", "type: torch.Tensor | None", "device: cpu", "dtype: int64"]
    plain += ["shape: [1]"]
    if laid.flow:
        known = {"no": [], "empty": ["measured: []"]}.get(laid.measured, [f"measured: [{OLD}]"])
        parts = (
            [DECISION, *plain, *known] if laid.decision == "first" else [*plain, *known, DECISION]
        )
        return [f"  {name}: {{{', '.join(parts)}}}{laid.comment}"]
    block = {
        "no": [],
        "block": [f"measured:{laid.comment}", f"  - {OLD}{laid.comment}"],
        "block, deeper": ["measured:", f"- {OLD}", "# between", f"- {OLD.replace('8', '9')}"],
        "block of blocks": ["measured:", "    - nbytes: 8   # why", "      hardware: >-",
                            "        OLD", "      # there", '      date: "2026-01-01"'],
        "flow": [f"measured: [{OLD}]{laid.comment}"],
        "empty": ["measured: []"],
    }[laid.measured]  # fmt: skip
    decision = [DECISION]
    if laid.decision == "block":
        decision = [
            "# why:",
            "decision:",
            "  operations: []",
            "  why: >-",
            "    It is,",
            "    I say.",
        ]
    ordered = (
        [*decision, *plain, *block] if laid.decision == "first" else [*plain, *block, *decision]
    )
    return [f"  {name}:{laid.comment}", *(f"    {line}" for line in ordered), f"    {laid.comment}"]


def without_new(text: str) -> str:
    """`text` without what names the new hardware, and without blocks that are empty then."""
    entry = r"\{nbytes: \d+, hardware: \"NEW(?:[^\"\\]|\\.)*\", date: \"[^\"]*\"(?:, at: first)?\}"
    text = re.sub(rf"(?m)^(?: *measured:\r?\n)?(?: *- {entry}\r?\n)+", "", text)
    text = re.sub(rf"(?:\r?\n *measured:)?(?:\r?\n *- {entry})+\Z", "", text)
    text = re.sub(rf"(?:, )?{entry}", "", text)
    return re.sub(r", measured: \[\](?=[,}] ?d|\})|(?<=\{)measured: \[\], (?=decision)", "", text)


@settings(max_examples=40)
@given(
    values=st.lists(LAID, min_size=1, max_size=3),
    chosen=st.sets(st.integers(0, 2)),
    newline=st.sampled_from(["\n", "\r\n"]),
    ended=st.booleans(),
)
def test_schema_when_blocks_are_written_then_all_else_is_the_same_byte_for_byte(
    values: list[Laid], chosen: set[int], newline: str, ended: bool
) -> None:
    """Whatever the layout: cut what is new, and the old file is there; twice written is once."""
    values = [attrs.evolve(one, measured="no") if one.flow and one.measured == "empty" else one
              for one in values]  # fmt: skip
    body = [line for n, laid in enumerate(values) for line in lines_of(f"value_{n}", laid)]
    text = newline.join([*HEAD.splitlines(), *body]).rstrip() + newline * ended
    entries = {
        f"value_{n}": [Measured(8, NEW, DATE, "first"), Measured(8, NEW, DATE)]
        for n in chosen
        if n < len(values)
    }
    before = load_text(text.encode(), "toy.yaml").spec
    data = edited(text.encode(), "toy.yaml", entries)
    assert without_new(data.decode()) == text
    after = load_text(data, "toy.yaml").spec
    for value in after:
        old = before[value.name].measured
        assert value.measured == (*old, *entries.get(value.name, ()))
    assert edited(data, "toy.yaml", entries) == data


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda path: path.stem)
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_our_schemas_when_every_value_is_written_then_they_still_pass_vet(
    schema: Path, newline: bytes
) -> None:
    """Real files, every value that has a figure: the result loads, passes vet, and is the old."""
    data = schema.read_bytes().replace(b"\n", newline)
    spec = load_text(data, "it.yaml").spec
    entries = {}
    for value in spec:
        declared = declared_bytes(spec, value)
        if declared is not None and declared.steady:
            entries[value.name] = [Measured(declared.first, NEW, DATE, "first"),
                                   Measured(declared.steady, NEW, DATE)]  # fmt: skip
    assert entries
    new = edited(data, "it.yaml", entries)
    assert without_new(new.decode()) == data.decode()
    assert vet(load_text(new, "it.yaml")) == vet(load_text(data, "it.yaml"))


def test_entry_when_hardware_and_moment_are_the_same_then_figure_and_date_are_replaced() -> None:
    """All else of the entry stays as its author wrote it."""
    text = HEAD + "\n".join(lines_of("it", Laid(False, "block of blocks", "last", "")))
    data = edited(text.encode(), "it.yaml", {"it": [Measured(16, "OLD", DATE)]})
    expected = text.replace("nbytes: 8", "nbytes: 16").replace("2026-01-01", DATE)
    assert data.decode() == expected


def test_schema_when_it_cannot_be_used_then_it_is_left_alone() -> None:
    """A file with a fault is not edited."""
    with pytest.raises(SchemaError):
        edited(b"statekit: 2\n", "it.yaml", {})


# -- which figures --------------------------------------------------------------------------------


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    """The toy's schema with the numbers that its run has, so that its figures belong there."""
    file = tmp_path / "toy.yaml"
    own = f"{{H: {H}, W: {W}, TOKENS: 6, LAYERS: 2}}"
    file.write_text(SCHEMA.replace("{H: 352, W: 640, TOKENS: 512, LAYERS: 36}", own))
    return file


@pytest.fixture
def run(tmp_path: Path) -> Path:
    file = tmp_path / "run.json"
    measured().save(file)
    return file


def test_write_when_the_numbers_are_the_schema_s_then_all_values_get_a_block(
    statekit: Callable[..., Ran], schema: Path, run: Path
) -> None:
    """Figures, hardware and date are filled in; the file passes vet; a second time does nothing."""
    argv = ("measure", "--from", str(run), "--schema", str(schema), "--write", "--hardware", "A B")
    done = statekit(*argv)
    assert done.code == 0
    assert (
        f"{schema}: measured blocks of 6 values written; now run: statekit generate" in done.stdout
    )
    spec = load_text(schema.read_bytes(), "toy.yaml").spec
    assert {value.name for value in spec if value.measured} == {
        "latent", "pending", "cache", "ring", "history", "text",
    }  # fmt: skip
    frame = H * W * 4
    assert [(one.nbytes, one.at) for one in spec["ring"].measured] == [
        (frame, "first"), (4 * frame, "steady"),
    ]  # fmt: skip
    assert spec["ring"].measured[0].hardware == "A B"
    assert not [
        one for one in vet(load_text(schema.read_bytes(), "t")) if one.rule == "MEASURED_BYTES"
    ]
    before = schema.read_bytes()
    assert "are up to date" in statekit(*argv).stdout
    assert schema.read_bytes() == before


def test_write_when_numbers_or_figures_differ_then_said_and_not_written(
    statekit: Callable[..., Ran], schema: Path, run: Path
) -> None:
    """A figure of another deployment, or one that the declaration contradicts, has no place."""
    text = schema.read_text().replace("TOKENS: 6", "TOKENS: 7").replace("FRAMES - 1", "FRAMES - 2")
    schema.write_text(text)
    done = statekit("measure", "--from", str(run), "--schema", str(schema), "--write")
    lines = " ".join(done.stdout.split())
    assert "not written: text: measured with TOKENS=6, not the schema's" in lines
    assert "not written: pending: 6.0 KiB, 4.0 KiB declared" in lines
    spec = load_text(schema.read_bytes(), "toy.yaml").spec
    assert not spec["text"].measured
    assert not spec["pending"].measured
    assert spec["ring"].measured


def test_write_when_the_schema_is_not_here_then_says_so(
    statekit: Callable[..., Ran], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the file there is nothing to write into."""
    monkeypatch.chdir(tmp_path)
    done = statekit("measure", "--from", str(run), "--write")
    assert "toy: its schema is not here; name it with --schema" in done.stdout


def test_write_when_it_is_a_link_then_it_stays_one(
    statekit: Callable[..., Ran], schema: Path, run: Path
) -> None:
    """The file behind it is written, and keeps its mode."""
    schema.chmod(0o640)
    link = schema.with_name("link.yaml")
    link.symlink_to(schema)
    assert statekit("measure", "--from", str(run), "--schema", str(link), "--write").code == 0
    assert link.is_symlink()
    assert b"measured" in schema.read_bytes()
    assert schema.stat().st_mode & 0o777 == 0o640


def test_write_when_the_disk_fails_then_the_file_is_as_it_was(
    statekit: Callable[..., Ran], schema: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No half of a file, and nothing left beside it."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = schema.read_bytes()
    monkeypatch.setattr(write_back.os, "replace", full)
    done = statekit("measure", "--from", str(run), "--schema", str(schema), "--write")
    assert done.code == 2
    assert "cannot be written: No space left on device" in done.stderr
    monkeypatch.undo()
    assert schema.read_bytes() == before
    assert sorted(os.listdir(schema.parent)) == ["run.json", "toy.yaml"]


def test_edit_when_it_would_change_something_else_then_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last line of defence: a text that says something else is not written."""
    monkeypatch.setattr(write_back, "_flow", lambda entry: "{nbytes: 1}\n    device: model\n#")
    text = HEAD + "\n".join(lines_of("it", Laid(False, "no", "last", "")))
    with pytest.raises(GenerateError, match="measured blocks would"):
        edited(text.encode(), "it.yaml", {"it": [Measured(8, "x", DATE)]})
