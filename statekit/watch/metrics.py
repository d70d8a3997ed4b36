"""Prometheus metrics of managers: one collector a registry, any number of managers.

Owns the collector and the values of labels. What is counted, and how, is `tally` and `shares`;
names and meanings are `names`.

    V1  A scrape holds the manager's lock for a copy of the list of sessions, the ledger's for
        arithmetic, and no other lock across sessions. It walks only sessions that are in use or are
        used without leases, one at a time, and lets other threads through every few of them.
    V2  Scrapes of one manager come one after the other; each is whole.
    V3  The collector keeps no manager alive; one that is gone has no metrics any more.

Needs the extra `metrics` (prometheus-client); without it the module loads, and `collect` says so.
Thread-safe.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from statekit.errors import WatchError
from statekit.watch.inside import looked_at, table_of
from statekit.watch.names import METRICS, OTHER, SECONDS, Metric
from statekit.watch.shares import Shares
from statekit.watch.tally import Durations, Tally

if TYPE_CHECKING:
    from prometheus_client import Metric as Family
    from prometheus_client.registry import CollectorRegistry

    from statekit.manager import SessionStateManager

__all__ = ["Collection", "collect"]

_DEVICE = re.compile(r"(cpu|disk|meta|(cuda|xpu|mps|hpu|npu|mlu|mtia|musa|xla|tpu)(:[0-9]{1,2})?)")
_MODELS = 32
_Labels = tuple[str, ...]
_Values = Mapping[_Labels, "float | Durations"]
"""Values of one metric by its labels but `manager`."""


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
    try:
        from prometheus_client import REGISTRY
    except ImportError:
        raise WatchError(
            "metrics", "prometheus-client is not installed", "pip install 'statekit[metrics]'"
        ) from None
    return Collection(manager, REGISTRY if registry is None else registry, name)


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
        self._tally = Tally(_device, manager.budgets)
        _add(self, registry)
        self._stop: Callable[[], None] = manager.subscribe(self._tally)

    def close(self) -> None:
        """Export nothing of the manager any more; safe to repeat."""
        self._stop()
        _remove(self)

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

    def values(self) -> dict[str, _Values] | None:
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
            sessions: dict[_Labels, float] = {(one,): 0 for one in self._models.values()}
            leases = sessions.copy()
            for record, model in models:
                sessions[model] += record.listed
                leases[model] += record.leases
            held: dict[_Labels, float] = {}
            for share, nbytes in self._shares.of(records).items():
                labels = (_device(share.device), share.tier, share.model, share.bucket)
                held[labels] = held.get(labels, 0) + nbytes
        budgets: dict[_Labels, float] = {}
        for device, limit in manager.budgets.items():
            label = (_device(device),)
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

    def _told(self) -> dict[str, _Values]:
        """What events told."""
        found: dict[str, dict[_Labels, float | Durations]] = {}
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


class _Collector:
    """Everything of ours in one registry: a name may be exported by one collector alone."""

    def __init__(self) -> None:
        self.collections: dict[str, Collection] = {}

    def describe(self) -> Iterator[Family]:
        """What the registry holds the names of for us."""
        return (_family(metric) for metric in METRICS)

    def collect(self) -> Iterator[Family]:
        """All metrics of all managers now."""
        found = [
            (one.name, values)
            for one in sorted(self.collections.copy().values(), key=lambda one: one.name)
            if (values := one.values()) is not None
        ]
        for metric in METRICS:
            family = _family(metric)
            for name, values in found:
                for labels, value in sorted(
                    values.get(metric.name, {}).items(), key=lambda item: item[0]
                ):
                    _put(family, (name, *labels), value)
            yield family


_collectors: weakref.WeakKeyDictionary[CollectorRegistry, _Collector]
_collectors = weakref.WeakKeyDictionary()
_registering = threading.Lock()


def _add(collection: Collection, registry: CollectorRegistry) -> None:
    with _registering:
        collector = _collectors.get(registry)
        if collector is None:
            collector = _Collector()
            try:
                registry.register(collector)
            except ValueError as error:
                raise WatchError("metrics", str(error), "pass another registry") from None
            _collectors[registry] = collector
        other = collector.collections.get(collection.name)
        if other is not None and other.alive:
            found = f"the registry has a manager called {collection.name!r}"
            raise WatchError("metrics", found, "pass another `name`, or close the other one")
        collector.collections[collection.name] = collection


def _remove(collection: Collection) -> None:
    with _registering:
        registry = collection.registry
        collector = None if registry is None else _collectors.get(registry)
        if registry is None or collector is None:
            return
        if collector.collections.get(collection.name) is collection:
            del collector.collections[collection.name]
            if not collector.collections:
                del _collectors[registry]
                registry.unregister(collector)


def _family(metric: Metric) -> Family:
    from prometheus_client import core

    labels = ("manager", *metric.labels)
    if metric.kind == "gauge":
        return core.GaugeMetricFamily(metric.family, metric.help, labels=labels)
    if metric.kind == "counter":
        return core.CounterMetricFamily(metric.family, metric.help, labels=labels)
    return core.HistogramMetricFamily(metric.family, metric.help, labels=labels)


def _put(family: Family, labels: tuple[str, ...], value: float | Durations) -> None:
    from prometheus_client import core

    if isinstance(family, core.HistogramMetricFamily):
        assert isinstance(value, Durations)
        bounds = [*(str(float(bound)) for bound in SECONDS), "+Inf"]
        total, buckets = 0, []
        for bound, count in zip(bounds, value.counts, strict=True):
            total += count
            buckets.append((bound, total))
        family.add_metric(labels, buckets, value.sum_s)
    else:
        assert isinstance(family, core.GaugeMetricFamily | core.CounterMetricFamily)
        assert not isinstance(value, Durations)
        family.add_metric(labels, value)


def _device(device: str) -> str:
    """The label of a device: itself, where it is one."""
    return device if _DEVICE.fullmatch(device) else OTHER
