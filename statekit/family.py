"""ObjectFamily: objects numbered from 0 under one key template, stored together or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from statekit.errors import PartialFamilyError
from statekit.objects.held_value import HeldValue
from statekit.session import SessionState

__all__ = ["ObjectFamily"]

Payload = TypeVar("Payload")


class ObjectFamily(Generic[Payload]):
    """The members `prefix0`, `prefix1`, ... of one session, each a `HeldValue`, such as an
    `EncodeOnce`.

    A view like an adapter: it holds no state of its own.
    """

    __slots__ = ("_factory", "_prefix", "_session")

    def __init__(
        self, session: SessionState, prefix: str, factory: Callable[[], HeldValue[Payload]]
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

        Raises: what storing one of them raises; then the family is as it was before.
        """
        built = []
        for payload in payloads:
            member = self._factory()
            member.append(payload)
            built.append(member)
        for index, member in enumerate(built):
            self._session.put(f"{self._prefix}{index}", member)
        for index in self._indices():
            if index >= len(built):
                self._session.remove(f"{self._prefix}{index}")

    def _payload(self, index: int) -> Payload | None:
        found: Any = self._session.get(f"{self._prefix}{index}")
        if isinstance(found, HeldValue) and found.resident:
            payload: Payload | None = found.view()
            return payload
        return None

    def _indices(self) -> list[int]:
        start = len(self._prefix)
        tails = (name[start:] for name in self._session.names if name.startswith(self._prefix))
        return [int(tail) for tail in tails if tail.isdecimal()]
