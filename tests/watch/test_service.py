"""Services: a real scrape against what a service says, whoever is slow, gone or dead."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as open_metrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_open_metrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse

from statekit.errors import ServiceError, SessionAdmissionError, SessionRewoundError, WatchError
from statekit.manager import SessionStateManager
from statekit.watch.client import Client
from statekit.watch.following import Follower
from statekit.watch.metrics import collect
from statekit.watch.names import METRICS
from statekit.watch.service import collect_service, serve_service
from statekit.watch.service_names import (
    DIRECTIONS,
    MAX_REPLICAS,
    REPLICA_STATES,
    SERVICE_LABELS,
    SERVICE_METRICS,
    SESSION_STATES,
)
from statekit.watch.service_news import news
from statekit.watch.service_picture import ServicePicture
from statekit.watch.wire import Ask
from tests.watch.service_scenes import ONE, Says, lost, of_replica, of_service, toys

NEVER_S = 3600.0


class Samples(dict[tuple[str, tuple[tuple[str, str], ...]], float]):
    """Sample name and labels (but the service's) to value."""

    def one(self, name: str, **labels: str) -> float:
        return self[f"statekit_{name}", tuple(sorted(labels.items()))]


def scrape(registry: CollectorRegistry) -> Samples:
    return Samples(
        (
            (one.name, tuple(sorted(kv for kv in one.labels.items() if kv[0] != "service"))),
            one.value,
        )
        for family in parse(generate_latest(registry).decode())
        for one in family.samples
    )


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_scrape_when_everything_has_happened_then_it_says_so() -> None:
    """Sessions, bytes, budgets, moves, restores, losses, refusals, snapshots, of each replica."""
    registry, sessions = CollectorRegistry(), toys("a", "b", "c")
    with collect_service(sessions, registry, every_s=NEVER_S) as collection:
        for number in range(6):  # two on each
            sessions.begin(f"s{number}", number)
        for x in range(3):  # of which the snapshot has two
            sessions.step("s0", x)
        owner = sessions.where("s0").owner
        for number in range(6, 9):
            sessions.begin(f"s{number}", number)
        with pytest.raises(SessionAdmissionError):
            sessions.begin("too many", 0)
        collection.look()
        full = scrape(registry)
        for number in range(3, 9):
            sessions.close(f"s{number}")
        target = next(name for name in "abc" if name != owner)
        sessions.move("s0", target)
        sessions.kill(target)
        with pytest.raises(SessionRewoundError):
            sessions.step("s0", 1)
        assert sessions.service.settled(10)
        collection.look()
        found = scrape(registry)
    assert full.one("service_up") == 1
    assert full.one("service_sessions", state="placed") == 9
    assert full.one("service_refusals_total") == 1
    for name in "abc":
        assert full.one("replica_sessions", replica=name) == 3
        assert full.one("replica_sessions_limit", replica=name) == 8
        assert full.one("replica_promised_bytes", replica=name, device="cpu") == 3 * ONE
        assert full.one("replica_budget_bytes", replica=name, device="cpu") == 3 * ONE
        assert full.one("replica_begins_total", replica=name) == 3
        assert full.one("replica_state", replica=name, state="serving") == 1
    assert full.one("replica_steps_total", replica=owner) == 3
    assert full.one("replica_unsaved_steps", replica=owner) == 1
    assert 0 < full.one("replica_snapshot_age_seconds", replica=owner) < 60

    assert found.one("replica_moves_total", replica=owner, direction="out") == 1
    assert found.one("replica_moves_total", replica=target, direction="in") == 1
    assert found.one("replica_state", replica=target, state="dead") == 1
    assert found.one("service_replicas", state="dead") == 1
    assert ("statekit_replica_budget_bytes", (("device", "cpu"), ("replica", target))) not in found
    restored = [found.one("replica_restores_total", replica=name) for name in "abc"]
    assert sum(restored) == 2  # it, and who was there before
    assert restored["abc".index(target)] == 0


def test_scrape_when_a_session_is_lost_then_its_replica_has_it_and_it_is_listed() -> None:
    """Without snapshots a death is a loss, with its session's id in no label."""
    registry, sessions = CollectorRegistry(), toys("a", "b", every=None)
    with collect_service(sessions, registry, every_s=NEVER_S) as collection:
        sessions.begin("a secret id", 0)
        owner = sessions.where("a secret id").owner
        sessions.kill(owner)
        collection.look()
        sessions.service.settled(10)
        collection.look()
        text, found = generate_latest(registry).decode(), scrape(registry)
    assert found.one("replica_losses_total", replica=owner) == 1
    assert found.one("service_sessions", state="lost") == 1
    assert "secret" not in text
    assert not [name for name, _ in found if "snapshot_age" in name]


def test_scrape_when_a_replica_does_not_answer_then_it_does_not_wait() -> None:
    """The last answer is exported, with its age; the service counts as silent in time."""
    service, registry = Says(of_service(of_replica("a"))), CollectorRegistry()
    with collect_service(service, registry, every_s=0.05):
        wait_until(lambda: scrape(registry).one("service_up") == 1)
        service.go_on.clear()
        started = time.monotonic()
        wait_until(lambda: scrape(registry).one("service_up") == 0)
        found = scrape(registry)
        assert time.monotonic() - started < 5
        assert found.one("service_age_seconds") > 0.1
        assert found.one("replica_sessions", replica="a") == 1
        service.go_on.set()
        wait_until(lambda: scrape(registry).one("service_up") == 1)


def test_step_when_a_status_is_under_way_then_it_is_not_waited_for() -> None:
    """Asking a service how it is takes none of its locks while it waits."""
    sessions = toys("a")
    sessions.begin("s", 0)
    done = threading.Event()
    original = sessions.service._members.status

    def slow(members: Any) -> Any:
        assert done.wait(10)
        return original(members)

    sessions.service._members.status = slow  # type: ignore[method-assign]
    follower = Follower(sessions, 0.05)
    try:
        assert sessions.step("s", 1) == (1, 0.0)
        sessions.begin("t", 0)
    finally:
        done.set()
        follower.close()


def test_scrape_when_the_directory_fails_then_it_is_down_until_it_answers() -> None:
    """An error of the transport is no error of the scrape."""
    service, registry = Says(ServiceError("directory", "it is gone", "wait")), CollectorRegistry()
    with collect_service(service, registry, every_s=NEVER_S) as collection:
        found = scrape(registry)
        assert found == {("statekit_service_up", ()): 0}
        service.answer = of_service(of_replica("a"))
        collection.look()
        assert scrape(registry).one("service_up") == 1


def test_labels_when_there_are_thousands_of_replicas_then_the_rest_is_added_up() -> None:
    """A thousand have series of their own; devices are of a closed set; ranks are told apart."""
    many = [
        of_replica(
            f"r{number:05}",
            promised={"cuda:0": 10, "pool:17": 1, "rank1/cuda:0": 2},
            snapshot_age_s=float(number),
            counts={"came": 1},
        )
        for number in range(MAX_REPLICAS + 100)
    ]
    registry, service = CollectorRegistry(), Says(of_service(*many))
    with collect_service(service, registry, every_s=NEVER_S):
        found = scrape(registry)
    replicas = {dict(labels).get("replica") for _, labels in found} - {None}
    assert len(replicas) == MAX_REPLICAS + 1
    assert found.one("replica_sessions", replica="other") == 100
    assert found.one("replica_promised_bytes", replica="other", device="cuda:0") == 1000
    assert found.one("replica_promised_bytes", replica="other", device="other") == 100
    assert found.one("replica_promised_bytes", replica="r00000", device="rank1/cuda:0") == 2
    assert found.one("replica_snapshot_age_seconds", replica="other") == MAX_REPLICAS + 99
    assert found.one("replica_moves_total", replica="other", direction="in") == 100
    assert found.one("replica_state", replica="other", state="serving") == 100


def test_registry_when_it_has_managers_and_services_then_each_has_its_metrics() -> None:
    """One name each; the same twice is refused; nothing is left after the end."""
    registry, manager = CollectorRegistry(), SessionStateManager()
    one, two = Says(of_service(of_replica("a"))), Says(of_service(of_replica("b")))
    with (
        collect(manager, registry),
        collect_service(one, registry, "one", every_s=NEVER_S),
        collect_service(two, registry, "two", every_s=NEVER_S) as second,
    ):
        text = generate_latest(registry).decode()
        assert text.count("# TYPE statekit_replica_sessions gauge") == 1
        assert 'statekit_replica_sessions{replica="a",service="one"} 1.0' in text
        assert 'statekit_replica_sessions{replica="b",service="two"} 1.0' in text
        assert 'statekit_sessions_limit{manager="default"} 64.0' in text
        with pytest.raises(WatchError, match="a service called 'two'"):
            collect_service(one, registry, "two", every_s=NEVER_S)
        second.close()
        second.close()
        assert 'service="two"' not in generate_latest(registry).decode()
    assert generate_latest(registry) == b""


def test_service_when_forgotten_then_it_is_freed_and_nobody_asks_any_more() -> None:
    """Neither metrics nor a socket keep a service alive; threads and the socket's file go."""
    registry, sessions = CollectorRegistry(), toys("a")
    collection = collect_service(sessions, registry, every_s=0.02)
    del sessions
    gc.collect()
    wait_until(lambda: not collection.alive)
    assert generate_latest(registry).decode().count("statekit_service_up{") == 0
    wait_until(lambda: not any(one.name == "statekit-follow" for one in threading.enumerate()))
    with collect_service(Says(of_service()), registry, every_s=NEVER_S):  # the name is free
        gc.collect()
        assert scrape(registry).one("service_up") == 1  # of a client that nobody else holds


def test_names_when_checked_against_the_conventions_then_all_hold() -> None:
    """Prefix, base units, suffixes, labels that are documented, and no name of a manager's."""
    names = {metric.name for metric in SERVICE_METRICS}
    assert len(names) == len(SERVICE_METRICS)
    assert not names & {metric.name for metric in METRICS}
    for metric in SERVICE_METRICS:
        assert re.fullmatch(r"statekit_(service|replica)(_[a-z]+)+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.kind != "histogram"
        assert metric.help.endswith(".")
        assert set(metric.labels) <= SERVICE_LABELS.keys() - {"service"}
        assert ("replica" in metric.labels) == metric.name.startswith("statekit_replica_")


def test_help_when_scraped_then_every_metric_has_one_its_type_and_a_sample() -> None:
    """OpenMetrics is valid with them; every word of a label that is listed is exported."""
    registry = CollectorRegistry()
    status = of_service(of_replica("a", snapshot_age_s=1.0))
    with collect_service(Says(status), registry, every_s=NEVER_S):
        text = generate_latest(registry).decode()
        families = {one.name: one for one in parse_open_metrics(open_metrics(registry).decode())}
    for metric in SERVICE_METRICS:
        assert f"# HELP {metric.name} {metric.help}\n" in text
        assert f"# TYPE {metric.name} {metric.kind}\n" in text
        assert families[metric.family].samples
    for word in (*REPLICA_STATES, *SESSION_STATES):
        assert f'state="{word}"' in text
    for word in DIRECTIONS:
        assert f'direction="{word}"' in text


def test_modules_when_torch_is_missing_then_a_client_can_be_watched() -> None:
    """A process that only uses a service needs no torch to show it."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import statekit.watch.service, statekit.watch.client, statekit.replicas.reports"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_rates_when_looked_at_twice_then_steps_by_time_and_none_for_a_new_replica() -> None:
    """A replica that came again under its name begins anew, and has no rate yet."""
    service = Says(of_service(of_replica("a", steps=10), of_replica("b", steps=10)))
    follower = Follower(service, NEVER_S)
    wait_until(lambda: follower.seen().status is not None)
    assert follower.seen().rates == {}
    time.sleep(0.05)
    service.answer = of_service(of_replica("a", steps=20), of_replica("b", steps=3))
    follower.look()
    rates = follower.seen().rates
    follower.close()
    assert list(rates) == ["a"]
    assert 10 < rates["a"] <= 200


def test_socket_when_a_service_is_shown_then_its_replicas_and_what_happens(tmp_path: Path) -> None:
    """Over a real socket: replicas in order, lost sessions, news; and an end with the service."""
    folder = tmp_path / "s"
    folder.mkdir(mode=0o700)
    sessions = toys("a", "b", every=None)
    with serve_service(sessions, folder / "a.sock", "robots", every_s=0.02) as server:
        with Client(server.path) as client:
            sessions.begin("s", 0)
            owner = sessions.where("s").owner
            sessions.kill(owner)
            told: list[str] = []

            def seen() -> bool:
                picture = client.ask_any(Ask(sort="id"))
                assert isinstance(picture, ServicePicture)
                told[:] = [one.text for one in picture.happenings]
                return picture.lost_count == 1

            wait_until(seen)
            picture = client.ask_any(Ask(sort="id", top=1))
            with pytest.raises(WatchError, match="it shows a service"):
                client.ask(Ask())
        assert isinstance(picture, ServicePicture)
        assert (picture.name, picture.replica_count) == ("robots", 2)
        assert [one.name for one in picture.replicas] == ["a"]
        assert [(one.session_id, one.replica) for one in picture.lost] == [("s", owner)]
        assert any(f"replica '{owner}' is dead" in text for text in told)
        assert any(f"session 's' was lost with replica '{owner}'" in text for text in told)
        path = server.path
    assert not path.exists()


def test_news_when_answers_differ_then_each_difference_is_told_once() -> None:
    """Replicas that come, drain, die, go; moves, restores, refusals, losses, saves that failed."""
    before = of_service(of_replica("a"), of_replica("b"), of_replica("old"))
    after = of_service(
        of_replica("a", state="draining", counts={"went": 2}),
        of_replica("b", state="dead"),
        of_replica("c", counts={}, unsaved={"s\n1": "disk \x1b[2J full"}),
        lost=(lost("s1", "b"), lost("s2", "b", 4)),
        refused=1,
    )
    texts = [one.text for one in news(before, after)]
    assert texts == [
        "replica 'a' drains: no session begins there",
        "2 sessions moved away from replica 'a'",
        "replica 'b' is dead: its sessions are restored elsewhere, or lost",
        "replica 'c' serves",
        r"1 session on replica 'c' could not be saved, 's\n1': disk \x1b[2J full",
        "replica 'old' was removed",
        "session 's1' was lost with replica 'b': no snapshot of it was taken; there is no snapshot",
        "session 's2' was lost with replica 'b': no snapshot of it was taken; "
        "there is a snapshot of step 4",
        "1 session fitted on no replica",
    ]
    assert list(news(after, after)) == []
    assert [one.kind for one in news(None, after) if one.warning] == [
        "dead",
        "not_saved",
        "lost",
        "lost",
    ]


def test_news_when_thousands_are_lost_then_some_are_named_and_the_rest_counted() -> None:
    """A screen is no list of casualties."""
    after = of_service(of_replica("a"), lost=tuple(lost(f"s{n}") for n in range(1000)))
    told = [one.text for one in news(of_service(of_replica("a")), after)]
    assert len(told) == 21
    assert told[-1] == "and 980 more sessions were lost"
