"""Snapshots of sessions: what is saved of them, when, and how they come back.

    contents   what of a session is saved;  kinds: of its objects;  about: what stands beside
    boundary   when a session may be looked at while it is served
    restored   a session out of what was read, under the schemas of today
    saving     one session in one's own hands
    archive    the sessions of a manager in a folder;  folder: the names of files
    periodic   every so often
    methods    what of a manager's face is about it

The file itself is `statekit.snapshot_file`.
"""
