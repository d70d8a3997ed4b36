"""Putting values of one session away together, and bringing them back on the next use.

Owns the unit in which values are parked: objects of one session in one image, so that what they
share is shared again afterwards. The tiers themselves are `statekit.parking`.

    U1  Until `put_away` returns, every object holds what it held; from then on the parked copy is
        good, until `bring_back` has given every object its payload again. `put_away` is
        `begin_putting_away` and `finish`: who does both may ask others in between, and `abort`.
    U2  An object that is used while it is away brings its whole unit back first.
    U3  A payload that was changed while its copy was being made is not put away.
    U4  What comes back goes to the object that it was taken from, and to no other one that is
        held under its key by now.

Thread rule: both directions hold the record's `transition`; never call with the manager's lock.
Any thread may read a value meanwhile; whoever writes needs a lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import ref

import attrs

from statekit.accounting import SeenStorages, device_bytes
from statekit.books.footprint import Footprint
from statekit.image.taking import Image, take_image
from statekit.objects.parkable import Away, ParkableObject
from statekit.spec import Tier as TierName

if TYPE_CHECKING:
    from statekit.books.record import Record
    from statekit.parking.tier import Parked, Tier
    from statekit.session import SessionState

__all__ = ["ParkedUnit", "PuttingAway", "begin_putting_away", "put_away"]


class ParkedUnit:
    """Objects of one session, by key, whose payloads are in one parked image.

    Attributes:
        keys: of the objects that want their payload back.
        tier: where the image is.
        nbytes_by_device: bytes of the parked copy, less those of `kept`.
        kept: live memory that the payloads share with values that were not put away.
        came_from: bytes by device that bringing it back takes.
        back_in_s: how long that took, once it is back.
    """

    def __init__(
        self,
        record: Record,
        objects: Mapping[str, ParkableObject[Any, Any]],
        parked: Parked,
        tier: Tier,
        image: Image,
        when_back: Callable[[ParkedUnit], None],
    ) -> None:
        self.record = record
        self.keys = set(objects)
        self.kept: tuple[object, ...] = image.recipe.kept
        self.came_from: dict[str, int] = {}
        for device, nbytes in image.recipe.storages:
            self.came_from[device] = self.came_from.get(device, 0) + nbytes
        # Weak: an object that holds a note of this unit would otherwise never be freed.
        self._objects = {key: ref(obj) for key, obj in objects.items()}
        self.back_in_s = 0.0
        self._when_back = when_back
        self._done = False
        self._lies(parked, tier)

    @property
    def nbytes(self) -> int:
        """Bytes of the parked copy."""
        return sum(self.nbytes_by_device.values())

    def bring_back(self) -> None:
        """Give every object its payload again; if that fails, the parked copy stays."""
        with self.record.transition:
            if self._done:
                return  # another thread was faster
            begun_at = perf_counter()
            objects = {key: obj for key in self.keys if (obj := self._objects[key]()) is not None}
            payloads = self._parked.begin_restore().finish() if objects else {}
            for key, obj in objects.items():
                obj.put_back(payloads[key], self)
            self._end()
            self.back_in_s = perf_counter() - begun_at
        self._when_back(self)

    def copy(self) -> Mapping[str, Any]:
        """Copies of the payloads by key; the parked ones stay where they are.

        Raises:
            ParkError: they cannot be read now.
        """
        with self.record.transition:
            payloads: Mapping[str, Any] = self._parked.begin_restore().finish()
        return payloads

    def let_go(self, key: str) -> None:
        """The object under `key` wants nothing back."""
        with self.record.transition:
            self.keys.discard(key)
            if not self.keys and not self._done:
                self._end()

    def move_to(self, tier: Tier) -> bool:
        """Move the image from host memory to disk, without building the values; whether it was.

        Raises:
            ParkError: it stays where it is.
        """
        with self.record.transition:
            if self._done or self.tier == tier.name:
                return False
            on_host: Any = self._parked  # what lies on disk is not moved
            self._lies(on_host.move_to(tier), tier)
            return True

    def _lies(self, parked: Parked, tier: Tier) -> None:
        self._parked = parked
        self.tier: TierName = "disk" if tier.name == "disk" else "host"
        seen = SeenStorages()
        device_bytes(self.kept, seen)
        self.nbytes_by_device: Mapping[str, int] = parked.nbytes_by_device(seen)

    def count(self, seen: SeenStorages) -> dict[str, int]:
        """Bytes by device of the parked copy and of `kept`, less what `seen` has met."""
        return self._parked.nbytes_by_device(seen)

    def _end(self) -> None:
        self._done = True
        if self in self.record.units:
            self.record.units.remove(self)
        self._parked.discard()


@attrs.frozen(eq=False)
class PuttingAway:
    """A good copy of values that are where they were still; ends by `finish` or `abort`."""

    _record: Record
    _objects: Mapping[str, ParkableObject[Any, Any]]
    _payloads: Mapping[str, Any]
    _looks: Mapping[str, Footprint]
    _image: Image
    _parked: Parked
    _tier: Tier
    _when_back: Callable[[ParkedUnit], None]

    def finish(self) -> ParkedUnit | None:
        """Let go of the originals, or return None where the session is used or changed by now.

        Call with the record's `transition` held.
        """
        changed = any(
            self._objects[key].park_payload() is not payload
            or not self._looks[key].unchanged(payload)
            for key, payload in self._payloads.items()
        )
        if changed or not self._record.may_go():
            self.abort()
            return None
        unit = ParkedUnit(
            self._record, self._objects, self._parked, self._tier, self._image, self._when_back
        )
        self._record.units.append(unit)
        for key, obj in self._objects.items():
            if not obj.put_away(self._payloads[key], Away(unit, key)):
                unit.let_go(key)
        return unit if unit.keys else None

    def abort(self) -> None:
        """Let go of the copy."""
        self._parked.discard()


def put_away(
    record: Record,
    keys: Iterable[str],
    tier: Tier,
    when_back: Callable[[ParkedUnit], None],
) -> ParkedUnit | None:
    """Park the objects under `keys` in `tier`, or None where nothing was put away.

    Call with the record's `transition` held. Whether the session may go is asked before the copy
    and again when it is made.

    Raises: as `begin_putting_away`.
    """
    putting = begin_putting_away(record, keys, tier, when_back)
    return None if putting is None else putting.finish()


def begin_putting_away(
    record: Record,
    keys: Iterable[str],
    tier: Tier,
    when_back: Callable[[ParkedUnit], None],
) -> PuttingAway | None:
    """Copy the objects under `keys` into `tier`; None where nothing of them can be put away.

    Call with the record's `transition` held.

    Raises:
        UnparkableError: a payload cannot be parked; nothing was done.
        ParkError: the tier failed; nothing was done.
    """
    session = record.session
    if session is None or not record.may_go():
        return None
    objects: dict[str, ParkableObject[Any, Any]] = {}
    payloads: dict[str, Any] = {}
    looks: dict[str, Footprint] = {}
    for key in keys:
        obj = session.get(key)
        payload = obj.park_payload() if isinstance(obj, ParkableObject) else None
        if isinstance(obj, ParkableObject) and payload is not None:
            objects[key], payloads[key], looks[key] = obj, payload, Footprint()
            looks[key].refresh(payload)
    if not objects:
        return None
    image = take_image(payloads, keep=_held_by_others(session, objects).meets)
    parking = tier.begin_park(image)
    try:
        parked = parking.finish()
    except BaseException:
        parking.abort()
        raise
    return PuttingAway(record, objects, payloads, looks, image, parked, tier, when_back)


def _held_by_others(session: SessionState, going: Iterable[str]) -> SeenStorages:
    """The memory that what stays of the session holds as well."""
    staying = SeenStorages()
    keys = set(going)
    device_bytes(session.attrs.copy(), staying)
    device_bytes([one for key, one in session.committed().items() if key not in keys], staying)
    session.staged_nbytes_by_device(staying)
    device_bytes([unit.kept for unit in tuple(session.parked)], staying)
    return staying
