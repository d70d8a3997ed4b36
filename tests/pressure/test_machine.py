"""A manager under pressure, driven at random, with a look at all of its books after every step."""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from statekit.accounting import SeenStorages, device_bytes, merge_bytes
from statekit.errors import SessionAdmissionError, SessionExistsError, SessionStateLostError
from statekit.events import Created, Departed, Event, Released, Restored
from statekit.lease import Lease
from statekit.manager import SessionStateManager
from statekit.objects import HeldValue
from statekit.parking.parked_file import HEAD_NBYTES
from statekit.session import SessionState
from tests.pressure.toys import (
    DECLARED,
    KEPT,
    LOSABLE,
    VALUES,
    copied,
    peek,
    read,
    same,
    write,
)

IDS = st.sampled_from(["a", "b", "c"])
NAMES = st.sampled_from(sorted(VALUES))
SEEDS = st.integers(0, 99)
OLD = ("x", "y")
"""Sessions without leases."""


class Machine(RuleBasedStateMachine):
    """Knows what each session must hold; the manager may park, release and evict as it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.now = 0.0
        self.budgets = {"cpu": 2 * DECLARED + 4096, "disk": DECLARED + 3 * HEAD_NBYTES}
        self.manager = SessionStateManager(
            max_sessions=3,
            budgets=self.budgets,
            park_folder=self.folder,
            idle_timeout_s=100,
            clock=lambda: self.now,
        )
        self.manager.subscribe(self.hear)
        self.sessions: dict[str, weakref.ref[SessionState]] = {}
        self.losable = set(OLD)
        self.expected: dict[str, dict[str, Any]] = {}
        self.gone: dict[str, str] = {}
        self.released: set[tuple[str, str]] = set()
        self.leases: list[tuple[str, Lease]] = []
        self.holders: dict[str, SessionState] = {}
        self.doomed: set[str] = set()

    def hear(self, event: Event) -> None:
        if isinstance(event, Departed):
            self.gone[event.session_id] = event.how
            assert event.how != "evicted" or event.session_id in self.losable
            assert all(key != event.session_id for key, _ in self.leases), "a leased one left"
        elif isinstance(event, Created):
            self.gone.pop(event.session_id, None)
        elif isinstance(event, Released):
            assert all(key != event.session_id for key, _ in self.leases), "a leased victim"
            assert event.value in ("kv+freqs", "hint"), "half of a group"
            self.released |= {(event.session_id, one) for one in event.value.split("+")}
        elif isinstance(event, Restored):
            assert event.nbytes > 0

    def numbers(self) -> st.SearchStrategy[int]:
        """Of a lease; a lease that was drawn itself would be held, and never abandoned."""
        return st.integers(0, len(self.leases) - 1)

    def live(self, key: str) -> SessionState | None:
        held = self.sessions.get(key)
        session = None if held is None else held()
        record = None if session is None else session.record
        return None if record is None or (record.dropped and not record.leases) else session

    def leased(self, key: str) -> bool:
        return any(one == key for one, _ in self.leases)

    # -- what users do ---------------------------------------------------------------------------

    @rule(key=IDS, losable=st.booleans(), seed=SEEDS, idle=st.booleans())
    def begin(self, key: str, losable: bool, seed: int, idle: bool) -> None:
        """A new session is admitted only with all of its declared bytes."""
        lives = self.live(key) is not None
        lease = self.manager.lease(key, begin=LOSABLE if losable else KEPT)
        if lives:
            with pytest.raises(SessionExistsError):
                lease.begin()
            return
        if losable:
            self.losable.add(key)
        try:
            session = lease.begin()
        except SessionAdmissionError:
            assert key not in self.manager
            return
        if not losable:
            self.losable.discard(key)
        self.leases.append((key, lease))
        self.sessions[key] = weakref.ref(session)
        self.expected[key] = {}
        self.doomed.discard(key)
        self.released = {one for one in self.released if one[0] != key}
        used = self.manager.nbytes_by_device().get("cpu", 0)
        assert used + DECLARED <= self.budgets["cpu"]
        for name in VALUES:
            self.expected[key][name] = write(session, name, seed)
        if idle:
            self.leases.pop()
            lease.end()

    @rule(key=IDS)
    def go_on(self, key: str) -> None:
        """What lives is continued with everything back; what is gone is lost, and says how."""
        session = self.live(key)
        lease = self.manager.lease(key)
        if session is None or key in self.doomed:
            with pytest.raises(SessionStateLostError) as caught:
                lease.begin()
            how = "dropped" if key in self.doomed else self.gone.get(key, "unknown")
            assert caught.value.how == how
            return
        assert lease.begin() is session
        self.leases.append((key, lease))
        assert session.parked == []

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), politely=st.booleans())
    def end(self, data: st.DataObject, politely: bool) -> None:
        """After a lease nothing is over a budget that could be relieved."""
        _, lease = self.leases.pop(data.draw(self.numbers()))
        self.manager.stats()  # the bytes of the others, which work on
        if politely:
            lease.end()
        del lease
        if politely:
            assert self.manager._room.relieve("").decisions == ()
        else:
            self.manager.stats()
            self.manager.relieve()
        assert self.manager.relieve().decisions == ()

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), name=NAMES, seed=SEEDS, times=st.integers(1, 3))
    def write(self, data: st.DataObject, name: str, seed: int, times: int) -> None:
        """Under a lease any value is written, also more than it declares."""
        key, lease = self.leases[data.draw(self.numbers())]
        if name == "frames":
            times = 1
        value = write(lease.begin(), name, seed, VALUES[name] * times)
        self.expected[key][name] = value
        self.released.discard((key, name))

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), source=IDS, name=st.sampled_from(["cache", "kv", "note", "hint"]))
    def share(self, data: st.DataObject, source: str, name: str) -> None:
        """A value is the very memory of another one, of this session or of another."""
        key, lease = self.leases[data.draw(self.numbers())]
        session, other = lease.begin(), self.live(source)
        if other is None or not self.leased(source):
            return
        shared = peek(other, "state")
        if shared is None:
            return
        self.released.discard((key, name))
        if name == "note":
            session.attrs["note"] = shared
        elif name == "cache":
            cache = session.get_or_create(name, lambda: HeldValue().allocate(), HeldValue)
            cache.append([shared, None, shared[5:]])
            shared = [shared, None, shared[5:]]
        else:
            write(session, name, 1)
            session.get(name).reset()
            session.get(name).allocate().append(shared)
        # A state is written in place: whoever shares it sees that, so it is given new memory.
        other.get("state").reset()
        self.expected[source].pop("state", None)
        self.expected[key][name] = copied(shared)

    @rule(key=IDS, name=NAMES)
    def read_without_lease(self, key: str, name: str) -> None:
        """A reader who holds the session gets what was written, parked or not."""
        session = self.live(key)
        if session is not None:
            self.assert_read(key, session, name)

    def assert_read(self, key: str, session: SessionState, name: str) -> None:
        got, want = read(session, name), self.expected[key].get(name)
        if (key, name) in self.released:
            assert got is None
        else:
            assert same(got, want), f"{name} of {key}"

    @rule(key=IDS)
    def hold(self, key: str) -> None:
        session = self.live(key)
        if session is not None and key not in self.doomed:
            self.holders[key] = session

    @rule(key=IDS)
    def let_go(self, key: str) -> None:
        self.holders.pop(key, None)

    @precondition(lambda self: len(self.sessions) > 2)
    @rule(key=IDS)
    def drop(self, key: str) -> None:
        """Dropping takes effect at once, or with the last lease."""
        live = self.live(key) is not None
        self.sessions = {one: held for one, held in self.sessions.items() if self.live(one)}
        assert self.manager.drop_session(key) is live
        if live and self.leased(key):
            self.doomed.add(key)
            assert self.live(key) is not None
        elif live:
            assert self.live(key) is None

    @rule(seconds=st.sampled_from([1, 2, 150]))
    def wait(self, seconds: int) -> None:
        """Only who is idle for long expires."""
        self.now += seconds
        for key in self.manager.expire():
            assert not self.leased(key)

    @rule(key=IDS, pattern=st.sampled_from(["cache", "kv|freqs", ".*"]))
    def reset(self, key: str, pattern: str) -> None:
        """A reset under a lease clears; what is written next is no rebuild."""
        session = self.live(key)
        if session is None or not self.leased(key):
            return
        session.reset_objects(re.compile(pattern))
        for name in VALUES:
            if name != "note" and re.fullmatch(pattern, name):
                self.expected[key].pop(name, None)
                self.released.discard((key, name))

    @rule(name=st.sampled_from(OLD))
    def old_way(self, name: str) -> None:
        """Sessions without leases are counted, and leave by count."""
        self.manager.get_or_create_session(name).attrs["value"] = torch.zeros(100)

    # -- what always holds -----------------------------------------------------------------------

    @invariant()
    def books_balance(self) -> None:
        """Reported bytes are those of a walk over all; the ledger's those of what is here."""
        reported = self.manager.nbytes_by_device()
        walked, here = SeenStorages(), SeenStorages()
        total: dict[str, int] = {}
        resident: dict[str, int] = {}
        for session in self.manager._table.live():
            merge_bytes(total, session.nbytes_by_device(walked))
            parts = [session.attrs, session.committed(), [unit.kept for unit in session.parked]]
            merge_bytes(resident, device_bytes(parts, here))
        assert reported == {device: n for device, n in total.items() if n}
        assert self.manager._roll._ledger.totals() == resident

    @invariant()
    def files_are_those_of_live_sessions(self) -> None:
        """One file for each parked unit of whoever lives; none of the dead, none half-made."""
        names = [path.name for path in self.folder.glob("owner-*/*") if path.name != "lock"]
        units = sum(len(session.parked) for session in self.manager._table.live())
        assert len(names) == units
        assert not any(name.endswith(".tmp") for name in names)

    @invariant()
    def one_live_state(self) -> None:
        """An id has one live session, and the table knows it."""
        live = [s for s in self.manager._table.live() if s.record and not s.record.dropped]
        assert len({session.session_id for session in live}) == len(live)
        for session in live:
            assert self.manager._table.holds(session.session_id) is session.record

    @invariant()
    def values_are_whole(self) -> None:
        """What is resident is what was written; what is not is parked or was released."""
        for key, want in self.expected.items():
            session = self.live(key)
            if session is None:
                continue
            parked = {name for unit in session.parked for name in unit.keys}
            if self.leased(key):
                assert not parked
            for name in VALUES:
                if name not in parked and (key, name) not in self.released:
                    assert same(peek(session, name), want.get(name)), f"{name} of {key}"

    @invariant()
    def table_is_bounded(self) -> None:
        """More sessions than the table keeps only where they are in use, or may not be lost."""
        table = self.manager._table
        over = len(self.manager) - self.manager.max_sessions
        may_leave = [
            record
            for key in table
            if (record := table.holds(key)) is not None and record.may_leave()
        ]
        assert over <= 0 or len(may_leave) <= 1

    def teardown(self) -> None:
        for key in list(self.expected):
            session = self.live(key)
            if session is not None:
                for name in VALUES:
                    self.assert_read(key, session, name)
        self.leases.clear()
        self.manager.close()
        shutil.rmtree(self.folder)


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


@pytest.mark.soak
class TestMachineLong(Machine.TestCase):  # type: ignore[name-defined,misc]
    """The same, for minutes."""

    settings = settings(max_examples=1500, stateful_step_count=60, deadline=None)
