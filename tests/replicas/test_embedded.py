"""The contract of a service, with no transport at all: everything in this process."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from statekit.replicas.fleet import Options
from statekit.replicas.lane import Limits
from statekit.replicas.saving import MemoryStore
from statekit.replicas.sessions import EmbeddedSessions, Sessions
from tests.replicas.contract import Bounds, Contract, Deaths, Deploy
from tests.replicas.toy import replica


@attrs.frozen
class Embedded:
    """Replicas in this process."""

    sessions: EmbeddedSessions
    make: Any

    def kill(self, name: str) -> None:
        self.sessions.kill(name)

    def add(self, name: str) -> None:
        self.sessions.add(self.make(name))


def deploy_embedded(
    *names: str,
    every: int | None = None,
    limits: Limits | None = None,
    options: Options | None = None,
    **manager: Any,
) -> Embedded:
    """Replicas of these names, which save after every so many steps."""
    store = None if every is None else MemoryStore()

    def make(name: str) -> Any:
        return replica(name, store=store, every=every or 1, limits=limits, **manager)

    sessions = Sessions.embedded(map(make, names), store=store, options=options)
    return Embedded(sessions, make)


class TestEmbedded(Contract, Deaths, Bounds):
    """The contract."""

    @pytest.fixture
    def deploy(self) -> Deploy:
        return deploy_embedded

    @pytest.fixture
    def shared(self) -> Embedded:
        return deploy_embedded("a", "b", every=1)
