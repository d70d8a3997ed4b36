"""What the live view shows of a service: its replicas at one moment, as data.

Owns the classes; they are read as those of `statekit.watch.picture` are. Loads without torch.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from statekit.watch.picture import Device, Happening

__all__ = ["LostOne", "Replica", "ServicePicture"]


@attrs.frozen
class Replica:
    """One replica, as the directory knows it.

    Attributes:
        host, pid: the process that it lives in.
        state: serving, draining or dead.
        devices: what its sessions hold or were promised, and the budgets.
        steps: those it has done; `steps_per_s` lately, None where that is not known yet.
        begun, came, went, restored, refused, lost: sessions that began there, came or left by a
            move, came out of a snapshot, found no room there, were lost with it.
        snapshot_age_s: of the oldest among its sessions' last snapshots; None without any.
        unsaved_steps: what would be lost if it died now.
        unsaved: sessions whose last snapshot could not be taken.
    """

    name: str
    host: str
    pid: int
    state: str
    sessions: int
    max_sessions: int
    devices: tuple[Device, ...]
    steps: int
    steps_per_s: float | None
    running: int
    waiting: int
    begun: int
    came: int
    went: int
    restored: int
    refused: int
    lost: int
    snapshot_age_s: float | None
    unsaved_steps: int
    unsaved: int

    @property
    def share(self) -> float:
        """The part of its tightest budget that is taken; places count as one. 0 for a dead one."""
        if self.state == "dead":
            return 0.0
        shares = [self.sessions / max(1, self.max_sessions)]
        shares += [
            one.nbytes / max(1, one.budget) for one in self.devices if one.budget is not None
        ]
        return max(shares)


@attrs.frozen
class LostOne:
    """A session that was lost with its replica; `saved_step` is of its last snapshot."""

    session_id: str
    replica: str
    model: str
    reason: str
    saved_step: int | None


@attrs.frozen
class ServicePicture:
    """A service at one moment.

    `replicas` are the first of `replica_count` by the order that was asked for, `lost` the first of
    `lost_count`. `age_s` says how long ago the directory answered, None that it never did;
    `problem` why it does not now, None where it does.
    """

    pid: int
    name: str
    age_s: float | None
    problem: str | None
    sessions: Mapping[str, int]
    refused: int
    replica_count: int
    replicas: tuple[Replica, ...]
    lost_count: int
    lost: tuple[LostOne, ...]
    happenings: tuple[Happening, ...]
