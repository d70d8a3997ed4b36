"""Evolution: whether bytes that were saved under one schema may be read under another.

record       the part of a spec that saved bytes depend on, as plain JSON data, and its fingerprint
reading      the way back to a spec, from a record that nobody vouches for
stored_type  which Python types take every value of another one
sizes        the numbers behind sizes and bounds, of both sides
saved_data   the comparison of one value with its former self
differences  the comparison of two records, as a tuple of Difference
rules        what is looked at, by id

Imports neither torch nor the generator: tools compare schemas with it, restores snapshots.
"""

from statekit.evolution.difference import Difference as Difference
from statekit.evolution.differences import snapshot_differences as snapshot_differences
from statekit.evolution.reading import BadRecordError as BadRecordError
from statekit.evolution.reading import read_record as read_record
from statekit.evolution.record import fingerprint as fingerprint
from statekit.evolution.record import record_of as record_of
from statekit.evolution.rules import SNAPSHOT_RULES as SNAPSHOT_RULES

__all__ = [
    "SNAPSHOT_RULES",
    "BadRecordError",
    "Difference",
    "fingerprint",
    "read_record",
    "record_of",
    "snapshot_differences",
]
