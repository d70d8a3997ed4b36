"""Report: what was simulated, and the figures of each policy at each load.

The JSON document is an interface: fields are added, none is renamed or removed without a new
`schema` id. Sizes are whole bytes, times whole microseconds, in fields whose names say so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from statekit.errors import GenerateError
from statekit.simulation.outcome import Outcome

__all__ = ["JSON_SCHEMA", "Report", "Run", "from_json", "to_json"]

JSON_SCHEMA = "statekit.simulate/1"


@attrs.frozen
class Run:
    """One policy at one load."""

    load: float
    outcome: Outcome


@attrs.frozen
class Report:
    """All of it.

    Attributes:
        command: how to make it again.
        parts: sessions of each model, in proportion.
        declared: bytes by device that a session of each model is admitted with.
        bandwidths: bytes in a second, by what is connected.
        runs: by load, then by policy.
    """

    command: str
    replicas: int
    sessions: int
    seed: int
    parts: Mapping[str, int]
    declared: Mapping[str, Mapping[str, int]]
    budgets: Mapping[str, int]
    model_device: str
    max_sessions: int
    drains: int
    steps: float
    step_us: int
    pause_chance: float
    pause_us: float
    bandwidths: Mapping[str, int]
    runs: tuple[Run, ...]

    @property
    def loads(self) -> tuple[float, ...]:
        """The loads, in their order."""
        return tuple(dict.fromkeys(run.load for run in self.runs))

    def at(self, load: float) -> list[Outcome]:
        """The figures at one load."""
        return [run.outcome for run in self.runs if run.load == load]


def to_json(report: Report) -> str:
    """The report as one JSON document."""
    return json.dumps({"schema": JSON_SCHEMA, **attrs.asdict(report)}, indent=2)


def from_json(text: str, name: str) -> Report:
    """The report that `to_json` wrote.

    Raises:
        GenerateError: the text is no such document.
    """
    try:
        data: Any = json.loads(text)
        if data.pop("schema") != JSON_SCHEMA:
            raise ValueError("another schema")
        runs = tuple([Run(run["load"], Outcome(**run["outcome"])) for run in data.pop("runs")])
        return Report(**data, runs=runs)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        todo = "name a file that `statekit simulate --out` wrote"
        raise GenerateError(name, f"no report of a simulation ({error})", todo) from None
