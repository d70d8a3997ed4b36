"""The metrics of services and their replicas: names, kinds, labels and meanings, as records.

Owns what is exported, as `names` does for managers. What a service is: `statekit.replicas`.

    E1  Every label has few values: none is a session id, and what is outside its set is `other`.
"""

from __future__ import annotations

from statekit.watch.names import Metric

__all__ = [
    "DIRECTIONS",
    "MAX_REPLICAS",
    "REPLICA_STATES",
    "SERVICE_LABELS",
    "SERVICE_METRICS",
    "SESSION_STATES",
]

MAX_REPLICAS = 1024
"""Replicas that have a label of their own, the first by name; the others together are `other`."""

REPLICA_STATES = ("serving", "draining", "dead")
SESSION_STATES = ("beginning", "placed", "moving", "closing", "lost")
DIRECTIONS = ("in", "out")

SERVICE_LABELS = {
    "service": "the name that `collect_service` was given",
    "replica": f"its name (the first {MAX_REPLICAS:,} in the alphabet); `other` for the rest",
    "device": "as above",
    "state": "one of the few words that the metric lists",
    "direction": "`in` or `out`: seen from the replica",
}
"""Label to the values that it can have."""


def _replica(name: str, kind: str, help: str, *labels: str) -> Metric:
    assert kind in ("gauge", "counter")
    return Metric(
        f"statekit_replica_{name}",
        "counter" if kind == "counter" else "gauge",
        ("replica", *labels),
        help,
    )


SERVICE_METRICS = (
    Metric(
        "statekit_service_up",
        "gauge",
        (),
        "1 where the directory answered lately, else 0; all else is what it said last.",
    ),
    Metric("statekit_service_age_seconds", "gauge", (), "Time since the directory answered."),
    Metric(
        "statekit_service_replicas",
        "gauge",
        ("state",),
        "Replicas that are serving, draining or dead.",
    ),
    Metric(
        "statekit_service_sessions",
        "gauge",
        ("state",),
        "Sessions that are beginning, placed, moving or closing, or were lost with a replica.",
    ),
    Metric(
        "statekit_service_refusals_total", "counter", (), "New sessions that fitted on no replica."
    ),
    _replica("state", "gauge", "1 for what it is: serving, draining or dead; else 0.", "state"),
    _replica("sessions", "gauge", "Sessions that are there."),
    _replica("sessions_limit", "gauge", "Sessions that it takes at most."),
    _replica("promised_bytes", "gauge", "Bytes that its sessions hold or were promised.", "device"),
    _replica("budget_bytes", "gauge", "The budget, of devices that have one.", "device"),
    _replica("running_steps", "gauge", "Steps that run there."),
    _replica("waiting_steps", "gauge", "Steps that wait there."),
    _replica("unsaved_steps", "gauge", "Steps that would be lost if it died now."),
    _replica("unsaved_sessions", "gauge", "Sessions whose last snapshot could not be taken."),
    _replica(
        "snapshot_age_seconds", "gauge", "Age of the oldest among its sessions' last snapshots."
    ),
    _replica("steps_total", "counter", "Steps that it has done."),
    _replica("begins_total", "counter", "Sessions that began there."),
    _replica("refusals_total", "counter", "Sessions that found no room there."),
    _replica("moves_total", "counter", "Sessions that came or left by a move.", "direction"),
    _replica("restores_total", "counter", "Sessions that came there out of a snapshot."),
    _replica("losses_total", "counter", "Sessions that were lost with it."),
)
"""In the order of their reference page; every one also has the label `service`."""
