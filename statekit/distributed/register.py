"""Register: the one outcome of each meeting, in the store of the process group.

A rank that dies within an exchange may leave some ranks with all that was said, and others without.
So what follows from a meeting counts only once it is written here, by compare and set: either the
outcome, by a rank that heard everybody, or that the meeting failed, by one that did not. Whichever
comes first counts for all.

    G1  Of each meeting there is one outcome, or none for anybody, as long as the store answers.
    G2  Once a meeting has failed, none succeeds.
    G3  No call takes longer than `timeout_s`, whatever the store does.

What is lost with the store's host: a rank that finds no store acts on nothing. One that had its
answer before has acted; survivors may then differ in the last meeting, in nothing else.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Protocol

__all__ = ["Register", "Store", "StoreError"]

_ROLL_CALL_S = 0.5
"""How long a rank that gave up waits to hear of the others."""


class Store(Protocol):
    """What is asked of a `torch.distributed.Store`."""

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """Write `desired` where the value is `expected`; what the value is then."""

    def get(self, key: str, /) -> bytes:
        """The value of the key."""

    def set(self, key: str, value: str, /) -> None:
        """Write a value."""

    def check(self, keys: list[str], /) -> bool:
        """Whether all of the keys have values."""


class StoreError(Exception):
    """The store did not answer; never leaves this package."""


class Register:
    """The outcomes of one group.

    Args:
        store: the store that all ranks reach.
        name: the same on all ranks, and no other group's.
    """

    def __init__(self, store: Store, name: str, rank: int, size: int, timeout_s: float):
        self._store = store
        self._key = f"{name}/outcome"
        self._name, self._rank, self._size = name, rank, size
        self._clerk = _Clerk(timeout_s)
        self._known = ""
        self._has_failed = False

    def settle(self, meeting: int, outcome: Any) -> Any:
        """What came of the meeting: `outcome`, or what another rank wrote; None if it failed.

        Raises:
            StoreError: nobody knows.
        """
        mine = {"meeting": meeting, "outcome": outcome}
        found = self._swap(mine)
        if "failed" in found:
            found = found["before"]
        return found["outcome"] if found["meeting"] == meeting else None

    def give_up(self, meeting: int) -> Any:
        """What came of the meeting nevertheless; None if nothing did. No later one succeeds.

        Raises:
            StoreError: nobody knows.
        """
        found = self._swap(self._failure(meeting))
        if "failed" not in found:  # others have heard everybody
            self._swap(self._failure(meeting + 1))
            return found["outcome"] if found["meeting"] == meeting else None
        last = found["before"]
        return last["outcome"] if last["meeting"] == meeting else None

    def has_failed(self) -> bool:
        """Whether a rank has given up; also where the store is gone."""
        try:
            found = self._clerk.ask(lambda: self._store.get(self._key))
        except StoreError:
            return True
        return "failed" in json.loads(found)

    def begin(self) -> None:
        """Write what is known before the first meeting. Raises: StoreError."""
        self._swap({"meeting": 0, "outcome": None})

    def unheard(self) -> list[int]:
        """The ranks that do not say that they live, after a while in which they could."""
        others = [rank for rank in range(self._size) if rank != self._rank]
        keys = {rank: f"{self._name}/alive/{rank}" for rank in others}
        try:
            self._clerk.ask(lambda: self._store.set(f"{self._name}/alive/{self._rank}", "1"))
            deadline = time.monotonic() + _ROLL_CALL_S
            while True:
                for rank in list(keys):
                    key = keys[rank]
                    if self._clerk.ask(lambda key=key: self._store.check([key])):  # type: ignore[misc]
                        del keys[rank]
                if not keys or time.monotonic() > deadline:
                    return list(keys)
                time.sleep(0.02)
        except StoreError:
            return []

    def _failure(self, meeting: int) -> dict[str, Any]:
        before = json.loads(self._known)
        if "failed" in before:
            before = before["before"]
        return {"meeting": meeting, "failed": self._rank, "before": before}

    def _swap(self, value: dict[str, Any]) -> dict[str, Any]:
        """Write `value` in place of what this rank knows, unless another one was faster.

        A failure stays: nothing is written in its place (G2).
        """
        if not self._has_failed:
            text, known = json.dumps(value, sort_keys=True), self._known
            answer = self._clerk.ask(lambda: self._store.compare_set(self._key, known, text))
            self._known = answer.decode()
        found: dict[str, Any] = json.loads(self._known)
        self._has_failed = "failed" in found
        return found


class _Clerk:
    """Asks the store in a thread of its own: one that hangs holds up nobody."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._calls: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[Any]]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._gone = ""

    def ask(self, call: Callable[[], Any]) -> Any:
        """What the store answers. Raises: StoreError, and from then on always."""
        if self._gone:
            raise StoreError(self._gone)
        if self._thread is None:
            self._thread = threading.Thread(target=_serve, args=(self._calls,), daemon=True)
            self._thread.start()
        answers: SimpleQueue[Any] = SimpleQueue()
        self._calls.put((call, answers))
        try:
            answer, error = answers.get(timeout=self._timeout_s)
        except Empty:
            self._gone = f"the store did not answer within {self._timeout_s:g} s"
            raise StoreError(self._gone) from None
        if error is not None:
            self._gone = f"the store is gone ({str(error).strip().splitlines()[0][:120]})"
            raise StoreError(self._gone) from error
        return answer


def _serve(calls: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[Any]]]) -> None:
    while True:
        call, answers = calls.get()
        try:
            answers.put((call(), None))
        except Exception as error:
            answers.put((None, error))
