"""A real manager and a simulated replica, driven by one script; both keep a list of what they did.

Owns the toy models and the two drivers. The real one holds tensors of a few KiB. Where it parks in
host memory, there is no accelerator: memory of an odd number of bytes counts as the accelerator's,
and the engine that copies is the fake one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import torch

from statekit.books import footprint
from statekit.declared import session_at_step
from statekit.errors import SessionAdmissionError, SessionStateLostError
from statekit.events import Departed, Event, Parked, Refused, Released, Restored
from statekit.lease import Lease
from statekit.manager import SessionStateManager
from statekit.objects import EncodeOnce, HeldValue, LatentBuffer
from statekit.parking.disk import DiskTier
from statekit.parking.host import HostTier
from statekit.parking.parked_file import HEAD_NBYTES
from statekit.pressure.putting_away import ParkedUnit
from statekit.session import SessionState
from statekit.simulation.counting import CountingReplica
from statekit.simulation.kind import Kind
from statekit.simulation.links import Bandwidths, Links
from statekit.simulation.replica import Replica
from statekit.simulation.session import Session
from statekit.simulation.shape import TierSize
from statekit.simulation.tally import Tally
from statekit.spec import Growth, ModelSpec, Park, Pending, Rebuild, Ring, Size, ValueSpec
from statekit.walk import torch_memory
from tests.parking.fakes import FakeEngine

__all__ = ["DEVICE", "LARGE", "LOSABLE", "MODELS", "SMALL", "Op", "Real", "Told", "Twin"]

DEVICE = "cuda:0"
CHUNK = 256
Told = tuple[str, str, str]
"""What was done, of which session, with which of its values."""
Op = tuple[str, str, str]
"""begin, take, end, again (end and take) or close; a session; and for begin a model."""


def _value(name: str, kind: Any, size: Size, **more: Any) -> ValueSpec:
    return ValueSpec(
        name=name,
        bucket="attrs" if kind is None else "StateObject",
        type="torch.Tensor",
        device=more.pop("device", "model"),
        object=kind,
        dtype="uint8",
        size=size,
        **more,
    )


def _rebuilt(name: str, nbytes: int, source: str, cost_ms: float) -> ValueSpec:
    return _value(
        name,
        "EncodeOnce",
        Size(elements=str(nbytes)),
        rebuild=Rebuild((source,), cost_ms=cost_ms),
        operations=("release",),
    )


BOTH, DISK = Park(tiers=("host", "disk")), Park(tiers=("disk",))
LARGE = ModelSpec(
    model="large",
    inputs={"prompt": True},
    values=(
        _value("cache", "HeldValue", Size(elements="8191"), park=BOTH, operations=("park",)),
        _value(
            "tail",
            "HeldValue",
            Size(elements="2049", first="1025"),
            park=DISK,
            operations=("park",),
            pending=Pending(),
        ),
        _rebuilt("kv", 4095, "prompt", 9.0),
        _rebuilt("freqs", 1025, "kv", 1.0),
        _rebuilt("hint", 511, "note", 1.0),
        _value("note", None, Size(elements="513")),
        _value(
            "frames",
            "LatentBuffer",
            Size(elements="1024"),
            device="cpu",
            ring=Ring(unbounded="kept for the end", growth=Growth()),
        ),
    ),
)
SMALL = ModelSpec(
    model="small",
    values=(
        _value("cache", "HeldValue", Size(elements="2047"), park=BOTH, operations=("park",)),
        _value("note", None, Size(elements="127")),
    ),
)
LOSABLE = attrs.evolve(SMALL, model="losable", may_be_lost=True)
MODELS: Mapping[str, ModelSpec] = {one.model: one for one in (LARGE, SMALL, LOSABLE)}


def name_memory(patch: pytest.MonkeyPatch) -> None:
    """Let memory of an odd number of bytes count as the accelerator's."""
    known = torch_memory.memory_of

    def memory_of(tensor: Any, storage: Any) -> tuple[str, int, int]:
        _, start, end = known(tensor, storage)
        return (DEVICE if (end - start) % 2 else "cpu"), start, end

    patch.setattr(torch_memory, "memory_of", memory_of)
    patch.setattr(footprint, "memory_of", memory_of)
    make = ParkedUnit.__init__

    def init(
        self: ParkedUnit, record: Any, objects: Any, parked: Any, tier: Any, *more: Any
    ) -> None:
        make(self, record, objects, parked, tier, *more)
        sizes = [nbytes for _, nbytes in more[0].recipe.storages]
        came = {DEVICE: sum(n for n in sizes if n % 2), "cpu": sum(n for n in sizes if not n % 2)}
        self.came_from = {device: nbytes for device, nbytes in came.items() if nbytes}

    patch.setattr(ParkedUnit, "__init__", init)


class Real:
    """A manager, with real tensors."""

    def __init__(
        self, budgets: Mapping[str, int], folder: Path | None, *, host: bool, max_sessions: int
    ) -> None:
        self.told: list[Told] = []
        self.manager = SessionStateManager(max_sessions=max_sessions, budgets=budgets)
        self.manager.model_device = self.manager._leasing._model_device = DEVICE
        tiers: dict[str, Any] = {}
        if host:
            tiers["host"] = HostTier(engine=FakeEngine(), chunk_bytes=CHUNK)
        if folder is not None:
            tiers["disk"] = DiskTier(folder)
        relief: Any = self.manager._relief
        relief._tiers.update(tiers)
        self.manager.subscribe(self._hear)
        self._leases: dict[str, Lease] = {}
        self._models: dict[str, ModelSpec] = {}
        self._steps: dict[str, int] = {}

    def _hear(self, event: Event) -> None:
        key = event.session_id
        if isinstance(event, Parked) and ("evict", key, "") in self.told:
            return  # whoever ends its last use holds it still: parked in vain, and freed at once
        if isinstance(event, Parked):
            self.told.append(("park", key, f"parked in {event.tier}: {', '.join(event.values)}"))
        elif isinstance(event, Restored):
            self.told.append(("restore", key, f"parked in {event.tier}: {', '.join(event.values)}"))
        elif isinstance(event, Released):
            self.told.append(("release", key, event.value))
        elif isinstance(event, Refused):
            self.told.append(("refuse", key, ""))
        elif isinstance(event, Departed) and event.how == "evicted":
            self.told.append(("evict", key, ""))

    def do(self, op: Op) -> None:
        """Carry one line of the script out."""
        what, key, model = op
        if what == "begin":
            self._begin(key, self.manager.lease(key, begin=MODELS[model]), MODELS[model])
        elif what == "take":
            try:
                lease = self.manager.lease(key)
                lease.begin()
            except SessionStateLostError:
                self.told.append(("lost", key, ""))
            else:
                self._leases[key] = lease
        elif what == "again":
            self.do(("end", key, ""))
            self.do(("take", key, ""))
        elif what == "end":
            lease = self._leases.pop(key)
            self._steps[key] += 1
            _write(lease.begin(), self._models[key], self._steps[key])
            lease.end()
        else:
            self.manager.drop_session(key)

    def _begin(self, key: str, lease: Lease, spec: ModelSpec) -> None:
        try:
            lease.begin()
        except SessionAdmissionError:
            return
        self._leases[key], self._models[key], self._steps[key] = lease, spec, 0

    def used(self) -> dict[str, int]:
        """Bytes by device."""
        return {device: n for device, n in self.manager.nbytes_by_device().items() if n}


def _write(session: SessionState, spec: ModelSpec, step: int) -> None:
    """What a step writes: everything at first, then what has another size or was released."""
    for one in session_at_step(spec, step):
        name, nbytes = one.value.name, one.nbytes or 0
        if one.value.object == "LatentBuffer":
            ring = session.get_or_create(name, lambda: LatentBuffer().allocate(), LatentBuffer)
            ring.append(torch.zeros(1024, dtype=torch.uint8))
        elif one.value.bucket == "attrs":
            if name not in session.attrs:
                session.attrs[name] = torch.zeros(nbytes, dtype=torch.uint8)
        elif one.value.object == "HeldValue":
            held = session.get_or_create(name, lambda: HeldValue().allocate(), HeldValue)
            now: Any = held.view()
            if now is None or now.numel() != nbytes:
                held.append(torch.zeros(nbytes, dtype=torch.uint8))
        else:
            made = session.get_or_create(name, lambda: EncodeOnce().allocate(), EncodeOnce)
            if not made.encoded:
                session.put(name, EncodeOnce().allocate())
                session.get(name).append(torch.zeros(nbytes, dtype=torch.uint8))


class Twin:
    """The same in a simulation."""

    def __init__(
        self, budgets: Mapping[str, int], tiers: Sequence[str], *, max_sessions: int
    ) -> None:
        self.told: list[Told] = []
        sizes: Mapping[Any, TierSize] = {"host": TierSize(CHUNK), "disk": TierSize(1, HEAD_NBYTES)}
        known = {name: sizes[name] for name in sizes if name in tiers}
        devices = (DEVICE, "cpu", "disk")
        self.kinds = {name: Kind(spec, devices, DEVICE, known) for name, spec in MODELS.items()}
        tally = Tally()
        links = Links(Bandwidths(), tally.moved)
        self.replica = Replica(
            "r0", devices, budgets, known, links, tally, max_sessions=max_sessions, hear=self._hear
        )
        self._sessions: dict[str, Session] = {}

    def _hear(self, *what: str) -> None:
        self.told.append((what[0], what[1], what[2]))

    def do(self, op: Op) -> None:
        """Carry one line of the script out."""
        what, key, model = op
        if what == "begin":
            session = Session(key, self.kinds[model], [])
            if self.replica.begin(session, 0):
                self._sessions[key] = session
            return
        session = self._sessions[key]
        if what == "take":
            if session.lost:
                self.told.append(("lost", key, ""))
            else:
                self.replica.go_on(session, 0)
        elif what == "end":
            session.held += 1
            self.replica.end(session, 0)
        elif what == "again":
            session.held += 1
            if not self.replica.step_on(session, 0):
                self.replica.end(session, 0)
                self.do(("take", key, ""))
        elif not session.lost:
            self.replica.close(session, 0)

    def used(self) -> dict[str, int]:
        """Bytes by device."""
        numbers = zip(self.replica.devices, self.replica.used, strict=True)
        return {device: nbytes for device, nbytes in numbers if nbytes}

    def in_use(self) -> set[str]:
        """Ids of the sessions that are in use."""
        return {key for key, one in self._sessions.items() if one.in_use and not one.lost}

    def idle(self) -> set[str]:
        """Ids of those that somebody may come back to, lost ones too."""
        return {key for key, one in self._sessions.items() if not one.in_use or one.lost}

    def forget(self, key: str) -> None:
        """Its client does not come back."""
        del self._sessions[key]


class Counted:
    """A manager of the contract that counts sessions; who works with one holds it."""

    def __init__(self, *, max_sessions: int) -> None:
        self.told: list[Told] = []
        self.in_use: dict[str, SessionState] = {}
        self._known: set[str] = set()
        self.manager = SessionStateManager(max_sessions=max_sessions)
        self.manager.subscribe(self._hear)

    def _hear(self, event: Event) -> None:
        if isinstance(event, Departed) and event.how == "evicted":
            self.told.append(("evict", event.session_id, ""))

    def do(self, op: Op) -> None:
        """Carry one line of the script out."""
        what, key, _ = op
        if what == "end":
            self.in_use.pop(key).attrs["note"] = torch.zeros(127, dtype=torch.uint8)
        elif what == "close":
            self.manager.drop_session(key)
            self._known.discard(key)
        else:
            session = self.manager.get_or_create_session(key)
            if key in self._known and not session.attrs:
                self.told.append(("restart", key, ""))
            self._known.add(key)
            self.in_use[key] = session

    def used(self) -> dict[str, int]:
        """Bytes by device."""
        return {device: n for device, n in self.manager.nbytes_by_device().items() if n}


class CountedTwin:
    """The same in a simulation."""

    def __init__(self, *, max_sessions: int) -> None:
        self.told: list[Told] = []
        note = _value("note", None, Size(elements="127"), device="cpu")
        devices = ("cpu",)
        self.kind = Kind(ModelSpec(model="note", values=(note,)), devices, "cpu", {})
        tally = Tally()
        links = Links(Bandwidths(), tally.moved)
        self.replica = CountingReplica(
            "r0", devices, {}, links, tally, max_sessions=max_sessions, hear=self._hear
        )
        self._sessions: dict[str, Session] = {}

    def _hear(self, *what: str) -> None:
        self.told.append((what[0], what[1], what[2]))

    def do(self, op: Op) -> None:
        """Carry one line of the script out."""
        what, key, _ = op
        session = self._sessions.get(key)
        if what == "end" and session is not None:
            session.held += 1
            self.replica.end(session, 0)
        elif what == "close":
            if session is not None:
                self.replica.close(self._sessions.pop(key), 0)
        elif session is None:
            self._sessions[key] = Session(key, self.kind, [])
            self.replica.begin(self._sessions[key], 0)
        else:
            losses = session.losses
            self.replica.go_on(session, 0)
            if session.losses > losses:
                self.told.append(("restart", key, ""))

    def used(self) -> dict[str, int]:
        """Bytes by device."""
        numbers = zip(self.replica.devices, self.replica.used, strict=True)
        return {device: nbytes for device, nbytes in numbers if nbytes}
