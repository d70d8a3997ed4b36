"""Audit of single values: every kind of object, what is unknown, what is only worth a note."""

from __future__ import annotations

import pytest

from statekit_codegen.audit.difference import Report
from tests.codegen.scaffold.sources import audited, in_class, read

_HEAD = """\
statekit: 1
model: toy
class: ToyState
doc: A toy.
symbols: {N: 4}
constants: {}
parameters: {window: {type: int, default: 2, minimum: 1, doc: Kept.}}
families: {branch: {members: {a: "", b: _b}, doc: Branches.}}
values:
"""


def report(body: str, *values: str, **options: object) -> Report:
    """An audit of a class of this body against a schema of these values."""
    lines = "".join(f"  {value}\n" for value in values)
    resets = "resets: {session: {clears: all}}\n"
    return audited(read(in_class(body)), f"{_HEAD}{lines}{resets}", **options)


def told(body: str, *values: str) -> list[str]:
    """The rules of what differs, but for names."""
    found = report(body, *values).differences
    return [one.rule for one in found if one.rule != "VALUE_INVENTED"]


def init(*lines: str) -> str:
    """A constructor of these lines."""
    return "def __init__(self, window=2):\n" + "".join(f"    {line}\n" for line in lines)


_T = "bucket: attrs, type: torch.Tensor | None, default: null"
_O = "bucket: StateObject"
AGREE = {
    "shape": ("self.x = torch.zeros(4, 2)", f"x: {{{_T}, shape: [N, 2], device: model}}"),
    "unknown type": ("self.x = make()", f"x: {{{_T}, device: cpu}}"),
    "wider type": ("self.x = 0", "x: {bucket: attrs, type: int | None, default: 0, device: none}"),
    "number": ("self.x = 0", "x: {bucket: attrs, type: float, default: 0.0, device: none}"),
    "deque": ("self.x: deque[int] = deque()",
              "x: {bucket: attrs, type: 'list[int]', default: [], device: none}"),
    "held": ("self.x: Tensor | None = None",
             f"x: {{{_O}, object: HeldValue, type: torch.Tensor, device: model}}"),
    "fixed": ("self.x: Tensor | None = None",
              f"x: {{{_O}, object: FixedState, type: torch.Tensor, device: model}}"),
    "cuda": ("self.x = torch.zeros(4, device='cuda')", f"x: {{{_T}, device: model}}"),
    "cuda 1": ("self.x = torch.zeros(4, device='cuda:1')", f"x: {{{_T}, device: cuda}}"),
    "family of a dict": (
        "self.x: dict[bool, Tensor] = {}",
        f"x: {{{_O}, object: EncodeOnce, type: torch.Tensor, device: model, "
        "key: 'x{branch}', family: [branch]}",
    ),
    "ring by a parameter": (
        "self.x: deque[Tensor] = deque(maxlen=window)",
        f"x: {{{_O}, object: LatentBuffer, item: torch.Tensor, device: model, "
        "ring: {bound: window}}",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("line", "value"), AGREE.values(), ids=AGREE)
def test_value_when_both_mean_the_same_then_nothing_differs(line: str, value: str) -> None:
    """Two ways to say one thing, and what only one side says, are no differences."""
    assert told(init(line), value) == []


DIFFER = {
    "shape": ("self.x = torch.zeros(5, 2)", f"x: {{{_T}, shape: [N, 2], device: model}}",
              "SHAPE_DIFFERS"),
    "rank": ("self.x = torch.zeros(4)", f"x: {{{_T}, shape: [N, 1], device: model}}",
             "SHAPE_DIFFERS"),
    "dtype": ("self.x = torch.zeros(4, dtype=torch.float16)",
              f"x: {{{_T}, dtype: bfloat16, device: model}}", "DTYPE_DIFFERS"),
    "device": ("self.x = torch.zeros(4, device='cpu')", f"x: {{{_T}, device: model}}",
               "DEVICE_DIFFERS"),
    "other device": ("self.x = torch.zeros(4, device='cuda')", f"x: {{{_T}, device: cpu}}",
                     "DEVICE_DIFFERS"),
    "boolean": ("self.x = False", "x: {bucket: attrs, type: int, default: 0, device: none}",
                "TYPE_DIFFERS"),
    "fixed without a value": ("self.x: str | None = None",
                              f"x: {{{_O}, object: FixedState, type: torch.Tensor, device: model}}",
                              "TYPE_DIFFERS"),
    "family": (
        "self.x: dict[bool, str] = {}",
        f"x: {{{_O}, object: EncodeOnce, type: torch.Tensor, device: model, "
        "key: 'x{branch}', family: [branch]}",
        "TYPE_DIFFERS",
    ),
    "list for one": ("self.x: list[Tensor] = []",
                     f"x: {{{_O}, object: HeldValue, type: torch.Tensor, device: model}}",
                     "TYPE_DIFFERS"),
    "ring": (
        "self.x: deque[Tensor] = deque(maxlen=5)",
        f"x: {{{_O}, object: LatentBuffer, item: torch.Tensor, device: model, "
        "ring: {bound: window}}",
        "RING_DIFFERS",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("line", "value", "rule"), DIFFER.values(), ids=DIFFER)
def test_value_when_the_two_say_different_things_then_it_is_told(
    line: str, value: str, rule: str
) -> None:
    """One contradiction gives its rule."""
    assert rule in told(init(line), value)


def test_parameter_when_its_default_differs_then_it_is_told() -> None:
    """An argument of the constructor and a parameter of one name have one default."""
    body = "def __init__(self, window=3):\n    self.x = deque(maxlen=window)\n"
    value = f"x: {{{_O}, object: LatentBuffer, item: int, device: none, ring: {{bound: window}}}}"
    found = {(one.rule, one.name) for one in report(body, value).differences}
    assert found == {("PARAMETER_DIFFERS", "window")}


NOTES = {
    "tensor at the start": ("self.x = torch.zeros(4)", f"x: {{{_T}, device: model}}"),
    "set at the start": (
        "self.x = set()",
        "x: {bucket: attrs, type: 'set[int] | None', default: null, device: none}",
    ),
    "unbounded": (
        "self.x: list[Tensor] = []",
        f"x: {{{_O}, object: LatentBuffer, item: torch.Tensor, device: model, ring: {{bound: 3}}}}",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("line", "value"), NOTES.values(), ids=NOTES)
def test_note_when_only_one_side_can_say_it_then_nothing_fails(line: str, value: str) -> None:
    """What a schema cannot say, or a class need not, is a note."""
    body = init(line) + "\ndef push(self, v):\n    self.x.append(v)\n"
    if "torch.zeros" in line or "set()" in line:
        body = init(line)
    found = report(body, value)
    assert [one for one in found.differences if one.rule != "VALUE_INVENTED"] == []
    assert len(found.notes) == 1


def test_note_when_names_are_computed_or_a_base_is_elsewhere_then_it_is_said() -> None:
    """What was not read is no difference, but it is said."""
    source = "from m import Base\n\nclass State(Base):\n    x: int = 0\n\n"
    source += "    def load(self, **values):\n        self.__dict__.update(values)\n"
    schema = _HEAD + "  x: {bucket: attrs, type: int, default: 0, device: none}\n"
    found = audited(read(source), schema)
    assert found.differences == ()
    assert [note.place.line for note in found.notes] == [3, 7]


CHANGES = {
    "replaced": ("self.x = v", "replaced", None),
    "entries": ("self.x[0] = v", "entries", None),
    "in place": ("self.x[0].zero_()", "in_place", None),
    "entries unsaid": ("self.x[0] = v", "replaced", "UPDATE_DIFFERS"),
    "append unsaid": ("self.x.append(v)", "replaced", "UPDATE_DIFFERS"),
    "in place unsaid": ("self.x[0].zero_()", "entries", "UPDATE_DIFFERS"),
    "said too much": ("self.x = v", "in_place", None),
}


@pytest.mark.parametrize(("line", "update", "rule"), CHANGES.values(), ids=CHANGES)
def test_update_when_the_class_changes_a_value_then_the_schema_has_to_say_it(
    line: str, update: str, rule: str | None
) -> None:
    """`update` must cover what the class does; it may say more."""
    body = init("self.x: list[Tensor] = []") + f"\ndef push(self, v):\n    {line}\n"
    value = "x: {bucket: attrs, type: 'list[torch.Tensor]', default: [], device: model, "
    assert told(body, f"{value}update: {update}}}") == ([rule] if rule else [])


def test_ignored_method_when_it_is_a_reset_then_it_is_not_compared() -> None:
    """A method named in --ignore is none of the class's resets."""
    body = init("self.x = self.y = self.z = 0") + "\ndef reset_x(self):\n    self.x = 0\n"
    values = [f"{n}: {{bucket: attrs, type: int, default: 0, device: none}}" for n in "xyz"]
    (one,) = report(body, *values).differences
    assert (one.rule, one.name) == ("RESET_MISSING", "reset_x()")
    assert report(body, *values, ignored=("reset_x",)).differences == ()
