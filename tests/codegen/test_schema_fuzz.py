"""Mutated schemas: problems, or a module that the grammar of modules allows; nothing else.

`make test` tries some hundreds, `make test-soak` ten thousand.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import io
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statekit import spec as spec_classes
from statekit.errors import GenerateError, Problem, SchemaError
from statekit.evolution import read_record, record_of, snapshot_differences
from statekit.spec import ModelSpec
from statekit_codegen.breaking import compare
from statekit_codegen.cli import main
from statekit_codegen.load import load_text
from statekit_codegen.model import Model
from statekit_codegen.render import render
from statekit_codegen.review import review
from statekit_codegen.review_json import to_json
from statekit_codegen.rules import vet
from tests.codegen.breaking_cases import BASE
from tests.codegen.generated_grammar import UnknownSyntaxError, check_module

ROOT = Path(__file__).parents[2]
FILES = [
    *sorted((ROOT / "schemas").glob("*.yaml")),
    ROOT / "docs" / "example.yaml",
    *sorted((ROOT / "tests" / "golden").glob("*/schema.yaml")),
]
SEEDS = [BASE.encode(), *(path.read_bytes() for path in FILES)]
DATA: list[Any] = [yaml.safe_load(seed) for seed in SEEDS]

TOKENS = [
    *(b"\n", b"  ", b"    ", b": ", b"- ", b"#", b"'", b'"', b"[", b"]", b"{", b"}", b", ", b"|"),
    *(
        b"&a ",
        b"*a",
        b"!!python/object/apply:os.system ",
        b"<<: ",
        b"---\n",
        b"...\n",
        b"%YAML 1.1\n",
    ),
    *(b"null", b"true", b"no", b"0", b"-1", b"1e3", b"0x1F", b"12:30", b".inf", b"9" * 30),
    *(b"\x00", b"\xff", b"\xc2\x85", b"\xe2\x80\xae", b"\xef\xbb\xbf", b"\r", b"\t", b"\\"),
    *(b'"""', b"'''", b"{{ 7 }}", b"{% raw %}", b"__import__('os')", b"eval(x)", b"lambda: 0"),
    *(
        b"values:\n",
        b"family: [branch]",
        b"key: a{branch}",
        b"ring: {bound: 1}",
        b"update: in_place",
    ),
]
HOSTILE: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 2**63, -(2**63), 1.5, float("inf"), "", " ", "a", "A", "_"),
    *("class", "None", "self", "build", "torch", "SPEC", "fork", "session", "session_id", "min"),
    *("int", "int | None", "list[int]", "Optional[str]", "dict[str, list[torch.Tensor]]", "(int)"),
    *(
        "H",
        "H / 3",
        "H // 0",
        "-H",
        "ceil_div(H, 2)",
        "H ** 2",
        "9" * 30,
        "(" * 90,
        "H +" * 60 + "H",
    ),
    *(
        '"""\nimport os\n"""',
        "'); import os; ('",
        "\\",
        "{x}",
        "{{ x }}",
        "{branch}",
        "%s",
        "\u00e4",
    ),
    *("\u202e", "\x1b[31m", "\n\n", "a\n  b: c", "x" * 300, [], {}, [[]], {"a": 1}, ["a", "a"]),
]


def _places(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the parts of `data` are, outer ones first."""
    if place:
        yield place
    entries: Any = ()
    if isinstance(data, dict):
        entries = data.items()
    elif isinstance(data, list):
        entries = enumerate(data)
    for key, part in entries:
        yield from _places(part, (*place, key))


def _at(data: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        data = data[key]
    return data


ALL = [(data, place) for data in DATA for place in _places(data)]
ALIKE: dict[Any, list[Any]] = {}
"""What stands under a key anywhere, so that many an edit gives another good schema."""
for _data, _place in ALL:
    ALIKE.setdefault(_place[-1], []).append(_at(_data, _place))

NAMES = [
    "schemas/fuzz.yaml",
    'schemas/it\'s "so".yaml',
    'schemas/""" {{ 7 }} {x} %s \\.yaml',
    "schemas/\u00e4\U0001f600.yaml",
]
NUMBER = st.integers(0, 2**20)
BYTE_EDIT = st.tuples(
    st.sampled_from(["insert", "delete", "replace", "again", "splice"]),
    NUMBER,
    st.integers(0, 60),
    st.sampled_from(TOKENS) | st.binary(max_size=4),
)
PART_EDIT = st.tuples(
    st.sampled_from(["alike", "alike", "alike", "hostile", "other", "delete", "rename", "twice"]),
    NUMBER,
    NUMBER,
)
MUTANT = st.one_of(
    st.tuples(st.integers(0, len(SEEDS) - 1), st.lists(BYTE_EDIT, min_size=1, max_size=4)),
    st.tuples(st.integers(0, len(SEEDS) - 1), st.lists(PART_EDIT, min_size=1, max_size=6)),
)


def mutated(mutant: tuple[int, list[Any]]) -> bytes:
    """The bytes of a schema after some edits of its bytes, or of its parts."""
    number, edits = mutant
    if len(edits[0]) == 4:
        data = SEEDS[number]
        for edit in edits:
            data = _edited_bytes(data, *edit)
        return data
    parts = copy.deepcopy(DATA[number])
    for edit in edits:
        _edit_part(parts, *edit)
    return yaml.safe_dump(parts, sort_keys=False, allow_unicode=True).encode("utf-8", "replace")


def _edited_bytes(data: bytes, how: str, at: int, length: int, token: bytes) -> bytes:
    at %= len(data) + 1
    before, cut, after = data[:at], data[at : at + length], data[at + length :]
    if how == "insert":
        return before + token + cut + after
    if how == "delete":
        return before + after
    if how == "replace":
        return before + token + after
    if how == "again":
        return before + cut + cut + after
    other = SEEDS[length % len(SEEDS)]
    return before + other[at % len(other) :]


def _edit_part(parts: Any, how: str, at: int, choice: int) -> None:
    places = list(_places(parts))
    if not places:
        return
    *path, key = places[at % len(places)]
    holder = _at(parts, tuple(path))
    if how == "alike":
        holder[key] = copy.deepcopy(_one(ALIKE.get(key, HOSTILE), choice))
    elif how == "hostile":
        holder[key] = copy.deepcopy(_one(HOSTILE, choice))
    elif how == "other":
        holder[key] = copy.deepcopy(_at(*_one(ALL, choice)))
    elif how == "delete":
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(choice % (len(holder) + 1), copy.deepcopy(holder[key]))
    else:
        names = [name for name in ALIKE if isinstance(name, str)]
        hostile = [text for text in HOSTILE if isinstance(text, str)]
        part = holder.pop(key) if how == "rename" else copy.deepcopy(holder[key])
        holder[_one([*names, *hostile], choice)] = part


def _one(choices: list[Any], number: int) -> Any:
    return choices[number % len(choices)]


def survive(data: bytes, file: str) -> None:
    """Take `data` through every step that a schema goes through, and look at each result."""
    try:
        model = load_text(data, file)
    except SchemaError as error:
        _problems(error.problems, data)
        return
    findings = vet(model)
    _problems(findings, data, allow_none=True)
    record = json.loads(json.dumps(record_of(model.spec)))
    assert record_of(read_record(record)) == record
    assert snapshot_differences(record, record) == ()
    _compared(model)
    with contextlib.suppress(GenerateError):  # a size has no value, say
        to_json([review(model, {}, 2)], 2)
    try:
        text = render(model)
    except SchemaError as error:
        _problems(error.problems, data)
        return
    _module(model, text)


@cache
def _loaded(file: str) -> Model:
    return load_text((ROOT / file).read_bytes(), file)


def _compared(model: Model) -> None:
    """Another schema and the mutant, as if either were the other's past."""
    other = _loaded("tests/golden/every_kind/schema.yaml")
    for old, new in ((other, model), (model, other)):
        before = Model(old.loaded, attrs.evolve(old.spec, model=new.spec.model))
        (found,) = compare({"schemas/fuzz.yaml": before}, [new], all_schemas=True)
        assert all(one.change.was != one.change.now for one in found.changes)


def _problems(found: Any, data: bytes, *, allow_none: bool = False) -> None:
    assert found or allow_none
    lines = (
        data.count(b"\n") + 1 + data.count(b"\r") + data.count(b"\xe2\x80") + data.count(b"\xc2")
    )
    for problem in found:
        assert isinstance(problem, Problem)
        assert 1 <= problem.line <= lines
        assert problem.column >= 1
        assert str(problem).isprintable()
        assert problem.found
        assert problem.todo


def _module(model: Model, text: str) -> None:
    """The module is in the grammar of modules, and says the very same as data."""
    check_module(text)
    spec = ast.parse(text).body[-1].body[-1].value  # type: ignore[attr-defined]
    names = {name: getattr(spec_classes, name) for name in spec_classes.__all__}
    built = eval(compile(ast.Expression(spec), "SPEC", "eval"), {"__builtins__": {}, **names})
    assert isinstance(built, ModelSpec)
    assert built == model.spec


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(MUTANT, st.sampled_from(NAMES))
def test_schema_when_mutated_then_it_is_refused_or_generates_what_the_grammar_allows(
    mutant: tuple[int, list[Any]], file: str
) -> None:
    """No edit of a good schema makes the generator fail, or write code that it never writes."""
    survive(mutated(mutant), file)


@pytest.mark.soak
@settings(max_examples=10_000, suppress_health_check=[HealthCheck.too_slow])
@given(MUTANT, st.sampled_from(NAMES))
def test_schema_when_mutated_ten_thousand_times_then_the_same_holds(
    mutant: tuple[int, list[Any]], file: str
) -> None:
    """The same for many more mutants."""
    survive(mutated(mutant), file)


def test_mutants_when_counted_then_a_good_part_of_them_generates() -> None:
    """The mutations are not so wild that hardly any mutant reaches the generator."""
    good = 0
    for number in range(30):
        mutant = mutated((number % 3 + 3, [("alike", number * 7919, number * 104729)]))
        with contextlib.suppress(SchemaError):
            good += bool(render(load_text(mutant, "schemas/fuzz.yaml")))
    assert 8 <= good <= 28


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with room for one schema."""
    root = tmp_path_factory.mktemp("fuzz")
    (root / "schemas").mkdir()
    table = '[tool.statekit]\nschemas = "schemas"\noutput = "generated"\n'
    (root / "pyproject.toml").write_text(table, "utf-8")
    return root


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(mutant=MUTANT, form=st.sampled_from(["text", "json", "github"]))
def test_command_when_a_schema_is_mutated_then_it_exits_with_0_1_or_2(
    folder: Path, mutant: tuple[int, list[Any]], form: str
) -> None:
    """`vet` and `generate` end with a code of theirs; a run that fails writes nothing."""
    schema, output = folder / "schemas" / "fuzz.yaml", folder / "generated"
    schema.write_bytes(mutated(mutant))
    for old in output.glob("*"):
        old.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        codes = [_run("vet", "--format", form), _run("generate")]
    vetted, generated = codes
    assert vetted in (0, 1, 2)
    assert generated in (0, 2)
    assert generated == 0 or vetted != 0
    written = sorted(path.name for path in output.glob("*"))
    assert bool(written) == (generated == 0)
    for name in written:
        if name != "__init__.py":
            check_module((output / name).read_text("utf-8"))


def _run(*argv: str) -> int:
    out, err = io.StringIO(), io.StringIO()
    code = main(argv, out, err)
    assert "internal error" not in err.getvalue()
    assert "Traceback" not in err.getvalue()
    assert (code == 2) == bool(err.getvalue())
    return code


@pytest.mark.parametrize(
    "code",
    [
        "import os",
        "from os import system",
        "x = 1",
        "print('x')",
        "class Other: pass",
        "if True: pass",
        "@property\ndef f() -> int: ...",
    ],
)
def test_grammar_when_a_module_holds_more_then_it_is_found(code: str) -> None:
    """A statement beside those of a generated module is none of its shapes."""
    text = (ROOT / "tests/golden/every_kind/expected.py").read_text("utf-8")
    check_module(text)
    future = "from __future__ import annotations\n"
    with pytest.raises((UnknownSyntaxError, ValueError)):
        check_module(text.replace(future, f"{future}{code}\n", 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("default=0", "default=exit()"),
        ("default=0", "default=[x for x in ()]"),
        ("coerce=int", "coerce=eval"),
        ("SessionAttr[int]", "SessionAttr[exit()]"),
        ("ClassVar[int] = 4", "ClassVar[int] = exit()"),
        ("(StateAdapter)", "(StateAdapter, metaclass=print)"),
        ('"_neg"}[branch]', '"_neg"}[exit()]'),
        ('f"text_kv{branch_text}/"', 'f"text_kv{exit()}/"'),
        ('f"text_kv{branch_text}/"', 'f"text_kv{branch_text!r}/"'),
        ("maxlen=self.RING", "maxlen=exit()"),
        ("maxlen=3", "maxlen=print"),
        ('update="in_place"', "update=exit()"),
        ("OnCommit(detach=True", "OnCommit(detach=exit()"),
        ("self._session.reset()", "self._session.reset(exit())"),
        ("self._session.reset()", "self._session.drop()"),
        ("self._clear(", "self._clear(exit(), "),
        ("window: int = 2", "window: int = exit()"),
        ("self.window = window", "self.window = exit()"),
        ('inputs={"prompt": True}', 'inputs={"prompt": exit()}'),
        ('inputs={"prompt": True}', "inputs={**{}}"),
        ("if payload is None:", "if exit():"),
        ("    @property\n", "    @exit\n"),
        ("-> None:", "-> exit():"),
    ],
)
def test_grammar_when_a_module_has_other_code_then_it_is_found(old: str, new: str) -> None:
    """Any other expression in a place of the module is none of its shapes."""
    text = (ROOT / "tests/golden/every_kind/expected.py").read_text("utf-8")
    assert old in text
    with pytest.raises((UnknownSyntaxError, AssertionError)):
        check_module(text.replace(old, new, 1))
