"""Roll: the sessions that live, and what they occupy.

Owns the looks at all sessions at once, and what is left to do for those that died. Holds nothing
itself: who lives is known to the table, bytes to the ledger.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from typing import Any

from statekit.accounting import SeenStorages, merge_bytes
from statekit.books.ledger import Ledger
from statekit.books.record import Record
from statekit.objects.engine_handle import EngineHandle
from statekit.table import SessionTable

__all__ = ["Roll"]


class Roll:
    """The records of one manager's sessions, in the table or still held by somebody."""

    def __init__(self, table: SessionTable, ledger: Ledger) -> None:
        self._table = table
        self._ledger = ledger

    def call(self) -> list[Record]:
        """The records of all live sessions; those of dead ones are taken off the books."""
        self.bury()
        return [one.record for one in self._table.live() if one.record is not None]

    def bury(self) -> None:
        """Take the records of dead sessions off the books."""
        for record in self._table.dead():
            record.forget(self._ledger)
            for engine in record.engines.values():
                _close(engine, record.session_id)

    def refreshed(self, *, used: bool = False) -> list[Record]:
        """The records of all live sessions, with what they occupy now.

        Args:
            used: look only at those that are in use or were since the last look.
        """
        records = self.call()
        looks = [one for one in records if one.was_used()] if used else records
        for count, record in enumerate(looks, 1):
            record.refresh(self._ledger)
            if count % 16 == 0:
                time.sleep(0)  # lets other threads have the interpreter: they serve requests
        return records

    @staticmethod
    def staged(records: Iterable[Record]) -> dict[str, int]:
        """Bytes by device of steps under way, less those that the same session has committed.

        Staged data, and what steps keep to go back to.
        """
        total: dict[str, int] = {}
        for record in records:
            session = record.session
            if session is not None and (record.staged or session.open_step is not None):
                seen = SeenStorages()
                session.nbytes_by_device(seen)
                merge_bytes(total, session.staged_nbytes_by_device(seen))
                merge_bytes(total, session.undo_nbytes_by_device(seen))
        return total


def _close(engine: EngineHandle[Any], session_id: str) -> None:
    """Give an engine back what a session held that is gone; who comes along is told no error."""
    try:
        engine.reset()
    except Exception as error:
        warnings.warn(f"an engine kept what {session_id!r} held: {error!r}", stacklevel=2)
