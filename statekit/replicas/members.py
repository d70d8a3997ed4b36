"""Members: the replicas of a service, and what is known of each.

Owns the facts that placement goes by, and how they are kept: each answer of a replica brings new
ones, and what begins there meanwhile is added. Not here: which session is where
(`statekit.replicas.directory`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from typing import get_args

import attrs

from statekit.errors import ServiceError
from statekit.replicas.directory import Directory
from statekit.replicas.links import Link
from statekit.replicas.placement import Placement, ReplicaFacts, free_share
from statekit.replicas.reports import CountName, MemberState, ReplicaStatus, Report
from statekit.replicas.saving import Store

__all__ = ["Member", "Members"]

Sizes = Mapping[str, int]


@attrs.define(eq=False)
class Member:
    """One replica; `seen_at` is when it reported last, in seconds of a monotonic clock."""

    link: Link
    report: Report
    facts: ReplicaFacts
    seen_at: float = 0.0
    state: MemberState = "serving"
    declared: dict[tuple[object, ...], Sizes] = attrs.field(factory=dict)

    @property
    def name(self) -> str:
        """Its name."""
        return self.link.name

    def declares(self, model: str, overrides: Sizes) -> Sizes:
        """Bytes by device of a session there. Raises: ServiceError, ReplicaDiedError."""
        key = (model, *sorted(overrides.items()))
        found = self.declared.get(key)
        if found is None:
            if len(self.declared) > 1024:
                self.declared.clear()
            found = self.declared[key] = self.link.call("declared", model, dict(overrides))
        return found


class Members:
    """The replicas of a service, by name."""

    def __init__(self, directory: Directory, placement: Placement, store: Store | None) -> None:
        self._directory, self._placement, self._store = directory, placement, store
        self._lock = threading.Lock()
        self._members: dict[str, Member] = {}
        self._counts: dict[str, dict[str, int]] = {}

    def add(self, link: Link) -> Member:
        """A replica serves from now on.

        Raises:
            ServiceError: one of that name does already.
            ReplicaDiedError: it does not answer.
        """
        report = link.call("report")
        with self._lock:
            if link.name in self._members:
                found = "there is one of that name, or was"
                todo = "give it another name, or remove the old one first"
                raise ServiceError(f"replica {link.name!r}", found, todo)
            member = self._members[link.name] = Member(link, report, report.facts)
            self._counts.setdefault(link.name, dict.fromkeys(get_args(CountName), 0))
            return member

    def note(self, name: str, what: CountName) -> None:
        """One more session of which that became at a replica."""
        with self._lock:
            counts = self._counts.get(name)
            if counts is not None:
                counts[what] += 1

    def remove(self, name: str) -> None:
        """Forget a replica."""
        with self._lock:
            self._members.pop(name, None)
            self._counts.pop(name, None)

    def mark_dead(self, member: Member) -> bool:
        """A replica is gone; whether that is news."""
        with self._lock:
            news = member.state != "dead"
            member.state = "dead"
            return news

    def __getitem__(self, name: str) -> Member:
        """The replica of that name. Raises: ServiceError."""
        with self._lock:
            member = self._members.get(name)
            known = ", ".join(sorted(self._members)) or "none"
        if member is None:
            found = f"there is none of that name, but {known}"
            raise ServiceError(f"replica {name!r}", found, "name one of them, or add it")
        return member

    def every(self) -> list[Member]:
        """All of them, dead ones too, by name."""
        with self._lock:
            return [self._members[name] for name in sorted(self._members)]

    def able(self, model: str) -> list[Member]:
        """Those that take new sessions of a model."""
        every = self.every()
        return [one for one in every if one.state == "serving" and model in one.report.models]

    def model(self, model: str | None) -> str:
        """The model that is meant; without a name, the only one. Raises: ServiceError."""
        known = sorted({one for member in self.every() for one in member.report.models})
        if model is None and len(known) == 1:
            return known[0]
        if model is None or model not in known:
            found = f"{'no model is' if model is None else f'{model} is not'} among those served"
            raise ServiceError("model", found, f"name one of {', '.join(known) or 'none'}")
        return model

    def facts(self, member: Member) -> ReplicaFacts:
        """What is known of it, with what begins there now."""
        coming = self._directory.coming_to(member.name)
        facts = member.facts
        if not coming and member.state == "serving":
            return facts
        promised = dict(facts.promised)
        for declared in coming:
            for device, nbytes in declared.items():
                promised[device] = promised.get(device, 0) + nbytes
        return attrs.evolve(
            facts,
            promised=promised,
            sessions=facts.sessions + len(coming),
            draining=member.state != "serving",
        )

    def choose(
        self, model: str, overrides: Sizes, without: Collection[str] = ()
    ) -> tuple[Member, Sizes] | None:
        """Where the policy lets a session begin; None where it refuses it.

        Raises:
            ServiceError: the policy named no replica that it was shown.
        """
        best: list[tuple[float, str, Member, Sizes]] = []
        for declared, group in self._groups(model, overrides, without):
            facts = [self.facts(one) for one in group]
            name = self._placement(declared, facts)
            if name is None:
                continue
            for member, fact in zip(group, facts, strict=True):
                if member.name == name:
                    best.append((-free_share(declared, fact), name, member, declared))
                    break
            else:
                found = f"it chose {name!r}, which it was not shown"
                raise ServiceError("placement", found, "return the name of one of the replicas")
        if not best:
            return None
        _, _, member, declared = min(best, key=lambda one: one[:2])
        return member, declared

    def ask_anyway(
        self, model: str, overrides: Sizes, without: Collection[str], count: int
    ) -> list[tuple[Member, Sizes]]:
        """Those that may find room all the same, by parking or releasing; most free ones first."""
        found = []
        for declared, group in self._groups(model, overrides, without):
            for member in group:
                facts = self.facts(member)
                if facts.sessions < facts.max_sessions:
                    found.append((-free_share(declared, facts), member.name, member, declared))
        found.sort(key=lambda one: one[:2])
        return [(member, declared) for _, _, member, declared in found[:count]]

    def _groups(
        self, model: str, overrides: Sizes, without: Collection[str]
    ) -> list[tuple[Sizes, list[Member]]]:
        """Replicas by what a session declares there: devices may have other names on each."""
        groups: dict[tuple[object, ...], tuple[Sizes, list[Member]]] = {}
        for member in self.able(model):
            if member.name not in without:
                declared = member.declares(model, overrides)
                key = tuple(sorted(declared.items()))
                groups.setdefault(key, (declared, []))[1].append(member)
        return list(groups.values())

    def refresh(self, member: Member) -> Report:
        """Ask a replica what it holds: take note of who has left, and end what is over.

        Raises:
            ReplicaDiedError: it does not answer.
        """
        before = {one.session_id: one for one in self._directory.on(member.name)}
        report: Report = member.link.call("report")
        member.report, member.facts = report, report.facts
        member.seen_at = time.monotonic()
        for session_id, (how, reason) in report.departed.items():
            known = before.get(session_id)
            if known is not None:
                self._directory.departed(session_id, member.name, known.epoch, how, reason)
                if how in ("expired", "dropped") and self._store is not None:
                    self._store.drop(session_id)  # what was evicted could be restored
        for held in report.sessions:
            if self._directory.is_over(held.session_id, held.epoch):
                member.facts = member.link.call("forget", held.session_id, held.epoch)
        return report

    def status(self, members: Iterable[Member]) -> tuple[ReplicaStatus, ...]:
        """What is known of these replicas."""
        counted = self._directory.counted()
        with self._lock:
            counts = {name: dict(one) for name, one in self._counts.items()}
        return tuple(
            ReplicaStatus(
                self.facts(one),
                one.state,
                one.report.models,
                counted.get(one.name, 0),
                one.report.waiting,
                one.report.running,
                {held.session_id: held.unsaved for held in one.report.sessions if held.unsaved},
                one.report.steps,
                one.report.host,
                one.report.pid,
                one.report.snapshot_age_s,
                sum(held.step - (held.saved_step or 0) for held in one.report.sessions),
                counts.get(one.name, {}),
            )
            for one in members
        )
