"""Deciding: how a group begins a session, brings one back, and looks at its bytes.

Owns the course of each: what every rank says, and what follows from what all of them said. Not
here: how ranks meet (`statekit.distributed.council`), and how a plan is carried out
(`statekit.distributed.carrying`).

    totals   what is used and promised on every rank; enough where nothing is over a budget
    facts    what each session holds, as far as it has changed; the same plan follows on all ranks
    votes    the plan, and whether each rank could copy what is to be parked; what one could not
             stays everywhere
    back     whether each rank has a session's parked values back

    E1  What follows is a pure function of what was said, of the table, and of schemas. The leader's
        clock alone says which sessions are idle, and says it in a meeting.
    E2  All ranks give up the same values of the same sessions, and raise the same errors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from statekit.accounting import merge_bytes
from statekit.distributed.carrying import Carrying, Course
from statekit.distributed.council import Council, Heard
from statekit.distributed.hands import Hands
from statekit.distributed.merging import Memory
from statekit.distributed.schedule import Schedule
from statekit.distributed.table import GroupTable
from statekit.distributed.terms import Terms, by_rank
from statekit.errors import (
    GroupError,
    ParkError,
    PolicyError,
    RanksDifferError,
    SessionAdmissionError,
    SessionExistsError,
)
from statekit.pressure.plan import Decision, Plan
from statekit.session import SessionState

__all__ = ["Deciding"]

_ROUNDS = 8
"""How often a plan is made anew: what could not be parked is planned around."""

Body = dict[str, Any]
Bodies = Sequence[Body]
Ripe = Callable[[Bodies], Body | None]

_DONE: Body = {"done": True}


class Deciding:
    """The decisions of one group, as one of its ranks takes part in them.

    Args:
        abandoned: how many leases of each session were left without a word, on this rank.
        end_abandoned: ends so many of one session.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        terms: Terms,
        council: Council,
        table: GroupTable,
        hands: Hands,
        schedule: Schedule,
        abandoned: Callable[[], Mapping[str, int]],
        end_abandoned: Callable[[str, int], None],
    ) -> None:
        self._rank = rank
        self._terms = terms
        self._council = council
        self._table = table
        self._hands = hands
        self._schedule = schedule
        self._abandoned = abandoned
        self._end_abandoned = end_abandoned
        self._carrying = Carrying(council, table, hands)
        self._memory = Memory(rank, size)
        self._over: set[str] = set()
        self._expired: list[str] = []
        self.used: Mapping[str, int] = {}

    def admit(self, key: str, declared: Mapping[str, int], schema: str) -> None:
        """Give up what has to be for a new session, which begins then on all ranks.

        Raises:
            SessionExistsError: it lives already, on some rank at least.
            SessionAdmissionError: its declared bytes do not fit on some rank.
            RanksDifferError: the ranks were given different schemas.
            PolicyError, GroupError: as for every decision.
        """
        course, begin = Course(), {"begin": key}
        for left in range(_ROUNDS, -1, -1):

            def ripe(bodies: Bodies, last: bool = not left) -> Body | None:
                self._require_may_begin(key, schema, bodies)
                used = merge_bytes(by_rank(bodies, "used"), by_rank(bodies, "promised"))
                over = self._terms.over(merge_bytes(used, declared))
                if over and last:
                    raise self._refused(key, declared, over)
                return None if over else begin

            def weigh(plan: Plan) -> Body | None:
                mine = {d: n for d, n in plan.still_over.items() if declared.get(d)}
                if mine:
                    raise self._refused(key, declared, mine)
                return None if plan.decisions else begin

            heard = self._totals(
                lambda: {"free": not self._hands.holds(key), "schema": schema}, ripe
            )
            self._noted(heard.bodies, declared)
            if heard.outcome is not None:
                return
            extra = merge_bytes(by_rank(heard.bodies, "promised"), declared)
            planned = self._plan(heard.bodies, extra, (), course)
            if self._carrying.carry_out(planned, course, weigh):
                return

    def look(self, cause: str) -> Plan:
        """Look at the budgets of all ranks and give up what is over them; what was decided.

        Args:
            cause: the session that gave occasion to it, and is about to be used.
        """
        plan = self._relieve((cause,), dict)
        new, self._over = plan.still_over.keys() - self._over, set(plan.still_over)
        here = f"rank{self._rank}/"
        mine = {one[len(here) :]: plan.still_over[one] for one in new if one.startswith(here)}
        self._hands.say_over(cause, mine, {one: self.used[here + one] for one in mine})
        return plan

    def make_room(self, key: str) -> None:
        """Give up what others hold, as far as that is possible, for what a session takes again."""
        self._relieve((key,), lambda: self._hands.coming(key))

    def bring_back(self, key: str) -> SessionState:
        """The session, in use on all ranks and with everything back.

        Raises:
            ParkError: a rank cannot bring a value back now; the session is in use on none.
        """
        session, error = None, None
        try:
            session = self._hands.go_on(key)
        except Exception as failed:  # whatever it is, it must not be this rank's alone
            error = failed
        said = {"failed": "" if error is None else str(error) or repr(error)}
        try:
            heard = self._council.meet("back", said, _all_back)
        except BaseException:
            if session is not None:
                self._hands.end_lease(session)
            raise
        assert heard.outcome is not None
        who: Sequence[Any] | None = heard.outcome["failed"]
        if who is None and session is not None:
            return session
        if session is not None:
            self._hands.end_lease(session)
        rank, found = who or (self._rank, str(error))
        todo = "the values stay parked; try again, or drop the session"
        raise ParkError(f"rank {rank}", "restore", found, todo) from error

    def end_idle(self) -> tuple[str, ...]:
        """End the sessions that the leader finds idle; their ids."""
        if self._terms.idle_timeout_s is None:
            return ()
        self._expired = []
        self._noted(self._totals(dict, lambda bodies: _DONE).bodies, {})
        return tuple(self._expired)

    # -- meetings --------------------------------------------------------------------------------

    def _relieve(self, stay: Collection[str], coming: Callable[[], Mapping[str, int]]) -> Plan:
        """Give up what is over budget once this rank has `coming` more bytes, by device.

        Args:
            stay: sessions of which nothing is given up.
        """
        course, decisions = Course(), list[Decision]()
        for left in range(_ROUNDS, -1, -1):

            def ripe(bodies: Bodies, last: bool = not left) -> Body | None:
                return None if self._over_with_coming(bodies) and not last else _DONE

            heard = self._totals(lambda: {"coming": dict(coming())}, ripe, stay)
            extra = by_rank(heard.bodies, "coming")
            self._noted(heard.bodies, extra)
            over = self._over_with_coming(heard.bodies)
            if heard.outcome is not None:
                break
            planned = self._plan(heard.bodies, extra, stay, course)
            if self._carrying.carry_out(planned, course, _done_without):
                break
            if isinstance(planned, Plan):
                decisions += planned.decisions
        return Plan(tuple(decisions), over)

    def _totals(self, more: Callable[[], Body], ripe: Ripe, stay: Collection[str] = ()) -> Heard:
        """Hear what all ranks hold, and `more`, once what is left behind is put in order.

        Args:
            stay: sessions that are about to be used, and so idle no more.
        """

        def decide(bodies: Bodies) -> Body | None:
            strange = [(rank, one["strange"]) for rank, one in enumerate(bodies) if one["strange"]]
            if strange:
                rank, names = strange[0]
                found = f"rank {rank} and the group do not have the same sessions: {names}"
                raise GroupError("a meeting", found, "begin and end all of them by the group")
            return self._untidy(bodies, stay) or ripe(bodies)

        while True:
            used, promised = self._hands.totals()
            said = {"used": used, "promised": promised, "strange": self._strange(), **more()}
            heard = self._council.meet("totals", {**said, **self._left_behind()}, decide)
            if heard.outcome is None or "idle" not in heard.outcome:
                return heard
            self._tidy(heard.outcome)

    def _plan(
        self, bodies: Bodies, extra: Mapping[str, int], stay: Collection[str], course: Course
    ) -> Plan | PolicyError:
        """Hear what each session holds on all ranks, and plan."""
        used = merge_bytes(by_rank(bodies, "used"), extra)
        keys, terms = [one.key for one in self._table], self._terms
        heard = self._council.meet("facts", {"news": self._memory.news(self._hands.facts(keys))})
        self._memory.hear([one["news"] for one in heard.bodies], keys)
        facts = self._memory.facts(
            self._table, terms.budgets, used, terms.takes, stay=stay, hopeless=course.hopeless
        )
        try:
            return terms.plan(facts)
        except PolicyError as error:  # told where all ranks are told
            return error

    # -- what is left behind ---------------------------------------------------------------------

    def _left_behind(self) -> Body:
        idle: list[str] = []
        timeout_s = self._terms.idle_timeout_s
        if self._rank == 0 and timeout_s is not None:
            idle = self._table.idle_since(self._hands.clock() - timeout_s)
        return {"left": dict(self._abandoned()), "idle": idle}

    def _untidy(self, bodies: Bodies, stay: Collection[str]) -> Body | None:
        """Leases that were left on all ranks, and the sessions that the leader finds idle."""
        first = bodies[0]
        left = {
            key: min(one["left"].get(key, 0) for one in bodies) for key in sorted(first["left"])
        }
        left = {key: count for key, count in left.items() if count}
        idle = [key for key in first["idle"] if key in self._table and key not in stay]
        return {"left": left, "idle": idle} if left or idle else None

    def _tidy(self, outcome: Body) -> None:
        for key, count in outcome["left"].items():
            self._end_abandoned(key, count)
        for key in outcome["idle"]:
            self._table.remove(key)
            reason = f"idle for more than {self._terms.idle_timeout_s} s"
            self._hands.end(key, "expired", reason)
            self._expired.append(key)

    def _strange(self) -> str:
        here, known = set(self._hands.ids()), {one.key for one in self._table}
        return ", ".join(map(repr, sorted(here ^ known)[:4]))

    # -- figures ---------------------------------------------------------------------------------

    def _require_may_begin(self, key: str, schema: str, bodies: Bodies) -> None:
        other = [rank for rank, one in enumerate(bodies) if one["schema"] != bodies[0]["schema"]]
        if other:
            found = f"ranks 0 and {other[0]} begin {key!r} with different schemas or numbers"
            raise RanksDifferError(found, "give all ranks the same generated adapters")
        if key in self._table or not all(one["free"] for one in bodies):
            raise SessionExistsError(key)
        if len(self._table) >= self._terms.max_sessions and self._table.next_to_leave() is None:
            raise self._terms.table_is_full(key)

    def _refused(
        self, key: str, declared: Mapping[str, int], over: Mapping[str, int]
    ) -> SessionAdmissionError:
        mine = {device: nbytes for device, nbytes in over.items() if declared.get(device)} or over
        device = max(mine, key=lambda one: (mine[one], one))
        holders = self._memory.holders(device)[:4]
        return self._terms.refused(key, declared, mine, device, holders)

    def _over_with_coming(self, bodies: Bodies) -> dict[str, int]:
        return self._terms.over(merge_bytes(by_rank(bodies, "used"), by_rank(bodies, "coming")))

    def _noted(self, bodies: Bodies, extra: Mapping[str, int]) -> None:
        """Remember what was heard last, and what room is left with `extra` bytes on top of it."""
        if bodies:
            self.used = by_rank(bodies, "used")
            taken = merge_bytes(dict(self.used), by_rank(bodies, "promised"))
            self._schedule.looked(self._terms.room(merge_bytes(taken, extra)))


def _done_without(plan: Plan) -> Body | None:
    return None if plan.decisions else _DONE


def _all_back(bodies: Bodies) -> Body:
    failed = [[rank, one["failed"]] for rank, one in enumerate(bodies) if one["failed"]]
    return {"failed": failed[0] if failed else None}
