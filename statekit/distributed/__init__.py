"""Ranks that decide together: one `GroupSessions` on every rank of a model, and one table for all.

sessions   GroupSessions: the manager's face, called in the same order on every rank
leasing    how sessions begin, go on and end
deciding   the course of a begin, a return and a look: who says what, and what follows
carrying   what a plan becomes on all ranks at once
council    one meeting of all ranks: the same call, everybody's word, one outcome
exchange   every rank's bytes on every rank, within a time
register   the one outcome of a meeting, for those that it did not reach
calls      which calls were made, so that ranks that differ are told where
table      the sessions that all ranks have, in the order of their use
schedule   when a group looks at its bytes though nothing asks for it
merging    the facts of all ranks, as one planner sees them
terms      what the ranks agreed on when they joined, and the arithmetic of it
joining    how they do
schemas    what a spec says of every rank
hands      what one rank does: says what it holds, parks, releases, ends
"""

from statekit.distributed.sessions import GroupSessions

__all__ = ["GroupSessions"]
