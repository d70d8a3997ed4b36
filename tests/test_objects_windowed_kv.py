"""WindowedKV: against plain tensors that are joined and sliced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from statekit.accounting import SeenStorages, device_bytes
from statekit.errors import NotAllocatedError, PayloadError
from statekit.objects import WindowedKV
from statekit.on_commit import OnCommit
from statekit.session import SessionState
from tests.equivalence.bits import assert_same_bits

AXIS = 1


def block(entries: int, start: int = 0) -> torch.Tensor:
    """(2, entries, 3) float32, entry i filled with start + i."""
    values = torch.arange(start, start + entries, dtype=torch.float32)
    return values.reshape(1, entries, 1).expand(2, entries, 3).clone()


def pair(entries: int, start: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """K (2, entries, 3) float32 and V (4, entries) bfloat16."""
    values = torch.arange(start, start + entries).bfloat16()
    return block(entries, start), values.expand(4, entries).clone()


def window(**sizes: Any) -> WindowedKV[Any]:
    return WindowedKV[Any]().allocate(**{"bound": None, "axis": AXIS, **sizes})


def numbers(view: Any) -> list[int]:
    """The numbers that `block` filled the kept entries with."""
    first = view[0] if isinstance(view, tuple) else view
    return [] if view is None else [int(x) for x in first[0, :, 0]]


@attrs.define
class Reference:
    """What a hand-written cache does: cat, keep the sink, slice the end."""

    bound: int | None
    sink: int
    held: Any = None
    ended: int = 0

    def after(self, payload: Any) -> Any:
        if isinstance(payload, tuple):
            olds = self.held or (None,) * len(payload)
            return tuple(map(self._after, olds, payload))
        return self._after(self.held, payload)

    def _after(self, old: torch.Tensor | None, new: torch.Tensor) -> torch.Tensor:
        whole = new if old is None else torch.cat([old, new], dim=AXIS)
        if self.bound is None or whole.shape[AXIS] <= self.bound:
            return whole
        recent = whole[:, whole.shape[AXIS] - (self.bound - self.sink) :]
        return torch.cat([whole[:, : self.sink], recent], dim=AXIS)

    def append(self, payload: Any, entries: int) -> None:
        self.held, self.ended = self.after(payload), self.ended + entries

    @property
    def kept(self) -> int:
        first = self.held[0] if isinstance(self.held, tuple) else self.held
        return 0 if first is None else first.shape[AXIS]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["stage", "commit", "discard", "append", "append", "replace", "clear"]),
        st.integers(0, 5),
    ),
    max_size=14,
)
BOUNDS = st.one_of(
    st.just((None, 0)),
    st.tuples(st.integers(1, 6), st.integers(0, 5)).filter(lambda b: b[1] < b[0]),
)


@pytest.mark.parametrize("make", [block, pair])
@given(steps=STEPS, bounds=BOUNDS, axis=st.sampled_from([1, -2]))
def test_window_when_driven_at_random_then_equals_a_cache_that_cats_and_slices(
    make: Callable[..., Any],
    steps: list[tuple[str, int]],
    bounds: tuple[int | None, int],
    axis: int,
) -> None:
    """Bits, cursors, what is staged, and no byte more than the entries' own."""
    if make is pair:
        axis = 1  # of K and V, which have other numbers of dimensions
    bound, sink = bounds
    kv, want = window(bound=bound, sink=sink, axis=axis), Reference(bound, sink)
    staged: tuple[Any, int] | None = None
    for clock, (name, entries) in enumerate(steps):
        payload = make(entries, start=10 * clock)
        if name == "stage":
            kv.stage(payload)
            staged = payload, entries
        elif name == "commit":
            kv.commit()
            if staged is not None:
                want.append(*staged)
            staged = None
        elif name == "discard":
            kv.discard()
            staged = None
        elif name == "append":
            kv.append(payload)
            want.append(payload, entries)
            staged = None
        elif name == "replace":
            kv.replace(payload)
            want = Reference(bound, sink)
            want.append(payload, entries)
            staged = None
        else:
            kv.clear()
            want, staged = Reference(bound, sink), None
        assert_same_bits(kv.view(include_staged=False), want.held)
        assert_same_bits(kv.view(), want.held if staged is None else want.after(staged[0]))
        assert (kv.local_end, kv.global_end) == (want.kept, want.ended)
        each = 24 if make is block else 24 + 8
        assert kv.nbytes == each * kv.local_end


def test_append_when_window_is_full_then_sink_and_newest_stay() -> None:
    """A bound of 5 with a sink of 2 keeps entries 0 and 1, and the last 3."""
    kv = window(bound=5, sink=2)
    for start in range(0, 8, 2):
        kv.append(block(2, start))
    assert numbers(kv.view()) == [0, 1, 5, 6, 7]
    assert (kv.local_end, kv.global_end, kv.sink, kv.bound, kv.axis) == (5, 8, 2, 5, AXIS)


def test_append_when_one_block_is_above_the_window_then_its_sink_and_newest_stay() -> None:
    """Of one block of 9 entries the first 2 and the last 3 are kept, in memory of their own."""
    kv = window(bound=5, sink=2)
    kv.append(pair(9))
    assert numbers(kv.view()) == [0, 1, 6, 7, 8]
    assert kv.nbytes == 5 * (24 + 8)


def test_append_when_blocks_fit_then_they_are_the_objects_appended() -> None:
    """Blocks that lie within the window are held as they are; a single one is handed out so."""
    kv = window(bound=4)
    first, second = block(2), block(2, 2)
    kv.append(first)
    assert kv.view() is first
    kv.append(second)
    assert kv.blocks()[0] is first
    assert kv.blocks()[1] is second
    kv.append(block(2, 4))
    assert kv.blocks()[0] is second


def test_append_when_keys_and_values_share_a_storage_then_it_goes_with_the_block() -> None:
    """K and V as views of one tensor: what is cut is copied, what leaves holds nothing."""
    kv = window(bound=3)
    both = torch.zeros(2, 2, 4, 3)
    kv.append((both[0], both[1]))
    seen = SeenStorages()
    assert device_bytes(both, seen) == {"cpu": 2 * 2 * 4 * 3 * 4}
    assert kv.nbytes_by_device(seen) == {"cpu": 2 * 2 * 3 * 3 * 4}


def test_capture_when_taken_then_not_a_byte_is_copied() -> None:
    """A capture, and a fork, hold the blocks that the object holds."""
    session = SessionState()
    kv = window(bound=6)
    session.put("kv", kv)
    for start in range(3):
        kv.append(pair(2, start))
    seen = SeenStorages()
    device_bytes(kv.committed(), seen)
    memo = kv.capture()
    assert device_bytes(kv.held_by(memo), seen) == {}
    fork = session.fork()
    assert fork.nbytes_by_device(seen) == {}
    twin: Any = fork.get("kv")
    twin.append(pair(2, 9))
    assert twin.nbytes_by_device(seen) == {"cpu": 2 * (24 + 8)}
    assert numbers(kv.view()) == [0, 1, 1, 2, 2, 3]
    kv.settle(memo)


def test_cursors_when_rolled_back_then_as_before() -> None:
    """What a step added to the cursors is undone with the entries."""
    session = SessionState()
    kv = window(bound=4, sink=1)
    session.put("kv", kv)
    kv.append(block(3))
    with pytest.raises(KeyError), session.step():
        kv.append(block(3, 3))
        kv.stage(block(1, 6))
        assert (kv.local_end, kv.global_end) == (4, 6)
        raise KeyError("forward")
    assert (kv.local_end, kv.global_end, numbers(kv.view())) == (3, 3, [0, 1, 2])


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (None, "None"),
        ([1], "a list"),
        ((), "an empty tuple"),
        ((block(1), None), "None"),
        (block(1).to_sparse(), "layout"),
        (torch.zeros(3), "1 dimensions"),
        (block(1).double(), "float64"),
        (torch.zeros(2, 1, 4), r"\(2, frames, 4\)"),
        (torch.zeros(2, 1, 3, device="meta"), "meta"),
        ((block(1),), "a tuple of 1 after a tensor"),
        ((block(1), block(1)), "a tuple of 2 after a tensor"),
    ],
)
def test_append_when_block_does_not_fit_then_refused_and_nothing_changed(
    payload: Any, found: str
) -> None:
    """Whatever would make a later read fail is refused, and says what it is."""
    kv = window(bound=4)
    kv.append(block(2))
    kv.stage(block(1, 2))
    for write in (kv.append, kv.stage):
        with pytest.raises(PayloadError, match=found):
            write(payload)
    assert (numbers(kv.view()), numbers(kv.view(include_staged=False))) == ([0, 1, 2], [0, 1])


def test_append_when_extents_of_a_pair_differ_then_refused() -> None:
    """K and V have one number of entries."""
    kv = window()
    with pytest.raises(PayloadError, match="2 and 3 entries along axis 1"):
        kv.append((block(2), block(3)))
    assert kv.view() is None


def test_clear_when_form_changes_then_any_block_fits_again() -> None:
    """After a clear, and in a replace, a block may be of another form."""
    kv = window(bound=4)
    kv.append(block(2))
    kv.replace(pair(2))
    assert isinstance(kv.view(), tuple)
    kv.clear()
    assert (kv.view(), kv.local_end, kv.global_end, kv.resident) == (None, 0, 0, True)
    kv.append(block(1, 5))
    assert numbers(kv.view()) == [5]


def test_block_when_without_entries_then_reader_gets_its_form() -> None:
    """A block of 0 entries says what the tensor is like, until one with entries comes."""
    kv = window(bound=4)
    kv.append(block(0))
    kv.append(block(0))
    assert_same_bits(kv.view(), block(0))
    kv.append(block(2))
    kv.append(block(0))
    assert len(kv.blocks()) == 1
    assert (kv.local_end, kv.global_end) == (2, 2)


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ({"bound": 0}, ValueError),
        ({"bound": True}, TypeError),
        ({"bound": 4, "sink": 4}, ValueError),
        ({"sink": -1}, ValueError),
        ({"sink": None}, TypeError),
        ({"axis": 1.0}, TypeError),
    ],
)
def test_allocate_when_size_is_none_then_refused(
    sizes: dict[str, Any], error: type[Exception]
) -> None:
    """A window without room for a newest entry, or a size that is no number, is a mistake."""
    with pytest.raises(error, match=next(iter(sizes)) if len(sizes) == 1 else "bound"):
        window(**sizes)


def test_commit_when_cut_cannot_be_copied_then_nothing_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where there is no memory for the kept part of a block, all is as before, cursors too."""
    kv = window(bound=3)
    kv.append(block(2))
    kv.stage(block(2, 2))

    def no_room(*args: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("statekit.objects.frames._ends_of", no_room)
        for write in (kv.commit, lambda: kv.append(block(2, 4)), lambda: kv.replace(block(4))):
            with pytest.raises(MemoryError):
                write()
    assert (numbers(kv.view(include_staged=False)), kv.global_end) == ([0, 1], 2)
    assert numbers(kv.view()) == [1, 2, 3]


def test_on_commit_when_given_then_done_to_each_tensor_of_a_pair() -> None:
    """K and V are detached, and copied where they are views of more."""
    kv = window(bound=4, on_commit=OnCommit(detach=True, compact=True))
    both = torch.zeros(2, 2, 8, 3, requires_grad=True)
    kv.append((both[0][:, :2], both[1][:, :2]))
    view: Any = kv.view()
    assert not view[0].requires_grad
    assert kv.nbytes == 2 * 2 * 2 * 3 * 4


def test_cursors_when_not_allocated_then_zero() -> None:
    """What holds nothing has no entries; blocks need it allocated."""
    kv = window(bound=4)
    kv.append(block(2))
    kv.evict()
    assert (kv.local_end, kv.global_end) == (0, 0)
    with pytest.raises(NotAllocatedError):
        kv.blocks()
    with pytest.raises(NotAllocatedError):
        kv.clear()


def test_restore_when_blocks_are_another_windows_then_goes_on_as_that() -> None:
    """Blocks and cursor of one window make another that is equal, and stays so."""
    one, two = window(bound=5, sink=2), window(bound=5, sink=2)
    for start in range(0, 8, 2):
        one.append(pair(2, start))
    two.restore(one.blocks(), one.global_end)
    for start in (8, 10):
        assert_same_bits(two.view(), one.view())
        assert (two.local_end, two.global_end) == (one.local_end, one.global_end)
        one.append(pair(2, start))
        two.append(pair(2, start))
    with pytest.raises(ValueError, match="global_end must be at least 5"):
        two.restore(one.blocks(), 4)
