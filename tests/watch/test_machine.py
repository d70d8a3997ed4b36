"""A manager under pressure, driven at random, while it is watched: what watchers say is true."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis.stateful import invariant
from prometheus_client import CollectorRegistry

from statekit.accounting import merge_bytes
from statekit.events import Event
from statekit.watch.metrics import collect
from statekit.watch.taking import take
from statekit.watch.wire import Ask
from tests.pressure.test_machine import Machine

COUNTED = {
    "Created": "statekit_admissions_total",
    "Parked": "statekit_parks_total",
    "Restored": "statekit_restores_total",
    "Released": "statekit_releases_total",
    "Rebuilt": "statekit_rebuilds_total",
    "Refused": "statekit_refusals_total",
    "Lost": "statekit_losses_total",
    "Evicted": "statekit_evictions_total",
    "ParkFailed": "statekit_park_failures_total",
    "RestoreFailed": "statekit_restore_failures_total",
    "OverBudget": "statekit_over_budget_total",
    "AboveDeclared": "statekit_above_declared_total",
}


class Watched(Machine):
    """The same machine, with a scrape and a picture after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: Counter[str] = Counter()
        self.registry = CollectorRegistry()
        self.collection = collect(self.manager, self.registry)
        self.manager.subscribe(self.count)

    def count(self, event: Event) -> None:
        self.heard[type(event).__name__] += 1

    @invariant()
    def metrics_are_true(self) -> None:
        """Shares add up to the manager's bytes on each device and tier; counts are the events'."""
        found = self.collection.values()
        assert found is not None
        picture = take(self.manager, Ask(), "toys", ())
        stats = self.manager.stats()
        by_device: dict[str, int] = {}
        by_tier: dict[str, int] = {}
        for (device, tier, *_), nbytes in found["statekit_session_bytes"].items():
            assert isinstance(nbytes, int)
            merge_bytes(by_device, {device: nbytes})
            merge_bytes(by_tier, {tier: nbytes})
        assert by_device == {
            key.partition(":")[2]: n for key, n in stats.items() if key.startswith("nbytes:") and n
        }
        assert by_tier.get("disk", 0) == stats.get("parked_nbytes:disk", 0)
        assert {one.device: one.nbytes for one in picture.devices if one.nbytes} == by_device
        assert sum(found["statekit_sessions"].values()) == stats["sessions"]  # type: ignore[arg-type]
        assert sum(found["statekit_leases"].values()) >= stats["leases"]  # type: ignore[arg-type]
        for name, metric in COUNTED.items():
            assert sum(found[metric].values()) == self.heard[name], metric  # type: ignore[arg-type]

    def teardown(self) -> None:
        self.collection.close()
        super().teardown()


TestWatched = Watched.TestCase
TestWatched.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
