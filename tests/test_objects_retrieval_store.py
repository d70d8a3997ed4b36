"""RetrievalStore: against a plain list that is sorted by score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from statekit import restore_session, session_bytes
from statekit.accounting import SeenStorages
from statekit.books.footprint import Footprint
from statekit.errors import NotAllocatedError, PayloadError, UnsavableError
from statekit.objects import Cast, Hit, RetrievalStore
from statekit.on_commit import OnCommit
from statekit.session import SessionState
from tests.equivalence.bits import assert_same_bits

ENTRY = 8 + 12  # bytes: a key of 2, a value of 3 float32


def key(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers or (0.0, 0.0), dtype=torch.float32)


def value(number: float) -> torch.Tensor:
    return torch.full((3,), float(number))


def entry(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    return key(number, 0), value(number)


def store(**sizes: Any) -> RetrievalStore[Any]:
    return RetrievalStore[Any]().allocate(**sizes)


def filled(count: int, **sizes: Any) -> RetrievalStore[Any]:
    made = store(**sizes)
    made.extend(entry(number) for number in range(count))
    return made


def positions(hits: list[Hit[Any]]) -> list[int]:
    return [hit.position for hit in hits]


def kept(obj: RetrievalStore[Any], **more: Any) -> list[int]:
    return [int(one[0]) for _, one in obj.view(**more)]


# -- what is kept ----------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["stage", "commit", "discard", "append", "append", "extend", "replace"]),
        st.integers(0, 4),
    ),
    max_size=14,
)
LIMITS = st.fixed_dictionaries(
    {},
    optional={"bound": st.integers(1, 5), "nbytes": st.integers(ENTRY, 5 * ENTRY)},
)


@given(steps=STEPS, limits=LIMITS, query=st.integers(-2, 20))
def test_store_when_driven_at_random_then_equals_the_end_of_a_list(
    steps: list[tuple[str, int]], limits: dict[str, int], query: int
) -> None:
    """Whatever the order of writes: the newest entries that fit, under positions of their own."""
    obj = store(**limits)
    most = min(limits.get("bound", 1000), limits.get("nbytes", 1000 * ENTRY) // ENTRY)
    history: list[int] = []
    staged: list[int] = []
    start = clock = 0

    def shown(whole: list[int]) -> list[int]:
        return whole[-most:]

    for name, count in steps:
        new = list(range(clock, clock + count))
        clock += count
        if name == "stage":
            for number in new:
                obj.stage(entry(number))
            staged += new
        elif name == "commit":
            obj.commit()
            history, staged = history + staged, []
        elif name == "discard":
            obj.discard()
            staged = []
        elif name == "append":
            obj.append(entry(clock))
            history, staged = [*history, *staged, clock], []
            clock += 1
        elif name == "extend":
            obj.extend(map(entry, new))
            history, staged = history + staged + new, []
        else:
            obj.replace(map(entry, new))
            history, staged = new, []
        assert kept(obj, include_staged=False) == shown(history)
        assert kept(obj) == shown(history + staged)
        assert len(obj) == len(shown(history + staged))
        assert obj.nbytes == len(shown(history)) * ENTRY
    whole = history + staged
    start = max(0, len(whole) - most)
    by_distance = sorted(
        range(start, len(whole)), key=lambda position: (abs(whole[position] - query), -position)
    )
    hits = obj.nearest(key(query, 0), 3)
    assert positions(hits) == by_distance[:3]
    assert [int(hit.value[0]) for hit in hits] == [whole[one] for one in by_distance[:3]]


def test_append_when_entries_leave_then_positions_stay_their_own() -> None:
    """Of 10 entries in a store of 3 the last ones are 7, 8 and 9, before and after a commit."""
    obj = filled(9, bound=3)
    obj.stage(entry(9))
    assert positions(obj.nearest(key(7, 0), 9)) == [7, 8, 9]
    obj.commit()
    assert positions(obj.nearest(key(7, 0), 9)) == [7, 8, 9]


def test_budget_when_entries_differ_in_size_then_the_newest_that_fit() -> None:
    """The oldest leave until keys and values have so many bytes together, and no more leave."""
    obj = store(nbytes=100)
    for size in (10, 5, 1, 2):
        obj.append((key(size, 0), torch.zeros(size)))
    assert [len(one) for _, one in obj.view()] == [5, 1, 2]
    assert obj.nbytes == 3 * 8 + 8 * 4
    obj.append((key(), torch.zeros(23)))
    assert [len(one) for _, one in obj.view()] == [23]
    assert obj.nbytes == 100


def test_budget_when_one_entry_is_above_it_then_refused() -> None:
    """An entry that could never be kept is not dropped in silence."""
    obj = filled(2, nbytes=2 * ENTRY)
    with pytest.raises(PayloadError, match=r"an entry of 408 bytes, above the store's 40"):
        obj.append((key(), torch.zeros(100)))
    assert kept(obj) == [0, 1]


def test_entry_when_view_of_more_then_has_memory_of_its_own() -> None:
    """Values cut out of a chunk leave one by one: none of them holds the whole chunk."""
    chunk, poses = torch.arange(12.0).reshape(4, 3), torch.zeros(4, 2)
    obj = store(bound=2)
    for index in range(4):
        obj.append((poses[index], chunk[index]))
    seen = SeenStorages()
    assert obj.nbytes_by_device(seen) == {"cpu": 2 * ENTRY}
    assert_same_bits([one for _, one in obj.view()], [chunk[2], chunk[3]])
    whole = torch.zeros(3)
    obj.append((key(), whole))
    assert obj.view()[-1][1] is whole


# -- what is found ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "scores"),
    [
        ("euclidean", [(1, -1.0), (0, -5.0), (2, -10.0)]),
        ("dot", [(2, 60.0), (1, 24.0), (0, 0.0)]),
        ("cosine", [(2, 1.0), (1, 0.96), (0, 0.0)]),
    ],
)
def test_nearest_when_metric_is_given_then_scores_are_its_own(
    metric: Any, scores: list[tuple[int, float]]
) -> None:
    """Distance, product and angle of (0, 0), (4, 3) and (6, 8) to (3, 4); higher is nearer."""
    obj = store(metric=metric)
    for number, one in enumerate([(0.0, 0.0), (4.0, 3.0), (7.2, 9.6)]):
        obj.append((key(*one), value(number)))
    query = key(3, 4)
    found = [(hit.position, round(hit.score, 4)) for hit in obj.nearest(query, 3)]
    if metric == "euclidean":
        scores = [(1, -1.4142), (0, -5.0), (2, -7.0)]
    assert found == scores


def test_nearest_when_scores_are_equal_then_newer_first() -> None:
    """Ties go to what was seen last."""
    obj = store()
    for number in range(5):
        obj.append((key(number % 2, 0), value(number)))
    assert positions(obj.nearest(key(0, 0), 5)) == [4, 2, 0, 3, 1]


@pytest.mark.parametrize(
    ("k", "exclude", "found"), [(2, 1, [3, 2]), (9, 3, [1, 0]), (0, 0, []), (2, 5, []), (2, 9, [])]
)
def test_nearest_when_newest_are_excluded_then_not_looked_at(
    k: int, exclude: int, found: list[int]
) -> None:
    """As many as there are, without those that the model sees anyway."""
    assert positions(filled(5).nearest(key(9, 0), k, exclude_newest=exclude)) == found


def test_nearest_when_score_is_the_users_then_it_alone_decides() -> None:
    """A score function sees all keys that are looked at in one tensor, and the query as it is."""
    obj = filled(4)
    seen: list[Any] = []

    def overlap(keys: torch.Tensor, query: Any) -> torch.Tensor:
        seen.append((tuple(keys.shape), query))
        return -(keys[:, 0] - query["at"]).abs()

    hits = obj.nearest({"at": 1}, 2, score=overlap, exclude_newest=1)
    assert (positions(hits), seen) == ([1, 2], [((3, 2), {"at": 1})])
    assert [hit.score for hit in hits] == [0.0, -1.0]


@pytest.mark.parametrize("wrong", [lambda keys, query: keys, lambda keys, query: [1, 2, 3]])
def test_nearest_when_score_is_not_one_for_each_key_then_error(wrong: Any) -> None:
    """What a score function returned is said."""
    with pytest.raises(PayloadError, match="return one score for each key"):
        filled(3).nearest(key(), 1, score=wrong)


def test_nearest_when_a_score_is_no_number_then_last() -> None:
    """NaN is not near anything; infinities order as they do."""
    obj = store(metric="dot")
    for number in (float("nan"), 1.0, float("inf"), float("-inf")):
        obj.append((key(number, 0), value(0)))
    assert positions(obj.nearest(key(1, 0), 4))[:2] == [2, 1]
    assert set(positions(obj.nearest(key(1, 0), 4))[2:]) == {0, 3}


@pytest.mark.parametrize("query", [torch.zeros(3), None, [0.0, 0.0]])
def test_nearest_when_query_is_not_like_the_keys_then_error_says_so(query: Any) -> None:
    """A query of another shape would be broadcast, or fail deep inside."""
    with pytest.raises(PayloadError, match=r"pass a tensor of shape \(2,\)"):
        filled(2).nearest(query, 1)


@pytest.mark.parametrize(("k", "exclude"), [(-1, 0), (1, -1)])
def test_nearest_when_a_number_is_negative_then_value_error(k: int, exclude: int) -> None:
    """A count below 0 is a mistake, not the other end of the list."""
    with pytest.raises(ValueError, match="at least 0"):
        filled(2).nearest(key(), k, exclude_newest=exclude)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.int64, torch.float64])
def test_nearest_when_keys_are_of_any_type_then_compared_without_loss(dtype: torch.dtype) -> None:
    """Keys neither wrap around nor collapse."""
    obj = store()
    base = (1 << 30) if dtype.itemsize == 8 else 0
    for number in (base + 3, base + 200, base + 4):
        obj.append((torch.tensor([number], dtype=dtype), value(number)))
    query = torch.tensor([base + 3], dtype=dtype)
    assert [hit.score for hit in obj.nearest(query, 3)] == [0, -1, -197]


# -- codecs and devices ----------------------------------------------------------------------------


class Step(NamedTuple):
    """A value of several parts."""

    latent: torch.Tensor
    frames: list[Any]
    index: int


def test_cast_when_numbers_fit_then_exact_both_ways() -> None:
    """Kept in half the bytes, read in the dtype and with the bits that were stored."""
    obj = store(codec=Cast(torch.float16))
    stored = Step(torch.tensor([0.5, -2.0]), [np.array([1.5, 0.25]), {"n": torch.tensor([7])}], 3)
    obj.append((key(), stored))
    ((_, read),) = obj.view()
    assert_same_bits(read, stored)
    assert obj.nbytes == 8 + 2 * 2 + 2 * 2 + 8
    assert_same_bits(obj.nearest(key(), 1)[0].value, stored)


def test_committed_when_looked_at_then_not_again_until_it_was_written() -> None:
    """A poll of a store of many entries costs nothing as long as nothing is stored."""
    obj = store(codec=Cast(torch.float16))
    obj.append((key(), Step(torch.zeros(3), [torch.zeros(2), 1], 2)))
    obj.append((key(), {"latent": torch.zeros(3), "index": torch.zeros(1, dtype=torch.int64)}))
    look = Footprint()
    assert look.refresh(obj.committed(), obj.written)
    assert sum(end - start for _, start, end in look.intervals) == obj.nbytes == 16 + 6 + 4 + 6 + 8
    assert look.written is obj.written
    obj.append((key(), torch.zeros(3)))
    assert look.written is not obj.written


@given(st.lists(st.floats(width=16), min_size=1, max_size=8))
def test_cast_when_any_half_float_then_its_bits_come_back(numbers: list[float]) -> None:
    """Every float16 number in float32, bfloat16 through float32 too: no bit is lost."""
    wide = torch.tensor(numbers, dtype=torch.float16).float()
    cast = Cast(torch.float16)
    back = cast.decode(cast.encode(wide))
    assert torch.equal(back.isnan(), wide.isnan())
    assert_same_bits(back.nan_to_num(0), wide.nan_to_num(0))
    through = Cast(torch.float32)
    assert_same_bits(through.decode(through.encode(wide.bfloat16())), wide.bfloat16())


@pytest.mark.parametrize("dtype", [torch.int8, "float16", None])
def test_cast_when_dtype_is_no_floating_one_then_refused(dtype: Any) -> None:
    """Whole numbers would lose what a cast is not meant to lose."""
    with pytest.raises((TypeError, ValueError), match="dtype must be a"):
        Cast(dtype)


def test_cast_when_numpy_has_no_such_dtype_then_error_names_it() -> None:
    """Arrays cannot be kept in bfloat16."""
    with pytest.raises(PayloadError, match="numpy has no bfloat16"):
        store(codec=Cast(torch.bfloat16)).append((key(), np.zeros(2)))


class Reversed:
    """A codec of the user's own."""

    def encode(self, value: Any) -> Any:
        return value.flip(0)

    def decode(self, kept: Any) -> Any:
        return kept.flip(0)


def test_codec_when_the_users_own_then_used_and_refused_by_a_snapshot() -> None:
    """Any object that encodes and decodes serves; nothing could read its form from a file."""
    session = SessionState()
    obj = store(codec=Reversed())
    session.put("pool", obj)
    obj.append((key(), torch.arange(3.0)))
    assert_same_bits(obj.view()[0][1], torch.arange(3.0))
    with pytest.raises(UnsavableError, match=r"'pool'.*codec is a Reversed"):
        session_bytes(session)
    assert session_bytes(session, without=["pool"])
    with pytest.raises(TypeError, match="encode and decode"):
        store(codec=object())


def test_values_when_moved_on_commit_then_read_where_they_lie_or_are_asked_for() -> None:
    """Keys and values go where on_commit says; a reader names another device to have them there."""
    obj = store(on_commit=OnCommit(device="meta"))
    obj.append(entry(1))
    assert {part.device.type for part in obj.view()[0]} == {"meta"}
    obj = filled(1)
    assert {part.device.type for part in obj.view(device="meta")[0]} == {"meta"}
    hit = obj.nearest(key(), 1, device=torch.device("meta"))[0]
    assert (hit.key.device.type, hit.value.device.type) == ("meta", "meta")
    assert obj.view()[0][1].device.type == "cpu"


# -- what is refused, undone, and brought back -----------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (None, "None"),
        (torch.zeros(2), "a Tensor"),
        ((key(),), "a tuple"),
        ((key(), None), "the value None"),
        (([0.0, 0.0], value(1)), "a key that is a list"),
        ((key().to_sparse(), value(1)), "layout"),
        ((torch.zeros(3), value(1)), r"a key \(3,\) torch.float32 on cpu after \(2,\)"),
        ((key().to("meta"), value(1)), "on meta after"),
        ((key().double(), value(1)), "float64"),
    ],
)
def test_append_when_entry_does_not_fit_then_refused_and_nothing_changed(
    payload: Any, found: str
) -> None:
    """Keys are one tensor when they are compared, so each must be like the others."""
    obj = filled(2, bound=3)
    obj.stage(entry(2))
    writes: list[Callable[[], object]] = [
        lambda: obj.append(payload),
        lambda: obj.stage(payload),
        lambda: obj.extend([entry(3), payload]),
        lambda: obj.replace([entry(3), payload]),
    ]
    for write in writes:
        with pytest.raises(PayloadError, match=found):
            write()
    assert (kept(obj), kept(obj, include_staged=False), obj.nbytes) == (
        [0, 1, 2],
        [0, 1],
        2 * ENTRY,
    )


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ({"bound": 0}, ValueError),
        ({"bound": 1.5}, TypeError),
        ({"nbytes": -1}, ValueError),
        ({"nbytes": True}, TypeError),
        ({"metric": "manhattan"}, ValueError),
        ({"codec": "float16"}, TypeError),
    ],
)
def test_allocate_when_size_is_none_then_refused(
    sizes: dict[str, Any], error: type[Exception]
) -> None:
    """Each size names itself in its error."""
    with pytest.raises(error, match=next(iter(sizes))):
        store(**sizes)


def test_store_when_not_allocated_then_reads_name_the_cure() -> None:
    """nearest and extend need it allocated, as all else; its length is 0."""
    obj = RetrievalStore[Any]()
    assert (len(obj), bool(obj)) == (0, True)
    for use in (lambda: obj.nearest(key(), 1), lambda: obj.extend([]), lambda: obj.replace([])):
        with pytest.raises(NotAllocatedError):
            use()


@pytest.mark.parametrize("sizes", [{}, {"bound": 3}, {"nbytes": 3 * ENTRY}], ids=str)
def test_store_when_a_step_fails_then_entries_positions_and_bytes_as_before(
    sizes: dict[str, int],
) -> None:
    """What was appended, and what left for it, is undone; it goes on as if nothing had been."""
    session = SessionState()
    obj, never = filled(3, **sizes), filled(3, **sizes)
    session.put("pool", obj)
    with pytest.raises(KeyError), session.step():
        obj.extend([entry(7), entry(8)])
        obj.stage(entry(9))
        raise KeyError("forward")
    assert kept(obj) == [0, 1, 2]
    for one in (obj, never):
        one.append(entry(3))
    assert positions(obj.nearest(key(), 9)) == positions(never.nearest(key(), 9))
    assert (kept(obj), obj.nbytes) == (kept(never), never.nbytes)


def test_fork_when_written_then_shares_entries_and_neither_sees_the_other() -> None:
    """A fork copies no entry; each goes on with positions of its own."""
    session = SessionState()
    obj = filled(3)
    session.put("pool", obj)
    fork = session.fork()
    seen = SeenStorages()
    session.nbytes_by_device(seen)
    assert fork.nbytes_by_device(seen) == {}
    twin: Any = fork.get("pool")
    twin.append(entry(7))
    obj.append(entry(8))
    assert (kept(twin), kept(obj)) == ([0, 1, 2, 7], [0, 1, 2, 8])


def test_snapshot_when_restored_then_positions_codec_and_budget_are_there() -> None:
    """What comes back finds the same, under the same positions, and lets the same leave."""
    session = SessionState()
    obj = filled(5, nbytes=3 * (8 + 6), codec=Cast(torch.float16), metric="dot")
    obj.stage(entry(5))
    session.put("pool", obj)
    other: Any = restore_session(session_bytes(session)).get("pool")
    assert (other.metric, other.codec, other.limit_nbytes) == ("dot", Cast(torch.float16), 42)
    for number in (6, 7):
        assert positions(other.nearest(key(1, 0), 9)) == positions(obj.nearest(key(1, 0), 9))
        assert_same_bits(other.view(), obj.view())
        assert other.nbytes == obj.nbytes
        for one in (obj, other):
            one.append(entry(number))
