"""Forms of windows and stores in a snapshot: kept, read under today's schema, or refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from statekit.objects import Cast, RetrievalStore, WindowedKV
from statekit.snapshot.kinds import BadFormError, as_plain, from_plain, settings_from
from statekit.spec import Codec, Index, Ring, ValueSpec
from tests.equivalence.bits import assert_same_bits


def window() -> dict[str, Any]:
    """The form of a window of 3 entries out of 4, with one staged."""
    kv: WindowedKV[Any] = WindowedKV()
    kv.allocate(bound=3, axis=0, sink=1)
    for number in range(4):
        kv.append((torch.tensor([float(number)]), torch.tensor([float(-number)])))
    kv.stage((torch.zeros(1), torch.zeros(1)))
    form = as_plain("WindowedKV", kv.capture())
    assert form is not None
    return form


def store() -> dict[str, Any]:
    """The form of a store of 2 entries out of 3, with one staged."""
    pool: RetrievalStore[Any] = RetrievalStore()
    pool.allocate(bound=2, codec=Cast(torch.float16), metric="dot")
    for number in range(3):
        pool.append((torch.tensor([float(number)]), torch.tensor([0.5])))
    pool.stage((torch.zeros(1), torch.zeros(1)))
    form = as_plain("RetrievalStore", pool.capture())
    assert form is not None
    return form


def test_forms_when_built_again_then_as_they_were() -> None:
    """Cursors, positions, settings and what is staged are in the form."""
    kv: Any = from_plain(window())
    assert (kv.bound, kv.axis, kv.sink, kv.local_end, kv.global_end) == (3, 0, 1, 3, 4)
    assert_same_bits(kv.view(include_staged=False)[0], torch.tensor([0.0, 2, 3]))
    assert_same_bits(kv.view()[1], torch.tensor([0.0, -3, 0]))
    pool: Any = from_plain(store())
    assert (pool.bound, pool.metric, pool.codec) == (2, "dot", Cast(torch.float16))
    assert [hit.position for hit in pool.nearest(torch.ones(1), 9)] == [2, 3]


VALUES = {
    "WindowedKV": ValueSpec(
        "kv", "StateObject", "torch.Tensor", "cpu", object="WindowedKV",
        ring=Ring(bound="W", axis=0, sink="1"), on_commit=("detach",),
    ),
    "RetrievalStore": ValueSpec(
        "pool", "StateObject", "torch.Tensor", "cpu", object="RetrievalStore",
        ring=Ring(nbytes="W * 6"), index=Index(("1",), "float32", "cosine"),
        codec=Codec("float16"),
    ),
}  # fmt: skip


def test_settings_when_a_schema_gives_them_then_they_go_before_the_saved_ones() -> None:
    """A bound, a metric or a step of today holds for what comes back."""
    numbers = {"W": 2}
    kv: Any = from_plain(window(), settings_from(VALUES["WindowedKV"], numbers))
    assert (kv.bound, kv.sink, kv.global_end) == (2, 1, 4)
    assert_same_bits(kv.view(include_staged=False)[0], torch.tensor([0.0, 3]))
    assert kv._on_commit.detach
    pool: Any = from_plain(store(), settings_from(VALUES["RetrievalStore"], numbers))
    assert (pool.bound, pool.limit_nbytes, pool.metric) == (None, 12, "cosine")
    assert len(pool.entries()) == 2


def test_settings_when_no_codec_is_declared_today_then_values_in_one_are_refused() -> None:
    """Nobody could say what the kept form means."""
    today = {**settings_from(VALUES["RetrievalStore"], {"W": 2}), "codec": None}
    with pytest.raises(BadFormError, match="another codec"):
        from_plain(store(), today)


BLOCKS = [torch.zeros(1)]
WRONG_WINDOWS: list[Any] = [
    None,
    [],
    {"blocks": BLOCKS},
    {"blocks": tuple(BLOCKS), "global_end": 4},
    {"blocks": BLOCKS, "global_end": True},
    {"blocks": BLOCKS, "global_end": -1},
    {"blocks": BLOCKS, "global_end": 0},
    {"blocks": [1], "global_end": 4},
    {"blocks": [()], "global_end": 4},
    {"blocks": [torch.zeros(())], "global_end": 4},
    {"blocks": [torch.zeros(1), torch.zeros(1).double()], "global_end": 4},
    {"blocks": [(torch.zeros(1), torch.zeros(2))], "global_end": 4},
]


@pytest.mark.parametrize("held", WRONG_WINDOWS, ids=range(len(WRONG_WINDOWS)))
def test_window_when_its_form_is_none_then_refused(held: Any) -> None:
    """Whatever a file says is checked before it is an object."""
    with pytest.raises(BadFormError):
        from_plain({**window(), "held": held})


def entries(*more: Any) -> dict[str, Any]:
    return {"first": 0, "entries": list(more)}


KEY, HALF = torch.zeros(1), torch.zeros(1, dtype=torch.float16)
WRONG_STORES: list[Any] = [
    None,
    {"entries": []},
    {"first": -1, "entries": []},
    {"first": 0.0, "entries": []},
    {"first": 0, "entries": ()},
    entries(1),
    entries((KEY,)),
    entries((KEY, None)),
    entries((KEY, HALF)),
    entries((KEY, (HALF, ()))),
    entries((KEY, (HALF, [torch.float32]))),
    entries((KEY, (HALF, (torch.int8,)))),
    entries((KEY, (HALF, ("float32",)))),
    entries((KEY, (HALF, (torch.float32, torch.float32)))),
    entries((KEY, (KEY, (torch.float32,)))),
    entries((1, (HALF, (torch.float32,)))),
    entries((KEY, (HALF, (torch.float32,))), (torch.zeros(2), (HALF, (torch.float32,)))),
]


@pytest.mark.parametrize("held", WRONG_STORES, ids=range(len(WRONG_STORES)))
def test_store_when_its_form_is_none_then_refused(held: Any) -> None:
    """Entries that nothing could read later are refused now."""
    with pytest.raises(BadFormError):
        from_plain({**store(), "held": held})


@pytest.mark.parametrize(
    "settings",
    [
        {"bound": 0},
        {"metric": "manhattan"},
        {"metric": []},
        {"codec": {"cast": "int8"}},
        {"codec": {"cast": "Tensor"}},
        {"codec": "float16"},
        {"codec": {}},
        {"more": 1},
    ],
    ids=str,
)
def test_store_when_its_settings_are_none_then_refused(settings: dict[str, Any]) -> None:
    """Settings are those that allocate takes, and no others."""
    form = store()
    with pytest.raises(BadFormError):
        from_plain({**form, "settings": {**form["settings"], **settings}})


@pytest.mark.parametrize("missing", ["bound", "codec", "metric", "nbytes"])
def test_store_when_a_setting_is_missing_then_refused_or_its_default(missing: str) -> None:
    """A form without one is no crash."""
    form = store()
    del form["settings"][missing]
    if missing == "codec":
        with pytest.raises(BadFormError):
            from_plain(form)
    else:
        assert from_plain(form).resident


@pytest.mark.parametrize("settings", [{"sink": 3}, {"axis": None}, {"bound": "3"}], ids=str)
def test_window_when_its_settings_are_none_then_refused(settings: dict[str, Any]) -> None:
    """Sizes that allocate refuses are no sizes of a saved one."""
    form = window()
    with pytest.raises(BadFormError):
        from_plain({**form, "settings": {**form["settings"], **settings}})
