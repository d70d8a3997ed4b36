"""Book: what a session's values were when they were stored, and the comparison with what they are.

Owns one record for each carried value and each object of a session, and the order of a check:
what was there is compared before anything new is taken in, so a write that raises has changed
nothing. Sessions are known by weak references: a book ends with its session.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary, ref

import attrs

from statekit.checking.arrays import arrays_of
from statekit.checking.bound import overflow, wrong_key
from statekit.checking.conformity import Finding, Surroundings, misfit, uneven
from statekit.checking.declaration import Declaration, Place, declarations_of
from statekit.checking.fingerprint import Fingerprint, Print
from statekit.checking.site import call_site
from statekit.errors import DeclarationError
from statekit.objects.parkable import ParkableObject
from statekit.session import SessionState
from statekit.state_object import StateObject

__all__ = ["Book", "Watched", "book_of"]

Holder = StateObject[Any, Any] | None
"""The object that holds a value; None where the session carries it."""


@attrs.frozen(eq=False)
class Watched:
    """A tensor or array that nobody may write into."""

    print: Print
    place: Place
    holder: ref[StateObject[Any, Any]] | None


class _Record:
    """Fingerprints of what one value holds, by the identity of value or item."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.items: dict[int, Fingerprint] = {}


class Book:
    """The checks of one session.

    Attributes:
        edition: another object after every change of what is recorded.
    """

    def __init__(self, session: SessionState) -> None:
        self._session = ref(session)
        self._carried: dict[str, _Record] = {}
        self._objects: WeakKeyDictionary[StateObject[Any, Any], _Record] = WeakKeyDictionary()
        self.edition = object()

    @property
    def open(self) -> bool:
        """Whether its session lives; an object of it may live longer."""
        return self._session() is not None

    def read(self, place: Place) -> None:
        """Compare the carried value at `place` with what was stored.

        Raises:
            DeclarationError: it has changed in a way that is not declared; or it came in past the
                adapter, and is not as declared.
        """
        attrs_ = self._held_session().attrs
        if place.key in attrs_:
            self._meet(self._record(place, None), None, [attrs_[place.key]])
        else:
            self._carried.pop(place.key, None)

    def assign(self, place: Place, value: Any) -> None:
        """Store a carried value.

        Raises:
            DeclarationError: `value` is not as declared, or the one before has changed in a way
                that is not declared; the one before stays.
        """
        self.read(place)
        self.admit(place, None, value)
        self._held_session().attrs[place.key] = value

    def admit(self, place: Place, holder: Holder, value: Any) -> None:
        """Check a value, or an item, that is about to be stored, and remember what it is.

        Raises:
            DeclarationError: it is not as declared.
        """
        record = self._record(place, holder)
        known = record.items.get(id(value))
        before = [self._held_session().attrs.get(place.key)] if holder is None else _items(holder)
        self._require(place, misfit(value, place.declaration, self._around(place, holder, before)))
        if known is not None and any(value is one for one in before) and known.is_of(value):
            self._require_unchanged(record, known, value)
        else:
            self._remember(record, value)

    def meet(self, place: Place, holder: StateObject[Any, Any]) -> None:
        """Compare what an object holds with what was stored.

        Raises:
            DeclarationError: as `read`, or it holds more than its bound.
        """
        self._meet(self._record(place, holder), holder, _items(holder))

    def look(self) -> None:
        """Compare everything that the session holds.

        Raises:
            DeclarationError: the first difference.
        """
        for place, holder, items in self._held():
            self._meet(self._record(place, holder), holder, items)
            if place.declaration.shape is not None or place.declaration.update != "replaced":
                for item in items:  # of others, what was stored is as declared, and is still there
                    self._require(
                        place, misfit(item, place.declaration, self._around(place, holder))
                    )

    def place_of(self, key: str, holder: Holder) -> Place | None:
        """What the session's schemas say of this key."""
        bucket = "attrs" if holder is None else "StateObject"
        for spec in self._held_session().adopted.specs:
            place = declarations_of(spec).place(key, bucket)
            if place is not None:
                return place
        return None

    def watched(self) -> list[Watched]:
        """The tensors and arrays that are recorded and alive."""
        records: list[tuple[_Record, ref[StateObject[Any, Any]] | None]] = [
            (record, None) for record in self._carried.values()
        ]
        records += [(record, ref(holder)) for holder, record in self._objects.items()]
        return [
            Watched(one, record.place, holder)
            for record, holder in records
            for item in record.items.values()
            for one in item.prints.values()
        ]

    def still_holds(self, watched: Watched, array: Any) -> bool:
        """Whether `array` is a part of the value that it was recorded for, now."""
        if watched.holder is None:
            items = [self._held_session().attrs.get(watched.place.key)]
        else:
            holder = watched.holder()
            items = [] if holder is None else _items(holder)
        return any(part is array for item in items for _, part in arrays_of(item))

    def error(self, place: Place, found: str, todo: str) -> DeclarationError:
        """The error that says so, at the line of the model that is running."""
        declaration = place.declaration
        if place.key != (declaration.value.key or declaration.name):
            found = f"under {place.key!r}, {found}"
        return DeclarationError(declaration.name, declaration.declared_at, call_site(), found, todo)

    def _meet(self, record: _Record, holder: Holder, items: list[Any]) -> None:
        place = record.place
        fresh: dict[int, Fingerprint] = {}
        for item in items:
            known = record.items.get(id(item))
            if known is None or not known.is_of(item) or (
                place.declaration.parkable and known.knows_nothing_of(item)  # it was parked
            ):  # fmt: skip
                around = self._around(place, holder, alone=True)
                self._require(place, misfit(item, place.declaration, around))
                known = self._remember(record, item)
            else:
                self._require_unchanged(record, known, item)
            if known is not None:
                fresh[id(item)] = known
        if holder is not None and place.declaration.value.ring is not None:
            around = self._around(place, holder, alone=True)
            self._require(place, overflow(holder, place.declaration, around))
            self._require(place, wrong_key(holder, place.declaration, around))
            self._require(place, uneven(items, place.declaration, around))
        if fresh.keys() != record.items.keys():
            record.items, self.edition = fresh, object()

    def _require_unchanged(self, record: _Record, known: Fingerprint, value: Any) -> None:
        before = known.prints
        what = known.change(value)
        if what is None:
            if [*before.values()] != [*known.prints.values()]:
                self.edition = object()
            return
        site = known.site
        self._remember(record, value)  # reported once
        update = record.place.declaration.update
        found = f"{what} since {site}, declared `update: {update}`"
        raise self.error(record.place, found, remedy(what))

    def _require(self, place: Place, finding: Finding | None) -> None:
        if finding is not None:
            raise self.error(place, finding.found, finding.todo)

    def _remember(self, record: _Record, value: Any) -> Fingerprint | None:
        """Take the fingerprint of `value`; none of what nobody can change."""
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            record.items.pop(id(value), None)
            return None
        update = record.place.declaration.update
        found = record.items[id(value)] = Fingerprint(value, update, call_site())
        self.edition = object()
        return found

    def _record(self, place: Place, holder: Holder) -> _Record:
        if holder is None:
            return self._carried.setdefault(place.key, _Record(place))
        record = self._objects.setdefault(holder, _Record(place))
        record.place = place  # a member of a family is written before its key is known
        return record

    def _held(self) -> Iterator[tuple[Place, Holder, list[Any]]]:
        """All that the session holds and a schema speaks of."""
        session = self._held_session()
        for key, value in tuple(session.attrs.items()):
            place = self.place_of(key, None)
            if place is not None:
                yield place, None, [value]
        for key, holder in session.objects.items():
            place = self.place_of(key, holder)
            if place is not None and isinstance(holder, ParkableObject):
                yield place, holder, _items(holder)

    def _around(
        self, place: Place, but: Holder, before: Sequence[Any] = (), *, alone: bool = False
    ) -> Surroundings:
        """What the values at other places say; nothing of symbols and devices, where `alone`."""
        model = place.declaration.model
        built_with = self._held_session().parameters.get(model.model, {})

        def others() -> Iterator[tuple[Declaration, Sequence[Any], bool]]:
            for other, holder, items in () if alone else self._held():
                same = holder is but and (but is not None or other.key == place.key)
                if other.declaration.model is model and not same:
                    yield other.declaration, items, place.meets(other)

        given = {**model.constants, **built_with}
        return Surroundings(given, declarations_of(model).shared, others, before)

    def _held_session(self) -> SessionState:
        session = self._session()
        assert session is not None, "a book outlived its session"
        return session


def book_of(session: SessionState) -> Book:
    """The book of `session`; opened where there is none."""
    book = _books.get(session)
    if book is None:
        with _lock:
            book = _books.setdefault(session, Book(session))
    return book


_books: WeakKeyDictionary[SessionState, Book] = WeakKeyDictionary()
_lock = Lock()


def remedy(what: str) -> str:
    """What to do about a change, given in words."""
    if "entries" in what or "another object" in what:
        return "store a new container, or declare `update: entries`"
    return "write into a clone and store that, or declare `update: in_place`"


def _items(holder: StateObject[Any, Any]) -> list[Any]:
    """What an object holds, committed and staged; nothing of it where it is parked."""
    return holder.items() if isinstance(holder, ParkableObject) else []
