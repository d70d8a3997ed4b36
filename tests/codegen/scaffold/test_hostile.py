"""Hostile sources: each has its error with the place, and nothing of a file is ever run."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from statekit.errors import GenerateError
from statekit_codegen.reading import source
from statekit_codegen.reading.reader import read_class, read_source
from statekit_codegen.reading.source import Target
from statekit_codegen.scaffold.document import draft
from statekit_codegen.scaffold.subclass import subclass
from tests.codegen.scaffold.sources import audited, read


def refused(data: bytes | str, name: str = "State") -> str:
    """What is said about a file that can't be read."""
    data = data.encode() if isinstance(data, str) else data
    with pytest.raises(GenerateError) as error:
        read_source(data, Target(Path("state.py"), name), "state.py")
    return str(error.value)


FILES = {
    "syntax": (b"class State:\n    x = = 1\n", "state.py:2:9: not Python: "),
    "indentation": (b"class State:\nx = 1\n", "state.py:2:1: not Python: "),
    "bracket": (b"class State:\n    x = (\n", "state.py:2:9: not Python: "),
    "python 2": (b"class State:\n    print 1\n", "state.py:2:5: not Python: "),
    "not UTF-8": (b"class State:\n    x = '\xff'\n", "state.py:2: byte 0xFF is not utf-8"),
    "UTF-16": ("class State: pass".encode("utf-16"), "state.py: "),
    "encoding unknown": (b"# coding: klingon\nclass State: pass\n", "state.py: unreadable: "),
    "encoding of bytes": (b"# coding: hex\nclass State: pass\n", "state.py: unreadable: "),
    "NUL": (b"class State:\n    x = 1\0\n", "not Python: "),
    "nothing": (b"", "state.py: no class State; classes of this file: none"),
    "brackets": (b"class State:\n    x = " + b"[" * 5000 + b"]" * 5000, "state.py"),
    "minus": (b"class State:\n    def f(self):\n        self.x = " + b"-" * 50_000 + b"1", "state"),
    "sum": (b"class State:\n    def f(self):\n        self.x = " + b"1+" * 20_000 + b"1", "state"),
}


@pytest.mark.parametrize(("data", "wanted"), FILES.values(), ids=FILES)
def test_file_when_it_is_hostile_then_the_error_has_its_place(data: bytes, wanted: str) -> None:
    """Whatever is in a file, the error is one line with the place."""
    said = refused(data)
    assert wanted in said
    assert said.startswith("state.py")
    assert "\n" not in said


def test_file_when_its_encoding_is_declared_then_it_is_read() -> None:
    """A file in another encoding that it declares, with a mark or carriage returns, is read."""
    for data in (
        "# -*- coding: latin-1 -*-\nclass State:\n    ä = 1  # größe\n".encode("latin-1"),
        b"\xef\xbb\xbfclass State:\r\n    x: int = 1\r\n",
    ):
        assert read_source(data, Target(Path("s.py"), "State"), "s.py").attributes


def test_class_when_it_is_not_there_then_those_of_the_file_are_listed() -> None:
    """A name that is not there gives the nearest one, and all others."""
    text = "class State:\n    class Inner:\n        pass\n\nif 1:\n    class Other:\n        pass\n"
    said = refused(text, "Sate")
    assert "did you mean State?" in said
    assert "classes of this file: State, State.Inner, Other" in said


def test_class_when_it_is_nested_then_its_qualified_name_finds_it() -> None:
    """A class in a class is found by both names; one in a function is not."""
    text = "class A:\n    class State:\n        def __init__(self):\n            self.x = 1\n"
    text += "class State:\n    y: int = 1\n\ndef f():\n    class Hidden:\n        pass\n"
    assert set(read(text, "A.State").attributes) == {"x"}
    assert set(read(text).attributes) == {"y"}
    assert "classes of this file: A, A.State, State" in refused(text, "Hidden")


def test_class_when_its_name_is_there_twice_then_a_line_chooses() -> None:
    """Two classes of one name are told apart by their lines."""
    text = "try:\n    class State:\n        x: int = 1\nexcept E:\n    "
    text += "class State:\n        y: int = 1\n"
    said = refused(text)
    assert (
        "State is defined in lines 2 and 5; name one by its line, such as state.py:State:5" in said
    )
    found = read_source(text.encode(), Target.parse("state.py:State:5"), "state.py")
    assert set(found.attributes) == {"y"}


TARGETS = ("state.py", "state.py:", ":State", "state:State", "state.py:a b", "state.py:A..B", "")


@pytest.mark.parametrize("text", [*TARGETS, "state.py:A:x", "state.py:A:1:2", "state.py:A\n"])
def test_target_when_it_has_another_form_then_the_form_is_said(text: str) -> None:
    """What is no FILE.py:CLASS is refused with the form."""
    with pytest.raises(GenerateError, match=r"write the file, a colon and the class"):
        Target.parse(text)


def test_file_when_it_is_no_file_then_that_is_said(tmp_path: Path) -> None:
    """A folder, nothing, and a file beyond the limit are refused."""
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "large.py").write_bytes(b"#" * (source.MAX_BYTES + 1))
    for name, found in (("folder", "no file"), ("none", "No such file"), ("large", "more than")):
        with pytest.raises(GenerateError, match=found):
            read_class(tmp_path / f"{name}.py", "State")


def test_source_when_read_then_nothing_of_it_runs(tmp_path: Path) -> None:
    """A file that would write, exit or import something does nothing of it."""
    trace = tmp_path / "ran"
    text = f"""
import sys, this_module_is_not_there
open({str(trace)!r}, "w").write("ran")
sys.exit(3)

class Meta(type):
    def __new__(cls, *args):
        open({str(trace)!r}, "w")
        return type.__new__(cls, *args)

@open({str(trace)!r}, "w").write
class State(metaclass=Meta):
    x: int = open({str(trace)!r}, "w")

    def __init__(self, y=open({str(trace)!r}, "w")):
        self.y = __import__("os").system("touch {trace}")
        self.z = [].append(open({str(trace)!r}, "w"))

    def reset(self):
        self.y = None
"""
    file = tmp_path / "state.py"
    file.write_text(text, "utf-8")
    before = set(sys.modules)
    state = read_class(file, "State")
    text = draft(state)
    audited(state, text)
    subclass(state, "app.model")
    assert not trace.exists()
    assert "this_module_is_not_there" not in set(sys.modules) - before
    assert set(state.attributes) == {"x", "y", "z"}


def test_source_when_it_is_large_then_it_is_read_in_seconds() -> None:
    """Work grows with the size of the file: thousands of attributes, methods and helpers."""
    start = "".join(f"        self.a{i} = {i}\n" for i in range(1000))
    methods = "".join(f"    def m{i}(self):\n        self.a{i} += 1\n" for i in range(500))
    chain = "".join(
        f"    def h{i}(self):\n        self.h{i + 1}(); self.h{i + 1}()\n" for i in range(150)
    )
    text = f"class State:\n    def __init__(self):\n        self.h0()\n{start}\n{methods}{chain}"
    begun = time.monotonic()
    state = read(text)
    assert len(state.attributes) == 1000
    assert time.monotonic() - begun < 30


def test_source_when_bases_form_a_circle_then_reading_ends() -> None:
    """Classes that derive from each other, or from themselves, are read once."""
    text = "class A(State):\n    x: int = 1\n\nclass State(A):\n    y: int = 1\n"
    assert set(read(text).attributes) == {"x", "y"}
    assert set(read("class State(State):\n    y: int = 1\n").attributes) == {"y"}


def test_source_when_text_of_it_is_odd_then_the_draft_still_loads() -> None:
    """Docstrings and comments with anything in them can't break a draft or its YAML."""
    text = '''
class State:
    """Colon: here, # hash, {brackets}, \\u202e reversed, "quotes", 'single' - and: more

    rest"""

    def __init__(self, a):
        self.x = 0  # key: value # {x} [y] 'z' "w" \u200b & *a !b |c >d %e @f `g`
        self.y = "no"  # - list
        self.z = Thing("a: b", '\\u202e')  # ? q
        self.w = a
'''
    state = read(text)
    assert audited(state, draft(state)).differences == ()
    compile(subclass(state, "app"), "drafted.py", "exec")
