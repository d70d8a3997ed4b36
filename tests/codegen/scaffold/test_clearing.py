"""Clearings: which methods reset what, under which arguments, and which are no resets."""

from __future__ import annotations

import textwrap

import pytest

from statekit_codegen.reading.facts import Clearing
from tests.codegen.scaffold.sources import in_class, read

_STATE = """
def __init__(self, size=2):
    self.a = 0
    self.b = None
    self.l = []
    self.t = torch.zeros(2)
    self.w = torch.zeros(size)

"""


def clearings(methods: str, after: str = "") -> list[Clearing]:
    """The resets of a class with five attributes and these methods."""
    source = in_class(_STATE.strip() + "\n\n" + textwrap.dedent(methods), after=after)
    return list(read(source).clearings)


def outcomes(methods: str, after: str = "") -> dict[str, tuple[str, ...]]:
    """What each way to call a reset clears."""
    return {one.label: one.cleared for one in clearings(methods, after)}


WAYS = {
    "assigned": ("self.a = 0\nself.b = None", ("a", "b")),
    "chained": ("self.b = self.a = None", ("a", "b")),
    "tuple": ("self.a, self.b = 0, None", ("a", "b")),
    "new list": ("self.l = list()", ("l",)),
    "clear": ("self.l.clear()", ("l",)),
    "whole slice": ("self.l[:] = []", ("l",)),
    "del slice": ("del self.l[:]", ("l",)),
    "deleted": ("del self.b", ("b",)),
    "zeroed": ("self.t.zero_()", ("t",)),
    "filled": ("self.t.fill_(0)", ("t",)),
    "made anew": ("self.t = torch.zeros(2)", ("t",)),
    "by name": ("for name in ('a', 'b'): setattr(self, name, None)", ("a", "b")),
    "by a tuple of the class": ("for name in self.NAMES: setattr(self, name, None)", ("a", "b")),
    "constructor": ("self.__init__()", ("a", "b", "l", "t", "w")),
    "helper": ("self._empty()", ("l",)),
    "function": ("empty(self)", ("l",)),
    "function by argument": ("only(self, True)", ("a",)),
    "guarded by itself": ("if self.b is not None: self.b = None", ("b",)),
    "returned early": ("if self.a == 0: return\nself.a = 0\nself.b = None", ("a", "b")),
    "refused": ("if size > 3: raise ValueError\nself.a = 0\nself.b = None", ("a", "b")),
    "with": ("with torch.no_grad(): self.t.zero_()", ("t",)),
    "try": ("try:\n    self.a = 0\nfinally:\n    self.b = None", ("a", "b")),
}


@pytest.mark.parametrize(("body", "wanted"), WAYS.values(), ids=WAYS)
def test_reset_when_it_clears_in_any_way_then_that_is_seen(
    body: str, wanted: tuple[str, ...]
) -> None:
    """Every way to put a value back to its start counts as clearing it."""
    methods = "def reset(self, size=1):\n" + textwrap.indent(body, "    ")
    methods += "\n\ndef _empty(self):\n    self.l = []\n\nNAMES = ('a', 'b')\n"
    after = """
    def empty(state):
        state.l.clear()

    def only(state, first):
        if first:
            state.a = 0
        else:
            state.b = None
    """
    assert outcomes(methods, after) == {"reset()": wanted}


STEERED = {
    "boolean": (
        "def reset(self, full=False):\n    self.a = 0\n    if full:\n        self.b = None",
        {"reset(full=False)": ("a",), "reset(full=True)": ("a", "b")},
    ),
    "annotated": (
        "def reset(self, full: bool):\n    self.a = 0\n    if not full:\n        return\n"
        "    self.b = None",
        {"reset(full=True)": ("a", "b"), "reset(full=False)": ("a",)},
    ),
    "text": (
        "def reset(self, what='all'):\n    self.a = 0\n"
        "    if what == 'all':\n        self.b = None\n"
        "    elif what in ('list', 'some'):\n        self.l = []",
        {
            "reset(what='all')": ("a", "b"),
            "reset(what='list')": ("a", "l"),
            "reset(what='some')": ("a", "l"),
        },
    ),
    "passed on": (
        "def reset(self, full=True):\n    self.a = 0\n    self._more(keep=not full, also=full)\n\n"
        "def _more(self, keep, also):\n    if also:\n        self.b = None",
        {"reset(full=True)": ("a", "b"), "reset(full=False)": ("a",)},
    ),
    "no difference": (
        "def reset(self, loud=False):\n    if loud:\n        print('reset')\n    self.a = 0",
        {"reset()": ("a",)},
    ),
    "both": (
        "def reset(self, x=True, y=True):\n    if x and y:\n        self.a = 0\n"
        "    if x or y:\n        self.b = None",
        {
            "reset(x=True, y=True)": ("a", "b"),
            "reset(x=True, y=False)": ("b",),
            "reset(x=False, y=True)": ("b",),
        },
    ),
}


@pytest.mark.parametrize(("methods", "wanted"), STEERED.values(), ids=STEERED)
def test_reset_when_arguments_steer_it_then_each_way_is_one(
    methods: str, wanted: dict[str, tuple[str, ...]]
) -> None:
    """A reset that arguments steer is as many resets as its tests tell apart."""
    assert outcomes(methods) == wanted


UNSURE = {
    "another condition": "if size > 3: self.b = None",
    "while": "while size: self.b = None",
    "caught": "try:\n    pass\nexcept E:\n    self.b = None",
    "after a return": "if size > 3: return\nself.b = None",
    "match": "match size:\n    case 1:\n        self.b = None",
}


@pytest.mark.parametrize("body", UNSURE.values(), ids=UNSURE)
def test_reset_when_it_clears_under_a_condition_then_that_is_not_certain(body: str) -> None:
    """What a line clears only sometimes is never said to be cleared."""
    methods = "def reset(self, size):\n    self.a = 0\n" + textwrap.indent(body, "    ")
    (found,) = clearings(methods)
    assert (found.cleared, found.sometimes) == (("a",), ("b",))


def test_reset_when_it_sets_something_else_then_that_is_not_cleared() -> None:
    """A value that a reset fills is neither cleared nor kept."""
    (found,) = clearings("def reset(self, size):\n    self.a = 0\n    self.b = size")
    assert (found.cleared, found.others) == (("a",), ("b",))


NO_RESETS = {
    "flag": "def pause(self):\n    self.b = None",
    "work": "def step(self):\n    self.a += 1\n    self.b = None\n    self.l = []",
    "property": "@property\ndef ready(self):\n    return self.a > 0",
    "private helper": "def reset(self):\n    self._empty()\n\ndef _empty(self):\n    self.a = 0",
    "nothing": "def reset(self):\n    pass",
}


@pytest.mark.parametrize(("name", "methods"), NO_RESETS.items(), ids=NO_RESETS)
def test_reset_when_a_method_is_none_then_it_is_not_taken_for_one(name: str, methods: str) -> None:
    """Methods that happen to assign a default are no resets."""
    labels = list(outcomes(methods))
    assert labels == (["reset()"] if name == "private helper" else [])


def test_reset_when_a_method_does_nothing_else_then_it_is_one_by_any_name() -> None:
    """A method that clears several values and nothing else is a reset, whatever it is called."""
    assert outcomes("def next_scene(self):\n    self.a = 0\n    self.b = None") == {
        "next_scene()": ("a", "b")
    }
