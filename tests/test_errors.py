"""The tree of errors: as drawn, across processes, and in sentences that name the cure."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from typing import Any

import pytest

from statekit import errors
from statekit.errors import PartialFamilyError, Problem, SchemaError, StatekitError

ERRORS = sorted(
    (
        cls
        for cls in vars(errors).values()
        if inspect.isclass(cls) and issubclass(cls, StatekitError) and cls is not StatekitError
    ),
    key=lambda cls: cls.__name__,
)
PROBLEM = Problem("schemas/x.yaml", 3, 5, "RULE", "$.values.x", "this was found", "do that")
SPECIAL: dict[str, list[Any]] = {
    "SchemaError": [[PROBLEM]],
    "EquivalenceError": ["step 3, call 17", "latent has other bits", "mend the adapter"],
    "PartialFamilyError": ["kv", ["kv/1"]],
    "SessionAdmissionError": ["robot", "cuda:0", 600, 100, 1000, (("other", 900),)],
    "SessionStateLostError": ["robot", "evicted", 12.5, "the table keeps 64 sessions"],
}


def build(cls: type[StatekitError]) -> StatekitError:
    """An error of this class, its arguments made from their names."""
    names = list(inspect.signature(cls).parameters)
    return cls(*SPECIAL.get(cls.__name__, [f"<{name}>" for name in names]))


every = pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.__name__)


@every
def test_error_when_pickled_or_copied_then_all_of_it_arrives(cls: type[StatekitError]) -> None:
    """An error crosses a process boundary with its class, fields, arguments and sentence."""
    error = build(cls)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        arrived = pickle.loads(pickle.dumps(error, protocol))
        assert type(arrived) is cls
        assert vars(arrived) == vars(error)
        assert arrived.args == error.args
        assert str(arrived) == str(error)
    assert str(copy.deepcopy(error)) == str(error)


@every
def test_error_when_printed_then_one_line_with_found_and_cure(cls: type[StatekitError]) -> None:
    """One line: what was found, a semicolon, what to do; no full stop, no repr of a tuple."""
    text = str(build(cls))
    assert re.fullmatch(r"[^\n]+; [^\n]+[^.]", text), text
    assert not text.startswith("(")


@every
def test_error_when_printed_then_every_argument_is_in_it(cls: type[StatekitError]) -> None:
    """Whatever an error knows, its sentence says."""
    error = build(cls)
    for argument in error.args:
        if isinstance(argument, str):
            assert argument in str(error)


@every
def test_error_when_documented_then_one_sentence_and_listed(cls: type[StatekitError]) -> None:
    """Each class begins with a sentence that says what it means, and is public."""
    assert (cls.__doc__ or "").split("\n\n")[0].endswith(".")
    assert cls.__name__ in errors.__all__


def test_tree_when_drawn_then_matches_the_classes() -> None:
    """The drawing at the top of the module names every class once, under its parent, with bases."""
    drawn: dict[str, tuple[str, str]] = {}
    parents = ["StatekitError"]
    for indent, name, builtin in re.findall(
        r"^    ([│ ]*)[├└]── (\w+)(?: \((\w+)\))? +\S", errors.__doc__ or "", re.MULTILINE
    ):
        del parents[len(indent) // 4 + 1 :]
        assert name not in drawn
        drawn[name] = parents[-1], builtin
        parents.append(name)
    real = {}
    for cls in ERRORS:
        parent, *builtins = cls.__bases__
        real[cls.__name__] = parent.__name__, ", ".join(base.__name__ for base in builtins)
    assert drawn == real


def test_all_when_read_then_sorted_and_complete() -> None:
    """__all__ lists the module's classes, sorted."""
    assert errors.__all__ == sorted(errors.__all__)
    assert {cls.__name__ for cls in ERRORS} | {"Problem", "StatekitError"} == set(errors.__all__)


def test_schema_error_when_several_problems_then_sorted_by_place_one_line_each() -> None:
    """All problems of a file come at once, in its order."""
    later = Problem("schemas/x.yaml", 12, 1, "R", "$.b", "b", "mend b")
    text = str(SchemaError([later, PROBLEM]))
    assert text.splitlines() == [
        "schemas/x.yaml:3:5: RULE at $.values.x: this was found; do that",
        "schemas/x.yaml:12:1: R at $.b: b; mend b",
    ]


def test_partial_family_error_when_many_are_missing_then_first_four_are_named() -> None:
    """The sentence stays short; the field holds all."""
    error = PartialFamilyError("kv", [f"kv/{i}" for i in range(9)])
    assert "9 missing (kv/0, kv/1, kv/2, kv/3, ...)" in str(error)
    assert len(error.missing) == 9
