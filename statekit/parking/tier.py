"""What every tier offers: values leave in two phases and come back in two.

Owns the contract and what follows from it for all tiers. Not here: how bytes move
(`statekit.parking.host`, `statekit.parking.disk`), when, and who lets go of the original.

    parking = tier.begin_park(take_image(value))      # copies begin
    parked = parking.finish()                         # now the parked copy is good
    del value                                         # the owner's: the original was untouched

    restoring = parked.begin_restore()
    value = restoring.finish()                        # the parked copy is still there
    parked.discard()

    T1  Until `Parking.finish` returns, the original is good and untouched; the owner must not
        change it meanwhile.
    T2  A parked copy is good until `discard`, however often a restore fails or is aborted.
    T3  What raises or is aborted leaves nothing behind: no file, no buffer, no copy under way.

Thread rule: a tier may be used by any number of threads. A parking, a parked value and a restoring
belong to one owner at a time.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from concurrent.futures import CancelledError
from typing import Any, Generic, Protocol, TypeVar

from statekit.accounting import SeenStorages
from statekit.errors import ParkError
from statekit.image.taking import Image

__all__ = ["FAILURES", "Parked", "Parking", "Restoring", "Tier", "Transfer", "park_error"]

Outcome_co = TypeVar("Outcome_co", covariant=True)

FAILURES = (OSError, RuntimeError, MemoryError, ValueError, CancelledError)
"""What moving bytes can raise: no disk, no memory, a device that fails, a tier closed meanwhile."""


class Tier(Protocol):
    """A place for values that nobody uses now."""

    name: str
    takes_nbytes: int
    """What a parked value takes beyond its own bytes, at most."""

    def begin_park(self, image: Image) -> Parking:
        """Begin to copy the image's storages; `finish` of the result ends it.

        Raises:
            ParkError: it could not begin, or has nothing to do with such a value.
        """


class Parked(Protocol):
    """A value in a tier."""

    def begin_restore(self) -> Restoring:
        """Begin to bring the value back; the parked copy stays.

        Raises:
            ParkError: it could not begin; the parked copy is as good as before.
        """

    def discard(self) -> None:
        """Let the parked copy go; safe to repeat, and while a restore is being finished."""

    def nbytes_by_device(self, seen: SeenStorages | None = None) -> dict[str, int]:
        """Bytes that the parked copy holds, less what `seen` has met."""


class Transfer(ABC, Generic[Outcome_co]):
    """Bytes on their way; ends once, by `finish` or `abort`."""

    def __init__(self, tier: str, operation: str) -> None:
        self._tier = tier
        self._operation = operation
        self._ended = ""

    def finish(self) -> Outcome_co:
        """Wait for the end and return what came of it.

        Raises:
            ParkError: it failed, and all is as it was before it began; or it has ended before.
        """
        if self._ended:
            found = f"it was {self._ended} before"
            raise ParkError(self._tier, self._operation, found, "begin anew")
        try:
            outcome = self._complete()
        except BaseException as error:
            self.abort()
            if isinstance(error, FAILURES):
                raise park_error(self._tier, self._operation, error) from error
            raise
        self._ended = "finished"
        return outcome

    def abort(self) -> None:
        """Undo what was begun, and wait until no copy is under way; nothing where it has ended."""
        if not self._ended:
            self._ended = "aborted"
            self._undo()

    @abstractmethod
    def _complete(self) -> Outcome_co:
        """Wait and make the outcome; called at most once."""

    @abstractmethod
    def _undo(self) -> None:
        """Stop, wait, and remove what was made; must not raise."""


Parking = Transfer[Parked]
Restoring = Transfer[Any]


def park_error(tier: str, operation: str, error: BaseException) -> ParkError:
    """What a failure means to whoever reads the log.

    Whoever keeps the error must not keep the memory that was had before the failure, so `error`
    loses its frames.
    """
    error.__traceback__ = None
    if isinstance(error, OSError):
        found = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            todo = "free disk space, or give the tier a folder with more"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            todo = "give this process the right to read and write the folder"
        elif error.errno == errno.ENOENT:
            todo = "keep other programs from removing files of a running process"
        else:
            todo = "check the folder and its disk"
        return ParkError(tier, operation, found, todo)
    found = str(error).strip().split("\n")[0] or type(error).__name__
    if isinstance(error, CancelledError):
        return ParkError(tier, operation, "the tier was closed meanwhile", "open another one")
    todo = "free memory, or lower the budgets, and try again"
    return ParkError(tier, operation, found, todo)
