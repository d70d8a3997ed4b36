"""The planner: recorded facts in, ordered decisions out, each with its reason. A pure function.

Owns the order of release: rebuildable values, then parking, then whole sessions. Not here: how
bytes were recorded, and how a decision is carried out. No clock, no device, no session object is
looked at, so that every rank of a group takes the same decisions from the same facts, and a test
can replay them. Facts of a group name devices by rank, `rank1/cuda:0`: what a rank parks goes into
its own tiers, `rank1/cpu` and `rank1/disk`.

    P1  Nothing of a leased session is touched.
    P2  A decision helps a device that is over its budget at that point, or it is not taken.
    P3  A released value has all its sources resident: a source of something released is neither
        released nor parked, and its session is not evicted without the dependant.
    P4  A value is parked only into a tier that the schema allows and that has room.
    P5  A session is evicted only where the schema says that it may be lost.
    P6  A plan is complete: with its decisions carried out, the facts give a plan without any.

"At that point" means with the decisions before it carried out, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from operator import attrgetter, itemgetter

from statekit.pressure.plan import (
    DISK,
    HOST,
    Action,
    Decision,
    Facts,
    Plan,
    SessionFacts,
    ValueFacts,
)
from statekit.spec import Tier

__all__ = ["plan_release"]

_DEVICE_OF: Mapping[Tier, str] = {"host": HOST, "disk": DISK}
_RESIDENT, _GONE, _ON_HOST, _ON_DISK = range(4)
_PLACE_OF: Mapping[Tier, int] = {"host": _ON_HOST, "disk": _ON_DISK}


def plan_release(facts: Facts) -> Plan:
    """What to give up, in order, until nothing is over its budget or nothing more can be given up.

    1. Rebuildable values whose sources stay, the cheapest rebuild per byte first.
    2. Parkable values of the least recently used sessions, into the first tier that has room.
    3. Whole sessions, the least recently used first, where the schema lets them be lost. What
       earlier evictions have left room for is parked instead, and what was decided before about
       the accelerator bytes of a session that is then evicted is left out of the plan.

    Grows as n log n with the number of values; stops as soon as nothing is over.
    """
    books = _Books(facts)
    if not books.over:
        return Plan()
    _release(books)
    blocked = _retry_park(books, _park(books, zip(books.free, books.first, strict=False)))
    if books.over:
        _evict(books)
        _retry_park(books, blocked)
    if None in books.decisions:
        books = _replay(facts, books.decisions)
    return Plan(tuple(filter(None, books.decisions)), books.over)


class _Books:
    """Use, and where each value is, as decisions are taken.

    Values are numbered, session by session in the order of last use: two arrays of bytes say all
    that a plan changes, where a set for each session would cost most of the time.
    """

    def __init__(self, facts: Facts) -> None:
        self.budgets = facts.budgets
        self.parking_takes = facts.parking_takes
        self.used = dict(facts.used)
        self.by_rank = any("/" in device for device in (*facts.used, *facts.budgets))
        self.over = {
            device: self.used.get(device, 0) - limit
            for device, limit in sorted(facts.budgets.items())
            if self.used.get(device, 0) > limit
        }
        self.decisions: list[Decision | None] = []
        self.free = [session for session in facts.sessions if not session.leased]
        self.free.sort(key=attrgetter("last_used", "session_id"))
        self.first = list(accumulate([len(session.values) for session in self.free], initial=0))
        self.place = bytearray(self.first[-1])
        self.needed = bytearray(self.first[-1])
        """1 for a source of something that is released, now or by this plan."""

    def helps(self, nbytes: Mapping[str, int]) -> int:
        """How many of these bytes are on devices that are over."""
        helps = 0
        for device in self.over:
            helps += nbytes.get(device, 0)
        return helps

    def has_room(self, device: str, nbytes: int) -> bool:
        """Whether `device` takes that much more and stays within its budget."""
        limit = self.budgets.get(device)
        return limit is None or self.used.get(device, 0) + nbytes <= limit

    def take(
        self,
        action: Action,
        session: SessionFacts,
        value: str | None,
        frees: Mapping[str, int],
        tier: Tier | None = None,
        sources: tuple[str, ...] = (),
        cost_per_byte: float = 0.0,
    ) -> None:
        """Decide, and book what that frees and, where there is room for it, uses instead."""
        used, over = self.used, self.over
        helps = {}
        for device, nbytes in frees.items():
            used[device] = used.get(device, 0) - nbytes
            excess = over.get(device)
            if excess is not None and nbytes:
                helps[device] = excess
                if excess > nbytes:
                    over[device] = excess - nbytes
                else:
                    del over[device]
        if tier is not None:
            for device, nbytes in self.lands(frees, tier).items():
                used[device] = used.get(device, 0) + nbytes
        self.decisions.append(
            Decision(
                action,
                session.session_id,
                value,
                frees,
                helps,
                tier,
                sources,
                cost_per_byte,
            )
        )

    def take_back(self, decision: Decision) -> None:
        """Book a decision that was taken as not taken."""
        for device, nbytes in decision.frees.items():
            self.used[device] = used = self.used[device] + nbytes
            over = used - self.budgets.get(device, used)
            if over > 0:
                self.over[device] = over
        if decision.tier is not None:
            for device, nbytes in self.lands(decision.frees, decision.tier).items():
                self.used[device] -= nbytes

    def lands(self, nbytes: Mapping[str, int], tier: Tier) -> dict[str, int]:
        """What these bytes take in `tier`, by device."""
        takes, device = self.parking_takes.get(tier, 0), _DEVICE_OF[tier]
        if not self.by_rank:
            return {device: sum(nbytes.values()) + takes}
        total: dict[str, int] = {}
        for held, count in nbytes.items():
            if count:
                place = held[: held.rfind("/") + 1] + device
                total[place] = total.get(place, takes) + count
        return total

    def have_room(self, places: Mapping[str, int]) -> bool:
        """Whether all of these devices have room."""
        return all(self.has_room(device, nbytes) for device, nbytes in places.items())

    def held(self, number: int, value: ValueFacts) -> Mapping[str, int]:
        """The bytes of a value by device, where it is now."""
        place = self.place[number]
        if place == _RESIDENT:
            return value.nbytes
        if place == _GONE:
            return {}
        if value.parked is not None and place == _PLACE_OF[value.parked]:
            if self.by_rank:
                return value.nbytes
            return {_DEVICE_OF[value.parked]: sum(value.nbytes.values())}
        tier: Tier = "host" if place == _ON_HOST else "disk"
        return self.lands(value.nbytes, tier)


def _release(books: _Books) -> None:
    """Release what can be rebuilt, cheapest per byte first; also notes where all values are."""
    candidates: list[tuple[float, int, int, tuple[int, ...]]] = []
    place, needed = books.place, books.needed
    for rank, session in enumerate(books.free):
        first = books.first[rank]
        numbers: dict[str, int] = {}
        for number, value in enumerate(session.values, first):
            if value.parked is not None:
                place[number] = _PLACE_OF[value.parked]
                continue
            if not (value.rebuildable or value.released):
                continue
            sources: tuple[int, ...] = ()
            if value.sources:
                if not numbers:
                    numbers = {other.name: n for n, other in enumerate(session.values, first)}
                sources = tuple([numbers.get(source, -1) for source in value.sources])
            if value.released:
                place[number] = _GONE
                for source in sources:
                    if source >= 0:
                        needed[source] = 1
                continue
            helps = books.helps(value.nbytes)
            if helps and number not in sources and -1 not in sources:
                candidates.append((value.cost / helps, rank, number, sources))
    candidates.sort(key=itemgetter(0))  # stable: of the same price, the least recently used first
    for price, rank, number, sources in candidates:
        if not books.over:
            return
        if needed[number] or (sources and any(place[source] for source in sources)):
            continue
        session = books.free[rank]
        value = session.values[number - books.first[rank]]
        if not books.helps(value.nbytes):
            continue
        books.take("release", session, value.name, value.nbytes, None, value.sources, price)
        place[number] = _GONE
        for source in sources:
            needed[source] = 1


def _park(
    books: _Books, sessions: Iterable[tuple[SessionFacts, int]]
) -> list[tuple[SessionFacts, int]]:
    """Park what helps, session by session; the sessions in which something found no room."""
    blocked: list[tuple[SessionFacts, int]] = []
    place, needed = books.place, books.needed
    for session, first in sessions:
        if not books.over:
            break
        found_no_room = False
        for number, value in enumerate(session.values, first):
            if not value.tiers or needed[number] or place[number] in (_GONE, _ON_DISK):
                continue
            held = books.held(number, value)
            if not books.helps(held):
                continue
            for tier in value.tiers:
                # What is in host memory already, wholly or in part, gains nothing by going there.
                useful = tier == "disk" or not any(map(_is_host, held))
                if useful and books.have_room(books.lands(held, tier)):
                    books.take("park", session, value.name, held, tier)
                    place[number] = _PLACE_OF[tier]
                    break
            else:
                found_no_room = True
        if found_no_room:
            blocked.append((session, first))
    return blocked


def _retry_park(
    books: _Books, blocked: list[tuple[SessionFacts, int]]
) -> list[tuple[SessionFacts, int]]:
    """Park what found no room before, as long as something does: parking to disk frees the host."""
    before = -1
    while books.over and blocked and before != len(books.decisions):
        before = len(books.decisions)
        blocked = _park(books, blocked)
    return blocked


def _evict(books: _Books) -> None:
    """Evict where the schema allows it."""
    taken: dict[str, list[int]] = {}
    for index, earlier in enumerate(books.decisions):
        if earlier is not None:
            taken.setdefault(earlier.session_id, []).append(index)
    evicted = False
    for session, first in zip(books.free, books.first, strict=False):
        if not books.over:
            return
        if not session.may_be_lost:
            continue
        own = taken.get(session.session_id, [])
        if evicted:
            before = len(books.decisions)
            _park(books, [(session, first)])
            own += range(before, len(books.decisions))
        frees: dict[str, int] = {}
        for number, value in enumerate(session.values, first):
            for device, nbytes in books.held(number, value).items():
                frees[device] = frees.get(device, 0) + nbytes
        if not books.helps(frees):
            continue
        for index in own:
            _leave_out(books, index, frees)
        books.take("evict", session, None, frees)
        books.place[first : first + len(session.values)] = bytes([_GONE]) * len(session.values)
        evicted = True


def _leave_out(books: _Books, index: int, frees: dict[str, int]) -> None:
    """Take back a decision about a session that is evicted later on, which does its work too.

    One that frees host memory or disk stays: what came after it may have gone into that room.
    """
    decision = books.decisions[index]
    if decision is None or any(_is_host(one) or _is_disk(one) for one in decision.frees):
        return
    books.decisions[index] = None
    books.take_back(decision)
    for device, nbytes in decision.frees.items():
        frees[device] = frees.get(device, 0) + nbytes
    if decision.tier is not None:
        for device, nbytes in books.lands(decision.frees, decision.tier).items():
            frees[device] -= nbytes


def _replay(facts: Facts, decisions: Iterable[Decision | None]) -> _Books:
    """The books with these decisions alone, each with the figures of its place in the order."""
    books = _Books(facts)
    sessions = {session.session_id: session for session in books.free}
    for found in filter(None, decisions):
        action, session_id, value, frees, _, tier, sources, cost_per_byte = found
        books.take(action, sessions[session_id], value, frees, tier, sources, cost_per_byte)
    return books


def _is_host(device: str) -> bool:
    return device == HOST or device.endswith(f"/{HOST}")


def _is_disk(device: str) -> bool:
    return device == DISK or device.endswith(f"/{DISK}")
