"""The contract of a service, over a Ray cluster on this machine."""

from __future__ import annotations

import pytest

from tests.replicas.contract import Bounds, Contract, Deaths

pytestmark = pytest.mark.ray


class TestOnRay(Contract):
    """The life of a session; fixtures are those of the folder."""


@pytest.mark.slow
class TestDeathsOnRay(Deaths):
    """Replicas whose processes die."""


@pytest.mark.soak
class TestBoundsOnRay(Bounds):
    """What does not depend on the transport, and takes a new service for each test."""
