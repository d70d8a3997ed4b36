"""Replicas: a service of several managers, which begin, continue, move and lose sessions together.

    sessions    what a client calls;  client: the way of a step;  pending: one that is on its way
    service     where sessions begin and end;  fleet: replicas that come, drain and die
    directory   which session is where;  members: what is known of replicas
    moving      from one replica to another;  saving: snapshots, and where they are kept
    placement   where a new session goes, as pure functions
    replica     what one replica does;  inventory: what it has;  serving: the user's models
    turns       which step runs next;  lane: one session's place in that
    links       how calls get about;  reports: what is said

Here all of it runs in one process. Over a cluster: `statekit.ray`. Loads torch where there is a
manager, so not for a client or a directory.
"""
