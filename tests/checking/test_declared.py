"""Values that are not what their schema declares are refused where they are stored."""

from __future__ import annotations

import gc
import importlib.util
import inspect
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from statekit import checking
from statekit.errors import DeclarationError
from statekit.manager import SessionStateManager
from statekit.objects import HeldValue, LatentBuffer
from tests.checking.toy import Toy, toy

pytestmark = pytest.mark.usefixtures("checked")

LATENT = torch.zeros(1, 4, 2, 8, 8)
FRAME = np.zeros((64, 64, 3), np.uint8)

WRONG: list[tuple[str, Any, str]] = [
    # type
    ("scale", "much", "it is a str, declared float | None"),
    ("scale", True, "it is a bool, declared float | None"),
    ("latent", np.zeros((1, 4, 2, 8, 8), np.float32), "it is an np.ndarray, declared torch.Tensor"),
    ("latent", [LATENT], "it is a list, declared torch.Tensor | None"),
    ("frame", torch.from_numpy(FRAME), "it is a torch.Tensor, declared np.ndarray"),
    ("kv", (LATENT,), "it is a tuple, declared list[torch.Tensor] | None"),
    ("kv", deque([LATENT]), "it is a deque, declared list"),
    ("kv", [LATENT, None], "[1] is None, declared list[torch.Tensor] | None"),
    ("table", {"a": (1, 2)}, "['a'][1] is an int, declared dict[str, tuple[int, str]]"),
    ("table", {"a": (1,)}, "['a'] has 1 entries, declared"),
    ("table", {1: (1, "x")}, " key 1 is an int, declared"),
    ("table", None, "it is None, declared dict"),
    # dtype
    ("latent", LATENT.bfloat16(), "it is bfloat16, declared float32"),
    ("frame", FRAME.astype(np.int64), "it is int64, declared uint8"),
    ("kv", [LATENT, LATENT.double()], "[1] is float64, declared float32"),
    # rank
    ("latent", LATENT[0], "it has 4 dimensions, (4, 2, 8, 8), declared (1, 4, SPAN, H / 8, W / 8)"),
    ("frame", FRAME[0], "it has 2 dimensions"),
    # shape
    ("latent", torch.zeros(1, 5, 2, 8, 8), "extent 1 is 5, not 4"),
    ("frame", FRAME[:, :, :2], "extent 2 is 2, not 3"),
    ("pending", torch.zeros(4, 2), "extent 0 is 4, not at most 3"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "found"), WRONG, ids=[one[2] for one in WRONG])
def test_carried_value_when_not_as_declared_then_refused_and_the_old_one_stays(
    name: str, value: Any, found: str
) -> None:
    """The error says value, schema line, this line, what was found, what to do; nothing changes."""
    state = toy()
    before = getattr(state, name)
    with pytest.raises(DeclarationError) as caught:
        setattr(state, name, value)
    error = caught.value
    assert (error.value, error.declared_at) == (
        name,
        f"schemas/toy.yaml:{Toy.SPEC[name].line}",
    )
    assert found in error.found
    assert error.site.startswith(f"{__file__}:")
    assert error.todo
    assert getattr(state, name) is before


def test_error_when_a_write_is_refused_then_its_site_is_the_line_of_the_write() -> None:
    """The site is the line of the model, not one of the adapter, nor of the kind of object."""
    state = toy()
    frame = inspect.currentframe()
    assert frame is not None
    with pytest.raises(DeclarationError) as caught:
        state.frames_object.append(FRAME[0])
    assert caught.value.site == f"{__file__}:{frame.f_lineno - 1}"
    assert str(caught.value) == (
        "frames (schemas/toy.yaml:21): it has 2 dimensions, (64, 3), declared (H, W, 3), "
        f"at {caught.value.site}; store that shape, or mend `shape`"
    )


RIGHT: list[tuple[str, Any]] = [
    ("count", 3), ("scale", 2), ("scale", 0.5), ("scale", None), ("latent", LATENT),
    ("latent", torch.zeros(1, 4, 9, 8, 8)), ("latent", torch.nn.Parameter(LATENT)),
    ("frame", FRAME), ("pending", torch.zeros(0, 2)), ("pending", torch.zeros(1, 2)),
    ("pending", torch.zeros(3, 2)), ("kv", []), ("kv", [LATENT, LATENT.half().float()]),
    ("cache", [None, LATENT]), ("table", {}), ("table", {"a": (1, "b")}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), RIGHT)
def test_carried_value_when_as_declared_then_stored(name: str, value: Any) -> None:
    """What the schema allows is stored, the very object."""
    state = toy()
    setattr(state, name, value)
    assert getattr(state, name) is value
    checking.look(state.session)


def test_symbol_when_bound_by_one_value_then_the_others_are_held_to_it() -> None:
    """H is what the first value says, whatever the schema's deployment; also as H / 8."""
    state = toy()
    state.frame = FRAME
    with pytest.raises(DeclarationError, match=r"extent 3 is 9, not 8 \(H is 64 in frame\)"):
        state.latent = torch.zeros(1, 4, 2, 9, 8)
    with pytest.raises(DeclarationError, match="extent 2 is 9, not 8"):
        state.ring_object.append(torch.zeros(2, 1, 9))
    state.frame = None
    state.latent = torch.zeros(1, 4, 2, 9, 8)  # nothing is left that says 64
    with pytest.raises(DeclarationError, match=r"extent 0 is 64, not 72 \(H is 72 in latent\)"):
        state.frame = FRAME


def test_symbol_when_values_change_it_one_after_the_other_then_fine_if_all_do() -> None:
    """The first one that has a new number is stored; a look finds those that have the old one."""
    state = toy()
    state.frame, state.latent = FRAME, LATENT
    state.ring_object.append(torch.zeros(2, 1, 8))
    state.frame = FRAME[:32]
    with pytest.raises(DeclarationError, match=r"extent 3 is 8, not 4 \(H is 32 in frame\)"):
        state.latent = LATENT.clone()  # which does not go along
    with pytest.raises(DeclarationError, match="H is "):
        checking.look(state.session)
    state.latent = LATENT[:, :, :, :4]
    with pytest.raises(DeclarationError, match=r"extent 2 is 8, not 4|extent 0 is 32, not 64"):
        checking.look(state.session)
    state.ring_object.replace([torch.zeros(2, 1, 4)])
    checking.look(state.session)


def test_error_when_the_adapter_was_generated_elsewhere_then_its_site_is_the_model_still() -> None:
    """Generated code is passed over wherever it lies, and every kind of value is checked in it."""
    path = Path(__file__).parents[1] / "golden" / "every_kind" / "expected.py"
    spec = importlib.util.spec_from_file_location("generated_elsewhere", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    state = module.EveryKindState("robot", SessionStateManager())
    wrong = {
        "cache": [torch.zeros(1).half()], "frames": [FRAME.astype(np.int64)], "few": [b"x"],
        "latents": torch.zeros(1), "history": [torch.zeros(2, 3).half()],
        "prompt_embeds": torch.zeros(2, 2), "decoder_tail": [None, torch.zeros(1)],
    }  # fmt: skip
    for name, value in wrong.items():
        frame = inspect.currentframe()
        assert frame is not None
        with pytest.raises(DeclarationError) as caught:
            setattr(state, name, value)
        assert caught.value.site == f"{__file__}:{frame.f_lineno - 1}"
        assert caught.value.value == name
        assert not getattr(state, name)


def test_symbol_when_it_cannot_be_divided_then_refused() -> None:
    """A frame of 60 rows has no latent of H / 8."""
    state = toy()
    state.frame = np.zeros((60, 64, 3), np.uint8)
    with pytest.raises(DeclarationError, match=r"60 / 8 leaves a remainder \(H is 60 in frame\)"):
        state.latent = LATENT


def test_symbol_when_in_one_extent_only_then_anything() -> None:
    """SPAN stands nowhere else, so it may differ from write to write."""
    state = toy()
    for span in (1, 2, 40):
        state.latent = torch.zeros(1, 4, span, 8, 8)


def test_elements_when_more_than_declared_then_refused() -> None:
    """2 * H * W is the most, with the H and W that the session has; less is fine."""
    state = toy()
    state.cache = [torch.zeros(10**6)]  # nobody says what H and W are
    state.frame = FRAME
    with pytest.raises(DeclarationError, match=r"8193 elements, declared at most .* = 8192"):
        state.cache = [torch.zeros(8192), torch.zeros(1)]
    state.cache = [torch.zeros(8000)]


def test_device_when_values_on_model_differ_then_refused() -> None:
    """`model` is one device: that of the value which is there."""
    state = toy()
    state.latent = LATENT
    with pytest.raises(DeclarationError, match=r"it is on meta, declared model, which is cpu"):
        state.scratch = torch.zeros(1, device="meta")
    with pytest.raises(DeclarationError, match=r"\[1\] is on meta, declared model"):
        toy().kv = [LATENT, LATENT.to("meta")]


def test_device_when_named_then_only_that_one() -> None:
    """A tensor elsewhere than on the declared device is refused."""
    state = toy()
    with pytest.raises(DeclarationError, match="it is on meta, declared cpu"):
        _store_as(state, "cpu", torch.zeros(1, device="meta"))
    with pytest.raises(DeclarationError, match="it is on cpu, declared cuda:0"):
        _store_as(state, "cuda:0", torch.zeros(1))
    with pytest.raises(DeclarationError, match="it holds memory, declared device none"):
        _store_as(state, "none", torch.zeros(1))


def _store_as(state: Any, device: str, value: Any) -> None:
    """Check `value` against a schema that declares `device`."""
    from statekit.checking.conformity import Surroundings, misfit
    from statekit.checking.declaration import Declaration
    from statekit.spec import ValueSpec

    declaration = Declaration(Toy.SPEC, ValueSpec("x", "attrs", "torch.Tensor", device))
    finding = misfit(value, declaration, Surroundings({}, frozenset(), list))
    if finding is not None:
        raise DeclarationError("x", "here", "there", finding.found, finding.todo)


@pytest.mark.parametrize("write", ["append", "extend", "stage", "commit", "replace"])
def test_object_when_the_payload_is_wrong_then_each_way_to_write_refuses(write: str) -> None:
    """Append, extend, stage, commit and replace check the payload, and leave the object alone."""
    state = toy()
    good, bad = torch.zeros(2, 1, 8), torch.zeros(2, 1, 8).double()
    state.ring_object.append(good)
    before = state.ring_object.view()
    many = write in ("extend", "replace")
    with pytest.raises(DeclarationError, match="it is float64, declared float32"):
        getattr(state.ring_object, write)([good, bad] if many else bad)
    assert [id(one) for one in state.ring_object.view()] == [id(one) for one in before]
    getattr(state.ring_object, write)([good, good] if many else good)
    checking.look(state.session)


def test_object_when_kept_by_the_model_then_it_checks_all_the_same() -> None:
    """An object that was asked for once checks later writes without the adapter."""
    state = toy()
    buffer = state.frames_object
    buffer.append(FRAME)
    with pytest.raises(DeclarationError, match="declared uint8"):
        buffer.append(FRAME.astype(np.int32))
    assert len(buffer) == 1
    del state  # and with it the session: what an object is without one, no schema says
    gc.collect()
    buffer.append(FRAME.astype(np.int32))


def test_family_when_a_member_is_wrong_then_none_is_stored() -> None:
    """The members of a family are checked before the first one is replaced."""
    state = toy()
    pair = (torch.zeros(3), torch.ones(3))
    state.text("positive").replace([pair, pair])
    with pytest.raises(DeclarationError, match=r"\[1\] is float64, declared float32") as caught:
        state.text("negative").replace([pair, (pair[0], pair[1].double())])
    assert caught.value.value == "text"
    assert state.text("negative").view() is None
    assert state.text("positive").view() == [pair, pair]


def test_ring_when_it_holds_more_than_declared_then_found() -> None:
    """A buffer that somebody built with another bound is found by the first use of the adapter."""
    for key, item, held in (
        ("frames", FRAME, "5 items, declared at most FRAMES = 4"),
        ("ring", torch.zeros(2, 3, 8), "15 frames along axis 1, declared at most FRAMES = 4"),
    ):
        state = toy()
        buffer = LatentBuffer[Any]().allocate(maxlen=99, axis=1 if key == "ring" else None)
        state.session.put(key, buffer)
        getattr(state, f"{key}_object").append(item)
        buffer.extend([item] * 4)
        with pytest.raises(DeclarationError, match=held):
            getattr(state, f"{key}_object")
        with pytest.raises(DeclarationError, match=held):
            checking.look(state.session)


def test_ring_when_its_items_differ_in_a_shared_symbol_then_found_by_the_next_use() -> None:
    """H is one number among the items of one buffer, too."""
    state = toy()
    state.frames_object.append(FRAME)
    state.frames_object.append(FRAME[:32])
    with pytest.raises(DeclarationError, match=r"extent 0 is 32, not 64 \(H is 64 in frames\)"):
        _ = state.frames_object


def test_value_when_put_past_the_adapter_then_found_by_read_and_by_look() -> None:
    """What somebody writes into the session's mappings is checked when it is next seen."""
    state = toy()
    state.session.attrs["latent"] = LATENT.double()
    with pytest.raises(DeclarationError, match="it is float64, declared float32"):
        _ = state.latent
    with pytest.raises(DeclarationError, match="it is float64, declared float32"):
        checking.look(state.session)
    state.session.attrs.clear()
    state.session.put("held", HeldValue[Any]().allocate())
    state.session.get("held").append([LATENT.double()])
    with pytest.raises(DeclarationError, match=r"\[0\] is float64, declared float32"):
        checking.look(state.session)


def test_coerced_value_when_written_then_the_result_is_checked() -> None:
    """What `coerce` makes of a value is what is compared and stored."""
    state = toy()
    state.count = "12"
    assert state.count == 12
    state.count += 1
    assert state.count == 13
    with pytest.raises(ValueError, match="invalid literal"):
        state.count = "many"
    del state.count
    assert state.count == 0
    with pytest.raises(AttributeError, match="count"):
        del state.count


def test_adapters_when_two_look_at_one_session_then_both_check() -> None:
    """The checks belong to the session: a second adapter knows what the first one stored."""
    manager = SessionStateManager()
    toy(manager=manager).frame = FRAME
    with pytest.raises(DeclarationError, match="H is 64 in frame"):
        toy(manager=manager).latent = torch.zeros(1, 4, 2, 9, 8)
