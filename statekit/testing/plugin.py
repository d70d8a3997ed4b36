"""The pytest plugin: fixtures for the tests of a repository that uses statekit.

Every test run of every environment that has statekit installed loads this module: it imports pytest
alone. Torch, and what a fixture gives, are imported when a test asks for one.

    statekit_manager       a new manager, closed at the end; fails the test if a lease was left open
    statekit_clock         the time of that manager, which stands still until `advance(seconds)`
    statekit_faults        fails the n-th access, commit, park, restore or file write
    statekit_fake_device   host memory that counts as an accelerator's

Settings of the manager: `@pytest.mark.statekit_manager(max_sessions=2, budgets={"cpu": "1MiB"})`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from statekit.manager import SessionStateManager
    from statekit.testing.clock import FrozenClock
    from statekit.testing.fake_device import FakeDevice
    from statekit.testing.faults import Faults

__all__ = ["statekit_clock", "statekit_fake_device", "statekit_faults", "statekit_manager"]


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "statekit_manager(**settings): arguments of SessionStateManager for statekit_manager",
    )


@pytest.fixture
def statekit_clock() -> FrozenClock:
    """A clock that stands still until `advance(seconds)`; `statekit_manager` goes by it."""
    from statekit.testing.clock import FrozenClock

    return FrozenClock()


@pytest.fixture
def statekit_manager(
    request: pytest.FixtureRequest, statekit_clock: FrozenClock
) -> Iterator[SessionStateManager]:
    """A new manager on `statekit_clock`; closed at the end, when no lease may be open."""
    from statekit.manager import SessionStateManager

    settings: dict[str, object] = {"clock": statekit_clock}
    for marker in reversed(list(request.node.iter_markers("statekit_manager"))):
        settings.update(marker.kwargs)
    manager = SessionStateManager(**settings)  # type: ignore[arg-type]
    yield manager
    leases = manager.stats()["leases"]
    manager.close()
    if leases:
        pytest.fail(f"{leases} leases were left open; end each, or use a `with` block")


@pytest.fixture
def statekit_faults() -> Faults:
    """Makes statekit fail where the test wants it to."""
    from statekit.testing.faults import Faults

    return Faults()


@pytest.fixture
def statekit_fake_device() -> Iterator[FakeDevice]:
    """Torch's host memory counts as that of the accelerator `cuda:0` while the test runs."""
    from statekit.testing.fake_device import FakeDevice

    with FakeDevice() as device:
        yield device
