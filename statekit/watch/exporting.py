"""Exporting: one Prometheus collector a registry and kind of subject, any number of subjects.

Owns the collectors, and how values become families. Not here: what the values are
(`metrics`, `service_metrics`), names and meanings (`names`).

    X1  A name is exported by one collector of a registry; subjects are told apart by a label.
    X2  A collector that exports nothing any more is taken off its registry.

Needs the extra `metrics` (prometheus-client); without it the module loads, and `registry_of` says
so. Thread-safe.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from statekit.errors import WatchError
from statekit.watch.names import OTHER, SECONDS, Metric
from statekit.watch.tally import Durations

if TYPE_CHECKING:
    from prometheus_client import Metric as Family
    from prometheus_client.registry import CollectorRegistry

__all__ = ["Exporter", "Labels", "Subject", "Values", "device_label", "registry_of"]

_DEVICE = re.compile(
    r"(rank[0-9]{1,4}/)?"
    r"(cpu|disk|meta|(cuda|xpu|mps|hpu|npu|mlu|mtia|musa|xla|tpu)(:[0-9]{1,2})?)"
)

Labels = tuple[str, ...]
Values = Mapping[Labels, "float | Durations"]
"""Values of one metric by its labels, but the subject's own."""


class Subject(Protocol):
    """What has metrics: a manager, a service."""

    @property
    def name(self) -> str:
        """The value of its label."""

    @property
    def registry(self) -> CollectorRegistry | None:
        """Where its metrics are; None where nobody holds that any more."""

    @property
    def alive(self) -> bool:
        """Whether there is still something to export."""

    def values(self) -> Mapping[str, Values] | None:
        """The values of all its metrics now, by name; None where it is gone."""


def registry_of(registry: CollectorRegistry | None) -> CollectorRegistry:
    """The registry that is meant: None is the one that `prometheus_client` serves by default.

    Raises:
        WatchError: prometheus-client is missing.
    """
    try:
        from prometheus_client import REGISTRY
    except ImportError:
        raise WatchError(
            "metrics", "prometheus-client is not installed", "pip install 'statekit[metrics]'"
        ) from None
    return REGISTRY if registry is None else registry


def device_label(device: str) -> str:
    """The label of a device: itself, where it is one."""
    return device if _DEVICE.fullmatch(device) else OTHER


class Exporter:
    """The collectors of one kind of subject, in whichever registries.

    Args:
        metrics: all that such a subject has.
        label: the one that tells subjects apart, in front of a metric's own.
    """

    def __init__(self, metrics: Sequence[Metric], label: str) -> None:
        self._metrics, self._label = metrics, label
        self._collectors: weakref.WeakKeyDictionary[CollectorRegistry, _Collector]
        self._collectors = weakref.WeakKeyDictionary()
        self._registering = threading.Lock()

    def add(self, subject: Subject) -> None:
        """Export a subject.

        Raises:
            WatchError: its registry has one of this name, or somebody else's metrics of our names.
        """
        registry = subject.registry
        assert registry is not None
        with self._registering:
            collector = self._collectors.get(registry)
            if collector is None:
                collector = _Collector(self._metrics, self._label)
                try:
                    registry.register(collector)
                except ValueError as error:
                    raise WatchError("metrics", str(error), "pass another registry") from None
                self._collectors[registry] = collector
            other = collector.subjects.get(subject.name)
            if other is not None and other.alive:
                found = f"the registry has a {self._label} called {subject.name!r}"
                raise WatchError("metrics", found, "pass another `name`, or close the other one")
            collector.subjects[subject.name] = subject

    def remove(self, subject: Subject) -> None:
        """Export a subject no more; safe to repeat."""
        with self._registering:
            registry = subject.registry
            collector = None if registry is None else self._collectors.get(registry)
            if registry is None or collector is None:
                return
            if collector.subjects.get(subject.name) is subject:
                del collector.subjects[subject.name]
                if not collector.subjects:
                    del self._collectors[registry]
                    registry.unregister(collector)


class _Collector:
    """Everything of one kind in one registry: a name may be exported by one collector alone."""

    def __init__(self, metrics: Sequence[Metric], label: str) -> None:
        self._metrics, self._label = metrics, label
        self.subjects: dict[str, Subject] = {}

    def describe(self) -> Iterator[Family]:
        """What the registry holds the names of for us."""
        return (_family(metric, self._label) for metric in self._metrics)

    def collect(self) -> Iterator[Family]:
        """All metrics of all subjects now."""
        found = [
            (one.name, values)
            for one in sorted(self.subjects.copy().values(), key=lambda one: one.name)
            if (values := one.values()) is not None
        ]
        for metric in self._metrics:
            family = _family(metric, self._label)
            for name, values in found:
                for labels, value in sorted(
                    values.get(metric.name, {}).items(), key=lambda item: item[0]
                ):
                    _put(family, (name, *labels), value)
            yield family


def _family(metric: Metric, label: str) -> Family:
    from prometheus_client import core

    labels = (label, *metric.labels)
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
