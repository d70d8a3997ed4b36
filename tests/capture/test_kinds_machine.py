"""Fixed states, windows and stores of one session, driven at random against plain lists."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import attrs
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from statekit import restore_session, session_bytes
from statekit.books.record import Record
from statekit.family import ObjectFamily
from statekit.objects import Cast, FixedState, RetrievalStore, WindowedKV
from statekit.parking.disk import DiskTier
from statekit.pressure.putting_away import put_away
from statekit.session import SessionState
from tests.equivalence.bits import assert_same_bits

LAYERS, BOUND, SINK, ITEMS = 2, 4, 1, 3
STATE, ENTRY, ITEM = 4 * 3, 4 + 2, 4 + 2  # bytes


@attrs.define
class Model:
    """What the session should hold, as numbers."""

    states: list[int] = attrs.field(factory=list)
    windows: list[list[int]] = attrs.field(factory=lambda: [[] for _ in range(LAYERS)])
    pool: list[int] = attrs.field(factory=list)

    def copy(self) -> Model:
        return Model(self.states[:], [one[:] for one in self.windows], self.pool[:])

    def window(self, layer: int) -> list[int]:
        whole = self.windows[layer]
        if len(whole) <= BOUND:
            return whole
        return [*whole[:SINK], *whole[len(whole) - BOUND + SINK :]]

    @property
    def nbytes(self) -> int:
        entries = sum(len(self.window(layer)) for layer in range(LAYERS))
        return STATE * len(self.states) + ENTRY * entries + ITEM * min(len(self.pool), ITEMS)


def states(session: SessionState) -> ObjectFamily[torch.Tensor]:
    return ObjectFamily(session, "gdn/", lambda: FixedState[torch.Tensor]().allocate())


def windows(session: SessionState) -> ObjectFamily[Any]:
    return ObjectFamily(
        session, "kv/", lambda: WindowedKV[Any]().allocate(bound=BOUND, axis=0, sink=SINK)
    )


def pool(session: SessionState) -> RetrievalStore[torch.Tensor]:
    return session.get_or_create(
        "pool",
        lambda: RetrievalStore[Any]().allocate(bound=ITEMS, codec=Cast(torch.float16)),
        RetrievalStore,
    )


def pair(numbers: list[int]) -> Any:
    return torch.tensor(numbers).float(), torch.tensor(numbers).bfloat16()


NUMBERS = st.lists(st.integers(0, 100), min_size=1, max_size=6)
WRITES = st.lists(
    st.tuples(st.sampled_from(["states", "window", "staged", "pool"]), NUMBERS), max_size=4
)


def write(session: SessionState, model: Model, what: str, numbers: list[int]) -> None:
    """Do one thing to a session and to its model."""
    layer = numbers[0] % LAYERS
    if what == "states":
        numbers = numbers[:3]
        states(session).replace([torch.full((3,), float(number)) for number in numbers])
        model.states = numbers
    elif what == "window":
        windows(session).object(layer).append(pair(numbers))
        model.windows[layer] += numbers
    elif what == "staged":
        window = windows(session).object(layer)
        window.stage(pair([7]))
        window.stage(pair(numbers))
        window.commit()
        model.windows[layer] += numbers
    else:
        pool(session).extend((torch.tensor([float(n)]), torch.tensor([float(n)])) for n in numbers)
        model.pool += numbers


class KindsMachine(RuleBasedStateMachine):
    """One session, in and out of steps, forks, files and folders."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.tier = DiskTier(self.folder)
        self.session = SessionState("s")
        self.model = Model()
        self.places: dict[str, tuple[Any, int]] = {}

    @initialize(numbers=NUMBERS)
    def fill(self, numbers: list[int]) -> None:
        for what in ("states", "window", "pool"):
            write(self.session, self.model, what, numbers)

    @rule(writes=WRITES)
    def write(self, writes: list[tuple[str, list[int]]]) -> None:
        for what, numbers in writes:
            write(self.session, self.model, what, numbers)

    @rule(writes=WRITES, inner=WRITES, fails=st.sampled_from(["outer", "inner", "neither"]))
    def step(
        self,
        writes: list[tuple[str, list[int]]],
        inner: list[tuple[str, list[int]]],
        fails: str,
    ) -> None:
        before = self.model.copy()
        try:
            with self.session.step():
                self.write_all(writes)
                middle = self.model.copy()
                try:
                    with self.session.step():
                        self.write_all(inner)
                        if fails == "inner":
                            raise KeyError("inner")
                except KeyError:
                    self.model = middle
                if fails == "outer":
                    raise KeyError("outer")
        except KeyError:
            self.model = before

    def write_all(self, writes: list[tuple[str, list[int]]]) -> None:
        for what, numbers in writes:
            write(self.session, self.model, what, numbers)

    @rule(numbers=NUMBERS)
    def stage_and_commit_at_the_end_of_a_step(self, numbers: list[int]) -> None:
        with self.session.step():
            windows(self.session).object(0).stage(pair(numbers))
        self.model.windows[0] += numbers

    @rule(writes=WRITES, others=WRITES, promote=st.booleans())
    def fork(
        self,
        writes: list[tuple[str, list[int]]],
        others: list[tuple[str, list[int]]],
        promote: bool,
    ) -> None:
        fork, model = self.session.fork(), self.model.copy()
        for what, numbers in writes:
            write(fork, model, what, numbers)
        self.write_all(others)
        check(fork, model)
        check(self.session, self.model)
        if promote:
            fork.promote()
            self.model = model
        else:
            fork.discard()

    @rule()
    def park(self) -> None:
        record = self.session.record
        if record is None:
            record = self.session.record = Record(self.session)
            record.managed = True
        put_away(record, self.session.names, self.tier, lambda unit: None)
        self.places = {}

    @rule()
    def save_and_restore(self) -> None:
        self.session = restore_session(session_bytes(self.session))
        self.places = {}

    @rule(what=st.sampled_from(["states", "windows", "pool"]))
    def clear(self, what: str) -> None:
        if what == "states":
            states(self.session).replace([])
            self.model.states = []
        elif what == "windows":
            for layer in range(LAYERS):
                windows(self.session).object(layer).reset()
            self.model.windows = [[] for _ in range(LAYERS)]
        else:
            pool(self.session).replace([])
            self.model.pool = []

    @invariant()
    def holds_what_it_should(self) -> None:
        check(self.session, self.model)
        now = {
            name: (obj, obj.buffers()[0].data_ptr())
            for name, obj in self.session.objects.items()
            if isinstance(obj, FixedState)
        }
        for name, (obj, place) in now.items():
            before, known = self.places.get(name, (obj, place))
            assert before is not obj or known == place, "a buffer has moved"
        self.places = now

    def teardown(self) -> None:
        self.tier.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def check(session: SessionState, model: Model) -> None:
    """Compare all that a reader gets, cursors and positions, and the bytes."""
    want = [torch.full((3,), float(number)) for number in model.states]
    assert_same_bits(states(session).view(), want or None)
    for layer in range(LAYERS):
        window = windows(session).object(layer)
        kept = model.window(layer)
        assert_same_bits(window.view(), pair(kept) if kept else None)
        assert (window.local_end, window.global_end) == (len(kept), len(model.windows[layer]))
    hits = pool(session).nearest(torch.tensor([0.0]), 99)
    assert (
        sorted((hit.position, hit.value.item()) for hit in hits)
        == [*enumerate(map(float, model.pool))][-ITEMS:]
    )
    assert session.nbytes == model.nbytes


TestKinds = KindsMachine.TestCase
TestKinds.settings = settings(
    deadline=None,
    max_examples=15,
    stateful_step_count=20,
    suppress_health_check=[HealthCheck.too_slow],
)
