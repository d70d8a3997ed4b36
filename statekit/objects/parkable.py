"""ParkableObject: what the kinds share whose payload can be put away and brought back.

Owns the one slot in which such an object holds its payload, or a note of where it is. One slot,
because it is read in one step: a reader in another thread sees the payload or the note, never a
moment between the two.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import attrs

from statekit.accounting import SeenStorages, device_bytes
from statekit.capture.picture import Picture
from statekit.errors import ParkError
from statekit.spec import Update
from statekit.state_object import StateObject

__all__ = ["Away", "Keeper", "Memo", "ParkableObject"]

Payload = TypeVar("Payload")
View = TypeVar("View")
Self = TypeVar("Self", bound="ParkableObject[Any, Any]")
Memo = tuple[dict[str, Any], Any]
"""The fields of an object, and a picture of what is changed where it is."""


class Keeper(Protocol):
    """Who has put payloads away, by key."""

    def bring_back(self) -> None:
        """Give each object its payload again (`put_back`). Raises: ParkError."""

    def let_go(self, key: str) -> None:
        """The payload under `key` is not wanted any more."""


@attrs.frozen(eq=False)
class Away:
    """What an object holds in place of a payload that is parked."""

    keeper: Keeper
    key: str


class ParkableObject(StateObject[Payload, View]):
    """Holds one payload, or knows who keeps it."""

    _allocated = False
    _held: Any = None
    _update: Update = "replaced"

    @property
    def resident(self) -> bool:
        """Whether the object is allocated, with or without a payload, parked or not."""
        return self._allocated

    def evict(self, policy: object = None) -> int:
        """Drop the committed payload and return the bytes that this object no longer holds."""
        freed = self._releasable_nbytes()
        self._hold(self._empty())
        self._allocated = False
        return freed

    def reset(self) -> None:
        """Return to the unallocated state."""
        self._hold(self._empty())
        self._allocated = False
        self.discard()

    def nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """Bytes of the committed payload by device; a parked one is its session's to count."""
        return device_bytes(self.committed(), seen)

    def staged_nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """Bytes of the staged payload by device."""
        return device_bytes(self.staged(), seen)

    def _empty(self) -> Any:
        """What the object holds where it holds nothing."""
        return None

    def committed(self) -> Any:
        """The payload, for a look at its memory; None where there is none, or it is parked."""
        held = self._held
        return None if isinstance(held, Away) else held

    def park_payload(self) -> Any:
        """The committed payload; None where there is nothing, or staged data beside it."""
        return self.committed() if self.staged() is None else None

    def items(self) -> list[Any]:
        """What it holds, committed and staged, each as it was stored; nothing of what is parked."""
        return [one for one in (self.committed(), self.staged()) if one is not None]

    def put_away(self, payload: Any, away: Away) -> bool:
        """Hold `away` in place of `payload`; False where something else is held by now."""
        if self._held is not payload:
            return False
        self._held = away
        self._say_written()
        return True

    def put_back(self, payload: Any, keeper: Keeper) -> None:
        """Hold `payload` again, unless the object has moved on since `keeper` put it away."""
        held = self._held
        if isinstance(held, Away) and held.keeper is keeper:
            self._held = payload
            self._say_written()

    def capture(self) -> Memo:
        """See `Capturable`."""
        if isinstance(self._held, Away):
            self._come_back()
        return self.__dict__.copy(), self._picture()

    def roll_back(self, memo: Memo) -> None:
        """See `Capturable`; a parked copy of what was written since is let go of."""
        fields, picture = memo
        before = self._held
        self.__dict__.clear()
        self.__dict__.update(fields)
        self._held = self._as_pictured(picture)
        self._say_written()
        if isinstance(before, Away):
            before.keeper.let_go(before.key)

    def take_over(self, memo: Memo) -> None:
        """See `Capturable`."""
        self.roll_back(memo)

    def settle(self, memo: Memo) -> None:
        """See `Capturable`; there is nothing to do."""

    def twin(self: Self, memo: Memo) -> Self:
        """See `Capturable`."""
        fields, picture = memo
        other = object.__new__(type(self))
        other.__dict__.update(fields)
        other._held = self._copied(fields["_held"], picture)
        other._say_written()
        return other

    def held_by(self, memo: Memo) -> Any:
        """See `Capturable`."""
        fields, picture = memo
        held = picture.held() if isinstance(picture, Picture) else picture
        return [fields.get("_held"), fields.get("_staged"), held]

    def _picture(self) -> Any:
        """What is copied of the payload, because it is changed where it is; None where it isn't."""
        if self._update == "replaced" or self._held is None:
            return None
        return Picture(self._held, self._update)

    def _as_pictured(self, picture: Any) -> Any:
        """The payload that the fields name, with the content it had."""
        return self._held if picture is None else picture.write_back()

    def _copied(self, held: Any, picture: Any) -> Any:
        """A payload for another object."""
        return held if picture is None else picture.copy()

    def _come_back(self) -> Any:
        """The payload, brought back where it is parked.

        Raises:
            ParkError: it cannot be brought back now; it stays parked.
        """
        while isinstance(held := self._held, Away):
            held.keeper.bring_back()
            if self._held is held:
                found = f"the parked copy of {held.key!r} is gone"
                raise ParkError("unknown", "restore", found, "begin the session anew")
        return held

    def _hold(self, payload: Any) -> None:
        """Hold `payload` in place of any other; a parked one is not wanted any more."""
        before, self._held = self._held, payload
        self._say_written()
        if isinstance(before, Away):
            before.keeper.let_go(before.key)

    def _say_written(self) -> None:
        if self.written is not None:  # a kind that keeps count
            self.written = object()
