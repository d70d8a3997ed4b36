"""What the tests of checking mode share: the mode itself, and how an error is looked at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from statekit import checking


@pytest.fixture
def checked() -> Iterator[None]:
    """Adapters that the test makes are checked."""
    with checking.enabled():
        yield
