"""Moving: many parts between memory and a file, by several threads.

Owns who takes which part, and what happens when one fails. What is done with a part (it is read or
written, and summed while it is in that core's cache) is the caller's.

    M1  Parts are taken in order; the sums are in that order, whichever thread was faster.
    M2  After `wait` has returned or raised and after `stop`, no thread touches the memory.
    M3  One failure stops the others at their next part, and is the one that is told.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait

__all__ = ["MAX_THREADS", "Move", "Moving", "Part", "move_now", "usable_threads"]

Part = tuple[int, memoryview]
"""Place in the file, memory."""

Move = Callable[[memoryview, int], int]
"""Read or write all of a part at a place in the file, and return its sum."""

MAX_THREADS = 4  # more do not move bytes faster
_SMALL_NBYTES = 4 << 20  # starting threads takes longer


def usable_threads() -> int:
    """How many threads are worth while on this machine."""
    return min(MAX_THREADS, os.cpu_count() or 1)


class Moving:
    """Parts on their way by threads of an executor.

    Args:
        before: called once, by one thread, before the first part is moved.
        after: called once, when no thread will touch the memory any more.
        closing: set by someone else to stop it.

    Raises:
        CancelledError: the executor takes nothing any more; `after` was called.
    """

    def __init__(
        self,
        executor: ThreadPoolExecutor,
        threads: int,
        move: Move,
        parts: Iterable[Part],
        *,
        before: Callable[[], None] | None = None,
        after: Callable[[], None] | None = None,
        closing: threading.Event | None = None,
    ) -> None:
        self._before = before
        self._after = after
        self._move = move
        self._parts = iter(parts)
        self._sums: list[int] = []
        self._closing = closing or threading.Event()
        self._stop = False
        self._lock = threading.Lock()
        self._running = threads
        self._futures: list[Future[None]] = []
        try:
            for _ in range(threads):
                self._futures.append(executor.submit(self._run))
        except RuntimeError:  # shut down since the caller looked
            self._leave(threads - len(self._futures))
            raise CancelledError from None

    def wait(self) -> list[int]:
        """The sum of each part, in order. Raises: what a thread raised."""
        errors = [future.exception() for future in self._futures]
        for error in sorted(filter(None, errors), key=lambda e: isinstance(e, CancelledError)):
            raise error  # the one that made the others stop
        return self._sums

    def stop(self) -> None:
        """Return when no thread touches the memory any more."""
        self._stop = True
        wait(self._futures)

    def _run(self) -> None:
        try:
            while (taken := self._take()) is not None:
                number, offset, part = taken
                self._sums[number] = self._move(part, offset)
        except BaseException:
            self._stop = True
            raise
        finally:
            self._leave(1)

    def _take(self) -> tuple[int, int, memoryview] | None:
        with self._lock:
            if self._stop or self._closing.is_set():
                raise CancelledError
            if self._before is not None:
                self._before()
                self._before = None
            for offset, part in self._parts:
                self._sums.append(0)
                return len(self._sums) - 1, offset, part
            return None

    def _leave(self, threads: int) -> None:
        with self._lock:
            self._running -= threads
            if not self._running:
                self._parts = iter(())  # lets go of the memory
                if self._after is not None:
                    self._after()


def move_now(move: Move, parts: Iterable[Part], nbytes: int) -> list[int]:
    """Move all parts, of `nbytes` together, and return the sum of each, in order.

    Uses threads of its own where that is worth while. Raises: what `move` and `parts` raise.
    """
    threads = usable_threads()
    with ThreadPoolExecutor(threads, "statekit-bulk") as executor:
        if nbytes <= _SMALL_NBYTES or not _takes_work(executor):
            return [move(part, offset) for offset, part in parts]
        moving = Moving(executor, threads, move, parts)
        try:
            return moving.wait()
        finally:
            moving.stop()


def _takes_work(executor: ThreadPoolExecutor) -> bool:
    """Whether the interpreter still starts threads; at its exit it does not."""
    try:
        executor.submit(int)
    except RuntimeError:
        return False
    return True
