"""The rules of snapshots: what a comparison of two records looks at, by id.

An id is never used again for another rule. `docs/rules.md` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["SNAPSHOT_RULES"]

SNAPSHOT_RULES: Mapping[str, str] = {
    "SNAPSHOT_MODEL": "A snapshot is restored into the model that it was taken of.",
    "SNAPSHOT_VALUE_GONE": "A value that a snapshot holds data of is still there, under its name.",
    "SNAPSHOT_VALUE_NEW": "A value that is new reads as its default after a restore.",
    "SNAPSHOT_BUCKET": "A value is in the bucket that its data was saved from.",
    "SNAPSHOT_OBJECT": "A value is in the kind of object that its data was saved from.",
    "SNAPSHOT_KEY": "The data of a value is found under the key that it was saved with.",
    "SNAPSHOT_FAMILY": "Every member of a family that a snapshot may hold is still there; a "
    "numbered family has as many as before.",
    "SNAPSHOT_TYPE": "A type takes every value that the old one took.",
    "SNAPSHOT_DTYPE": "The elements that were saved are of the type that is read.",
    "SNAPSHOT_SIZE": "A saved value has the shape, or the number of elements, that is read.",
    "SNAPSHOT_RING": "A buffer keeps at least what it kept, counted in the same way.",
    "SNAPSHOT_INDEX": "The keys of a store have the form and the measure of when it was saved.",
    "SNAPSHOT_CODEC": "The values of a store are kept in the form that they were saved in.",
    "SNAPSHOT_LIFETIME": "A value that a snapshot may hold lives as long as its session.",
    "SNAPSHOT_DEFAULT": "A value that a snapshot holds no data of reads as it did.",
    "SNAPSHOT_COERCE": "What is assigned from now on is converted as before; saved data is not.",
    "SNAPSHOT_ATOMIC": "A group whose values belong together gains no value that a snapshot lacks.",
    "SNAPSHOT_PARAMETER": "The numbers that a session was built with are still accepted.",
    "SNAPSHOT_NUMBER": "Symbols and constants may change where no saved value has another size.",
    "SNAPSHOT_DEVICE": "A device may change: where saved data goes is said at the restore.",
    "SNAPSHOT_UPDATE": "How the model changes a value is no matter of what was saved.",
}
"""Id to what holds where the rule finds nothing that breaks, in one sentence."""
