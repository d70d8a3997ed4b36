"""FrozenClock: time that stands still until a test moves it on."""

from __future__ import annotations

__all__ = ["FrozenClock"]


class FrozenClock:
    """A clock for `SessionStateManager(clock=...)`: called, it says the time.

    Args:
        now: seconds at which it stands.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self._now = float(now)

    def __call__(self) -> float:
        return self._now

    @property
    def now(self) -> float:
        """The time, in seconds."""
        return self._now

    def advance(self, seconds: float) -> float:
        """Move on by so many seconds; the new time.

        Raises:
            ValueError: `seconds` is below 0; clocks of managers rise.
        """
        if not seconds >= 0:
            raise ValueError(f"a clock cannot go back: got {seconds}; pass 0 or more seconds")
        self._now += seconds
        return self._now
