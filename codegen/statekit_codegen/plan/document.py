"""A plan as JSON for programs.

The document is an interface: fields are added, none is renamed or removed without a new `schema`
id. Sizes are whole bytes, in fields whose names say `nbytes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from statekit_codegen.plan.answer import Answer, DeviceRow, Fit, MixPlan, ModelPlan
from statekit_codegen.plan.gain import Gain

__all__ = ["FIELDS", "JSON_SCHEMA", "to_json"]

JSON_SCHEMA = "statekit.plan/1"

FIELDS: Mapping[str, Mapping[str, str]] = {
    "document": {
        "schema": f"`{JSON_SCHEMA}`; another id if a field is renamed or removed",
        "step": "the step after which bytes are counted",
        "sessions": "the number that `sessions_nbytes` is for",
        "active": "how many sessions are in use where the others are put away",
        "budgets": "bytes by device",
        "models": "list of models, each alone",
        "mix": "the models in the proportions asked for, or null",
    },
    "model": {
        "model": "its name",
        "file": "the schema, relative to the project",
        "numbers": "symbols, constants and parameters as used here",
        "variant": "the variant of the schema that they are those of, or null",
        "ranks": "`count` of ranks, and the `rank` that the figures are for",
        "values": "list of values",
        "unknown": "values whose bytes nobody can compute; sums leave them out",
        "devices": "list of devices",
        "fit": "how many sessions fit, or null without a budget",
        "curve": "`steps`, and by device the bytes of a session after each of them",
    },
    "value": {
        "name": "its name",
        "device": "where it lies; `none` where it holds no memory",
        "nbytes": "bytes in one session between two steps; null where nobody can compute them",
        "pending_nbytes": "bytes beside these while a step runs",
        "grown_nbytes": "how many of `nbytes` are growth, beyond one item",
        "tiers": "where it may be parked while nobody uses the session",
        "rebuildable": "whether it may be released then, because it can be rebuilt",
        "source": "whether something that may be released is rebuilt from it, so that it stays",
        "of_a_request": "whether it is there only while a request runs: `pending_nbytes` then",
    },
    "device": {
        "device": "its name",
        "nbytes": "bytes of one session between two steps; of a mix, of one crowd of it",
        "in_use_nbytes": "the same while a step runs",
        "sessions_nbytes": "bytes of so many sessions, all in use; of a mix, of one crowd of it",
        "budget_nbytes": "its budget, or null",
        "fits": "how many sessions fit on this device alone, or null; of a mix, how many crowds",
    },
    "fit": {
        "sessions": "how many sessions fit; null where nothing limits them",
        "limit": "what keeps one more from fitting, or null",
        "gains": "list of changes that would make room",
    },
    "limit": {
        "device": "the device whose budget is exceeded first",
        "model": "the model of `value`",
        "value": "the value that takes the most there",
        "value_nbytes": "what it takes in one session more than fit, all of them together",
        "used_nbytes": "what these sessions take on the device",
        "short_nbytes": "how many bytes are missing for them",
    },
    "gain": {
        "change": "`park`, `rebuild`, `park and rebuild`, `bound` or `growth`",
        "model": "the model that is changed; empty for all of them",
        "names": "the values that it concerns; of `bound` the parameter, or the value",
        "to": "the bound that is tried, or null",
        "fits": "how many sessions fit with it; null where nothing limits them then",
        "more": "how many more than without it; null likewise",
        "full": "the device that is full first then; empty where none is",
    },
    "mix": {
        "parts": "sessions of each model in the smallest crowd of these proportions",
        "times": "how many such crowds fit; null where nothing limits them",
        "devices": "list of devices",
        "fit": "the same in sessions, all models together",
    },
}
"""Every field of the document with its meaning; `docs/guides/plan.md` shows them."""


def to_json(answer: Answer) -> str:
    """The answer as one JSON document."""
    asked = answer.asked
    document = {
        "schema": JSON_SCHEMA,
        "step": asked.step,
        "sessions": asked.sessions,
        "active": asked.active,
        "budgets": dict(asked.budgets),
        "models": [_model(plan) for plan in answer.models],
        "mix": None if answer.mix is None else _mix(answer.mix),
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _model(plan: ModelPlan) -> dict[str, Any]:
    return {
        "model": plan.model,
        "file": plan.file,
        "numbers": dict(plan.numbers),
        "variant": plan.variant or None,
        "ranks": {"count": plan.ranks.count, "rank": plan.ranks.rank},
        "values": [attrs.asdict(one) for one in plan.need.values],
        "unknown": list(plan.need.unknown),
        "devices": _devices(plan.devices),
        "fit": _fit(plan.fit),
        "curve": {
            "steps": list(plan.curve.steps),
            "devices": {one.name: list(one.nbytes) for one in plan.curve.devices},
        },
    }


def _mix(mix: MixPlan) -> dict[str, Any]:
    return {
        "parts": dict(mix.parts),
        "times": mix.times,
        "devices": _devices(mix.devices),
        "fit": _fit(mix.fit),
    }


def _devices(rows: Iterable[DeviceRow]) -> list[dict[str, Any]]:
    return [attrs.asdict(row) for row in rows]


def _fit(fit: Fit | None) -> dict[str, Any] | None:
    if fit is None:
        return None
    return {
        "sessions": fit.sessions,
        "limit": None if fit.limit is None else attrs.asdict(fit.limit),
        "gains": [_gain(gain) for gain in fit.gains],
    }


def _gain(gain: Gain) -> dict[str, Any]:
    return attrs.asdict(gain)
