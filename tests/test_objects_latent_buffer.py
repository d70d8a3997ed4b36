"""LatentBuffer: bounds in items and in frames, and what it keeps of a piece that is cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from statekit.errors import NotAllocatedError, PayloadError
from statekit.objects import LatentBuffer
from statekit.on_commit import OnCommit
from tests.equivalence.bits import assert_same_bits


def piece(frames: int, start: int = 0) -> torch.Tensor:
    """(2, frames, 3) float32, frame i filled with start + i."""
    values = torch.arange(start, start + frames, dtype=torch.float32)
    return values.reshape(1, frames, 1).expand(2, frames, 3).clone()


def frame_numbers(view: list[Any]) -> list[float]:
    """The numbers that `piece` filled the kept frames with, oldest first."""
    return [float(x) for item in view for x in np.asarray(item)[0, :, 0]]


AS_TORCH: Callable[[torch.Tensor], Any] = lambda tensor: tensor  # noqa: E731
AS_NUMPY: Callable[[torch.Tensor], Any] = lambda tensor: tensor.numpy()  # noqa: E731
both = pytest.mark.parametrize("cast", [AS_TORCH, AS_NUMPY], ids=["torch", "numpy"])


@both
def test_ring_of_frames_when_piece_exceeds_bound_then_piece_is_cut(cast: Any) -> None:
    """With a bound of 2 frames, a piece of 3 keeps its last 2."""
    buffer = LatentBuffer[Any]().allocate(maxlen=2, axis=1)
    buffer.append(cast(piece(3)))
    assert_same_bits(buffer.view(), [cast(piece(3)[:, 1:].clone())])


@both
def test_ring_of_frames_when_piece_is_cut_then_dropped_history_is_not_pinned(cast: Any) -> None:
    """The kept part of a cut piece is a copy: it holds its own bytes and no others."""
    buffer = LatentBuffer[Any]().allocate(maxlen=2, axis=1)
    buffer.append(cast(piece(100)))
    assert buffer.nbytes_by_device() == {"cpu": 2 * 2 * 3 * 4}
    buffer.append(cast(piece(1, start=100)))
    assert frame_numbers(buffer.view()) == [99, 100]
    assert buffer.nbytes_by_device() == {"cpu": 2 * 2 * 3 * 4}


@both
def test_ring_of_frames_when_piece_fits_then_it_is_not_copied(cast: Any) -> None:
    """A piece that lies within the bound is handed out as the object that was appended."""
    buffer = LatentBuffer[Any]().allocate(maxlen=4, axis=1)
    first, second = cast(piece(2)), cast(piece(2, start=2))
    buffer.extend([first, second])
    assert buffer.view()[0] is first
    assert buffer.view()[1] is second


@both
def test_ring_of_frames_when_pieces_are_empty_then_they_do_not_pile_up(cast: Any) -> None:
    """Pieces without frames count nothing, and at most one is kept."""
    buffer = LatentBuffer[Any]().allocate(maxlen=2, axis=1)
    for _ in range(5):
        buffer.append(cast(piece(0)))
    assert len(buffer) == 1
    buffer.append(cast(piece(3)))
    buffer.append(cast(piece(0)))
    assert frame_numbers(buffer.view()) == [1, 2]
    assert len(buffer) == 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["stage", "commit", "discard", "append", "extend", "replace"]),
        st.lists(st.integers(0, 4), max_size=3),
    ),
    max_size=12,
)


@both
@given(steps=STEPS, bound=st.integers(1, 5), axis=st.sampled_from([1, -2]))
def test_ring_of_frames_when_driven_at_random_then_equals_end_of_whole_history(
    cast: Any, steps: list[tuple[str, list[int]]], bound: int, axis: int
) -> None:
    """Whatever the order of writes, the ring shows the last frames of the whole history."""
    ring = LatentBuffer[Any]().allocate(maxlen=bound, axis=axis)
    committed: list[float] = []
    staged: list[float] = []
    clock = 0

    def pieces(counts: list[int]) -> Iterator[Any]:
        nonlocal clock
        for count in counts:
            yield cast(piece(count, start=clock))
            clock += count

    for name, counts in steps:
        start = clock
        if name == "commit":
            ring.commit()
            committed, staged = committed + staged, []
        elif name == "discard":
            ring.discard()
            staged = []
        elif name == "stage":
            for item in pieces(counts):
                ring.stage(item)
            staged = staged + list(range(start, clock))
        elif name == "replace":
            ring.replace(pieces(counts))
            committed, staged = list(range(start, clock)), []
        elif name == "extend":
            ring.extend(pieces(counts))
            committed, staged = committed + staged + list(range(start, clock)), []
        elif counts:
            for item in pieces(counts[:1]):
                ring.append(item)
            committed, staged = committed + staged + list(range(start, clock)), []
        assert frame_numbers(ring.view(include_staged=False)) == committed[-bound:]
        assert frame_numbers(ring.view()) == (committed + staged)[-bound:]
        assert ring.nbytes <= bound * 2 * 3 * 4


@pytest.mark.parametrize(
    ("misfit", "words"),
    [
        (torch.zeros(2), "1 dimensions"),
        ([1, 2], "a list"),
        (torch.zeros(2, 1, 4), "(2, frames, 4) torch.float32 on cpu after (2, frames, 3)"),
        (torch.zeros(2, 1, 3, dtype=torch.float64), "torch.float64 on cpu after"),
        (torch.zeros(2, 1, 3, device="meta"), "torch.float32 on meta after"),
        (np.zeros((2, 1, 3), np.float32), "float32 on numpy after"),
    ],
    ids=["rank", "no_array", "extent", "dtype", "device", "library"],
)
def test_ring_of_frames_when_piece_does_not_fit_then_refused_at_once(
    misfit: Any, words: str
) -> None:
    """A piece that the reader could not join is refused when it is written, and changes nothing."""
    buffer = LatentBuffer[Any]().allocate(maxlen=2, axis=1)
    buffer.append(piece(1))
    for write in (buffer.stage, buffer.append, lambda item: buffer.extend([piece(1), item])):
        with pytest.raises(PayloadError) as caught:
            write(misfit)
        assert words in str(caught.value)
        assert frame_numbers(buffer.view()) == [0]
    with pytest.raises(PayloadError):
        buffer.replace([piece(1), misfit])
    assert frame_numbers(buffer.view()) == [0]


def test_ring_of_frames_when_moved_on_commit_then_kept_pieces_are_compared() -> None:
    """Whether a piece fits is decided after it was moved to where its like are kept."""
    moved = OnCommit(device="meta")
    buffer = LatentBuffer[torch.Tensor]().allocate(maxlen=2, axis=1, on_commit=moved)
    buffer.append(piece(1))
    buffer.append(piece(1))
    assert [item.device.type for item in buffer.view()] == ["meta", "meta"]


def test_commit_when_cut_cannot_be_copied_then_nothing_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S3: out of memory in the copy of a cut piece leaves all data as it was."""

    def no_room(*args: object) -> None:
        raise MemoryError("no room for the copy")

    buffer = LatentBuffer[torch.Tensor]().allocate(maxlen=3, axis=1)
    buffer.append(piece(2))
    buffer.stage(piece(2, start=2))
    with monkeypatch.context() as patch:
        patch.setattr("statekit.objects.frames._ends_of", no_room)
        writes: list[Callable[[], object]] = [
            buffer.commit,
            lambda: buffer.commit(piece(2, start=4)),
            lambda: buffer.append(piece(2, start=4)),
            lambda: buffer.extend([piece(2, start=4), piece(2, start=6)]),
            lambda: buffer.replace([piece(4, start=4)]),
        ]
        for write in writes:
            with pytest.raises(MemoryError):
                write()
    assert frame_numbers(buffer.view(include_staged=False)) == [0, 1]
    assert frame_numbers(buffer.view()) == [1, 2, 3]


def test_ring_of_items_when_overfull_then_newest_stay_as_they_are() -> None:
    """A bound in items keeps the newest objects, of whatever type, uncopied."""
    buffer = LatentBuffer[object]().allocate(maxlen=2)
    items = [object(), "text", piece(1)]
    buffer.extend(items)
    assert [id(item) for item in buffer.view()] == [id(item) for item in items[1:]]


def test_unbounded_when_appended_then_everything_stays() -> None:
    """Without a bound nothing is dropped."""
    buffer = LatentBuffer[int]().allocate()
    buffer.extend(range(1000))
    assert buffer.view() == list(range(1000))


def test_extend_when_one_item_is_refused_then_none_is_appended() -> None:
    """extend is all or nothing, and so is an iterable that breaks off."""

    def breaks_off() -> Iterator[torch.Tensor]:
        yield piece(1)
        raise KeyError("source")

    buffer = LatentBuffer[torch.Tensor]().allocate()
    buffer.stage(piece(1, start=7))
    with pytest.raises(KeyError):
        buffer.extend(breaks_off())
    with pytest.raises(PayloadError):
        buffer.extend([piece(1), None])  # type: ignore[list-item]
    assert buffer.view(include_staged=False) == []
    assert frame_numbers(buffer.view()) == [7]


def test_replace_when_called_then_all_else_is_gone() -> None:
    """replace drops committed and staged items for the given ones."""
    buffer = LatentBuffer[str]().allocate(maxlen=2)
    buffer.append("old")
    buffer.stage("staged")
    buffer.replace(["a", "b", "c"])
    assert buffer.view() == buffer.view(include_staged=False) == ["b", "c"]


def test_view_when_changed_by_reader_then_buffer_is_not() -> None:
    """view() hands out a list of the reader's own."""
    buffer = LatentBuffer[str]().allocate()
    buffer.append("kept")
    buffer.view().clear()
    assert buffer.view() == ["kept"]


@both
def test_joined_when_several_then_one_array_and_a_single_item_itself(cast: Any) -> None:
    """joined: None, the only item itself, or a new array of all, staged ones included."""
    buffer = LatentBuffer[Any]().allocate()
    assert buffer.joined(1) is None
    first = cast(piece(1))
    buffer.append(first)
    assert buffer.joined(1) is first
    buffer.stage(cast(piece(2, start=1)))
    assert_same_bits(buffer.joined(1), cast(piece(3)))


def test_len_when_staged_then_counts_what_view_shows() -> None:
    """len() counts committed and staged items within the bound; 0 where not allocated."""
    buffer = LatentBuffer[str]()
    assert len(buffer) == 0
    buffer.allocate(maxlen=2)
    buffer.append("a")
    buffer.stage("b")
    buffer.stage("c")
    assert len(buffer) == 2


def test_bool_when_empty_then_true() -> None:
    """An empty buffer is not falsy: `buffer or other` keeps it."""
    assert LatentBuffer[str]()
    assert LatentBuffer[str]().allocate()


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ({"maxlen": 0}, ValueError),
        ({"maxlen": -1}, ValueError),
        ({"maxlen": 2.0}, TypeError),
        ({"maxlen": True}, TypeError),
        ({"maxlen": "2"}, TypeError),
        ({"axis": 0}, ValueError),
        ({"maxlen": 2, "axis": 0.0}, TypeError),
        ({"maxlen": 2, "axis": True}, TypeError),
    ],
)
def test_allocate_when_size_is_wrong_then_refused_and_unchanged(
    sizes: dict[str, Any], error: type[Exception]
) -> None:
    """A size that is none names itself, and the buffer keeps what it has."""
    buffer = LatentBuffer[str]().allocate()
    buffer.append("kept")
    with pytest.raises(error, match="axis" if "axis" in sizes else "maxlen"):
        buffer.allocate(**sizes)
    assert buffer.view() == ["kept"]


def test_sizes_when_allocated_then_readable() -> None:
    """maxlen and axis say what the buffer was allocated with."""
    buffer = LatentBuffer[torch.Tensor]().allocate(maxlen=3, axis=2)
    assert (buffer.maxlen, buffer.axis) == (3, 2)


def test_evict_when_not_allocated_then_operations_name_the_buffer() -> None:
    """replace, too, needs an allocated buffer."""
    with pytest.raises(NotAllocatedError, match=r"LatentBuffer\.replace"):
        LatentBuffer[str]().replace(["a"])
