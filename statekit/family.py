"""ObjectFamily: objects numbered from 0 under one key template, stored together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from statekit.errors import PartialFamilyError
from statekit.objects.fixed_state import FixedState
from statekit.objects.parkable import ParkableObject
from statekit.objects.retrieval_store import RetrievalStore
from statekit.objects.together import commit_together
from statekit.objects.windowed_kv import WindowedKV
from statekit.session import SessionState

__all__ = ["ObjectFamily"]

Payload = TypeVar("Payload")


class ObjectFamily(Generic[Payload]):
    """The members `prefix0`, `prefix1`, ... of one session, each an object of one kind, such as an
    `EncodeOnce`.

    A view like an adapter: it holds no state of its own.
    """

    __slots__ = ("_factory", "_prefix", "_session")

    def __init__(
        self, session: SessionState, prefix: str, factory: Callable[[], ParkableObject[Any, Any]]
    ) -> None:
        self._session, self._prefix, self._factory = session, prefix, factory

    @property
    def initialized(self) -> bool:
        """Whether the first member holds a value."""
        return self._payload(0) is not None

    def __len__(self) -> int:
        """How many members the session has a place for, with a value or without."""
        return len(self._indices())

    def __bool__(self) -> bool:
        return True

    def object(self, index: int) -> Any:
        """The member of this number, of the kind that the family is made of; made if absent.

        Raises:
            IndexError: `index` is below 0.
        """
        if index < 0:
            raise IndexError(f"members are numbered from 0, got {index}")
        kind: type[Any] = ParkableObject
        return self._session.get_or_create(f"{self._prefix}{index}", self._factory, kind)

    def view(self) -> list[Payload] | None:
        """The members' values in order, or None before there are any.

        Raises:
            PartialFamilyError: the first member holds a value and another one does not.
        """
        if not self.initialized:
            return None
        payloads: list[Payload] = []
        missing: list[str] = []
        for index in range(max(self._indices()) + 1):
            payload = self._payload(index)
            if payload is None:
                missing.append(f"{self._prefix}{index}")
            else:
                payloads.append(payload)
        if missing:
            raise PartialFamilyError(self._prefix.rstrip("/"), missing)
        return payloads

    def replace(self, payloads: Iterable[Payload]) -> None:
        """Store these values, one a member, in place of all others.

        Members that are FixedStates stay, with their buffers where they are: what is stored must
        fit them. Members of other kinds are replaced by new ones.

        Raises: what storing one of them raises; then the family is as it was before.
        """
        new: dict[str, ParkableObject[Any, Any]] = {}
        fixed: list[FixedState[Any]] = []
        values: list[Any] = []
        count = 0
        for index, payload in enumerate(payloads):
            key = f"{self._prefix}{index}"
            member: Any = self._session.get(key)
            if not isinstance(member, FixedState) or not member.resident:
                member = new[key] = self._factory()
            if isinstance(member, FixedState):
                fixed.append(member)
                values.append(payload)
            elif isinstance(member, (WindowedKV, RetrievalStore)):
                whole: Any = payload
                member.replace(whole)
            else:
                member.append(payload)
            count = index + 1
        commit_together(fixed, values)
        for key, member in new.items():
            self._session.put(key, member)
        for index in self._indices():
            if index >= count:
                self._session.remove(f"{self._prefix}{index}")

    def _payload(self, index: int) -> Payload | None:
        found: Any = self._session.get(f"{self._prefix}{index}")
        if isinstance(found, ParkableObject) and found.resident:
            payload: Payload | None = found.view()
            return payload
        return None

    def _indices(self) -> list[int]:
        start = len(self._prefix)
        tails = (name[start:] for name in self._session.names if name.startswith(self._prefix))
        return [int(tail) for tail in tails if tail.isdecimal()]
