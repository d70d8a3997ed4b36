"""What clients do: the same sessions for every policy, by the laws that are stated."""

from __future__ import annotations

import attrs
import pytest

from statekit.simulation.run import between_us
from statekit.simulation.workload import Workload
from tests.simulation.services import DEVICE, HEAVY, LIGHT, deployment, workload

LONG = Workload(20_000, (3, 1), 1_000.0, seed=4)


def test_arrivals_when_asked_for_twice_then_are_the_same() -> None:
    """A workload is its seed; a longer one begins as the shorter one does."""
    first = list(LONG.arrivals())
    assert first == list(LONG.arrivals())
    assert first != list(attrs.evolve(LONG, seed=5).arrivals())
    assert [one.at_us for one in first] == sorted(one.at_us for one in first)
    longer = list(attrs.evolve(LONG, sessions=24_000).arrivals())
    assert longer[:16_384] == first[:16_384]


def test_arrivals_when_they_are_many_then_follow_their_laws() -> None:
    """Rate, proportions, lengths, how often a client pauses and for how long."""
    found = list(LONG.arrivals())
    pauses = [pause for one in found for pause in one.pauses]
    real = [pause for pause in pauses if pause]
    assert found[-1].at_us / len(found) == pytest.approx(1_000, rel=0.03)
    assert sum(one.kind == 0 for one in found) / len(found) == pytest.approx(0.75, abs=0.01)
    assert 1 + len(pauses) / len(found) == pytest.approx(LONG.steps, rel=0.03)
    assert len(real) / len(pauses) == pytest.approx(LONG.pause_chance, rel=0.03)
    assert sum(real) / len(real) == pytest.approx(LONG.pause_us, rel=0.03)


def test_load_when_it_is_one_then_the_budgets_are_asked_for_once() -> None:
    """Arrivals in a lifetime, times the bytes of a session, are all the bytes that there are."""
    service = deployment(8)
    asked = workload(100, (1, 3))
    spacing = between_us(service, (HEAVY, LIGHT), asked, 1.0)
    live = asked.lifetime_us / spacing
    mean = (1_000_000_000 + 3 * 100_000_000) / 4
    assert live * mean == pytest.approx(8 * service.budgets[DEVICE])
    assert between_us(service, (HEAVY, LIGHT), asked, 2.0) == pytest.approx(spacing / 2)
