"""The numbers of a manager, as `stats()` gives them to a metrics endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from statekit.books.record import Record
from statekit.pressure.relief import Relief
from statekit.roll import Roll
from statekit.table import SessionTable

__all__ = ["stats"]


def stats(
    table: SessionTable, relief: Relief, records: Sequence[Record], budgets: Mapping[str, int]
) -> dict[str, int]:
    """Counters and bytes, as of the last look at each of `records`."""
    committed = relief.used()
    found = {
        "sessions": len(table),
        "max_sessions": table.max_sessions,
        "hits": table.hits,
        "misses": table.misses,
        "evictions": table.evictions,
        "leases": sum(record.leases for record in records),
        "total_nbytes": sum(committed.values()),
    }
    staged, parked = Roll.staged(records), relief.parked()
    found["staged_nbytes"] = sum(staged.values())
    found.update({f"nbytes:{device}": n for device, n in sorted(committed.items())})
    found.update({f"staged_nbytes:{device}": n for device, n in sorted(staged.items())})
    found.update({f"parked_nbytes:{tier}": n for tier, n in sorted(parked.items())})
    for device, limit in sorted(budgets.items()):
        found[f"budget_nbytes:{device}"] = limit
        found[f"over_budget_nbytes:{device}"] = max(0, committed.get(device, 0) - limit)
    return found
