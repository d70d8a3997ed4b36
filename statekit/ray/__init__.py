"""Replicas as Ray actors: the transport of `statekit.replicas` over a cluster.

    link     how a call gets to an actor, and what its errors mean here
    actors   what runs in the processes: a replica, the directory
    keeper   snapshots in the object store
    cluster  starting a service, finding one, ending it

Needs the extra `ray`; nothing else of statekit imports this.
"""
