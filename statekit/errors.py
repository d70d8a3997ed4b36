"""Every error that statekit raises on purpose, in one tree.

    StatekitError
    ├── SchemaError (ValueError)              a schema file is wrong; carries all its problems
    ├── ExpressionError (ValueError)          a size expression is no such, or has no value
    ├── GenerateError                         a run of the generator could not be carried out
    ├── SettingsError (ValueError)            a deploy config says something that is no setting
    ├── ParameterError (ValueError)           an adapter's parameter is out of its bounds
    ├── ParameterConflictError (ValueError)   two adapters of one session disagree on a parameter
    ├── PayloadError (ValueError)             a payload does not fit the object it is written into
    ├── NotAllocatedError (RuntimeError)      a StateObject is used before `allocate`
    ├── AlreadyEncodedError (RuntimeError)    an encode-once value is written a second time
    ├── PartialFamilyError (RuntimeError)     some members of a family are resident, others are not
    ├── MissingOutputError (RuntimeError)     a model did not produce what was to be kept
    ├── UnparkableError                       a value has a part of which no picture can be taken
    ├── ParkError                             a value could not be parked, or not brought back
    ├── BudgetError (ValueError)              a budget is no amount, or cannot be computed here
    │   └── BudgetTooSmallError               a budget cannot hold even one session of a model
    ├── PolicyError (RuntimeError)            a policy failed, or decided nothing that is a plan
    ├── SessionAdmissionError (RuntimeError)  a new session does not fit into a budget
    ├── SessionExistsError (RuntimeError)     a session begins under an id that lives already
    ├── SessionStateLostError (RuntimeError)  a session to be continued is gone
    ├── HandOverError (RuntimeError)          a shared object is handed over already
    │   └── HandOverTimeoutError              other threads had it for too long
    ├── DeclarationError (ValueError)         checking mode: a value is not what its schema declares
    ├── StepError (RuntimeError)              a step begins or ends where none can
    ├── ForkError (RuntimeError)              a session cannot be forked, or a fork not promoted
    ├── SnapshotError                         a snapshot could not be written, read or restored
    │   ├── UnsavableError                    a value cannot be in a snapshot; nothing was written
    │   ├── DamagedSnapshotError              a file is no snapshot, or not as it was written
    │   └── IncompatibleSnapshotError         a sound snapshot of another model, schema or machine
    ├── ServiceError (RuntimeError)           replicas could not do what they were asked
    │   ├── ReplicaDiedError                  a replica does not answer any more
    │   ├── StaleEpochError                   a call for a session that its replica has no more
    │   ├── SessionRewoundError               a session goes on from its last snapshot
    │   ├── QueueFullError                    too many steps wait already
    │   ├── StepOrderError                    a numbered step came out of its order
    │   ├── StepCancelledError                a step was cancelled
    │   ├── StepUnknownError                  nobody knows whether a step was done
    │   └── MoveError                         a session could not be moved; it is where it was
    ├── GroupError (RuntimeError)             ranks cannot decide together
    │   ├── RanksDifferError                  ranks are called, or set up, in different ways
    │   └── RankLostError                     a rank does not answer any more
    ├── WatchError                            a manager cannot be watched, or not from here
    └── EquivalenceError (AssertionError)     an adapter is not what the hand-rolled class was

Each error keeps what it knows as fields and passes exactly its constructor's arguments to
`Exception`, so that it survives pickling between processes; `str()` builds the sentence.
The builtin bases are those that the hand-rolled classes raise: an integration that catches
`ValueError` or `RuntimeError` today goes on working.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

__all__ = [
    "AlreadyEncodedError",
    "BudgetError",
    "BudgetTooSmallError",
    "DamagedSnapshotError",
    "DeclarationError",
    "EquivalenceError",
    "ExpressionError",
    "ForkError",
    "GenerateError",
    "GroupError",
    "HandOverError",
    "HandOverTimeoutError",
    "IncompatibleSnapshotError",
    "MissingOutputError",
    "MoveError",
    "NotAllocatedError",
    "ParameterConflictError",
    "ParameterError",
    "ParkError",
    "PartialFamilyError",
    "PayloadError",
    "PolicyError",
    "Problem",
    "QueueFullError",
    "RankLostError",
    "RanksDifferError",
    "ReplicaDiedError",
    "SchemaError",
    "ServiceError",
    "SessionAdmissionError",
    "SessionExistsError",
    "SessionRewoundError",
    "SessionStateLostError",
    "SettingsError",
    "SnapshotError",
    "StaleEpochError",
    "StatekitError",
    "StepCancelledError",
    "StepError",
    "StepOrderError",
    "StepUnknownError",
    "UnparkableError",
    "UnsavableError",
    "WatchError",
]


@attrs.frozen(order=True)
class Problem:
    """One thing that is wrong in a schema file: place, rule, what was found, what to do.

    Orders by place. `line` and `column` count from 1; `path` is a JSON path such as
    `$.values.frames.ring.bound`.
    """

    file: str
    line: int
    column: int
    rule: str
    path: str
    found: str
    todo: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}"
        return f"{place}: {self.rule} at {self.path}: {self.found}; {self.todo}"


class StatekitError(Exception):
    """The base of every error that statekit raises on purpose."""


class SchemaError(StatekitError, ValueError):
    """A schema file cannot be used; `problems` holds everything wrong with it, by place."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class ExpressionError(StatekitError, ValueError):
    """A size expression is outside the grammar, or cannot be evaluated."""

    def __init__(self, text: str, found: str, todo: str) -> None:
        super().__init__(text, found, todo)
        self.text, self.found, self.todo = text, found, todo

    def __str__(self) -> str:
        return f"expression {self.text!r}: {self.found}; {self.todo}"


class GenerateError(StatekitError):
    """The generator could not run, or refused to; nothing was written."""

    def __init__(self, place: str, found: str, todo: str) -> None:
        super().__init__(place, found, todo)
        self.place, self.found, self.todo = place, found, todo

    def __str__(self) -> str:
        return f"{self.place}: {self.found}; {self.todo}"


class SettingsError(StatekitError, ValueError):
    """A configuration field or file of the session-state settings is unusable."""

    def __init__(self, setting: str, found: str, todo: str) -> None:
        super().__init__(setting, found, todo)
        self.setting, self.found, self.todo = setting, found, todo

    def __str__(self) -> str:
        return f"{self.setting}: {self.found}; {self.todo}"


class ParameterError(StatekitError, ValueError):
    """An adapter was built with a parameter outside the bounds that its schema states."""

    def __init__(self, parameter: str, found: object, todo: str) -> None:
        super().__init__(parameter, found, todo)
        self.parameter, self.found, self.todo = parameter, found, todo

    def __str__(self) -> str:
        return f"{self.parameter}: got {self.found!r}; {self.todo}"


class ParameterConflictError(StatekitError, ValueError):
    """A second adapter asked for another size than the session was built with."""

    def __init__(self, session_id: str, parameter: str, first: object, now: object) -> None:
        super().__init__(session_id, parameter, first, now)
        self.session_id, self.parameter, self.first, self.now = session_id, parameter, first, now

    def __str__(self) -> str:
        return (
            f"session {self.session_id!r} was built with {self.parameter}={self.first!r}, "
            f"now {self.now!r} is asked for; pass the same value, or reset the session first"
        )


class PayloadError(StatekitError, ValueError):
    """A payload does not fit the object it was to be written into; nothing was written."""

    def __init__(self, where: str, found: str, todo: str) -> None:
        super().__init__(where, found, todo)
        self.where, self.found, self.todo = where, found, todo

    def __str__(self) -> str:
        return f"{self.where}: {self.found}; {self.todo}"


class NotAllocatedError(StatekitError, RuntimeError):
    """A StateObject was used before `allocate()`, or after `reset()` or `evict()`."""

    def __init__(self, kind: str, operation: str) -> None:
        super().__init__(kind, operation)
        self.kind, self.operation = kind, operation

    def __str__(self) -> str:
        return f"{self.kind}.{self.operation}: the object is not allocated; call allocate() first"


class AlreadyEncodedError(StatekitError, RuntimeError):
    """An encode-once value that is already committed was written again."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind

    def __str__(self) -> str:
        return f"{self.kind}: a value is committed already; reset() it before encoding anew"


class PartialFamilyError(StatekitError, RuntimeError):
    """Some members of a family of objects hold a value and others do not."""

    def __init__(self, family: str, missing: Sequence[str]) -> None:
        super().__init__(family, tuple(missing))
        self.family, self.missing = family, tuple(missing)

    def __str__(self) -> str:
        shown = ", ".join(self.missing[:4]) + (", ..." if len(self.missing) > 4 else "")
        return (
            f"{self.family} is partially initialized: {len(self.missing)} missing ({shown}); "
            "clear the family and encode it anew"
        )


class MissingOutputError(StatekitError, RuntimeError):
    """A model's forward left nothing where its state was to be captured; nothing was stored."""

    def __init__(self, producer: str, output: str) -> None:
        super().__init__(producer, output)
        self.producer, self.output = producer, output

    def __str__(self) -> str:
        return (
            f"{self.producer} did not produce {self.output}; "
            "run its forward for this branch before the capture"
        )


class UnparkableError(StatekitError):
    """A value has a part that could not be brought back bit for bit; nothing was done.

    `path` leads to the part within the value, which is `$`.
    """

    def __init__(self, path: str, found: str, todo: str) -> None:
        super().__init__(path, found, todo)
        self.path, self.found, self.todo = path, found, todo

    def __str__(self) -> str:
        return f"{self.path}: {self.found} cannot be parked; {self.todo}"


class ParkError(StatekitError):
    """A value could not be parked in a tier, or not brought back from it.

    One good copy is left: the original where `operation` is "park", else the parked one, unless
    that is what was found to be damaged.
    """

    def __init__(self, tier: str, operation: str, found: str, todo: str) -> None:
        super().__init__(tier, operation, found, todo)
        self.tier, self.operation, self.found, self.todo = tier, operation, found, todo

    def __str__(self) -> str:
        return f"{self.operation} ({self.tier} tier): {self.found}; {self.todo}"


class BudgetError(StatekitError, ValueError):
    """A budget cannot be used as it is written, or this machine cannot compute it."""

    def __init__(self, device: str, found: str, todo: str) -> None:
        super().__init__(device, found, todo)
        self.device, self.found, self.todo = device, found, todo

    def __str__(self) -> str:
        return f"budget of {self.device}: {self.found}; {self.todo}"


class BudgetTooSmallError(BudgetError):
    """A budget cannot hold one session of a model, whatever is released."""

    def __init__(self, device: str, model: str, need_nbytes: int, budget_nbytes: int) -> None:
        super().__init__(
            device,
            f"one session of {model} declares {need_nbytes} bytes, the budget is {budget_nbytes}",
            f"raise it to at least {need_nbytes}, or lower the sizes in the schema",
        )
        self.args = (device, model, need_nbytes, budget_nbytes)
        self.model, self.need_nbytes, self.budget_nbytes = model, need_nbytes, budget_nbytes


class PolicyError(StatekitError, RuntimeError):
    """A policy raised, or returned something else than a plan; nothing was given up."""

    def __init__(self, policy: str, found: str) -> None:
        super().__init__(policy, found)
        self.policy, self.found = policy, found

    def __str__(self) -> str:
        return f"policy {self.policy}: {self.found}; mend it, or leave `policy` out"


class SessionAdmissionError(StatekitError, RuntimeError):
    """A new session does not fit now; no session was built and none was touched.

    `holders` are the sessions that hold most of the device, as (id, bytes). Where `device` is
    "sessions", the table is full of sessions that may not be lost.
    """

    def __init__(
        self,
        session_id: str,
        device: str,
        need: int,
        available: int,
        limit: int,
        holders: Sequence[tuple[str, int]],
    ) -> None:
        holders = tuple(holders)
        super().__init__(session_id, device, need, available, limit, holders)
        self.session_id, self.device = session_id, device
        self.need, self.available, self.limit, self.holders = need, available, limit, holders

    def __str__(self) -> str:
        if self.device == "sessions":
            return (
                f"session {self.session_id!r} is refused: the table holds {self.limit} sessions, "
                "and none of them may be lost; drop one, raise max_sessions, or set idle_timeout_s"
            )
        held = ", ".join(f"{name!r} {nbytes}" for name, nbytes in self.holders) or "promises alone"
        return (
            f"session {self.session_id!r} is refused: it declares {self.need} bytes on "
            f"{self.device}, {self.available} of a budget of {self.limit} can be had; held by "
            f"{held}; drop a session, or raise budgets[{self.device!r}]"
        )


class SessionExistsError(StatekitError, RuntimeError):
    """A session was to begin under an id that lives already; that session is untouched."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id

    def __str__(self) -> str:
        return (
            f"session {self.session_id!r} lives already; continue it (lease without begin), or "
            "drop it before it begins anew"
        )


class SessionStateLostError(StatekitError, RuntimeError):
    """A session that was to be continued is gone; it was not started anew.

    `how` is "evicted", "dropped", "expired", "replica died" or "unknown"; `ago_s` is how long ago.
    """

    def __init__(self, session_id: str, how: str, ago_s: float | None, reason: str) -> None:
        super().__init__(session_id, how, ago_s, reason)
        self.session_id, self.how, self.ago_s, self.reason = session_id, how, ago_s, reason

    def __str__(self) -> str:
        when = "" if self.ago_s is None else f" {self.ago_s:.1f} s ago"
        return (
            f"session {self.session_id!r} cannot be continued: {self.how}{when} ({self.reason}); "
            "tell its client, and begin a new session"
        )


class HandOverError(StatekitError, RuntimeError):
    """A shared object could not be handed over to a session; its fields are untouched."""

    def __init__(self, owner: str, found: str, todo: str) -> None:
        super().__init__(owner, found, todo)
        self.owner, self.found, self.todo = owner, found, todo

    def __str__(self) -> str:
        return f"hand-over of {self.owner}: {self.found}; {self.todo}"


class HandOverTimeoutError(HandOverError):
    """Other threads had a shared object for longer than the caller would wait."""


class DeclarationError(StatekitError, ValueError):
    """Checking mode found a value that is not what its schema declares.

    `value` is its name, `declared_at` the schema's file and line, `site` the file and line of the
    model's code that was running.
    """

    def __init__(self, value: str, declared_at: str, site: str, found: str, todo: str) -> None:
        super().__init__(value, declared_at, site, found, todo)
        self.value, self.declared_at, self.site = value, declared_at, site
        self.found, self.todo = found, todo

    def __str__(self) -> str:
        return f"{self.value} ({self.declared_at}): {self.found}, at {self.site}; {self.todo}"


class StepError(StatekitError, RuntimeError):
    """A step of a session cannot begin or end here; the session is as it was."""

    def __init__(self, session_id: str, found: str, todo: str) -> None:
        super().__init__(session_id, found, todo)
        self.session_id, self.found, self.todo = session_id, found, todo

    def __str__(self) -> str:
        return f"step of session {self.session_id!r}: {self.found}; {self.todo}"


class ForkError(StatekitError, RuntimeError):
    """A session could not be forked, or a fork not promoted; both are as they were."""

    def __init__(self, session_id: str, found: str, todo: str) -> None:
        super().__init__(session_id, found, todo)
        self.session_id, self.found, self.todo = session_id, found, todo

    def __str__(self) -> str:
        return f"fork of session {self.session_id!r}: {self.found}; {self.todo}"


class SnapshotError(StatekitError):
    """A snapshot could not be written, read or restored; nothing was half done.

    `place` is a file, a session or a value of one.
    """

    def __init__(self, place: str, found: str, todo: str) -> None:
        super().__init__(place, found, todo)
        self.place, self.found, self.todo = place, found, todo

    def __str__(self) -> str:
        return f"{self.place}: {self.found}; {self.todo}"


class UnsavableError(SnapshotError):
    """A value of a session cannot be in a snapshot; nothing was written."""


class DamagedSnapshotError(SnapshotError):
    """A file is no snapshot, or not the one that was written; nothing was restored."""


class IncompatibleSnapshotError(SnapshotError):
    """A sound snapshot does not fit the model, schema or machine it is restored into."""


class ServiceError(StatekitError, RuntimeError):
    """Replicas could not do what they were asked; nothing was half done."""

    def __init__(self, place: str, found: str, todo: str) -> None:
        super().__init__(place, found, todo)
        self.place, self.found, self.todo = place, found, todo

    def __str__(self) -> str:
        return f"{self.place}: {self.found}; {self.todo}"


class ReplicaDiedError(ServiceError):
    """A replica does not answer any more; whether it has done what it was asked is not known."""

    def __init__(self, replica: str, found: str) -> None:
        super().__init__(f"replica {replica!r}", found, "begin elsewhere, or continue what moved")
        self.args = (replica, found)
        self.replica = replica


class StaleEpochError(ServiceError):
    """A call came to a replica that does not have the session under this epoch; nothing was done.

    Epochs rise whenever a session begins, moves or is restored: only its present owner knows the
    present one.
    """

    def __init__(self, session_id: str, replica: str, epoch: int, present: int | None) -> None:
        known = "does not have it" if present is None else f"has it under epoch {present}"
        found = f"epoch {epoch} is over: replica {replica!r} {known}"
        super().__init__(f"session {session_id!r}", found, "ask the directory where it is")
        self.args = (session_id, replica, epoch, present)
        self.session_id, self.replica = session_id, replica
        self.epoch, self.present = epoch, present


class SessionRewoundError(ServiceError):
    """A session goes on from its last snapshot, because its replica died; told once a client.

    `step` is how many steps its state holds now, `seen` how many this client knew to be done. With
    fewer than those, the others are undone. With more, what those gave is lost: they were done and
    saved, and the replica died before it could answer.
    """

    def __init__(self, session_id: str, step: int, seen: int | None) -> None:
        known = "" if seen is None else f", {seen} steps of it were known to be done"
        found = f"its replica died, and it goes on from its snapshot of step {step}{known}"
        super().__init__(
            f"session {session_id!r}", found, f"send again what came after step {step}"
        )
        self.args = (session_id, step, seen)
        self.session_id, self.step, self.seen = session_id, step, seen


class QueueFullError(ServiceError):
    """A step was refused because too many wait already; it did not run.

    `of` is "session" or "replica": whose queue is full.
    """

    def __init__(self, session_id: str, of: str, waiting: int, limit: int) -> None:
        found = f"{waiting} steps wait for its {of}, of {limit} that may"
        super().__init__(f"session {session_id!r}", found, "wait for one to end, and send it again")
        self.args = (session_id, of, waiting, limit)
        self.session_id, self.of, self.waiting, self.limit = session_id, of, waiting, limit


class StepOrderError(ServiceError):
    """A numbered step is not the next one of its session; it did not run."""

    def __init__(self, session_id: str, number: int, due: int, why: str) -> None:
        found = f"step {number} is refused, {why}; step {due} is the next"
        super().__init__(f"session {session_id!r}", found, "go on from there")
        self.args = (session_id, number, due, why)
        self.session_id, self.number, self.due, self.why = session_id, number, due, why


class StepCancelledError(ServiceError):
    """A step was cancelled; `state` is "not run" or "rolled back", the same for the session."""

    def __init__(self, session_id: str, state: str) -> None:
        found = f"a step of it was cancelled, and is {state}"
        super().__init__(f"session {session_id!r}", found, "go on with another step")
        self.args = (session_id, state)
        self.session_id, self.state = session_id, state


class StepUnknownError(ServiceError):
    """No answer came to a step, and it may have been done; it was not sent again."""

    def __init__(self, session_id: str, found: str) -> None:
        super().__init__(
            f"session {session_id!r}",
            f"nobody knows whether a step of it was done ({found})",
            "ask count() how many it has done, and go on from there",
        )
        self.args = (session_id, found)
        self.session_id = session_id


class MoveError(ServiceError):
    """A session could not be moved to another replica; it goes on where it is."""


class GroupError(StatekitError, RuntimeError):
    """Ranks that decide together could not; the group decides no more."""

    def __init__(self, call: str, found: str, todo: str) -> None:
        super().__init__(call, found, todo)
        self.call, self.found, self.todo = call, found, todo

    def __str__(self) -> str:
        return f"{self.call}: {self.found}; {self.todo}"


class RanksDifferError(GroupError):
    """The ranks of a group were called in different ways, or set up so; nothing was decided."""

    def __init__(self, found: str, todo: str) -> None:
        StatekitError.__init__(self, found, todo)
        self.found, self.todo = found, todo

    def __str__(self) -> str:
        return f"the ranks differ: {self.found}; {self.todo}"


class RankLostError(GroupError):
    """A rank did not answer in time; this call did nothing here, and no later one does anything.

    `ranks` are those that were not heard of, as far as anybody knows.
    """

    def __init__(self, call: str, ranks: Sequence[int], found: str) -> None:
        ranks = tuple(ranks)
        StatekitError.__init__(self, call, ranks, found)
        self.call, self.ranks, self.found = call, ranks, found

    def __str__(self) -> str:
        several = "ranks" if len(self.ranks) > 1 else "rank"
        who = f"{several} {', '.join(map(str, self.ranks))}" if self.ranks else "a rank"
        return (
            f"{self.call}: {who} is lost ({self.found}); end the processes of this model, or go on "
            "with those that live by survivors(group)"
        )


class WatchError(StatekitError):
    """A manager cannot be watched: its metrics, its socket, or what came over it."""

    def __init__(self, place: str, found: str, todo: str) -> None:
        super().__init__(place, found, todo)
        self.place, self.found, self.todo = place, found, todo

    def __str__(self) -> str:
        return f"{self.place}: {self.found}; {self.todo}"


class EquivalenceError(StatekitError, AssertionError):
    """An adapter did something else than the hand-rolled class that it replaces.

    `place` is the step, the call and the value; `report` is the first difference at length, for a
    terminal of 80 columns.
    """

    def __init__(self, place: str, found: str, todo: str, report: str = "") -> None:
        super().__init__(place, found, todo, report)
        self.place, self.found, self.todo, self.report = place, found, todo, report

    def __str__(self) -> str:
        return self.report or f"{self.place}: {self.found}; {self.todo}"
