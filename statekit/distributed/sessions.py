"""GroupSessions: the sessions of a model that runs on several ranks, one table for all of them.

Owns the face: what a manager offers, called alike on every rank. The same session holds other bytes
on each; what is decided about it is decided once, from the bytes of all, and carried out by all.

    S1  Every rank makes the same calls in the same order, as it does with the model's collectives.
        Ranks that do not are told at the next meeting, all of them, where their calls part.
    S2  A forward that changes no decision meets nobody: going on with a session of which nothing is
        parked, and the end of any lease.
    S3  No decision depends on one rank's time, memory or failures: the manager has no budgets.
    S4  After every call the table is the same on all ranks, also on those that outlive another one
        (`statekit.distributed.register` says when it may not be).

Thread rule: one thread per rank, or several that come in the same order on all ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import torch.distributed as dist

from statekit.declared import Ranks
from statekit.distributed.calls import Calls
from statekit.distributed.council import Council
from statekit.distributed.exchange import Exchange
from statekit.distributed.hands import Hands
from statekit.distributed.joining import join, name_of, require_fit, store_of
from statekit.distributed.leasing import GroupLeasing
from statekit.distributed.register import Store
from statekit.distributed.schedule import Schedule
from statekit.distributed.schemas import Schemas
from statekit.distributed.table import GroupTable
from statekit.distributed.terms import Terms
from statekit.events import Event
from statekit.lease import Lease
from statekit.manager import SessionStateManager
from statekit.pressure.admission import require_one_fits
from statekit.pressure.budget import Budgets
from statekit.pressure.plan import Plan, Policy
from statekit.pressure.planner import plan_release
from statekit.session import SessionState
from statekit.spec import ModelSpec
from statekit.table import key_of, require_positive

__all__ = ["GroupSessions"]


class GroupSessions:
    """The sessions of all ranks of a process group.

    Made on all of them at once; the first meeting finds out whether they fit together.

    Args:
        manager: this rank's manager, made with `ranks=` and without budgets of its own.
        group: the process group; None is the default one. One of its own (`dist.new_group`) keeps
            what the ranks say here apart from the model's collectives; gloo needs no accelerator.
        budgets: the most bytes by device on this rank, as a manager's.
        timeout_s: how long a rank waits for the others.
        look_every: after how many forwards, at the latest, all ranks look at their bytes.
        idle_timeout_s: sessions that nobody used for so long, by the clock of rank 0, end at the
            next meeting.
        policy: decides what is given up; the same pure function on all ranks.
        specs: models that will be served; refused here if some rank cannot hold even one session.
        store: keeps the outcomes, and must be reached by all ranks; None is the group's own.

    Raises:
        ValueError, TypeError: a number is not above 0.
        RanksDifferError: the ranks do not fit together.
        RankLostError: a rank did not come.
        GroupError: the manager is not one for this rank.
        BudgetError: a budget cannot be read.
        BudgetTooSmallError: a rank's budget cannot hold one session of one of `specs`.
    """

    def __init__(
        self,
        manager: SessionStateManager,
        group: dist.ProcessGroup | None = None,
        *,
        budgets: Mapping[str, object] | None = None,
        timeout_s: float = 60.0,
        look_every: int = 64,
        idle_timeout_s: float | None = None,
        policy: Policy = plan_release,
        specs: Iterable[ModelSpec] = (),
        store: Store | None = None,
        _older: tuple[int, int] | None = None,  # rank and size in the group before
    ) -> None:
        require_positive("look_every", look_every)
        if not timeout_s > 0:
            raise ValueError(f"timeout_s must be above 0, got {timeout_s}")
        if idle_timeout_s is not None and not idle_timeout_s > 0:
            raise ValueError(f"idle_timeout_s must be above 0, got {idle_timeout_s}")
        exchange = Exchange(group, timeout_s)
        require_fit(manager, exchange)
        self.manager = manager
        self.rank, self.size = exchange.rank, exchange.size
        self._exchange, hands = exchange, Hands(manager)
        self._set_up: dict[str, Any] = {
            "budgets": budgets,
            "timeout_s": timeout_s,
            "look_every": look_every,
            "idle_timeout_s": idle_timeout_s,
            "policy": policy,
        }
        hello = {
            "settings": [manager.max_sessions, look_every, idle_timeout_s, name_of(policy)],
            "groups": dict(manager.ranks.groups),
            "budgets": dict(Budgets.parse(budgets, hands.free_bytes()).limits),
            "takes": dict(hands.takes),
            "device": manager.model_device,
            "sessions": hands.rows(),
            "older": _older,
        }
        joined = join(exchange, store_of(group) if store is None else store, hello)
        self.budgets = joined.budgets
        self.ended = joined.ended
        calls, self._table = Calls(), GroupTable()
        self._council = Council(exchange, joined.register, calls)
        self._schemas = Schemas(manager.ranks.groups, joined.devices, hands.takes)
        self._leasing = GroupLeasing(
            self.rank,
            self.size,
            Terms(joined.budgets, joined.takes, policy, manager.max_sessions, idle_timeout_s),
            self._council,
            calls,
            self._table,
            hands,
            self._schemas,
            Schedule(look_every),
        )
        self._hands = hands
        for key, why in self.ended.items():
            hands.end(key, "dropped", why)
        self._leasing.take_over(joined.kept)
        for spec in specs:
            require_one_fits(self.budgets, spec, self._schemas.declared(spec, None))

    # -- sessions --------------------------------------------------------------------------------

    def lease(
        self,
        session_id: str | None = None,
        *,
        begin: ModelSpec | None = None,
        overrides: Mapping[str, int] | None = None,
    ) -> Lease:
        """The use of a session, for a `with` block, on all ranks.

        Going on with a session meets the others only where something of it is parked, or a look at
        the budgets is due; the end of the use never does.

        Args:
            begin: the model's spec, to begin a new session; None continues one.
            overrides: numbers for the spec's symbols, constants or parameters, where this session's
                differ.

        The returned lease raises when it begins, on all ranks alike:
            SessionStateLostError: there is no session to continue; says what became of it.
            SessionExistsError: a session of this id lives already and cannot begin.
            SessionAdmissionError: the new session's declared bytes do not fit on some rank.
            ParkError: a rank cannot bring a parked value back now; it stays parked.
            PolicyError: the policy failed; the session is as it was.
            RankLostError: a rank did not answer; the group decides no more.
            RanksDifferError: the ranks were called differently; the group decides no more.
        """
        key = key_of(session_id)
        if begin is None:
            return Lease(partial(self._leasing.go_on, key), self._leasing.abandoned)
        start = partial(self._leasing.begin, key, begin, dict(overrides or {}))
        return Lease(start, self._leasing.abandoned)

    def drop_session(self, session_id: str | None = None) -> bool:
        """End the session of this id on all ranks; whether there was one.

        One that is leased ends with its last lease.

        Raises:
            GroupError: the reset of one of its objects failed on some rank; the session is gone all
                the same. Also as `lease`.
            Exception: on that rank, what it raised.
        """
        return self._leasing.drop(key_of(session_id))

    def relieve(self) -> Plan:
        """Look at the budgets of all ranks now and give up what is over them; what was decided.

        Raises: as `lease`.
        """
        with self._leasing.called("relieve"):
            return self._leasing.deciding.look("")

    def expire(self) -> tuple[str, ...]:
        """End the sessions that are idle by the clock of rank 0; also done at every look.

        Raises: as `lease`.
        """
        with self._leasing.called("expire"):
            return self._leasing.deciding.end_idle()

    def get_or_create_session(self, session_id: str | None = None) -> SessionState:
        """The session of this id, for adapters; one that was not begun under a lease is not made.

        Raises:
            SessionStateLostError: there is no such session.
        """
        key = key_of(session_id)
        if key not in self._table:
            raise self._hands.lost(key)
        return self.manager.get_or_create_session(key)

    def survivors(
        self,
        group: dist.ProcessGroup | None,
        *,
        ranks: Ranks | None = None,
        store: Store | None = None,
    ) -> GroupSessions:
        """A group of the ranks that live, which goes on with the sessions that none of them misses.

        Made on all of them at once, after the leases have ended. A session that any value's
        sharding has spread over ranks is not whole without the lost one, and ends; `ended` of the
        new group says which, and why. So do those that only some of the ranks have.

        Args:
            group: a new process group; a rank that takes the place of a lost one joins it with a
                `GroupSessions` of its own.
            ranks: what a manager's `ranks` are from now on.
            store: as for the first group.

        Raises: as the constructor.
        """
        if ranks is not None:
            self._hands.take_rank(ranks)
        self._leasing.end_all_abandoned()
        older, set_up = (self.rank, self.size), self._set_up
        return GroupSessions(self.manager, group, store=store, _older=older, **set_up)

    def close(self) -> None:
        """End this rank's sessions and what is parked; meets nobody, decides nothing."""
        self._council.close()
        self.manager.close()

    # -- figures ---------------------------------------------------------------------------------

    @property
    def collectives(self) -> int:
        """How many collectives there were, since the group was made."""
        return self._exchange.collectives

    @property
    def used(self) -> Mapping[str, int]:
        """Bytes by rank and device, as of the last meeting that heard them."""
        return self._leasing.deciding.used

    def table(self) -> list[list[object]]:
        """What all ranks have alike: id, order of use, leases, may be lost, parked, dropped."""
        return self._table.plain()

    def stats(self) -> dict[str, int]:
        """The manager's counters, with this rank's budgets and how often the ranks met."""
        found = self.manager.stats()
        here = f"rank{self.rank}/"
        for device, limit in self.budgets.items():
            if device.startswith(here):
                name = device[len(here) :]
                found[f"budget_nbytes:{name}"] = limit
                over = max(0, found.get(f"nbytes:{name}", 0) - limit)
                found[f"over_budget_nbytes:{name}"] = over
        found["collectives"] = self.collectives
        return found

    def nbytes_by_device(self) -> dict[str, int]:
        """This rank's bytes by device; those of all ranks are `used`."""
        return self.manager.nbytes_by_device()

    def subscribe(self, subscriber: Callable[[Event], object]) -> Callable[[], None]:
        """Tell `subscriber` of every event on this rank; the result takes it off again."""
        return self.manager.subscribe(subscriber)

    def __contains__(self, session_id: object) -> bool:
        """Whether the group has a session of this id."""
        return key_of(session_id) in self._table

    def __len__(self) -> int:
        """How many sessions the group has."""
        return len(self._table)

    def __bool__(self) -> bool:
        """True, so that an empty group is not thrown away."""
        return True

    def __iter__(self) -> Iterator[str]:
        """Ids of the sessions, the least recently used one first."""
        return iter([entry.key for entry in self._table])
