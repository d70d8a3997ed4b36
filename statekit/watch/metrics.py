"""Prometheus metrics of managers: one collector a registry, any number of managers.

Owns the values of metrics and of their labels. What is counted, and how, is `tally` and `shares`;
names and meanings are `names`, the way into a registry is `exporting`.

    V1  A scrape holds the manager's lock for a copy of the list of sessions, the ledger's for
        arithmetic, and no other lock across sessions. It walks only sessions that are in use or are
        used without leases, one at a time, and lets other threads through every few of them.
    V2  Scrapes of one manager come one after the other; each is whole.
    V3  The collector keeps no manager alive; one that is gone has no metrics any more.

Needs the extra `metrics` (prometheus-client); without it the module loads, and `collect` says so.
Thread-safe.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from statekit.watch.exporting import Exporter, Labels, Values, device_label, registry_of
from statekit.watch.inside import looked_at, table_of
from statekit.watch.names import METRICS, OTHER
from statekit.watch.shares import Shares
from statekit.watch.tally import Durations, Tally

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

    from statekit.manager import SessionStateManager

__all__ = ["Collection", "collect"]

_MODELS = 32
_exporter = Exporter(METRICS, "manager")


def collect(
    manager: SessionStateManager,
    registry: CollectorRegistry | None = None,
    name: str = "default",
) -> Collection:
    """Have a registry export the metrics of `manager` from now on.

    Args:
        registry: None is the one that `prometheus_client` serves by default.
        name: the value of the label `manager`, one for each manager of a registry.

    Returns what ends it: `close()`, or the end of a `with` block.

    Raises:
        WatchError: prometheus-client is missing, the registry has a manager of this name, or
            somebody else's metrics of our names.
    """
    return Collection(manager, registry_of(registry), name)


class Collection:
    """The metrics of one manager in one registry; made by `collect`.

    Counters begin at zero here, but for hits and misses, which the manager counts itself.
    """

    def __init__(
        self, manager: SessionStateManager, registry: CollectorRegistry, name: str
    ) -> None:
        self.name = name
        self._manager = weakref.ref(manager)
        self._registry = weakref.ref(registry)  # which holds this
        self._scraping = threading.Lock()
        self._models: dict[str, str] = {}
        self._shares = Shares(self._model)
        self._tally = Tally(device_label, manager.budgets)
        _exporter.add(self)
        self._stop: Callable[[], None] = manager.subscribe(self._tally)

    def close(self) -> None:
        """Export nothing of the manager any more; safe to repeat."""
        self._stop()
        _exporter.remove(self)

    def __enter__(self) -> Collection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def registry(self) -> CollectorRegistry | None:
        """Where the metrics are; None where nobody holds that any more."""
        return self._registry()

    @property
    def alive(self) -> bool:
        """Whether the manager lives."""
        return self._manager() is not None

    def values(self) -> dict[str, Values] | None:
        """The values of all metrics now, by name and by labels; None where the manager is gone."""
        manager = self._manager()
        if manager is None:
            with self._scraping:
                self._shares = Shares(self._model)
            return None
        with self._scraping:
            table, records = table_of(manager), looked_at(manager)
            models = [(record, (self._shares.model_of(record),)) for record in records]
            # A model that was met once is zero from then on, not absent.
            sessions: dict[Labels, float] = {(one,): 0 for one in self._models.values()}
            leases = sessions.copy()
            for record, model in models:
                sessions[model] += record.listed
                leases[model] += record.leases
            held: dict[Labels, float] = {}
            for share, nbytes in self._shares.of(records).items():
                labels = (device_label(share.device), share.tier, share.model, share.bucket)
                held[labels] = held.get(labels, 0) + nbytes
        budgets: dict[Labels, float] = {}
        for device, limit in manager.budgets.items():
            label = (device_label(device),)
            budgets[label] = budgets.get(label, 0) + limit
        return {
            **self._told(),
            "statekit_sessions": sessions or {(OTHER,): 0},
            "statekit_sessions_limit": {(): table.max_sessions},
            "statekit_leases": leases or {(OTHER,): 0},
            "statekit_session_bytes": held,
            "statekit_budget_bytes": budgets,
            "statekit_hits_total": {(): table.hits},
            "statekit_misses_total": {(): table.misses},
        }

    def _told(self) -> dict[str, Values]:
        """What events told."""
        found: dict[str, dict[Labels, float | Durations]] = {}
        for (metric, label), count in self._tally.counts().items():
            found.setdefault(metric, {})[(label,) if label else ()] = count
        for (metric, label), durations in self._tally.durations().items():
            found.setdefault(metric, {})[(label,) if label else ()] = durations
        return dict(found)

    def _model(self, model: str) -> str:
        """The label of a model: itself, as long as there are few."""
        known = self._models.get(model)
        if known is None:
            room = sum(label != OTHER for label in self._models.values()) < _MODELS
            known = self._models[model] = model if room else OTHER
        return known
