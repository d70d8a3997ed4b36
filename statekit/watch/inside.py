"""What watchers read of a manager: the one place that knows where it keeps its books.

Owns no state. Nothing here holds the manager's lock for more than a copy of its list of sessions.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from statekit.books.record import Record
from statekit.pressure.relief import Relief
from statekit.table import SessionTable

if TYPE_CHECKING:
    from statekit.manager import SessionStateManager

__all__ = ["clock_of", "looked_at", "records_of", "relief_of", "table_of"]

_AT_ONCE = 8
"""Sessions that are looked at before other threads are let through."""


def table_of(manager: SessionStateManager) -> SessionTable:
    """The table: its counters are read one by one, as whole numbers."""
    return manager._table


def relief_of(manager: SessionStateManager) -> Relief:
    """Bytes as of the last looks, and what would be given up."""
    return manager._relief


def clock_of(manager: SessionStateManager) -> Callable[[], float]:
    """The manager's clock."""
    return manager._clock


def records_of(manager: SessionStateManager) -> list[Record]:
    """The records of all live sessions, in the table or out of it."""
    return [one.record for one in manager._table.live() if one.record is not None]


def looked_at(manager: SessionStateManager) -> list[Record]:
    """The records of all live sessions, after a look at those of which the books may be old.

    The books are up to date for sessions that nobody uses: a lease that ends books what it leaves.
    Sessions in use, and those used without leases, are looked at here, unless another thread is at
    it. A request that ends its lease just then waits for a look that it would else take itself.
    What sessions held that nobody holds any more goes off the books, as with `stats()`. A value
    whose own code fails is a warning: its session keeps the bytes of the last look.
    """
    manager._roll.bury()
    records = records_of(manager)
    ledger = manager._roll._ledger
    for record in _now_and_then(records):
        if record.was_used() and not record.walk.locked():
            try:
                record.refresh(ledger)
            except Exception as error:
                key = record.session_id
                warnings.warn(f"session {key!r} was not looked at: {error!r}", stacklevel=2)
    return records


def _now_and_then(records: list[Record]) -> Iterator[Record]:
    """The records, with a pause after every few, for the threads that serve requests."""
    for count, record in enumerate(records, 1):
        yield record
        if count % _AT_ONCE == 0:
            time.sleep(0)
