"""Tally: every event once, from any number of threads, with bounded memory and no waiting."""

from __future__ import annotations

import threading

from statekit.events import AboveDeclared, Event, Leased, Parked, Refused
from statekit.watch.names import METRICS, SECONDS
from statekit.watch.tally import Tally


def parked(tier: str = "disk", took_s: float = 0.25) -> Event:
    return Parked("a", 0.0, ("cache",), tier, 10, "over", took_s)


def test_counts_when_many_threads_publish_and_others_read_then_exact_and_never_falling() -> None:
    """Nothing is lost between the queue and the numbers, and nothing is counted twice."""
    tally = Tally(str)
    done = threading.Event()
    seen: list[int] = []

    def publish() -> None:
        for _ in range(5000):
            tally(parked())

    def read() -> None:
        while not done.is_set():
            seen.append(tally.counts()["statekit_parks_total", "disk"])

    publishing = [threading.Thread(target=publish) for _ in range(4)]
    reading = threading.Thread(target=read)
    for thread in (*publishing, reading):
        thread.start()
    for thread in publishing:
        thread.join()
    done.set()
    reading.join()
    assert seen == sorted(seen)
    counts = tally.counts()
    assert counts["statekit_parks_total", "disk"] == 20_000
    assert counts["statekit_parked_bytes_total", "disk"] == 200_000
    durations = tally.durations()["statekit_park_seconds", "disk"]
    assert sum(durations.counts) == 20_000
    assert durations.sum_s == 5000


def test_queue_when_nobody_reads_then_it_stays_short() -> None:
    """A collector that is never scraped does not grow."""
    tally = Tally(str)
    for _ in range(10_000):
        tally(AboveDeclared("a", 0.0, "cache", 2, 1))
        assert len(tally._queue) <= 1025
    assert tally.counts()["statekit_above_declared_total", ""] == 10_000


def test_publisher_when_somebody_reads_the_numbers_then_it_does_not_wait() -> None:
    """An event is put into the queue, whoever is at the numbers."""
    tally = Tally(str)
    with tally._counting:
        thread = threading.Thread(target=lambda: [tally(parked()) for _ in range(3000)])
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
    assert tally.counts()["statekit_parks_total", "disk"] == 3000


def test_durations_when_on_a_bound_then_in_its_bucket() -> None:
    """`le` is "at most": a wait of exactly a bound counts below it; longer ones have the last."""
    tally = Tally(str)
    for waited_s in (0.0, SECONDS[0], SECONDS[-1], SECONDS[-1] + 1):
        tally(Leased("a", 0.0, 1, waited_s))
    counts = tally.durations()["statekit_lease_wait_seconds", ""].counts
    assert (counts[0], counts[-2], counts[-1]) == (2, 1, 1)


def test_labels_when_a_word_is_unknown_then_other() -> None:
    """A tier or reason of tomorrow makes no new series each."""
    tally = Tally(str)
    for number in range(5):
        tally(parked(tier=f"tape-{number}"))
        tally(Refused("a", 0.0, "no room"))
    counts = tally.counts()
    assert counts["statekit_parks_total", "other"] == 5
    assert counts["statekit_refusals_total", "other"] == 5


def test_counts_when_nothing_happened_then_every_known_series_is_zero() -> None:
    """An alert on an increase needs a zero to begin with."""
    tally = Tally(str, ["cpu"])
    told = {name for name, _ in (*tally.counts(), *tally.durations())}
    assert told == {one.name for one in METRICS if one.kind != "gauge"}
    assert set(tally.counts().values()) == {0}
