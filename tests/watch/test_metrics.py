"""Metrics: a real scrape against the manager's own numbers; names, labels, several managers."""

from __future__ import annotations

import gc
import re
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_open_metrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse

from statekit.errors import (
    SessionAdmissionError,
    SessionExistsError,
    SessionStateLostError,
    WatchError,
)
from statekit.manager import SessionStateManager
from statekit.spec import ModelSpec
from statekit.watch.metrics import collect
from statekit.watch.names import LABELS, METRICS, REASONS
from tests.pressure.toys import DECLARED, KEPT, LOSABLE, VALUES, write

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def samples(families: Any) -> Samples:
    """Sample name and labels (but the manager's) to value."""
    return {
        (one.name, tuple(sorted(kv for kv in one.labels.items() if kv[0] != "manager"))): one.value
        for family in families
        for one in family.samples
    }


def scrape(registry: CollectorRegistry) -> Samples:
    return samples(parse(generate_latest(registry).decode()))


def total(found: Samples, name: str, **labels: str) -> float:
    """The sum of one metric over all labels that are not given."""
    return sum(
        value
        for (metric, have), value in found.items()
        if metric == name and labels.items() <= dict(have).items()
    )


def serve(manager: SessionStateManager, *specs: ModelSpec) -> None:
    """Begin a session of each spec, with a value of every kind."""
    for number, spec in enumerate(specs):
        with manager.lease(f"{spec.model}-{number}", begin=spec) as session:
            for name in VALUES:
                write(session, name, number)
            del session  # what is evicted is freed only where nobody holds it


@contextmanager
def over_http(registry: CollectorRegistry) -> Iterator[str]:
    """The address of a server for the registry."""
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def busy_manager(tmp_path: Path) -> SessionStateManager:
    """A manager for two sessions in live memory; the others are parked, or have to go."""
    return SessionStateManager(
        max_sessions=8, budgets={"cpu": 2 * DECLARED, "disk": "1MiB"}, park_folder=tmp_path
    )


def test_scrape_when_over_http_then_it_says_what_stats_says(tmp_path: Path) -> None:
    """Both formats, read by the library's own parsers, agree with `stats()` and each other."""
    manager, registry = busy_manager(tmp_path), CollectorRegistry()
    with collect(manager, registry):
        serve(manager, KEPT, KEPT, LOSABLE, KEPT)
        with pytest.raises(SessionStateLostError):
            manager.lease("nobody").begin()
        with pytest.raises(SessionExistsError):
            manager.lease("toy-0", begin=KEPT).begin()
        manager.get_or_create_session("toy-1")
        manager.lease("toy-0").end()
        with manager.lease("toy-0"):
            stats = manager.stats()
            with over_http(registry) as address:
                text = urllib.request.urlopen(address).read().decode()
                request = urllib.request.Request(address, headers={"Accept": OPEN_METRICS})
                open_text = urllib.request.urlopen(request).read().decode()
    found = samples(parse(text))
    assert open_text.endswith("# EOF\n")
    assert samples(parse_open_metrics(open_text)) == found

    assert total(found, "statekit_sessions") == stats["sessions"] == 4
    assert total(found, "statekit_sessions", model="toy") == 3
    assert total(found, "statekit_sessions_limit") == stats["max_sessions"]
    assert total(found, "statekit_leases") == stats["leases"] == 1
    assert total(found, "statekit_hits_total") == stats["hits"]
    assert total(found, "statekit_misses_total") == stats["misses"]
    assert total(found, "statekit_evictions_total") == stats["evictions"]
    assert total(found, "statekit_session_bytes") == stats["total_nbytes"]
    for device in ("cpu", "disk"):
        held = total(found, "statekit_session_bytes", device=device)
        assert held == stats.get(f"nbytes:{device}", 0)
        assert (
            total(found, "statekit_budget_bytes", device=device)
            == (stats[f"budget_nbytes:{device}"])
        )
    parked = stats.get("parked_nbytes:disk", 0)
    assert parked
    assert total(found, "statekit_session_bytes", tier="disk") == parked
    assert total(found, "statekit_losses_total", reason="unknown") == 1


def test_counters_when_things_happen_then_each_is_counted_with_its_bytes(tmp_path: Path) -> None:
    """Parks, restores, releases, refusals, evictions, waits: as the events say."""
    manager, registry = busy_manager(tmp_path), CollectorRegistry()
    heard: list[Any] = []
    manager.subscribe(heard.append)
    with collect(manager, registry):
        serve(manager, KEPT, KEPT, KEPT)
        with manager.lease("toy-0"), manager.lease("toy-1") as second:
            write(second, "kv", 7)
            with pytest.raises(SessionAdmissionError):
                manager.lease("new", begin=KEPT).begin()
        manager.save("toy-2", tmp_path / "toy.safetensors")
        manager.drop_session("toy-2")
        found = scrape(registry)

    def told(kind: str) -> list[Any]:
        return [one for one in heard if type(one).__name__ == kind]

    assert told("Parked")
    assert told("Restored")
    for kind, stem in (("Parked", "park"), ("Restored", "restore")):
        nbytes = sum(one.nbytes for one in told(kind))
        count = len(told(kind))
        assert total(found, f"statekit_{stem}s_total", tier="disk") == count
        assert total(found, f"statekit_{kind.lower()}_bytes_total", tier="disk") == nbytes
        assert total(found, f"statekit_{stem}_seconds_count", tier="disk") == count
        seconds = total(found, f"statekit_{stem}_seconds_sum", tier="disk")
        assert seconds == pytest.approx(sum(one.took_s for one in told(kind)))
        assert seconds > 0
        assert all(one.took_s > 0 for one in told(kind))
    assert total(found, "statekit_releases_total") == len(told("Released"))
    assert total(found, "statekit_released_bytes_total") == sum(o.nbytes for o in told("Released"))
    assert total(found, "statekit_rebuilds_total") == len(told("Rebuilt"))
    assert total(found, "statekit_admissions_total") == 3
    assert total(found, "statekit_refusals_total", reason="bytes") == 1
    assert total(found, "statekit_departures_total", reason="dropped") == 1
    waits = [one.waited_s for one in told("Leased")]
    assert total(found, "statekit_lease_wait_seconds_count") == len(waits)
    assert total(found, "statekit_lease_wait_seconds_sum") == pytest.approx(sum(waits))
    assert total(found, "statekit_snapshots_total") == 1
    assert total(found, "statekit_snapshot_bytes_total") > DECLARED / 2


def test_evictions_when_by_count_and_by_bytes_then_told_apart() -> None:
    """The reason is what there was too much of."""
    manager, registry = SessionStateManager(2), CollectorRegistry()
    with collect(manager, registry):
        for name in "abcd":
            manager.get_or_create_session(name)
        found = scrape(registry)
    assert total(found, "statekit_evictions_total", reason="sessions") == 2
    assert total(found, "statekit_evictions_total", reason="bytes") == 0
    manager = SessionStateManager(budgets={"cpu": DECLARED * 3 // 2})
    with collect(manager, registry):
        serve(manager, LOSABLE, LOSABLE)
        found = scrape(registry)
    assert total(found, "statekit_evictions_total", reason="sessions") == 0
    assert total(found, "statekit_evictions_total", reason="bytes") == 1


def test_bytes_when_split_then_each_model_and_bucket_has_its_own() -> None:
    """What is carried and what objects hold is told apart, by model."""
    manager, registry = SessionStateManager(), CollectorRegistry()
    with collect(manager, registry):
        serve(manager, KEPT, LOSABLE)
        manager.get_or_create_session("plain").attrs["x"] = torch.zeros(100, dtype=torch.uint8)
        found = scrape(registry)
    name = "statekit_session_bytes"
    assert total(found, name, model="toy", bucket="attrs") == VALUES["note"]
    assert total(found, name, model="losable", bucket="attrs") == VALUES["note"]
    assert total(found, name, model="other", bucket="attrs") == 100
    assert total(found, name) == manager.stats()["total_nbytes"]


def test_several_managers_when_in_one_registry_then_told_apart_by_name() -> None:
    """One family each in the text, one sample a manager; the same name twice is refused."""
    one, two, registry = SessionStateManager(3), SessionStateManager(5), CollectorRegistry()
    with collect(one, registry, "one"), collect(two, registry, "two") as second:
        text = generate_latest(registry).decode()
        assert text.count("# TYPE statekit_sessions_limit gauge") == 1
        assert 'statekit_sessions_limit{manager="one"} 3.0' in text
        assert 'statekit_sessions_limit{manager="two"} 5.0' in text
        with pytest.raises(WatchError, match="a manager called 'two'"):
            collect(one, registry, "two")
        second.close()
        second.close()
        assert 'manager="two"' not in generate_latest(registry).decode()
        collect(one, registry, "two").close()
    assert generate_latest(registry) == b""


def test_manager_when_forgotten_then_it_is_freed_and_its_metrics_are_gone() -> None:
    """The collector keeps neither a manager nor its sessions alive."""
    registry = CollectorRegistry()
    manager = SessionStateManager()
    collection = collect(manager, registry)
    serve(manager, KEPT)
    generate_latest(registry)
    del manager
    gc.collect()
    assert not collection.alive
    assert "statekit_sessions{" not in generate_latest(registry).decode()
    again = SessionStateManager()
    with collect(again, registry):  # the name is free
        assert "statekit_sessions{" in generate_latest(registry).decode()


def test_bytes_when_parked_values_share_memory_with_live_ones_then_each_byte_once(
    tmp_path: Path,
) -> None:
    """What stays live of a parked value is live, and is the share of the object that was parked."""
    budgets = {"cpu": DECLARED * 3 // 2, "disk": "1MiB"}
    manager = SessionStateManager(budgets=budgets, park_folder=tmp_path)
    registry = CollectorRegistry()
    with collect(manager, registry):
        with manager.lease("a", begin=KEPT) as session:
            for name in VALUES:
                write(session, name, 1)
            cache: Any = session.get("cache")
            session.attrs["note"] = cache.view()[2][:100]
            del session, cache
        manager.lease("b", begin=KEPT).begin()
        found, stats = scrape(registry), manager.stats()
    name = "statekit_session_bytes"
    assert stats["parked_nbytes:disk"] == total(found, name, tier="disk") > 0
    assert stats["nbytes:cpu"] == total(found, name, tier="live") >= VALUES["cache"]
    assert total(found, name, tier="live", bucket="attrs") == 0


def test_labels_when_clients_choose_ids_and_devices_then_there_are_still_few() -> None:
    """Thousands of sessions give as many series as one; unknown devices and models are `other`."""
    manager, registry = SessionStateManager(5000), CollectorRegistry()

    class Pool:
        def nbytes_by_device(self, seen: object) -> dict[str, int]:
            return {"pool:17": 10, "cuda:3": 5}

    with collect(manager, registry):
        for number in range(2000):
            session = manager.get_or_create_session(f"client {number}")
            session.attrs["pool"] = Pool()
            session.adopt(ModelSpec(model=f"model_{number % 50}"))
        text = generate_latest(registry).decode()
    found = samples(parse(text))
    assert "client" not in text
    devices = {dict(labels).get("device") for _, labels in found} - {None}
    assert devices == {"cuda:3", "other"}
    assert total(found, "statekit_session_bytes", device="other") == 20_000
    models = {dict(labels).get("model") for _, labels in found} - {None}
    assert len(models) == 33
    assert "other" in models
    assert len(found) < 400


def test_scrape_when_values_were_just_written_then_those_in_use_are_seen() -> None:
    """A session in a long lease, and one used without leases, are looked at by the scrape."""
    manager, registry = SessionStateManager(), CollectorRegistry()
    with collect(manager, registry):
        lease = manager.lease("long", begin=KEPT)
        session = lease.begin()
        assert total(scrape(registry), "statekit_session_bytes") == 0
        write(session, "note", 1)
        assert total(scrape(registry), "statekit_session_bytes") == VALUES["note"]
        plain = manager.get_or_create_session("plain")
        plain.attrs["x"] = torch.zeros(7, dtype=torch.uint8)
        assert total(scrape(registry), "statekit_session_bytes") == VALUES["note"] + 7
        lease.end()


def test_scrape_when_a_session_is_being_looked_at_then_it_does_not_wait() -> None:
    """A look that another thread is at, or a lock of admission, holds no scrape up."""
    manager, registry = SessionStateManager(), CollectorRegistry()
    with collect(manager, registry):
        session = manager.get_or_create_session("a")
        session.attrs["x"] = torch.zeros(7, dtype=torch.uint8)
        assert total(scrape(registry), "statekit_session_bytes") == 7
        assert session.record is not None
        with session.record.walk, session.record.transition, manager._leasing._admitting:
            thread = threading.Thread(target=generate_latest, args=(registry,))
            thread.start()
            thread.join(10)
            assert not thread.is_alive()


@pytest.mark.slow
def test_scrapes_when_from_many_threads_while_sessions_work_then_each_is_whole(
    tmp_path: Path,
) -> None:
    """No scrape raises, counters never fall, and the end agrees with `stats()`."""
    manager, registry = busy_manager(tmp_path), CollectorRegistry()
    failed: list[BaseException] = []
    done = threading.Event()

    def scraping() -> None:
        before: Samples = {}
        try:
            while not done.is_set():
                found = scrape(registry)
                for key, value in found.items():
                    if key[0].endswith(("_total", "_bucket", "_count")):
                        assert value >= before.get(key, 0)
                before = found
        except BaseException as error:
            failed.append(error)

    with collect(manager, registry):
        threads = [threading.Thread(target=scraping) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for number in range(40):
                key = f"s{number % 4}"
                with manager.lease(key, begin=None if key in manager else LOSABLE) as session:
                    for name in VALUES:
                        write(session, name, number)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        assert failed == []
        found, stats = scrape(registry), manager.stats()
        assert total(found, "statekit_session_bytes") == stats["total_nbytes"]
        assert total(found, "statekit_evictions_total") == stats["evictions"]


def test_names_when_checked_against_the_conventions_then_all_hold() -> None:
    """Prefix, base units, suffixes, words: as promtool's linter and the naming guide want them."""
    words = {"milliseconds", "ms", "kilobytes", "mib", "gauge", "counter", "histogram", "count"}
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"statekit(_[a-z]+)+", metric.name)
        assert not words & set(metric.name.split("_"))
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.name.endswith("_seconds") == (metric.kind == "histogram")
        assert not metric.name.endswith(("_sum", "_bucket", "_info", "_created"))
        assert metric.help.endswith(".")
        assert set(metric.labels) <= LABELS.keys() - {"manager"}
        assert ("reason" in metric.labels) == (metric.name in REASONS)
        assert metric.kind == "gauge" or len(metric.labels) <= 1


def test_help_when_scraped_then_every_metric_has_one_and_its_type() -> None:
    """The text carries the words of the table, and OpenMetrics is valid with them."""
    registry = CollectorRegistry()
    manager = SessionStateManager()
    with collect(manager, registry):
        text = generate_latest(registry).decode()
        families = {one.name: one for one in parse_open_metrics(open_metrics(registry).decode())}
    for metric in METRICS:
        assert f"# HELP {metric.name} {metric.help}\n" in text
        assert f"# TYPE {metric.name} {metric.kind}\n" in text
        assert families[metric.family].documentation == metric.help


def test_text_when_promtool_is_there_then_it_finds_nothing() -> None:
    """Prometheus' own linter."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed; the conventions are checked by our own test")
    registry, manager = CollectorRegistry(), SessionStateManager(budgets={"cpu": "1GiB"})
    with collect(manager, registry):
        text = generate_latest(registry)
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.slow
def test_collect_when_the_client_library_is_missing_then_says_which_extra() -> None:
    """The module loads without prometheus-client; asking for metrics names the extra."""
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from statekit.watch.metrics import collect\n"
        "from statekit import SessionStateManager\n"
        "try: collect(SessionStateManager())\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "WatchError metrics: prometheus-client is not installed; pip install 'statekit[metrics]'\n"
    )


def test_collect_when_no_registry_is_given_then_the_one_that_is_served_by_default() -> None:
    """`start_http_server(port)` alone exports it; a foreign metric of the same name is refused."""
    from prometheus_client import REGISTRY, Gauge

    manager = SessionStateManager(6)
    with collect(manager):
        assert b'statekit_sessions_limit{manager="default"} 6.0' in generate_latest(REGISTRY)
    assert b"statekit" not in generate_latest(REGISTRY)
    registry = CollectorRegistry()
    Gauge("statekit_leases", "Mine.", registry=registry)
    with pytest.raises(WatchError, match="statekit_leases"):
        collect(manager, registry)
