"""Relief: what one simulated manager gives up; the real planner decides.

Owns the asking and the carrying out, as `statekit.pressure.relief` does with tensors. When it is
asked is the affair of `statekit.simulation.replica`.

    R1  The planner is asked where a budget is exceeded, and only then.
    R2  It is told of the sessions that hold something on a device that is over: by the planner's
        P2 it would decide nothing about the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from statekit.pressure.plan import Decision, Facts, Plan
from statekit.pressure.planner import plan_release
from statekit.simulation.books import Books
from statekit.simulation.links import Links
from statekit.simulation.picture import parked_label
from statekit.simulation.session import Session
from statekit.simulation.shape import Away, Shape, TierSize
from statekit.simulation.tally import Hear, Tally
from statekit.spec import Tier

__all__ = ["Relief"]

_NOTHING: Mapping[int, int] = {}


class Relief(Books):
    """The part of a replica that asks and obeys; `hear` is told each thing that is done."""

    def __init__(
        self,
        name: str,
        devices: tuple[str, ...],
        budgets: Mapping[str, int],
        tiers: Mapping[Tier, TierSize],
        links: Links,
        tally: Tally,
        *,
        max_sessions: int = 1 << 30,
        hear: Hear | None = None,
    ) -> None:
        super().__init__(name, devices, budgets, links, tally, max_sessions)
        self._takes = {name: size.takes_nbytes for name, size in tiers.items()}
        self._giving: dict[str, dict[Session, None]] = {device: {} for device in devices}
        self._hear = hear
        self._room_at_us = 0

    def _plan(self, extra: Mapping[int, int] = _NOTHING) -> Plan:
        """What to give up, with so many bytes about to be used, by the device's place."""
        used = dict(zip(self.devices, self.sums, strict=False))
        for place, nbytes in extra.items():
            used[self.devices[place]] += nbytes
        over = {
            device: nbytes - limit
            for (device, nbytes), limit in zip(used.items(), self.limits, strict=True)
            if nbytes > limit
        }
        if not over:
            return Plan()
        able: dict[Session, None] = {}
        for device in over:
            able.update(self._giving[device])
        if not able:
            return Plan((), over)
        self.tally.planned += 1
        sessions = tuple([session.told() for session in able])
        return plan_release(Facts(self.budgets, used, sessions, self._takes))

    def _carry_out(self, decisions: tuple[Decision, ...]) -> int:
        """Do what was decided, in its order; how many things were done."""
        done = 0
        for (session_id, action, tier), group in groupby(
            decisions, lambda one: (one.session_id, one.action, one.tier)
        ):
            session = self.sessions[session_id]
            if action == "evict":
                self._evict(session)
                done += 1
            elif action == "park" and tier is not None:
                done += self._park(session, [one.value for one in group], tier)
            else:
                done += self._release(session, [one.value for one in group])
        return done

    def _park(self, session: Session, labels: list[str | None], tier: Tier) -> int:
        """Move what is parked under these labels, and park the units with them together."""
        kind, shape = session.kind, session.shape
        done, away = 0, []
        for one, size in zip(shape.away, shape.parked, strict=True):
            if tier == "disk" and parked_label(kind, one) in labels:
                away.append(Away(one.units, tier))
                self._parked(session, away[-1], self.links.take("to disk", size, self.now_us))
                done += 1
            else:
                away.append(one)
        units = tuple([n for n, unit in enumerate(kind.units) if unit.label in labels])
        if units:
            new = Away(units, tier)
            away.append(new)
            done += 1
        picture = kind.picture(session.held)
        self._reshape(session, picture.shape(tuple(away), shape.released))
        if units:
            nbytes = session.shape.parked[-1]
            link = "to disk" if tier == "disk" else "to host"
            self._parked(session, new, self.links.take(link, nbytes, self.now_us))
        return done

    def _parked(self, session: Session, away: Away, done_us: int) -> None:
        self._room_at_us = max(self._room_at_us, done_us)
        self.tally.parked += 1
        self._say("park", session, parked_label(session.kind, away))

    def _release(self, session: Session, labels: list[str | None]) -> int:
        shape = session.shape
        numbers = [n for n, unit in enumerate(session.kind.units) if unit.label in labels]
        for number in numbers:
            self.tally.released += 1
            self._say("release", session, session.kind.units[number].label)
        picture = session.kind.picture(session.held)
        self._reshape(session, picture.shape(shape.away, shape.released | set(numbers)))
        return len(numbers)

    def _evict(self, session: Session) -> None:
        self._stop_giving(session)
        self._take_out(session)
        session.lost = True
        self.tally.evicted += 1
        self._say("evict", session)

    def _reshape(self, session: Session, shape: Shape) -> None:
        """Another state of a session, in use or not."""
        self._stop_giving(session)
        session.shape, session.facts = shape, None
        self._turn(session, shape.busy if session.in_use else shape.idle)
        if not session.in_use:
            self._give(session)

    def _give(self, session: Session) -> None:
        session.facts = None
        for device in session.shape.idle.touches:
            self._giving[device][session] = None

    def _stop_giving(self, session: Session) -> None:
        for device in session.shape.idle.touches:
            self._giving[device].pop(session, None)

    def _say(self, what: str, session: Session, of: str = "") -> None:
        if self._hear is not None:
            self._hear(what, session.session_id, of)
