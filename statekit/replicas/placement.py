"""Placement: on which replica a new session begins, and which sessions move to make room for it.

Owns pure functions of recorded facts: the same facts give the same answer on any machine, so that a
simulator can run them and a test can replay them. Not here: where the facts come from
(`statekit.replicas.replica`), and what is done about the answer (`statekit.replicas.service`).

    P1  A session goes only where its declared bytes fit on every device, below the most sessions,
        and never to a replica that drains.
    P2  What `make_room` moves fits where it goes, and the new session fits where it made room.
    P3  Ties are broken by name: nothing depends on the order in which facts are listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import attrs

__all__ = [
    "Movable",
    "Move",
    "Placement",
    "ReplicaFacts",
    "Room",
    "fits",
    "free_share",
    "least_loaded",
    "make_room",
]


@attrs.frozen
class ReplicaFacts:
    """What is known of one replica.

    Attributes:
        budgets: the most bytes by device; a device without a budget has no bound.
        promised: bytes by device that its sessions hold or were promised.
    """

    name: str
    budgets: Mapping[str, int]
    promised: Mapping[str, int]
    sessions: int
    max_sessions: int
    draining: bool = False


class Placement(Protocol):
    """A policy: the name of the replica where a session that declares so many bytes begins."""

    def __call__(
        self, declared: Mapping[str, int], replicas: Sequence[ReplicaFacts], /
    ) -> str | None:
        """The name of one of `replicas`; None where the session is to be refused."""


def fits(declared: Mapping[str, int], replica: ReplicaFacts) -> bool:
    """Whether a session that declares so many bytes may begin there."""
    if replica.draining or replica.sessions >= replica.max_sessions:
        return False
    return all(
        replica.promised.get(device, 0) + nbytes <= replica.budgets[device]
        for device, nbytes in declared.items()
        if nbytes and device in replica.budgets
    )


def free_share(declared: Mapping[str, int], replica: ReplicaFacts) -> float:
    """The part that is left of the tightest device once the session is there; its places count too.

    Below 0 where it does not fit.
    """
    left = [(replica.max_sessions - replica.sessions - 1) / replica.max_sessions]
    for device, limit in replica.budgets.items():
        used = replica.promised.get(device, 0) + declared.get(device, 0)
        left.append((limit - used) / limit)
    return min(left)


def least_loaded(declared: Mapping[str, int], replicas: Sequence[ReplicaFacts], /) -> str | None:
    """Where most is left of the tightest device after the session has begun; ties by name."""
    able = [one for one in replicas if fits(declared, one)]
    if not able:
        return None
    return min(able, key=lambda one: (-free_share(declared, one), one.name)).name


@attrs.frozen
class Movable:
    """A session that nobody uses now, and what moving it frees."""

    session_id: str
    replica: str
    declared: Mapping[str, int]


@attrs.frozen
class Move:
    """One session that goes from one replica to another."""

    session_id: str
    source: str
    target: str


@attrs.frozen
class Room:
    """Where a new session fits once the moves are made, in their order."""

    replica: str
    moves: tuple[Move, ...]


def make_room(
    declared: Mapping[str, int],
    replicas: Sequence[ReplicaFacts],
    movable: Iterable[Movable],
    *,
    most_moves: int = 2,
    placement: Placement = least_loaded,
) -> Room | None:
    """The fewest moves after which a new session fits somewhere; None where that takes too many.

    For room that is there, but in pieces: each replica has too little of it. Among answers of as
    many moves, the one that moves the fewest bytes.

    Args:
        most_moves: how many sessions may move.
        placement: where each of them goes.
    """
    by_replica: dict[str, list[Movable]] = {}
    for one in sorted(movable, key=lambda one: (-sum(one.declared.values()), one.session_id)):
        by_replica.setdefault(one.replica, []).append(one)
    found: list[tuple[int, int, str, Room]] = []
    for replica in replicas:
        if not replica.draining:
            mine = by_replica.get(replica.name, [])
            others = {one.name: one for one in replicas if one.name != replica.name}
            room = _room_on(declared, replica, others, mine, most_moves, placement)
            if room is not None:
                moved = {one.session_id: sum(one.declared.values()) for one in mine}
                nbytes = sum(moved[move.session_id] for move in room.moves)
                found.append((len(room.moves), nbytes, replica.name, room))
    return min(found, key=lambda one: one[:3])[3] if found else None


def _room_on(
    declared: Mapping[str, int],
    replica: ReplicaFacts,
    others: dict[str, ReplicaFacts],
    movable: Sequence[Movable],
    most_moves: int,
    placement: Placement,
) -> Room | None:
    """Moves away from one replica, until the session fits there."""
    moves: list[Move] = []
    left = list(movable)
    while not fits(declared, replica):
        if len(moves) == most_moves:
            return None
        step = _next(declared, replica, others, left, placement)
        if step is None:
            return None
        one, target = step
        left.remove(one)
        moves.append(Move(one.session_id, replica.name, target))
        replica = _with(replica, one.declared, -1)
        others[target] = _with(others[target], one.declared, 1)
    return Room(replica.name, tuple(moves))


def _next(
    declared: Mapping[str, int],
    replica: ReplicaFacts,
    others: Mapping[str, ReplicaFacts],
    movable: Sequence[Movable],
    placement: Placement,
) -> tuple[Movable, str] | None:
    """The smallest session that makes all the room that is missing; else the largest that helps."""
    best: tuple[Movable, str] | None = None
    for one in movable:  # the largest first
        enough = fits(declared, _with(replica, one.declared, -1))
        if best is not None and not enough:
            continue
        target = placement(one.declared, list(others.values()))
        if target is not None:
            best = one, target
    return best


def _with(replica: ReplicaFacts, declared: Mapping[str, int], count: int) -> ReplicaFacts:
    """The facts with one session more or less."""
    promised = dict(replica.promised)
    for device, nbytes in declared.items():
        promised[device] = max(0, promised.get(device, 0) + count * nbytes)
    return attrs.evolve(replica, promised=promised, sessions=replica.sessions + count)
