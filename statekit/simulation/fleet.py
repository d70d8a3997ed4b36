"""Fleet: many replicas, and which of them a session begins on or moves to.

Owns the facts that a placement is given, kept as arrays: of a thousand replicas, the ones among
which `least_loaded` would choose are found first, and the placement itself decides between those.

    L1  A session goes where there is room for it as things are; where there is none, to a replica
        that has room once it gives up what it may, if that replica then admits it.
    L2  A shortlist holds every replica that `least_loaded` could choose from all of them.
    L3  A session whose bytes do not come back where it is goes on elsewhere, at a step boundary,
        if there is room elsewhere.
    L4  Where room is in pieces, `make_room` says who moves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from statekit.replicas.placement import (
    Movable,
    Placement,
    ReplicaFacts,
    least_loaded,
    make_room,
)
from statekit.simulation.books import Books, merged
from statekit.simulation.counting import CountingReplica
from statekit.simulation.kind import Kind
from statekit.simulation.replica import Replica
from statekit.simulation.session import Session
from statekit.simulation.tally import Tally

__all__ = ["Fleet", "fewest_sessions"]

_Mask = NDArray[np.bool_]
_Floats = NDArray[np.float64]
_Whole = NDArray[np.int64]
_TRIES = 3
"""How many replicas are asked to give up something for one new session."""
_SOURCES, _MOVABLE, _MOVES = 2, 4, 2
"""Among how many replicas, and how many sessions of each, room is looked for in pieces; how many
may move for it."""
_NEAR = 1e-9
_WHEN = (False, True)


def fewest_sessions(declared: object, replicas: Sequence[ReplicaFacts], /) -> str | None:
    """Where the fewest sessions are; ties by name."""
    return min(replicas, key=lambda one: (one.sessions, one.name)).name if replicas else None


class Fleet:
    """The replicas of one service, by name."""

    def __init__(self, replicas: Sequence[Replica | CountingReplica], tally: Tally) -> None:
        self.replicas = replicas
        self.tally = tally
        self._numbers = {one.name: number for number, one in enumerate(replicas)}
        self._by_count = isinstance(replicas[0], CountingReplica)
        self._placement: Placement = fewest_sessions if self._by_count else least_loaded
        self._limits = np.array([one.limits for one in replicas], dtype=np.int64).T.copy()
        self._places = np.array([one.max_sessions for one in replicas], dtype=np.int64)
        self._counts = np.zeros(len(replicas), dtype=np.int64)
        self._free = {False: self._limits.copy(), True: self._limits.copy()}
        self._shares = {False: np.zeros((0, 0)), True: np.zeros((0, 0))}
        """What is free, by device and replica, and which part of the device that is; with True, as
        if all that may be given up had been. The last row of shares is that of places."""
        for may_give, free in self._free.items():
            places = (self._places - self._counts) / self._places
            self._shares[may_give] = np.vstack([free / self._limits, places])
        self._rows = [
            tuple([rows[when][place] for rows in (self._free, self._shares) for when in _WHEN])
            for place in range(len(self._limits))
        ]
        self._parts: dict[Kind, _Floats] = {}
        self._open: _Mask = np.ones(len(replicas), dtype=np.bool_)
        self._changed = set(range(len(replicas)))
        for number, one in enumerate(replicas):
            one.number, one.changed = number, self._changed

    def begin(self, session: Session, now_us: int) -> bool:
        """Begin a session somewhere, by L1 and L4; whether it was admitted anywhere."""
        for may_give in (False,) if self._by_count else (False, True):
            tried: set[int] = set()
            while len(tried) < _TRIES:
                number = self._ask(session.kind, may_give, tried)
                if number is None:
                    break
                if self._begin_at(number, session, now_us):
                    return True
                tried.add(number)
        number = None if self._by_count else self._in_pieces(session.kind, now_us)
        return number is not None and self._begin_at(number, session, now_us)

    def go_on(self, session: Session, now_us: int) -> int:
        """The session is in use with everything back, by L3; from when on."""
        home = session.home
        if not isinstance(home, Replica):
            assert isinstance(home, CountingReplica)
            return home.go_on(session, now_us)
        if not home.take(session, now_us) and session.shape.away:
            number = self._ask(session.kind, False, {home.number})
            if number is not None and self._move_to(number, session, now_us):
                self.tally.move_waits_us.append(session.arrives_us - now_us)
                return session.arrives_us
        return home.bring_back(session)

    def drain(self, number: int, now_us: int) -> None:
        """Move what nobody uses away from a replica, as far as there is room elsewhere.

        What is in use follows at the end of its step. The replica drained before takes sessions
        again.
        """
        for other in self.replicas:
            other.draining = False
        self._open[:] = True
        home = self.replicas[number]
        self._open[number], home.draining = False, True
        for session in [one for one in home.sessions.values() if not one.in_use]:
            self.move(session, now_us)

    def move(self, session: Session, now_us: int) -> bool:
        """Move a session that nobody uses to another replica; whether there was room."""
        home = session.home
        if isinstance(home, Replica):
            for may_give in (False, True):
                number = self._ask(session.kind, may_give, {home.number})
                if number is not None:
                    return self._move_to(number, session, now_us)
        return False

    # -- how -------------------------------------------------------------------------------------

    def _begin_at(self, number: int, session: Session, now_us: int) -> bool:
        return self.replicas[number].begin(session, now_us)

    def _move_to(self, number: int, session: Session, now_us: int) -> bool:
        """Move a session: its bytes are read where they are on disk, sent, and put down again."""
        home, target = session.home, self.replicas[number]
        assert isinstance(home, Replica)
        assert isinstance(target, Replica)
        if not target.admits(session, now_us):
            return False
        nbytes = session.shape.held_nbytes
        sent_us = home.links.take("network", nbytes, home.read(session, now_us))
        session.arrives_us = target.links.take("from host", nbytes, sent_us)
        self.tally.moves += 1
        self.tally.rebuilt += len(session.shape.released)
        home.close(session, now_us)
        target.enter(session, now_us)
        return True

    def _in_pieces(self, kind: Kind, now_us: int) -> int | None:
        """Room that is made by moving sessions, by L4; the number of the replica."""
        self._catch_up()
        smaller = [one for one in self._parts if sum(one.admitted) < sum(kind.admitted)]
        left = self._left(kind, False, ())
        movable: list[Movable] = []
        sessions: dict[str, Session] = {}
        facts: dict[int, ReplicaFacts] = {}
        for number in map(int, np.argsort(-left, kind="stable")[:_SOURCES]):
            if not self._may_suffice(number, kind, smaller):
                continue
            name = self.replicas[number].name
            targets = {one: self._ask(one, False, {number}) for one in smaller}
            for session in self._movable(self.replicas[number], targets):
                movable.append(Movable(session.session_id, name, session.kind.declared))
                sessions[session.session_id] = session
                for place in (number, targets[session.kind]):
                    if place is not None and place not in facts:
                        facts[place] = self._facts(place, False)
        if not movable:
            return None
        self.tally.placed += 1
        room = make_room(kind.declared, list(facts.values()), movable, most_moves=_MOVES)
        if room is None:
            return None
        for move in room.moves:
            self._move_to(self._numbers[move.target], sessions[move.session_id], now_us)
        return self._numbers[room.replica]

    def _may_suffice(self, number: int, kind: Kind, smaller: Sequence[Kind]) -> bool:
        """Whether so few moves as are made could make the room that is missing on a replica."""
        free = self._free[False][:, number].tolist()
        return all(
            nbytes
            <= free[place] + _MOVES * max([one.admitted[place] for one in smaller], default=0)
            for place, nbytes in enumerate(kind.admitted)
            if nbytes
        )

    def _movable(self, replica: Books, targets: Mapping[Kind, int | None]) -> Iterable[Session]:
        """Some sessions that nobody uses and that have a target; as many of a kind as may move."""
        found: list[Session] = []
        counts = {kind: 0 for kind, target in targets.items() if target is not None}
        for session in replica.sessions.values() if counts else ():
            number = counts.get(session.kind, _MOVES)
            if not session.in_use and number < _MOVES:
                counts[session.kind] = number + 1
                found.append(session)
                if len(found) == _MOVABLE:
                    break
        return found

    # -- facts -----------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Bring the arrays up to date with the replicas that have changed."""
        while self._changed:  # few at a time: one number after the other beats whole rows
            number = self._changed.pop()
            replica = self.replicas[number]
            sums, limits = replica.sums, replica.limits
            devices = len(limits)
            for place, (free, free_then, share, share_then) in enumerate(self._rows):
                left = limits[place] - sums[place] - sums[place + devices]
                then = left + sums[place + 2 * devices]
                free[number], free_then[number] = left, then
                share[number], share_then[number] = left / limits[place], then / limits[place]
            count = len(replica.sessions)
            places = (replica.max_sessions - count) / replica.max_sessions
            self._counts[number] = count
            self._shares[False][-1][number] = self._shares[True][-1][number] = places

    def _ask(self, kind: Kind, may_give: bool, without: Collection[int]) -> int | None:
        """The placement's answer, as a number, among those that are not left out."""
        self._catch_up()
        if self._by_count:
            counts = np.where(self._open, self._counts, np.iinfo(np.int64).max)
            short: _Whole = np.array([counts.argmin()])
        else:
            left = self._left(kind, may_give, without)
            best = left.max()
            if best < _NEAR:  # to the byte
                able = self._able(kind, may_give, without)
                if not able.any():
                    return None
                left = np.where(able, left, -np.inf)
                best = left.max()
            short = np.flatnonzero(left >= best - _NEAR)
        self.tally.placed += 1
        facts = [self._facts(int(number), may_give) for number in short]
        name = self._placement(kind.declared, facts)
        return None if name is None else self._numbers[name]

    def _left(self, kind: Kind, may_give: bool, without: Collection[int]) -> _Floats:
        """As `free_share` has it, of every replica; nothing of those that are left out."""
        parts = self._parts.get(kind)
        if parts is None:
            limits, places = self._limits[:, 0], self._places[0]
            shares = [nbytes / limit for nbytes, limit in zip(kind.admitted, limits, strict=True)]
            parts = self._parts[kind] = np.array([*shares, 1 / places])[:, None]
        left: _Floats = (self._shares[may_give] - parts).min(axis=0)
        left[~self._open] = -np.inf
        left[list(without)] = -np.inf
        return left

    def _able(self, kind: Kind, may_give: bool, without: Collection[int]) -> _Mask:
        """Which of them have room, as `fits` has it."""
        able: _Mask = self._open & (self._counts < self._places)
        able[list(without)] = False
        for place, nbytes in enumerate(kind.admitted):
            if nbytes:
                able &= self._free[may_give][place] >= nbytes
        return able

    def _facts(self, number: int, may_give: bool) -> ReplicaFacts:
        replica = self.replicas[number]
        held = merged(replica.used, replica.missing)
        if may_give:
            held = tuple([a - b for a, b in zip(held, replica.going, strict=True)])
        return ReplicaFacts(
            name=replica.name,
            budgets=replica.budgets,
            promised=dict(zip(replica.devices, held, strict=True)),
            sessions=len(replica.sessions),
            max_sessions=replica.max_sessions,
            draining=replica.draining,
        )
