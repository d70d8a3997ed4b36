"""Tally: what happened, as counts and durations.

Owns the reading of events. A thread that publishes one appends it to a queue and goes on; whoever
wants the numbers counts what is in the queue first.

    Y1  Publishing takes no lock that a reader of the numbers holds.
    Y2  Numbers only rise, and every event is in them once.
    Y3  The queue is bounded: where nobody reads, those who publish count now and then.

Thread-safe.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable

import attrs

from statekit.events import (
    AboveDeclared,
    Created,
    Departed,
    Event,
    Evicted,
    Leased,
    Lost,
    NotSaved,
    OverBudget,
    Parked,
    ParkFailed,
    Rebuilt,
    Refused,
    Released,
    Restored,
    RestoreFailed,
    Saved,
)
from statekit.watch.names import METRICS, OTHER, REASONS, SECONDS

__all__ = ["Durations", "Tally"]

_TIERS = ("host", "disk")
_QUEUED = 1024


@attrs.define
class Durations:
    """A histogram: how many durations lie between two bounds, or above the last, and their sum."""

    counts: list[int] = attrs.field(factory=lambda: [0] * (len(SECONDS) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        """One more duration."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.sum_s += seconds


class Tally:
    """The counts of one manager since the tally was made.

    Args:
        device: the label of a device.
        devices: those that have a budget, which have counts from the start.
    """

    def __init__(self, device: Callable[[str], str], devices: Iterable[str] = ()) -> None:
        self._device = device
        self._queue: deque[Event] = deque()
        self._counting = threading.Lock()
        self._counts: dict[tuple[str, str], int] = {}
        self._durations: dict[tuple[str, str], Durations] = {}
        for metric in METRICS:
            values: tuple[str, ...] = ("",)
            if metric.labels:
                words = {"reason": REASONS.get(metric.name, ()), "tier": _TIERS}
                values = words.get(metric.labels[0], tuple(map(device, devices)))
            for value in values:
                if metric.kind == "counter":
                    self._counts[metric.name, value] = 0
                elif metric.kind == "histogram":
                    self._durations[metric.name, value] = Durations()

    def __call__(self, event: Event) -> None:
        """Hear of an event."""
        self._queue.append(event)
        if len(self._queue) > _QUEUED and self._counting.acquire(blocking=False):
            try:
                self._count()
            finally:
                self._counting.release()

    def counts(self) -> dict[tuple[str, str], int]:
        """Count by metric and value of its one label ("" for none)."""
        with self._counting:
            self._count()
            return self._counts.copy()

    def durations(self) -> dict[tuple[str, str], Durations]:
        """Durations by metric and value of its one label ("" for none)."""
        with self._counting:
            self._count()
            return {
                key: Durations([*one.counts], one.sum_s) for key, one in self._durations.items()
            }

    def _count(self) -> None:
        for _ in range(len(self._queue)):
            self._take(self._queue.popleft())

    def _take(self, event: Event) -> None:
        if isinstance(event, Leased):
            self._durations["statekit_lease_wait_seconds", ""].add(event.waited_s)
        elif isinstance(event, Created):
            self._add("statekit_admissions_total")
        elif isinstance(event, Parked):
            tier = _word(event.tier, _TIERS)
            self._add("statekit_parks_total", tier)
            self._add("statekit_parked_bytes_total", tier, event.nbytes)
            self._took("statekit_park_seconds", tier, event.took_s)
        elif isinstance(event, Restored):
            tier = _word(event.tier, _TIERS)
            self._add("statekit_restores_total", tier)
            self._add("statekit_restored_bytes_total", tier, event.nbytes)
            self._took("statekit_restore_seconds", tier, event.took_s)
        elif isinstance(event, Departed):
            self._reason("statekit_departures_total", event.how)
            if isinstance(event, Evicted):
                self._reason("statekit_evictions_total", event.cause)
        else:
            self._take_a_rare_one(event)

    def _take_a_rare_one(self, event: Event) -> None:
        if isinstance(event, Refused):
            self._reason("statekit_refusals_total", _lacking(event.device))
        elif isinstance(event, Lost):
            self._reason("statekit_losses_total", event.how)
        elif isinstance(event, ParkFailed):
            self._add("statekit_park_failures_total", _word(event.tier, _TIERS))
        elif isinstance(event, RestoreFailed):
            self._add("statekit_restore_failures_total", _word(event.tier, _TIERS))
        elif isinstance(event, Released):
            self._add("statekit_releases_total")
            self._add("statekit_released_bytes_total", nbytes=event.nbytes)
        elif isinstance(event, Rebuilt):
            self._add("statekit_rebuilds_total")
        elif isinstance(event, OverBudget):
            self._add("statekit_over_budget_total", self._device(event.device))
        elif isinstance(event, AboveDeclared):
            self._add("statekit_above_declared_total")
        elif isinstance(event, Saved):
            self._add("statekit_snapshots_total")
            self._add("statekit_snapshot_bytes_total", nbytes=event.nbytes)
        elif isinstance(event, NotSaved):
            self._add("statekit_snapshot_failures_total")

    def _add(self, name: str, label: str = "", nbytes: int = 1) -> None:
        self._counts[name, label] = self._counts.get((name, label), 0) + nbytes

    def _reason(self, name: str, word: str) -> None:
        self._add(name, _word(word, REASONS[name]))

    def _took(self, name: str, label: str, seconds: float) -> None:
        self._durations.setdefault((name, label), Durations()).add(seconds)


def _word(word: str, words: tuple[str, ...]) -> str:
    return word if word in words else OTHER


def _lacking(device: str) -> str:
    """What a refusal says was lacking; one that names nothing is `other`."""
    if not device:
        return OTHER
    return "sessions" if device == "sessions" else "bytes"
