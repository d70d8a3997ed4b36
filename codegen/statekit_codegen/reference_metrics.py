"""The page on metrics and log records, out of the tables that export them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import attrs

from statekit.events import Event
from statekit.watch.logs import KINDS, level_of, name_of_kind
from statekit.watch.names import LABELS, METRICS, REASONS, SECONDS, Metric
from statekit.watch.service_names import (
    REPLICA_STATES,
    SERVICE_LABELS,
    SERVICE_METRICS,
    SESSION_STATES,
)

__all__ = ["metrics_page"]

_INTRODUCTION = """\
# Metrics and log records

What `statekit.watch.metrics.collect(manager)` exports of a manager, what
`statekit.watch.service.collect_service(sessions)` exports of a service and its replicas, and what
`statekit.watch.logs.log_events` writes. How to use them, with a dashboard and alerts:
[Watch a server](guides/watch.md).

A scrape reads what the manager has booked. It looks anew at sessions that are in use, or are used
without leases, and at no other. `sum by (device) (statekit_session_bytes)` is the
`nbytes_by_device()` of the manager: a byte that several values hold is exported once, under the
first of their (model, bucket) in the order of the alphabet. Counters begin at zero when `collect`
is called, but for hits and misses, which count from the manager's beginning.
"""


_OF_SERVICES = """\
## Metrics of services

A service of several replicas ([Serve on several machines](guides/serve.md)) is asked every few
seconds what it knows of them; a scrape gets the last answer, and `statekit_service_age_seconds`
says how old that is. Counters count from when the directory came to know a replica; a replica that
is removed has no metrics any more, and of a dead one there is no room, no queue and no snapshot.

Every one of these metrics has the label `service` as well.
"""


def metrics_page(header: str) -> str:
    """Every metric with its labels, every label with its values, every event with its fields."""
    bounds = ", ".join(f"{bound:g}" for bound in SECONDS)
    lines = [
        header,
        _INTRODUCTION,
        "## Metrics",
        "",
        "Every metric has the label `manager` as well.",
        "",
        "| metric | kind | labels | meaning |",
        "|---|---|---|---|",
        *_metrics(METRICS),
        "",
        f"Buckets of the histograms, in seconds: {bounds}.",
        "",
        "## Labels",
        "",
        "No label holds a session's id: the number of series does not grow with clients.",
        "",
        "| label | values |",
        "|---|---|",
        *(f"| `{name}` | {values} |" for name, values in LABELS.items()),
        "",
        "| metric | values of `reason` |",
        "|---|---|",
        *(f"| `{name}` | {_words(words)}, `other` |" for name, words in REASONS.items()),
        "",
        _OF_SERVICES,
        "| metric | kind | labels | meaning |",
        "|---|---|---|---|",
        *_metrics(SERVICE_METRICS),
        "",
        "| label | values |",
        "|---|---|",
        *(f"| `{name}` | {values} |" for name, values in SERVICE_LABELS.items()),
        "",
        "| metric | values of `state` |",
        "|---|---|",
        f"| `statekit_service_replicas`, `statekit_replica_state` | {_words(REPLICA_STATES)} |",
        f"| `statekit_service_sessions` | {_words(SESSION_STATES)} |",
        "",
        "## Log records",
        "",
        "Each record has a message of one line, the field `event`, and the fields of the event.",
        "",
        "| event | level | fields | meaning |",
        "|---|---|---|---|",
        *_events(),
        "",
    ]
    return "\n".join(lines)


def _metrics(metrics: tuple[Metric, ...]) -> Iterator[str]:
    for one in metrics:
        yield f"| `{one.name}` | {one.kind} | {_words(one.labels)} | {one.help} |"


def _events() -> Iterator[str]:
    common = {field.name for field in attrs.fields(Event)}
    for kind in KINDS:
        fields = [field.name for field in attrs.fields(kind) if field.name not in common]
        level = logging.getLevelName(level_of(kind)).lower()
        meaning = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
        yield f"| `{name_of_kind(kind)}` | {level} | {_words(fields)} | {meaning} |"


def _words(words: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
