"""What happened to a service between two of its answers, in words.

Owns the words. Who asks is `following`; what a manager's events are called is `logs`.

    H1  What the same answer says twice is no news.
    H2  Text from elsewhere, ids and reasons, is escaped: news is one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from statekit.text import on_one_line

if TYPE_CHECKING:
    from statekit.replicas.reports import ReplicaStatus, ServiceStatus

__all__ = ["News", "news"]

_MOST = 20
"""Lost sessions that are named at a time."""
_BECOMES = {
    "serving": "serves",
    "draining": "drains: no session begins there",
    "dead": "is dead: its sessions are restored elsewhere, or lost",
}


@attrs.frozen
class News:
    """One thing that happened: its kind, whether an operator should see it, and the words."""

    kind: str
    warning: bool
    text: str


def news(before: ServiceStatus | None, after: ServiceStatus) -> Iterator[News]:
    """What is new; of a first answer, what an operator should know."""
    known = {} if before is None else {one.facts.name: one for one in before.replicas}
    for one in after.replicas:
        yield from _of_replica(known.pop(one.facts.name, None), one, first=before is None)
    for name in known:
        yield News("removed", False, f"replica {_quoted(name)} was removed")
    listed = set() if before is None else set(before.lost)
    lost = [gone for gone in after.lost if gone not in listed]
    for gone in lost[:_MOST]:
        kept = "no snapshot" if gone.saved_step is None else f"a snapshot of step {gone.saved_step}"
        why = f"was lost with replica {_quoted(gone.replica)}: {on_one_line(gone.reason)}"
        yield News("lost", True, f"session {_quoted(gone.session_id)} {why}; there is {kept}")
    if len(lost) > _MOST:
        yield News("lost", True, f"and {len(lost) - _MOST} more sessions were lost")
    refused = 0 if before is None else after.refused - before.refused
    if refused > 0:
        yield News("refused", True, f"{_sessions(refused)} fitted on no replica")


def _of_replica(
    before: ReplicaStatus | None, after: ReplicaStatus, *, first: bool
) -> Iterator[News]:
    name = f"replica {_quoted(after.facts.name)}"
    state = None if before is None else before.state
    if after.state != state and not (first and after.state == "serving"):
        yield News(after.state, after.state == "dead", f"{name} {_BECOMES[after.state]}")
    for what, kind, how in (
        ("went", "moved", "moved away from"),
        ("restored", "restored", "came out of snapshots on"),
    ):
        count = 0 if before is None else after.counts.get(what, 0) - before.counts.get(what, 0)
        if count > 0:
            yield News(kind, kind == "restored", f"{_sessions(count)} {how} {name}")
    failing = {} if before is None else before.unsaved
    fresh = sorted(key for key in after.unsaved if key not in failing)
    if fresh:
        reason = on_one_line(after.unsaved[fresh[0]])
        words = (
            f"{_sessions(len(fresh))} on {name} could not be saved, {_quoted(fresh[0])}: {reason}"
        )
        yield News("not_saved", True, words)


def _sessions(count: int) -> str:
    return "1 session" if count == 1 else f"{count} sessions"


def _quoted(text: str) -> str:
    return f"'{on_one_line(text)}'"
