"""What is done to a recorded object is written down whole, aliases too, and survives a file."""

from __future__ import annotations

import importlib
import random
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
import torch

import statekit.testing as kit
from statekit.errors import DamagedSnapshotError, UnsavableError
from statekit.snapshot_file.file import write_snapshot
from statekit.testing import Call, Trace, assert_same_bits, record
from statekit.testing.copies import Copies, Unseen
from statekit.testing.replay import ITSELF, Replayed


class State:
    """A hand-rolled object with whatever such objects have."""

    def __init__(self) -> None:
        self.kept: Any = None
        self.other: Any = None
        self.items: list[Any] = []
        self._private = 1

    def keep(self, value: Any, *, twice: bool = False) -> State:
        self.kept = value
        if twice:
            self.other = value
        return self

    def grow(self) -> None:
        self.items.append(torch.zeros(2))

    def fill(self, target: Any) -> None:
        target.kv = self.kept

    def fail(self) -> None:
        raise KeyError("no")

    @property
    def first(self) -> Any:
        return self.items[0]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


def kinds(trace: Trace) -> list[str]:
    return [call.kind for call in trace]


def find(trace: Trace, kind: str, name: str = "") -> list[Call]:
    return [call for call in trace if call.kind == kind and (not name or call.name == name)]


def test_recorder_when_used_then_is_the_object_for_whoever_uses_it() -> None:
    """Class, length, items, methods and errors are those of the object; so is what they do."""
    own = State()
    recorder = record(own)
    state = recorder.state
    assert isinstance(state, State)
    assert state.keep(3) is state
    state.grow()
    assert (len(state), state[0] is own.items[0], state.kept) == (1, True, 3)
    assert state.first is own.items[0]
    with pytest.raises(KeyError, match="no"):
        state.fail()
    with pytest.raises(AttributeError):
        _ = state.absent
    del state.kept
    assert not hasattr(own, "kept")
    assert repr(state).startswith("<recorded <")
    done = [(call.kind, call.name, call.error) for call in recorder.trace if call.kind != "same"]
    assert done == [
        ("step", "start", ""),
        ("call", "keep", ""),
        ("call", "grow", ""),
        ("call", "__len__", ""),
        ("call", "__getitem__", ""),
        ("read", "kept", ""),
        ("read", "first", ""),
        ("call", "fail", "KeyError"),
        ("read", "absent", "AttributeError"),
        ("delete", "kept", ""),
        ("step", "end", ""),
    ]
    assert find(recorder.trace, "call", "keep")[0].gave_itself


def test_trace_when_values_change_later_then_holds_them_as_they_were() -> None:
    """What was passed, returned and looked at is copied at that moment."""
    recorder = record(State())
    tensor, array = torch.zeros(2), np.zeros(2)
    with recorder.step("one"):
        recorder.state.keep([tensor, array])
        tensor.add_(1)
        array += 1
    with recorder.step("two"):
        tensor.add_(1)
    trace = recorder.trace
    assert_same_bits(find(trace, "call")[0].args[0], [torch.zeros(2), np.zeros(2)])
    looks = {call.name: call.result["kept"] for call in find(trace, "step")}
    assert_same_bits(looks["one"], [torch.ones(2), np.ones(2)])
    assert_same_bits(looks["two"], [torch.full((2,), 2.0), np.ones(2)])
    assert (trace.steps, trace.names) == (2, ("kept", "other", "items"))


def test_trace_when_one_object_is_passed_twice_then_is_one_object_in_it(tmp_path: Path) -> None:
    """Aliases are kept: over calls, in containers, in looks, and over a file."""
    recorder = record(State())
    tensor = torch.zeros(2)
    with recorder.step():
        recorder.state.kept = tensor
        recorder.state.items = [tensor, (tensor, 1)]
        recorder.state.keep(tensor, twice=True)
    recorder.trace.save(tmp_path / "t.trace")
    for trace in (recorder.trace, Trace.load(tmp_path / "t.trace")):
        (first,) = find(trace, "write", "kept")[0].args
        (second,) = find(trace, "write", "items")[0].args
        (third,) = find(trace, "call", "keep")[0].args
        look = find(trace, "step")[-1].result
        assert second[0] is second[1][0] is first
        assert third is look["kept"] is look["other"] is first


@pytest.mark.parametrize("inference", [False, True])
def test_change_when_it_comes_from_outside_then_told_from_the_state_s_own(inference: bool) -> None:
    """Entries and elements that the pipeline writes are changes; those of methods are not."""
    recorder = record(State())
    state = recorder.state
    with torch.inference_mode(inference):
        items = state.items
        state.grow()  # its own affair
        items.append(torch.ones(1))
        items[0].add_(5)
        state.keep(None)
        items[0][1:].mul_(0)  # through a view
        state.keep(None)
    changed = find(recorder.trace, "changed")
    assert [kind for kind in kinds(recorder.trace) if kind == "changed"] == ["changed"] * 3
    by_kind = [one for one in changed if isinstance(one.result, list)]
    assert [len(one.result) for one in by_kind] == [2]
    tensors = [one.result.tolist() for one in changed if isinstance(one.result, torch.Tensor)]
    assert tensors == [[5, 5], [5, 0]]


def test_change_when_memory_is_written_past_torch_then_seen_at_the_step(tmp_path: Path) -> None:
    """Writes through `.data` and shared arrays are found when the bytes are looked at."""
    array = np.zeros(2, np.float32)
    tensor = torch.from_numpy(array)
    recorder = record(State())
    with recorder.step():
        recorder.state.kept = tensor
        array[0] = 7
    assert find(recorder.trace, "step")[-1].result["kept"].tolist() == [7, 0]
    assert len(find(recorder.trace, "changed")) == 1


def test_trace_when_objects_are_passed_then_their_attributes_are_followed() -> None:
    """A stand-in for a model that is passed in and filled is followed like a container."""
    recorder = record(State())
    target = SimpleNamespace(kv=None)
    recorder.state.keep(torch.ones(1))
    recorder.state.fill(target)
    target.kv = torch.zeros(1)
    recorder.state.fill(target)
    first, second = find(recorder.trace, "call", "fill")
    assert (first.args[0].kv, second.args[0].kv.tolist()) == (None, [0])
    replayed = Replayed(State())
    for call in recorder.trace:
        if call.kind in ("changed", "same"):
            replayed.change(call)
        elif call.kind != "step":
            outcome = replayed.run(call)
    assert outcome.args[0].kv.tolist() == [1]


@attrs.define
class Slotted:
    """An instance without a dict."""

    one: Any


EVERYTHING: dict[str, Any] = {
    "tensor view": torch.arange(6.0).reshape(2, 3).T,
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "requires grad": torch.ones(2, requires_grad=True),
    "array": np.arange(6).reshape(2, 3)[:, ::2],
    "scalar": np.float32(1),
    "tuple": (1, "a", None, (torch.ones(1),)),
    "dict": {"a": [1], (1, 2): {3}},
    "deque": deque([torch.ones(1)], maxlen=2),
    "namespace": SimpleNamespace(a=[torch.ones(1)]),
    "slots": Slotted([torch.ones(1)]),
    "generator": torch.Generator().manual_seed(3),
    "numpy generator": np.random.default_rng(3),
    "python generator": random.Random(3),
}


@pytest.mark.parametrize("name", EVERYTHING)
def test_copies_when_of_any_kind_then_equal_and_apart(name: str) -> None:
    """A copy has the same bits, class and structure, and is the same copy the second time."""
    value, copies = EVERYTHING[name], Copies()
    copied = copies.of(value)
    assert type(copied) is type(value)
    assert_same_bits(copied, value, strides=name != "array")
    assert copies.of(value) is copied
    assert copies.changes() == []
    if isinstance(value, torch.Tensor):
        assert copied.data_ptr() != value.data_ptr()
        assert copied.requires_grad == value.requires_grad


def test_copies_when_something_cannot_be_copied_then_its_kind_is_noted() -> None:
    """An iterator or a lock is passed on as it is, and stands in the trace as what it is."""
    recorder = record(State())
    iterator = iter([1, 2])
    recorder.state.keep(iterator)
    assert next(recorder.state.kept) == 1
    (seen,) = find(recorder.trace, "call")[0].args
    assert seen == Unseen("builtins.list_iterator")


def test_trace_when_saved_then_the_same_calls_come_back(tmp_path: Path) -> None:
    """Kinds, names, values, errors and labels survive; the file is a snapshot file."""
    recorder = record(State())
    with recorder.step("ümlaut"):
        recorder.state.keep([torch.tensor([float("nan"), -0.0]).bfloat16(), {"a": (1, None)}])
        with pytest.raises(KeyError):
            recorder.state.fail()
    trace = recorder.trace
    assert trace.save(tmp_path / "t.trace") > 0
    loaded = Trace.load(tmp_path / "t.trace")
    assert loaded.state == trace.state == f"{State.__module__}.State"
    assert len(loaded) == len(trace)
    for one, other in zip(loaded, trace, strict=True):
        assert_same_bits(attrs.astuple(one, recurse=False), attrs.astuple(other, recurse=False))


def test_trace_when_it_holds_an_own_class_then_not_saved_and_said_where(tmp_path: Path) -> None:
    """No pickle: what a snapshot file cannot hold is refused, and its place named."""
    recorder = record(State())
    recorder.state.keep(SimpleNamespace(a=1))
    with pytest.raises(UnsavableError, match=r"calls\[1\]\[2\]\[0\]: an instance of types.Simple"):
        recorder.trace.save(tmp_path / "t.trace")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "calls",
    [
        None,
        [],
        [1],
        [["read"]],
        [["eval", "x", (), {}, None, "", False]],
        [["read", 1, (), {}, None, "", False]],
        [["write", "x", (), {}, None, "", False]],
        [["changed", "x", (1, 2), {}, None, "", False]],
        [["call", "x", (), {1: 2}, None, "", False]],
        [["step", "x", (), {}, None, "", False]],
        [["read", "x", (), {}, None, "", 1]],
    ],
)
def test_trace_when_a_file_holds_none_then_refused(tmp_path: Path, calls: Any) -> None:
    """A file from elsewhere is checked before it is believed."""
    path = tmp_path / "t.trace"
    write_snapshot(path, {"calls": calls}, {"trace": 1, "state": "x", "steps": 0})
    with pytest.raises(DamagedSnapshotError, match="it holds no trace of this format; record it"):
        Trace.load(path)
    write_snapshot(path, {"calls": [["step", "x", (), {}, {}, "", False]]}, {"session_id": "a"})
    with pytest.raises(DamagedSnapshotError):
        Trace.load(path)


def test_replay_when_a_list_was_changed_from_outside_then_the_live_one_is() -> None:
    """What a pipeline does to a list that it was given is done to that list of the other object."""
    recorder = record(State())
    with recorder.step():
        items = recorder.state.items
        items += [torch.ones(1), [2]]
        recorder.state.keep(items[1])
        items[1].append(3)
        recorder.state.keep(items[1])
    replayed = Replayed(State())
    for call in recorder.trace:
        if call.kind in ("changed", "same"):
            replayed.change(call)
        elif call.kind != "step":
            outcome = replayed.run(call)
            replayed.know(call.result, outcome.value)
    assert outcome.value is ITSELF
    assert_same_bits(replayed.state.items, [torch.ones(1), [2, 3]])
    assert replayed.state.kept is replayed.state.items[1]


@pytest.mark.parametrize("name", kit.__all__)
def test_public_name_when_imported_then_the_module_s_own(name: str) -> None:
    """Every name of the kit is there, and no module of the kit has the name of a function."""
    value = getattr(kit, name)
    module = importlib.import_module(f"statekit.{kit._PLACES[name]}")
    assert value is getattr(module, name)
    assert name in module.__all__
    assert not (Path(kit.__file__).parent / f"{name}.py").exists()


def test_public_names_when_listed_then_sorted_and_unknown_ones_refused() -> None:
    """`dir` shows what there is; a name that is not there fails as in any module."""
    assert dir(kit) == kit.__all__ == sorted(set(kit.__all__))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = kit.nothing
