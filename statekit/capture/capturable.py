"""Capturable: what a kind of object offers so that a session that holds it can go back or fork.

A small protocol beside the StateObject contract: all kinds of statekit have it, and an object
without it makes a step or a fork an error that names it.

    C1  A memo is taken without copying what is replaced whole.
    C2  After `roll_back(memo)` the object is as it was when the memo was taken, staged data too;
        what was written since is let go of.
    C3  `twin(memo)` is another object in that state: neither sees what is written into the other.
    C4  Each memo is ended once, by `roll_back` or `settle`; of several, the newest first.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Capturable"]


@runtime_checkable
class Capturable(Protocol):
    """An object that can be gone back in, and split in two."""

    def capture(self) -> Any:
        """What the object holds now.

        Raises:
            ParkError: it is parked, and cannot be brought back now.
            UnparkableError: it is changed in place, and a part of it cannot be copied.
        """

    def roll_back(self, memo: Any) -> None:
        """Hold again what `memo` says."""

    def take_over(self, memo: Any) -> None:
        """Hold what `memo` of a twin says, which is not used any more; fixed addresses stay."""

    def settle(self, memo: Any) -> None:
        """The memo is not needed any more: what was done since is done for good."""

    def twin(self, memo: Any) -> Any:
        """Another object in the state that `memo` says.

        Raises:
            UnparkableError: a part of it cannot be copied.
        """

    def held_by(self, memo: Any) -> Any:
        """What `memo` keeps allocated, for a look at its memory."""
