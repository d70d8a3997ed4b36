"""Checking mode: whether a model does with its values what its schema says.

Off by default, and then nothing of it is loaded: adapters are of the classes that were generated.
On (`STATEKIT_VALIDATE=1`, or `enabled()` for a test), an adapter that is made is of a checked
subclass, and every value that goes through it is compared with its schema. A difference raises
`DeclarationError`, with the value, the line of the schema and the line of the model.

    C1  A write that raises has changed nothing.
    C2  A change is reported once: what is there then counts as stored.
    C3  Nothing here keeps a value alive: fingerprints have weak references and sums of bytes.
    C4  What the runtime does itself (parking, rings that cut) is no finding.

Not here: what a schema may say (the generator), and bytes (`statekit.accounting`).

Thread rule: as the session's own. Writes are seen as they happen in the thread that entered
`watch`; those of other threads at the next read, write or `look`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from statekit.checking.mode import enabled as enabled
from statekit.checking.mode import is_on as is_on

if TYPE_CHECKING:
    from statekit.session import SessionState

__all__ = ["enabled", "is_on", "look", "watch"]


def look(session: SessionState) -> None:
    """Compare all that `session` holds with its schemas, and with what was stored.

    Raises:
        DeclarationError: the first difference.
    """
    from statekit.checking.book import book_of

    book_of(session).look()


def watch(session: SessionState) -> AbstractContextManager[None]:
    """While the context lasts, torch operations of this thread that write into what `session` holds
    raise before they write, unless its schema says `in_place`.

    Raises:
        DeclarationError: on entry, as `look`; in the body, from the operation itself.
    """
    from statekit.checking.guard import guarded

    return guarded(session)
