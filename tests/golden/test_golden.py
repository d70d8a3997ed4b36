"""Goldens: each folder beside this file is a schema and the module that it must become.

`make golden-update` writes `expected.py` anew from what is generated now; review the difference.
"""

from __future__ import annotations

import difflib
import importlib.util
import json
import shutil
import subprocess
import sys
from collections import deque
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from statekit.adapter import StateAdapter
from statekit.attr import SessionAttr
from statekit.errors import AlreadyEncodedError
from statekit.family import ObjectFamily
from statekit.manager import SessionStateManager
from statekit.objects import EncodeOnce, FixedState, LatentBuffer, RetrievalStore, WindowedKV
from statekit.spec import ValueSpec
from statekit_codegen.load import load_text
from statekit_codegen.model import Model
from statekit_codegen.render import render
from statekit_codegen.type_grammar import TypeExpr

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CASES = sorted(path.parent.name for path in HERE.glob("*/schema.yaml"))

each_case = pytest.mark.parametrize("case", CASES)


@each_case
def test_golden_when_rendered_then_equals_the_expected_module(
    case: str, request: pytest.FixtureRequest
) -> None:
    """The schema of a case becomes the module beside it, byte for byte."""
    expected = HERE / case / "expected.py"
    text = render(_model(case))
    if request.config.getoption("--golden-update"):
        expected.write_bytes(text.encode())
    before = expected.read_bytes().decode() if expected.exists() else ""
    diff = difflib.unified_diff(
        before.splitlines(keepends=True), text.splitlines(keepends=True), str(expected), "rendered"
    )
    assert before == text, "".join(diff) + "\nif that is as it should be: make golden-update"


def test_goldens_when_walked_then_each_folder_is_a_complete_case() -> None:
    """A case is a folder with exactly a schema and a module, so none is left out by mistake."""
    folders = {path for path in HERE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    files = {path.name: {file.name for file in path.iterdir()} for path in folders}
    for found in files.values():
        found.discard("__pycache__")
    assert files == {case: {"schema.yaml", "expected.py"} for case in CASES}
    assert len(CASES) >= 6


@pytest.mark.parametrize("width", [88, 100])
def test_goldens_when_formatted_then_nothing_changes(width: int) -> None:
    """`ruff format` finds nothing to change, at 88 columns nor at 100."""
    arguments = ["format", "--diff", "--isolated", f"--line-length={width}"]
    done = _tool("ruff", *arguments, *_expected_files())
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_goldens_when_linted_then_nothing_is_found() -> None:
    """Every import is used, sorted and complete."""
    ours = 'lint.isort.known-first-party=["statekit"]'
    done = _tool(
        "ruff", "check", "--isolated", "--select=F,I", "--config", ours, *_expected_files()
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_goldens_when_type_checked_then_mypy_strict_accepts_them(tmp_path: Path) -> None:
    """`mypy --strict` finds nothing in any generated module."""
    files = _as_modules(tmp_path)
    # With the options of `make type`, whose cache makes this quick.
    done = _tool("mypy", "--no-error-summary", *files)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if "golden_" in line] == []


@pytest.mark.slow
def test_goldens_when_type_checked_then_pyright_accepts_them(tmp_path: Path) -> None:
    """basedpyright finds nothing in any generated module, in standard mode."""
    files = _as_modules(tmp_path)
    settings = tmp_path / "pyrightconfig.json"
    paths = [str(ROOT), str(ROOT / "codegen")]
    settings.write_text(json.dumps({"typeCheckingMode": "standard", "extraPaths": paths}))
    done = _tool(
        "basedpyright", "--outputjson", f"--pythonpath={sys.executable}", f"--project={settings}"
    )
    report = json.loads(done.stdout)
    found = [finding["message"] for finding in report["generalDiagnostics"]]
    assert (found, report["summary"]["filesAnalyzed"]) == ([], len(files))


@each_case
def test_golden_when_imported_then_spec_is_the_one_of_the_schema(case: str) -> None:
    """What the module says of itself as data is what the schema says."""
    model, adapter_class = _model(case), _adapter_class(case)
    assert model.spec == adapter_class.SPEC
    assert adapter_class.__name__ == model.schema.class_


@each_case
def test_golden_when_parameters_are_given_then_adapter_has_them(case: str) -> None:
    """Parameters have the schema's defaults, constants its numbers."""
    spec, adapter_class = _model(case).spec, _adapter_class(case)
    adapter = adapter_class(None, SessionStateManager())
    assert {name: getattr(adapter, name) for name in spec.parameters} == {
        name: parameter.default for name, parameter in spec.parameters.items()
    }
    assert {name: getattr(adapter_class, name) for name in spec.constants} == spec.constants


@each_case
def test_golden_when_fresh_then_every_value_reads_as_its_default(case: str) -> None:
    """Before anything is assigned, a reader gets the schema's default, or an empty view."""
    model = _model(case)
    adapter = _adapter_class(case)("session", SessionStateManager())
    for value in model.spec:
        for name, place in _places(model, value):
            if value.bucket == "attrs":
                expected = model.schema.values[value.name].default
                assert getattr(adapter, name) == expected, name
                assert isinstance(getattr(type(adapter), name), SessionAttr)
            else:
                assert _read(adapter, name, place) in (None, []), name


@each_case
def test_golden_when_written_then_another_adapter_reads_the_same(case: str) -> None:
    """What one adapter writes, the next one of the session reads, and another session does not."""
    model, manager = _model(case), SessionStateManager()
    adapter_class = _adapter_class(case)
    for value in model.spec:
        for name, place in _places(model, value):
            sample = _sample(TypeExpr.parse(value.type))
            _write(adapter_class("a", manager), value, name, place, sample)
            found = _read(adapter_class("a", manager), name, place)
            if value.bucket == "attrs":
                assert found is sample or found == sample, name
            elif value.object in ("FixedState", "WindowedKV", "RetrievalStore"):
                stored = _stored(value, sample)
                assert _equal(found, stored) or _equal(found, [stored, stored]), name
            elif value.on_commit:
                assert found is not None, name
            else:
                assert found is sample or _unwrapped(found) is sample, name
    other = adapter_class("b", manager)
    assert other.session.attrs == {}
    assert other.session.names == ()


@each_case
def test_golden_when_reset_then_exactly_the_stated_values_are_cleared(case: str) -> None:
    """Each reset clears what the schema says that it clears, and keeps all else."""
    model, adapter_class = _model(case), _adapter_class(case)
    for reset, cleared in model.spec.resets.items():
        adapter = adapter_class("session", SessionStateManager())
        for value in model.spec:
            for name, place in _places(model, value):
                _write(adapter, value, name, place, _sample(TypeExpr.parse(value.type)))
        getattr(adapter, f"reset_{reset}")()
        for value in model.spec:
            for name, place in _places(model, value):
                if value.bucket == "attrs":
                    kept = name in adapter.session.attrs
                else:
                    kept = _read(adapter, name, place) not in (None, [])
                assert kept == (value.name not in cleared), (reset, name)


@each_case
def test_golden_when_encoded_twice_then_the_first_stays(case: str) -> None:
    """An encode-once value refuses a second payload, and takes one again after None."""
    model = _model(case)
    adapter = _adapter_class(case)("session", SessionStateManager())
    for value in model.spec:
        if value.object != "EncodeOnce" or value.families:
            continue
        sample = _sample(TypeExpr.parse(value.type))
        setattr(adapter, value.name, sample)
        with pytest.raises(AlreadyEncodedError):
            setattr(adapter, value.name, sample)
        assert getattr(adapter, value.name) is sample
        setattr(adapter, value.name, None)
        assert getattr(adapter, value.name) is None
        setattr(adapter, value.name, sample)
        assert getattr(adapter, value.name) is sample


def test_fixed_state_when_assigned_again_then_it_has_the_values_at_the_address() -> None:
    """Assigning copies in place; None gives the buffers back, and the next one is at home again."""
    adapter = _adapter_class("held_kinds")("session", SessionStateManager())
    adapter.state = torch.zeros(4, 8)
    first = adapter.state
    adapter.state = torch.ones(4, 8)
    assert adapter.state.data_ptr() == first.data_ptr()
    assert torch.equal(first, torch.ones(4, 8))
    adapter.state = None
    assert adapter.state is None
    adapter.state = torch.full((2, 2), 3.0)
    assert torch.equal(adapter.state, torch.full((2, 2), 3.0))


def test_window_when_more_is_appended_then_the_sink_and_the_newest_stay() -> None:
    """The window is that of the parameter, its sink the constant's, and both tensors are kept."""
    adapter = _adapter_class("held_kinds")("session", SessionStateManager(), window=4)
    frames = torch.arange(6.0).reshape(1, 6, 1)
    for index in range(6):
        frame = frames[:, index : index + 1]
        adapter.kv_object.append((frame, -frame))
    keys, values = adapter.kv
    assert keys.flatten().tolist() == [0.0, 3.0, 4.0, 5.0]
    assert torch.equal(values, -keys)
    assert (adapter.kv_object.local_end, adapter.kv_object.global_end) == (4, 6)
    adapter.kv = (frames[:, :2], frames[:, :2])
    assert (adapter.kv_object.local_end, adapter.kv_object.global_end) == (2, 2)
    adapter.kv = None
    assert adapter.kv is None


def test_store_when_searched_then_the_nearest_by_the_metric_of_the_schema_is_found() -> None:
    """The metric, the codec, the move and the bytes are those of the schema."""
    adapter = _adapter_class("held_kinds")("s", SessionStateManager(), pool_nbytes=1024)
    store = adapter.pool_object
    assert (store.limit_nbytes, store.metric) == (1024, "cosine")
    for index in range(16):
        key = torch.zeros(16)
        key[index] = 1.0
        store.append((key, torch.full((4, 8), index / 2)))
    entry_nbytes = 4 * 16 + 2 * 32
    assert [value[0, 0].item() * 2 for _, value in adapter.pool] == list(range(8, 16))
    assert len(adapter.pool) == 1024 // entry_nbytes
    (hit,) = store.nearest(key * 5, 1)
    assert (hit.value.dtype, hit.value[0, 0].item()) == (torch.float32, 7.5)
    assert adapter.few_object.bound == 3


def test_families_when_members_are_asked_for_then_each_is_an_object_of_its_kind() -> None:
    """A numbered family hands out members by number, and replaces fixed ones in place."""
    adapter = _adapter_class("held_families")("session", SessionStateManager())
    window = adapter.kv("negative").object(1)
    assert isinstance(window, WindowedKV)
    assert (window.bound, window.axis, window.sink) == (6, 1, 3)
    tails = adapter.tail()
    tails.replace([torch.zeros(3), torch.ones(3)])
    before = tails.object(1).view()
    tails.replace([torch.zeros(3), torch.full((3,), 2.0)])
    assert (
        tails.object(1).view() is before or tails.object(1).view().data_ptr() == before.data_ptr()
    )
    assert before.tolist() == [2.0, 2.0, 2.0]
    assert isinstance(adapter.pools().object(0), RetrievalStore)


Place = tuple[str, ...] | None
"""The labels of one member of a family; None for what is no object of a family."""


def _model(case: str) -> Model:
    return load_text((HERE / case / "schema.yaml").read_bytes(), f"{case}/schema.yaml")


def _adapter_class(case: str) -> type[Any]:
    name = f"statekit_golden_{case}"
    spec = importlib.util.spec_from_file_location(name, HERE / case / "expected.py")
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (exported,) = module.__all__
    found: type[Any] = getattr(module, exported)
    assert issubclass(found, StateAdapter)
    return found


def _places(model: Model, value: ValueSpec) -> list[tuple[str, Place]]:
    """Every member of a value: its name, and for an object of a family its labels."""
    if value.bucket == "attrs":
        return [(key, None) for key in model.spec.keys_of(value)]
    if not value.families:
        return [(value.name, None)]
    axes = [model.spec.families[name].members for name in value.families]
    return [(value.name, labels) for labels in product(*(axis for axis in axes if axis))]


def _write(adapter: Any, value: ValueSpec, name: str, place: Place, sample: Any) -> None:
    if place is not None:
        held = getattr(adapter, name)(*place)
        if isinstance(held, ObjectFamily):
            held.replace([_stored(value, sample)] * 2)
        elif isinstance(held, RetrievalStore):
            held.replace(_stored(value, sample))
        else:
            assert isinstance(held, (EncodeOnce, FixedState, LatentBuffer, WindowedKV))
            held.append(sample)
    elif value.object == "LatentBuffer":
        getattr(adapter, f"{name}_object").append(sample)
    elif value.object == "RetrievalStore":
        setattr(adapter, name, _stored(value, sample))
    else:
        setattr(adapter, name, sample)


def _read(adapter: Any, name: str, place: Place) -> Any:
    found = getattr(adapter, name)
    return found if place is None else found(*place).view()


def _stored(value: ValueSpec, sample: Any) -> Any:
    """What is assigned to a value so that it holds `sample`: with a key, in a store."""
    return [(torch.ones(2), sample)] if value.object == "RetrievalStore" else sample


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are alike, and all their tensors and arrays have the same content."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, (torch.Tensor, np.ndarray)):
        return bool((one == other).all())
    return bool(one == other)


def _unwrapped(found: Any) -> Any:
    """The item, where a view is a list of one or of two equal ones."""
    if isinstance(found, list) and found and all(item is found[0] for item in found):
        return found[0]
    return found


def _sample(type_: TypeExpr) -> Any:
    inner = [_sample(argument) for argument in type_.arguments]
    if type_.head == "|":
        return next(sample for sample in inner if sample is not None)
    if type_.head == "dict":
        return {inner[0]: inner[1]}
    if type_.head in ("list", "set", "tuple", "deque"):
        return {"list": list, "set": set, "tuple": tuple, "deque": deque}[type_.head](inner)
    leaves: dict[str, Any] = {
        "None": None,
        "bool": True,
        "int": 3,
        "float": 1.5,
        "str": "text",
        "bytes": b"bytes",
        "np.ndarray": np.ones((1, 2, 2, 2, 2), np.float32),
        "torch.Tensor": torch.ones(1, 2, 2, 2, 2),
        "torch.Generator": torch.Generator(),
    }
    return leaves[type_.head]


def _expected_files() -> list[str]:
    return [str(HERE / case / "expected.py") for case in CASES]


def _as_modules(folder: Path) -> list[str]:
    """The goldens under names of their own, as a type checker wants them."""
    for case in CASES:
        shutil.copy(HERE / case / "expected.py", folder / f"golden_{case}.py")
    return sorted(str(path) for path in folder.glob("*.py"))


def _tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", name, *arguments],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
