"""The metrics: names, kinds, labels and meanings, as records.

Owns what is exported, not how it is counted: the collector, the reference page and the tests of the
dashboard all read this table. Names follow the conventions of Prometheus: base units, `_total` for
counters, unit before that.

    E1  Every label has few values: none is a session id, and what is outside its set is `other`.
"""

from __future__ import annotations

from typing import Literal

import attrs

__all__ = ["LABELS", "METRICS", "OTHER", "REASONS", "SECONDS", "Kind", "Metric"]

Kind = Literal["gauge", "counter", "histogram"]

OTHER = "other"
"""The value of a label that would be outside its set."""

LABELS = {
    "manager": "the name that `collect` was given",
    "device": "`cpu`, `disk`, or a torch device such as `cuda:0`, with a rank in front where one "
    "process knows of several (`rank1/cuda:0`); `other` for any other word",
    "tier": "`live`, or where a value is parked: `host` or `disk`",
    "model": "the schema's `model` (the first 32 that are met); `other` without a schema",
    "bucket": "`attrs` or `StateObject`",
    "reason": "one of the few words that the metric lists",
}
"""Label to the values that it can have."""

REASONS = {
    "statekit_evictions_total": ("sessions", "bytes"),
    "statekit_departures_total": ("evicted", "dropped", "expired"),
    "statekit_refusals_total": ("sessions", "bytes"),
    "statekit_losses_total": ("evicted", "dropped", "expired", "unknown"),
}
"""Metric to the words that its `reason` can be, `other` aside."""

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Upper bounds of all histograms: from a small park in memory to gigabytes from a slow disk."""


@attrs.frozen
class Metric:
    """One metric; every one also has the label `manager`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    @property
    def family(self) -> str:
        """The name without the suffix that a counter's samples have."""
        return self.name.removesuffix("_total") if self.kind == "counter" else self.name


METRICS = (
    Metric("statekit_sessions", "gauge", ("model",), "Sessions in the table."),
    Metric("statekit_sessions_limit", "gauge", (), "Sessions that the table keeps at most."),
    Metric("statekit_leases", "gauge", ("model",), "Leases under way: uses of sessions."),
    Metric(
        "statekit_session_bytes",
        "gauge",
        ("device", "tier", "model", "bucket"),
        "Committed bytes of live sessions, each byte once.",
    ),
    Metric("statekit_budget_bytes", "gauge", ("device",), "The budget, of devices that have one."),
    Metric("statekit_hits_total", "counter", (), "Look-ups that found a session."),
    Metric("statekit_misses_total", "counter", (), "Look-ups that found none, and begun sessions."),
    Metric("statekit_admissions_total", "counter", (), "Sessions that began under a lease."),
    Metric(
        "statekit_refusals_total",
        "counter",
        ("reason",),
        "New sessions that were not admitted, by what there was no room for.",
    ),
    Metric(
        "statekit_evictions_total",
        "counter",
        ("reason",),
        "Sessions that left to make room, by what there was too much of.",
    ),
    Metric("statekit_departures_total", "counter", ("reason",), "Sessions that left, by how."),
    Metric(
        "statekit_losses_total",
        "counter",
        ("reason",),
        "Requests to go on with a session that is gone, by how it left.",
    ),
    Metric("statekit_parks_total", "counter", ("tier",), "Times that values were put away."),
    Metric("statekit_parked_bytes_total", "counter", ("tier",), "Bytes that were put away."),
    Metric("statekit_park_seconds", "histogram", ("tier",), "How long putting values away took."),
    Metric(
        "statekit_park_failures_total",
        "counter",
        ("tier",),
        "Times that values could not be put away; they are where they were.",
    ),
    Metric("statekit_restores_total", "counter", ("tier",), "Times that parked values came back."),
    Metric("statekit_restored_bytes_total", "counter", ("tier",), "Parked bytes that came back."),
    Metric(
        "statekit_restore_seconds", "histogram", ("tier",), "How long bringing values back took."
    ),
    Metric(
        "statekit_restore_failures_total",
        "counter",
        ("tier",),
        "Times that parked values could not come back for a lease; they stay parked.",
    ),
    Metric("statekit_releases_total", "counter", (), "Values given up that can be rebuilt."),
    Metric("statekit_released_bytes_total", "counter", (), "Bytes of values that were given up."),
    Metric("statekit_rebuilds_total", "counter", (), "Released values that hold data again."),
    Metric(
        "statekit_lease_wait_seconds",
        "histogram",
        (),
        "How long leases waited to begin: for room, and for what was parked.",
    ),
    Metric(
        "statekit_over_budget_total",
        "counter",
        ("device",),
        "Times that a device went over its budget with nothing left to give up.",
    ),
    Metric(
        "statekit_above_declared_total",
        "counter",
        (),
        "Values found to hold more than their schema declares, once a session and value.",
    ),
    Metric("statekit_snapshots_total", "counter", (), "Snapshots of sessions that were written."),
    Metric("statekit_snapshot_bytes_total", "counter", (), "Bytes of snapshots written."),
    Metric(
        "statekit_snapshot_failures_total", "counter", (), "Snapshots that could not be written."
    ),
)
"""In the order of their reference page."""
