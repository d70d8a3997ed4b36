"""The draft of the subclass: it imports, a linter passes it, and what it copies still works."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from statekit.manager import SessionStateManager
from statekit_codegen.load import load_text
from statekit_codegen.render import render
from statekit_codegen.scaffold.document import draft
from statekit_codegen.scaffold.subclass import subclass
from tests.codegen.scaffold.sources import ROOT, in_class, read
from tests.codegen.scaffold.test_drafts import _EVERY, state_of


def module_of(text: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that a text is, under a name."""
    path = folder / f"{name}.py"
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def adapter_of(state: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """The drafted subclass over the adapter generated from the drafted schema."""
    model = load_text(draft(state).encode(), "schemas/draft.yaml")
    module_of(render(model), "drafted_adapter", folder, monkeypatch)
    text = subclass(state, "drafted_adapter")
    module = module_of(text, "drafted_subclass", folder, monkeypatch)
    (name,) = module.__all__
    found: type[Any] = getattr(module, name)
    return found


@pytest.mark.parametrize("case", _EVERY)
def test_subclass_when_imported_then_it_makes_an_adapter(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every draft imports over the class generated from its schema, and can be made."""
    state = state_of(case)
    made = adapter_of(state, tmp_path, monkeypatch)
    bounds = {a.bound.name for a in state.attributes.values() if a.bound and a.bound.parameter}
    arguments = {name: 2 for name in bounds if name}
    assert made("robot-1", SessionStateManager(), **arguments).session_id == "robot-1"


@pytest.mark.parametrize("case", _EVERY)
def test_subclass_when_linted_then_nothing_is_found(case: str, tmp_path: Path) -> None:
    """No unused import, no unknown name, no line too long."""
    file = tmp_path / "drafted.py"
    file.write_text(subclass(state_of(case), "app.generated.model"), "utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "E,F,W,I"]
    command += ["--line-length", "100", "--config", "lint.isort.known-first-party=['app']"]
    done = subprocess.run(
        [*command, str(file)], capture_output=True, encoding="utf-8", check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout


def test_subclass_when_dreamzero_is_drafted_then_what_is_copied_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copied bodies and resets act as those of the hand-rolled class; the rest says what to do."""
    made = adapter_of(state_of("dreamzero"), tmp_path, monkeypatch)
    adapter = made("robot-1", SessionStateManager())
    assert adapter.reset_reason(None, 1, -1) == "session"
    adapter.language = torch.arange(4)
    adapter.current_start_frame = 9
    assert adapter.reset_reason(torch.arange(4), 4, 9) == "inference"
    assert not adapter.should_reset(torch.arange(4), 4, 10)
    adapter.video_latents_across_time_object.append(torch.ones(1, 2, 3, 4, 4))
    assert adapter.get_concatenated_video_latents().shape == (1, 2, 3, 4, 4)
    adapter.reset(clear_video_latents=False)
    assert adapter.current_start_frame == 0
    assert adapter.language is not None
    adapter.reset()
    assert adapter.language is None
    assert adapter.get_concatenated_video_latents() is None
    with pytest.raises(NotImplementedError, match="accumulate_frames"):
        adapter.accumulate_frames(np.zeros((2, 2, 3), np.uint8))


def test_subclass_when_cosmos3_is_drafted_then_it_is_whole_and_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing accumulates, the draft is the hand-rolled class again, over the manager."""
    state = state_of("cosmos3")
    assert "NotImplementedError" not in subclass(state, "app.model")
    made = adapter_of(state, tmp_path, monkeypatch)
    manager = SessionStateManager()
    pair = (torch.zeros(1), torch.ones(1))
    assert made("robot-1", manager).get_branch_kv(False) is None
    made("robot-1", manager).set_branch_kv(False, [pair])
    (found,) = made("robot-1", manager).get_branch_kv(False)
    assert found is pair
    assert made("robot-2", manager).get_branch_kv(False) is None
    made("robot-1", manager).reset()
    assert not made("robot-1", manager).is_branch_initialized(False)


COPIED = {
    "constant of the file": ("return LIMIT", "return LIMIT"),
    "alias of a type": ("x: KV | None = None; return x", "x: KV | None = None"),
    "renamed": ("return self._hidden + self.step", "self.hidden + self.step_value"),
    "reads a buffer": ("return len(self.frames)", "len(self.frames)"),
    "calls another": ("return self.other()", "self.other()"),
    "imports": ("return np.zeros(3)", "np.zeros(3)"),
    "non-ascii": ('return "ä" + self._hidden', '"ä" + self.hidden'),
}
LEFT = {
    "appends": ("self.frames.append(1)", "LatentBuffer"),
    "through a name": ("f = self.frames; f.append(1)", "LatentBuffer"),
    "clears": ("self.frames.clear()", "LatentBuffer"),
    "helper": ("return double(self.step)", "it needs double of the original file"),
    "super": ("return super().work()", "super()"),
    "computed": ("setattr(self, key, 1)", "no line says"),
    "given": ("return self.config.width", "config, which no session holds"),
    "by name": ('return getattr(self, "_hidden")', "_hidden is called hidden here"),
}
_START = """
def __init__(self, config):
    self.config = config
    self._hidden = 0
    self.step = 0
    self.frames = []

def push(self, frame: Tensor):
    self.frames.append(frame)

def other(self):
    return 1

def work(self, key=None):
"""


@pytest.mark.parametrize(("body", "wanted"), COPIED.values(), ids=COPIED)
def test_body_when_it_means_the_same_then_it_is_copied(body: str, wanted: str) -> None:
    """A body that only reads, or changes carried values, is copied, with the new names."""
    state = read(in_class(f"{_START}    {body}\n"))
    text = subclass(state, "app.model").partition("def work")[2]
    assert wanted in text
    assert "NotImplementedError" not in text


@pytest.mark.parametrize(("body", "reason"), LEFT.values(), ids=LEFT)
def test_body_when_it_would_do_something_else_then_it_is_left_with_the_reason(
    body: str, reason: str
) -> None:
    """A body that would run and do something else is a comment above an error."""
    after = "def double(x):\n    return 2 * x\n"
    state = read(in_class(f"{_START}    {body}\n", after=after))
    text = subclass(state, "app.model").partition("def work")[2]
    assert reason in " ".join(text.replace("#", "").split())
    assert text.rstrip().endswith('raise NotImplementedError("work is to be written")')
    compile(subclass(state, "app.model"), "drafted.py", "exec")


def test_signature_when_it_names_what_is_not_there_then_it_still_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Annotations and defaults of the original file's own names give way to Any and `...`."""
    body = """
    def __init__(self):
        self.x = 0

    async def work(self, a: Local, /, b: "Local" = made(), *c: int, d: Tensor = None, **e) -> Local:
        self.x = double(a)

    @property
    def half(self) -> float:
        return self.x / 2

    @half.setter
    def half(self, value: float) -> None:
        self.x = 2 * value

    @staticmethod
    def add(a, b):
        return a + b
    """
    state = read(in_class(body))
    made = adapter_of(state, tmp_path, monkeypatch)
    adapter = made("robot-1", SessionStateManager())
    adapter.half = 4
    assert (adapter.x, adapter.half, made.add(1, 2)) == (8, 4.0, 3)
    text = " ".join(subclass(state, "app").split())
    assert "self, a: Any, /, b: Any = ..., *c: int, d: Tensor = None, **e" in text
