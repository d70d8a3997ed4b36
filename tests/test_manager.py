"""SessionStateManager: order of use, one state per id, bytes as long as anybody holds them."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import weakref
from collections import OrderedDict
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from statekit.manager import DEFAULT_MAX_SESSIONS, SessionStateManager
from statekit.objects import LatentBuffer
from statekit.session import SessionState

ITEM = 16 * 4


def fill(session: SessionState, items: int = 1) -> None:
    """Put `items` tensors of ITEM bytes into the session's object."""
    buffer = session.get_or_create("x", lambda: LatentBuffer[Any]().allocate(), LatentBuffer)
    for _ in range(items):
        buffer.append(torch.ones(16))


class ManagerMachine(RuleBasedStateMachine):
    """The manager against a model: an ordered table of names, and who holds what."""

    ids = st.sampled_from(["a", "b", "c", "d", "", None, 0, "0", "é"])

    @initialize(max_sessions=st.integers(1, 3))
    def start(self, max_sessions: int) -> None:
        self.manager = SessionStateManager(max_sessions)
        self.max_sessions = max_sessions
        self.table: OrderedDict[str, int] = OrderedDict()  # id to the number of its state
        self.items: dict[int, int] = {}  # state to its items
        self.held: dict[str, tuple[int, SessionState]] = {}
        self.dropped: list[tuple[int, SessionState]] = []
        self.hits = self.misses = self.evictions = 0

    @staticmethod
    def key(session_id: object) -> str:
        return "default" if session_id in (None, "") else str(session_id)

    def use(self, session_id: Any) -> tuple[int, SessionState]:
        key = self.key(session_id)
        session = self.manager.get_or_create_session(session_id)
        if key in self.table:
            self.hits += 1
        else:
            self.misses += 1
            held = self.held.get(key)
            self.table[key] = held[0] if held else len(self.items)
            self.items.setdefault(self.table[key], 0)
        self.table.move_to_end(key)
        while len(self.table) > self.max_sessions:
            self.table.popitem(last=False)
            self.evictions += 1
        number = self.table[key]
        assert session.attrs.setdefault("number", number) == number
        assert session.session_id == key
        return number, session

    @rule(session_id=ids, items=st.integers(0, 2))
    def write(self, session_id: Any, items: int) -> None:
        number, session = self.use(session_id)
        fill(session, items)
        self.items[number] += items

    @rule(session_id=ids)
    def hold(self, session_id: Any) -> None:
        self.held[self.key(session_id)] = self.use(session_id)

    @rule(session_id=ids)
    def let_go(self, session_id: Any) -> None:
        self.held.pop(self.key(session_id), None)

    @rule(session_id=ids, items=st.integers(1, 2))
    def write_held(self, session_id: Any, items: int) -> None:
        if self.key(session_id) in self.held:
            number, session = self.held[self.key(session_id)]
            fill(session, items)
            self.items[number] += items

    @rule(session_id=ids)
    def drop(self, session_id: Any) -> None:
        key = self.key(session_id)
        held = self.held.pop(key, None)
        known = self.table.pop(key, None)
        assert self.manager.drop_session(session_id) == (known is not None or held is not None)
        if held is not None:
            number, session = held
            assert session.attrs == {}
            self.items[number] = 0
            self.dropped.append(held)

    @rule(items=st.integers(1, 2))
    def write_dropped(self, items: int) -> None:
        """Whoever still writes into a dropped session holds bytes, and they are counted."""
        if self.dropped:
            number, session = self.dropped[-1]
            fill(session, items)
            self.items[number] += items

    @rule()
    def let_go_of_dropped(self) -> None:
        self.dropped.clear()

    @rule(session_id=ids)
    def ask(self, session_id: Any) -> None:
        assert (session_id in self.manager) == (self.key(session_id) in self.table)

    @invariant()
    def books_balance(self) -> None:
        live = {*self.table.values(), *(number for number, _ in self.held.values())}
        live |= {number for number, _ in self.dropped}
        nbytes = ITEM * sum(self.items[number] for number in live)
        assert list(self.manager._table) == list(self.table)
        assert len(self.manager) == len(self.table) <= self.max_sessions
        assert self.manager.nbytes_by_device() == ({"cpu": nbytes} if nbytes else {})
        assert self.manager.stats() == {
            "sessions": len(self.table),
            "max_sessions": self.max_sessions,
            "hits": self.hits,
            "misses": self.misses,
            "evictions": self.evictions,
            "leases": 0,
            "total_nbytes": nbytes,
            "staged_nbytes": 0,
            **({"nbytes:cpu": nbytes} if nbytes else {}),
        }


ManagerMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestManagerMachine = ManagerMachine.TestCase


def test_manager_when_made_with_defaults_then_64_sessions_and_no_budget() -> None:
    """The defaults mirror the hand-rolled cap; bytes are not bounded."""
    manager = SessionStateManager()
    assert manager.max_sessions == DEFAULT_MAX_SESSIONS == 64
    assert manager.byte_budget is None
    for number in range(65):
        manager.get_or_create_session(str(number))
    assert "0" not in manager
    assert (len(manager), manager.stats()["evictions"]) == (64, 1)


def test_manager_when_empty_then_truthy() -> None:
    """`manager or other` keeps an empty manager."""
    manager = SessionStateManager()
    assert len(manager) == 0
    assert bool(manager)


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ({"max_sessions": 0}, ValueError),
        ({"max_sessions": -5}, ValueError),
        ({"max_sessions": 2.0}, TypeError),
        ({"max_sessions": True}, TypeError),
        ({"max_sessions": "64"}, TypeError),
        ({"max_sessions": None}, TypeError),
        ({"byte_budget": 0}, ValueError),
        ({"byte_budget": 1e9}, TypeError),
    ],
)
def test_manager_when_size_is_wrong_then_named(sizes: Any, error: type[Exception]) -> None:
    """A size that is none is refused by its name."""
    with pytest.raises(error, match=next(iter(sizes))):
        SessionStateManager(**sizes)


@pytest.mark.parametrize(
    ("session_id", "same"),
    [(None, "default"), ("", "default"), (0, "0"), (7, "7"), ("日本/✓ x", "日本/✓ x")],
)
def test_session_id_when_odd_then_used_as_a_string(session_id: Any, same: str) -> None:
    """A missing or empty id means "default"; others are used as strings, 0 is no missing id."""
    manager = SessionStateManager()
    session = manager.get_or_create_session(session_id)
    assert session is manager.get_or_create_session(same)
    assert session.session_id == same
    assert session_id in manager
    assert same in manager
    assert manager.drop_session(session_id)
    assert not manager.drop_session(same)


def test_session_when_evicted_and_nobody_holds_it_then_its_memory_goes() -> None:
    """Leaving the table is the end of a session that nobody holds, without help of a collector."""
    manager = SessionStateManager(max_sessions=1)
    fill(manager.get_or_create_session("a"))
    gone = weakref.ref(manager.get_or_create_session("a"))
    manager.get_or_create_session("b")
    assert gone() is None
    assert manager.nbytes_by_device() == {}


def test_session_when_evicted_but_held_then_counted_and_found_again() -> None:
    """M2, M3: its bytes stay in the books, and its id leads back to it; then eviction goes on."""
    manager = SessionStateManager(max_sessions=1)
    held = manager.get_or_create_session("a")
    fill(held, 3)
    manager.get_or_create_session("b")
    assert manager.nbytes_by_device() == {"cpu": 3 * ITEM}
    assert manager.get_or_create_session("a") is held
    assert "b" not in manager
    stats = manager.stats()
    assert (stats["hits"], stats["misses"], stats["evictions"]) == (0, 3, 2)


def test_session_when_evicted_but_held_then_drop_finds_it() -> None:
    """drop_session ends a session that is out of the table and still held."""
    manager = SessionStateManager(max_sessions=1)
    held = manager.get_or_create_session("a")
    fill(held)
    manager.get_or_create_session("b")
    assert manager.drop_session("a")
    assert held.nbytes == 0
    assert manager.get_or_create_session("a") is not held


def test_drop_when_called_then_buffers_are_freed_for_its_holder_too() -> None:
    """Dropping clears what the session held; what its holder writes afterwards is counted."""
    manager = SessionStateManager()
    held = manager.get_or_create_session("a")
    held.attrs["x"] = torch.ones(4)
    fill(held)
    assert manager.drop_session("a")
    assert manager.nbytes_by_device() == {}
    assert held.attrs == {}
    held.attrs["late"] = torch.ones(2)
    assert manager.nbytes_by_device() == {"cpu": 8}
    del held
    gc.collect()
    assert manager.nbytes_by_device() == {}


def test_bytes_when_sessions_share_a_tensor_then_counted_once() -> None:
    """One conditioning tensor in several sessions is one storage."""
    manager = SessionStateManager(max_sessions=2)
    shared = torch.ones(10)
    sessions = [manager.get_or_create_session(name) for name in "abc"]
    for session in sessions:
        session.attrs["shared"] = shared[1:]
    assert manager.nbytes_by_device() == {"cpu": 40}


def test_stats_when_data_is_staged_then_told_apart() -> None:
    """Staged bytes have keys of their own and are not in the total."""
    manager = SessionStateManager()
    session = manager.get_or_create_session("a")
    fill(session)
    buffer: Any = session.get("x")
    buffer.stage(torch.ones(2))
    buffer.stage(buffer.view()[0])
    stats = manager.stats()
    assert (stats["total_nbytes"], stats["nbytes:cpu"]) == (ITEM, ITEM)
    assert (stats["staged_nbytes"], stats["staged_nbytes:cpu"]) == (8, 8)


def test_lock_factory_when_nullcontext_then_works_without_a_lock() -> None:
    """An owner with one thread may pass a context that does nothing."""
    manager = SessionStateManager(1, lock_factory=contextlib.nullcontext)
    fill(manager.get_or_create_session("a"))
    manager.get_or_create_session("b")
    assert manager.drop_session("b")
    assert manager.stats()["sessions"] == 0


class WatchedLock:
    """A lock that knows whether it is held; entering it twice would be a deadlock, so it fails."""

    def __init__(self) -> None:
        self.held = False
        self.entered = 0

    def __enter__(self) -> None:
        assert not self.held, "the manager's lock was entered while it was held"
        self.held = True
        self.entered += 1

    def __exit__(self, *exc: object) -> None:
        self.held = False


def test_lock_when_values_are_walked_freed_or_called_then_not_held() -> None:
    """M4: counting, freeing, resetting, and what an id's class does run without the lock."""
    lock = WatchedLock()
    calls: list[str] = []

    class Watched:
        """Looks at the lock whenever the manager's work comes to it."""

        def nbytes_by_device(self, seen: object) -> dict[str, int]:
            calls.append("counted")
            assert not lock.held
            return {}

        def __del__(self) -> None:
            calls.append(f"freed with lock held: {lock.held}")

    class WatchedBuffer(LatentBuffer[Any]):
        def reset(self) -> None:
            calls.append(f"reset with lock held: {lock.held}")
            super().reset()

        def __del__(self) -> None:
            calls.append(f"freed with lock held: {lock.held}")

    class Id:
        def __str__(self) -> str:
            assert not lock.held
            calls.append("named")
            return "watched"

    manager = SessionStateManager(max_sessions=1, lock_factory=lambda: lock)

    def fill_watched() -> None:
        session = manager.get_or_create_session(Id())  # type: ignore[arg-type]
        session.attrs["value"] = Watched()
        session.put("x", WatchedBuffer().allocate())

    fill_watched()
    manager.nbytes_by_device()
    manager.stats()
    manager.get_or_create_session("other")  # evicts
    fill_watched()
    manager.drop_session("watched")
    assert lock.entered >= 6
    assert "counted" in calls
    assert "named" in calls
    assert "reset with lock held: False" in calls
    assert calls.count("freed with lock held: False") == 4
    assert not [call for call in calls if call.endswith("True")]


def test_manager_when_used_from_threads_then_one_state_per_id_and_none_lost() -> None:
    """8 threads over one table: per id one live state, and the counters add up."""
    manager = SessionStateManager(max_sessions=3)
    ids = [str(number) for number in range(6)]
    holders: dict[str, SessionState] = {}  # all sessions stay held, so each id has one state
    failures: list[str] = []
    uses = [0] * 8
    until = time.monotonic() + 0.8
    start = threading.Barrier(8)

    def work(me: int) -> None:
        start.wait()
        step = me
        while time.monotonic() < until:
            step += 1
            name = ids[step * (me + 1) % len(ids)]
            session = manager.get_or_create_session(name)
            uses[me] += 1
            if holders.setdefault(name, session) is not session:
                failures.append(f"two states of {name}")
            if session.session_id != name:
                failures.append(f"{session.session_id} for {name}")
            if step % 16 == 0:
                manager.stats()

    threads = [threading.Thread(target=work, args=(me,)) for me in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = manager.stats()
    assert failures == []
    assert len(manager) == 3
    assert stats["hits"] + stats["misses"] == sum(uses)
    assert stats["misses"] - stats["evictions"] == 3


def test_stats_when_holders_let_go_in_another_thread_then_no_error() -> None:
    """Counting copes with sessions that end while it looks at them."""
    manager = SessionStateManager(max_sessions=1)
    rounds: list[int] = []
    until = time.monotonic() + 0.5

    def churn() -> None:
        number = 0
        while time.monotonic() < until:
            held = [manager.get_or_create_session(f"{number}-{i}") for i in range(20)]
            manager.drop_session(f"{number}-19")
            number += 1
            del held

    def count() -> None:
        while time.monotonic() < until:
            manager.stats()
        rounds.append(1)

    threads = [threading.Thread(target=work) for work in (churn, churn, count, count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rounds) == 2  # both counters came to their end
    assert len(manager) <= 1
