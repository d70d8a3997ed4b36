"""The manager's books: who holds how many bytes where, and what became of those who left.

footprint   the memory of one value, looked at again only when it changed
ledger      sums over all sessions, from footprints
record      one session's use, bytes and parked units
departures  a bounded memory of sessions that are gone
"""
