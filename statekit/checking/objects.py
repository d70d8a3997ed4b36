"""Objects of a checked adapter: what is stored in them is checked on its way in.

Owns the one hook that every kind has: `OnCommit`, which sees each payload before it is held, and
whose error means that nothing was stored. A family's members are built by the family, so they get
theirs from its factory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from weakref import ref

from statekit.checking.book import Book, book_of
from statekit.checking.declaration import Place
from statekit.on_commit import OnCommit
from statekit.session import SessionState
from statekit.state_object import StateObject

__all__ = ["CheckedOnCommit", "check_family", "check_object"]

Holder = ref[StateObject[Any, Any]]
T = TypeVar("T")


class CheckedOnCommit(OnCommit):
    """The steps of another, and then the check of what came out; as data, the steps alone."""

    __slots__ = ("admit", "book", "place")

    admit: Callable[[Any], None]
    book: Book
    place: Place

    @classmethod
    def of(cls, steps: OnCommit, book: Book, place: Place, holder: Holder) -> CheckedOnCommit:
        """Those of the object `holder` at `place`."""
        made = cls(steps.detach, steps.device, steps.compact)
        admit = partial(_admit, book, place, holder)
        for name, value in (("admit", admit), ("book", book), ("place", place)):
            object.__setattr__(made, name, value)
        return made

    def apply(self, payload: T) -> T:
        """`payload` with the steps taken. Raises: DeclarationError."""
        result = OnCommit.apply(self, payload)
        if result is not None:  # which the kind itself refuses
            self.admit(result)
        return result


def check_object(book: Book, key: str, obj: StateObject[Any, Any]) -> None:
    """Compare what `obj` holds, and have it check what is stored from now on.

    Raises:
        DeclarationError: what it holds is not as declared, or not as it was stored.
    """
    place = book.place_of(key, obj)
    if place is not None and hasattr(obj, "_on_commit"):
        _check_writes(book, place, obj)
        book.meet(place, obj)


def _check_writes(book: Book, place: Place, obj: Any) -> None:
    steps: OnCommit = obj._on_commit
    if isinstance(steps, CheckedOnCommit) and (steps.book, steps.place) == (book, place):
        return
    obj._on_commit = CheckedOnCommit.of(steps, book, place, ref(obj))


def _admit(book: Book, place: Place, holder: Holder, value: Any) -> None:
    obj = holder()
    if obj is not None and book.open:  # else a twin, which no checked adapter has met yet
        book.admit(place, obj, value)


class _CheckedTable:
    """A session, for a family: what is found in it is compared, and checks from then on."""

    __slots__ = ("_session",)

    def __init__(self, session: SessionState) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def get(self, name: str) -> StateObject[Any, Any] | None:
        """As the session's. Raises: as `check_object`."""
        found = self._session.get(name)
        if found is not None and found.resident:
            check_object(book_of(self._session), name, found)
        return found

    def get_or_create(self, name: str, factory: Callable[[], Any], cls: type[Any]) -> Any:
        """As the session's. Raises: as `check_object`."""
        obj = self._session.get_or_create(name, factory, cls)
        check_object(book_of(self._session), name, obj)
        return obj


def check_family(family: Any) -> None:
    """Have the members of `family`, which nobody else has yet, check."""
    session, prefix = family._session, family._prefix
    family._factory = partial(_build, session, prefix, family._factory)
    family._session = _CheckedTable(session)


def _build(session: SessionState, prefix: str, factory: Callable[[], T]) -> T:
    """A member that checks; which one it will be is not known yet, and all are declared alike."""
    member: Any = factory()
    book = book_of(session)
    first = book.place_of(f"{prefix}0", member)
    if first is not None:
        families = first.declaration.model.families
        members = {name: label for name, label in first.members.items() if families[name].members}
        _check_writes(book, Place(first.declaration, f"{prefix}...", members), member)
    return member  # type: ignore[no-any-return]
