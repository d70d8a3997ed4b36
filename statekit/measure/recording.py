"""Recording: what was measured, as frozen data that outlives the sessions.

Owns the classes and their JSON. Not here: how it is measured (`statekit.measure.recorder`), and
what follows from it (`statekit.measure.findings`). Imports neither torch nor numpy, so that a
recording can be looked at where there is no model.

Steps count from 1. A step is an outermost `step()`, a lease in which there was none, or, for a
session that is used with neither, a look-up by an adapter.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs

from statekit.spec import Bucket, ModelSpec

__all__ = [
    "FORMAT",
    "MeasuredSession",
    "MeasuredValue",
    "Pinned",
    "Recording",
    "StepKind",
    "Together",
]

FORMAT = "statekit.recording/1"

StepKind = Literal["step", "lease", "look-up"]


@attrs.frozen
class Pinned:
    """Memory that a value holds and that neither it nor another value of its session shows.

    Attributes:
        nbytes: the bytes that nothing shows.
        of_nbytes: the whole of the pieces of memory that they are part of.
        step: when it was most.
    """

    nbytes: int
    of_nbytes: int
    step: int


@attrs.frozen
class MeasuredValue:
    """One value of one session, over all its members.

    Attributes:
        model: the schema's; empty where no schema speaks of the value.
        name: as the schema has it; else its key, with `*` for numbers.
        first_nbytes: after the session's first step; last_nbytes: after its last one.
        peak_nbytes: the most, and peak_step the step after which it was so first.
        peak_by_device: the most on each device.
        held_from: the first step after which it held bytes, held_to the last; None: never.
        growth: bytes a step, by the slope of the second half.
        grows: whether it rose all the time.
        nbytes: by device, at `MeasuredSession.steps`.
        members: how many members of each counted family there were.
        dtypes: all that were seen; shapes: likewise, of its tensors and arrays or of its items.
        peak_shapes: the shapes that it had when it held most.
        items: the most entries that it had, as a list; frames: the most along a ring's axis.
        item_nbytes: the elements of the largest entry.
        pinned: memory held and not shown; None where there was none.
        written: whether it ever held anything.
    """

    model: str
    name: str
    bucket: Bucket
    first_nbytes: int = 0
    last_nbytes: int = 0
    peak_nbytes: int = 0
    peak_step: int = 0
    peak_by_device: Mapping[str, int] = attrs.field(factory=dict)
    held_from: int | None = None
    held_to: int | None = None
    growth: float = 0.0
    grows: bool = False
    nbytes: Mapping[str, tuple[int, ...]] = attrs.field(factory=dict)
    members: Mapping[str, int] = attrs.field(factory=dict)
    dtypes: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    peak_shapes: tuple[tuple[int, ...], ...] = ()
    items: int = 0
    frames: int = 0
    item_nbytes: int = 0
    pinned: Pinned | None = None
    written: bool = False


@attrs.frozen
class MeasuredSession:
    """One session.

    Attributes:
        session_id: as its manager knows it; process: the id of the process that held it.
        models: whose schemas its adapters brought.
        parameters: the sizes that its objects were built with, by model.
        overrides: the numbers that its lease began with in place of the schema's.
        model_device: what its manager takes for the device `model`.
        counted: how many steps of each kind there were.
        steps: where the curves have points: the last step that each stands for.
        nbytes: by device, each byte once, at `steps`; peak_by_device: the most of it.
        peak_nbytes: the most over all devices; peak_step: when.
        values: all that it ever held.
    """

    session_id: str
    process: int
    models: tuple[str, ...] = ()
    parameters: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict)
    overrides: Mapping[str, int] = attrs.field(factory=dict)
    model_device: str = "cpu"
    counted: Mapping[str, int] = attrs.field(factory=dict)
    steps: tuple[int, ...] = ()
    nbytes: Mapping[str, tuple[int, ...]] = attrs.field(factory=dict)
    peak_by_device: Mapping[str, int] = attrs.field(factory=dict)
    peak_nbytes: int = 0
    peak_step: int = 0
    values: tuple[MeasuredValue, ...] = ()

    @property
    def step_count(self) -> int:
        """How many steps there were."""
        return self.steps[-1] if self.steps else 0

    def value(self, model: str, name: str) -> MeasuredValue | None:
        """The value of this name of a model, or None where the session never had it."""
        for one in self.values:
            if (one.model, one.name) == (model, name):
                return one
        return None


@attrs.frozen
class Together:
    """The most that all sessions of one model held at once, and how many those were."""

    nbytes: int
    sessions: int


@attrs.frozen
class Recording:
    """What was measured of all sessions of one run.

    Attributes:
        specs: the schemas, by model, as the run had them.
        sessions: those that are told of, in the order in which they began.
        left_out: how many more there were, in none of which a value held more.
        together: by model, the most that its sessions held at once.
        managers: how many managers there were.
        hardware: what it ran on; date: when it ended, as YYYY-MM-DD.
        troubles: what went wrong with the measuring; the run itself was not disturbed.
    """

    specs: Mapping[str, ModelSpec] = attrs.field(factory=dict)
    sessions: tuple[MeasuredSession, ...] = ()
    left_out: int = 0
    together: Mapping[str, Together] = attrs.field(factory=dict)
    managers: int = 0
    hardware: str = ""
    date: str = ""
    troubles: tuple[str, ...] = ()

    def of(self, model: str) -> tuple[MeasuredSession, ...]:
        """The sessions that adapters of `model` used."""
        return tuple(one for one in self.sessions if model in one.models)

    def to_json(self) -> str:
        """The recording as JSON, for `statekit measure --from`."""
        return json.dumps({"format": FORMAT, **_fields(self)}, default=_fields)

    def save(self, file: Path | str) -> None:
        """Write the recording to a file, for `statekit measure --from`.

        Raises:
            OSError: it cannot be written.
        """
        Path(file).write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def joined(cls, parts: Iterable[Recording]) -> Recording:
        """The recordings of several processes as one, as if all had held their most at once."""
        parts = tuple(parts)
        specs: dict[str, ModelSpec] = {}
        together: dict[str, Together] = {}
        for part in parts:
            specs = {**part.specs, **specs}
            for model, more in part.together.items():
                known = together.get(model, Together(0, 0))
                together[model] = Together(
                    known.nbytes + more.nbytes, known.sessions + more.sessions
                )
        return cls(
            specs=specs,
            sessions=tuple(session for part in parts for session in part.sessions),
            left_out=sum(part.left_out for part in parts),
            together=together,
            managers=sum(part.managers for part in parts),
            hardware=next((part.hardware for part in parts if part.hardware), ""),
            date=max((part.date for part in parts), default=""),
            troubles=tuple(dict.fromkeys(one for part in parts for one in part.troubles)),
        )


def _fields(value: Any) -> dict[str, Any]:
    """The fields of one of our classes; what is in them the encoder asks for by itself."""
    return {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
