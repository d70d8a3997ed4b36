"""A review as JSON for programs.

The document is an interface: fields are added, none is renamed or removed without a new `schema`
id. Sizes are whole bytes, in fields whose names say `nbytes`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from statekit_codegen.review import Review, Row, Total

__all__ = ["FIELDS", "JSON_SCHEMA", "to_json"]

JSON_SCHEMA = "statekit.review/1"

_GROWTH = "`nbytes` more every `every_steps` steps"

FIELDS: Mapping[str, Mapping[str, str]] = {
    "document": {
        "schema": f"`{JSON_SCHEMA}`; another id if a field is renamed or removed",
        "sessions": "the number that `sessions_nbytes` is for",
        "models": "list of models",
    },
    "model": {
        "model": "its name",
        "class": "name of the generated class",
        "file": "the schema, relative to the project",
        "doc": "what the state is",
        "variant": "the variant that the figures were computed for, or null",
        "numbers": "symbols, constants and parameters that the figures were computed with",
        "overridden": "names of the numbers that are not the schema's own",
        "values": "list of values, in the schema's order",
        "totals": "list of totals: by device, and `all` where there are several devices",
        "unknown": "values whose bytes nobody can compute; totals leave them out",
        "resets": "list of `name`, `doc`, `clears` and `keeps`",
        "atomic": "group to the values that are restored together or not at all",
        "parameters": "as in the schema",
        "families": "as in the schema",
        "inputs": "as in the schema",
        "variants": "as in the schema",
        "outside": "as in the schema",
        "questions": "as in the schema",
    },
    "value": {
        "name": "its name",
        "line": "the line of the schema where it is described",
        "bucket": "`attrs` or `StateObject`",
        "object": "the kind of StateObject, or null",
        "key": "its name in the session, or the template of its names",
        "type": "the Python type, of one item for a buffer",
        "default": "what a carried value reads as at first, as Python source; empty for an object",
        "coerce": "the type that every assigned value is converted with, or null",
        "doc": "what it is",
        "device": "`none` where it holds no memory",
        "dtype": "the element type, or null",
        "members": "how many times it exists in one session",
        "bound": "`limit` and `unit` of a ring, `text` as the schema has it, and `sink`: how many "
        "of the first stay for good, or null; or null",
        "unbounded": "why a buffer has no bound, or null",
        "nbytes": "bytes of all members in one session, in the steady state; one item where it "
        "has no bound; null where nobody can compute them",
        "first_nbytes": "the same after the first step",
        "pending_nbytes": "bytes beside these while a step runs",
        "growth": f"{_GROWTH}; null where it does not grow",
        "sessions_nbytes": "`nbytes` of so many sessions",
        "cleared_by": "the resets that clear it",
        "operations": "what the manager does with it",
        "why": "the reason of the decision, or null",
        "update": "how the model changes it: `replaced`, `entries` or `in_place`",
        "on_commit": "what happens to a payload when it is stored",
        "families": "names of the families along which it exists many times",
        "rebuild": "`sources`, `cost` and `cost_ms`, or null",
        "park": "`tiers`, or null",
        "sharding": "`over`, `dim` and `rank`, all null where every rank holds the same; or null",
        "index": "of the keys of a store: `shape`, `dtype` and `metric`; or null",
        "codec": "the form in which a store keeps its values: `cast`; or null",
        "lifetime": "`session` or `request`",
        "tolerance": "`atol` and `rtol` of tests, or null",
        "questions": "what is still to be found out about it",
        "measured": "list of `nbytes`, `hardware`, `date` and `at`",
    },
    "total": {
        "device": "the device, or `all`",
        "nbytes": "bytes of one session",
        "sessions_nbytes": "bytes of so many sessions",
        "pending_nbytes": "bytes beside these while a step runs in a session",
        "growth": f"list: {_GROWTH} in a session",
    },
}
"""Every field of the document with its meaning; `docs/cli.md` shows them."""


def to_json(reviews: Sequence[Review], sessions: int) -> str:
    """The reviews as one JSON document."""
    document = {
        "schema": JSON_SCHEMA,
        "sessions": sessions,
        "models": [_model(review) for review in reviews],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _model(review: Review) -> dict[str, Any]:
    schema, spec = review.model.schema, review.model.spec
    return {
        "model": spec.model,
        "class": schema.class_,
        "file": review.model.file,
        "doc": schema.doc,
        "variant": review.model.variant or None,
        "numbers": dict(review.numbers),
        "overridden": list(review.overridden),
        "values": [_value(row, review.sessions) for row in review.rows],
        "totals": [_total(total, review.sessions) for total in review.totals],
        "unknown": list(review.unknown),
        "resets": [attrs.asdict(reset) for reset in review.resets],
        "atomic": {name: list(members) for name, members in spec.atomic.items()},
        "parameters": {n: attrs.asdict(parameter) for n, parameter in schema.parameters.items()},
        "families": {name: attrs.asdict(family) for name, family in schema.families.items()},
        "inputs": {name: attrs.asdict(source) for name, source in schema.inputs.items()},
        "variants": {name: dict(numbers) for name, numbers in schema.variants.items()},
        "outside": dict(schema.outside),
        "questions": list(schema.questions),
    }


def _value(row: Row, sessions: int) -> dict[str, Any]:
    spec = row.spec
    computed = {
        "key": spec.key or spec.name,
        "doc": row.words.doc,
        "members": row.members,
        "bound": None if row.bound is None else attrs.asdict(row.bound),
        "unbounded": (spec.ring and spec.ring.unbounded) or None,
        "nbytes": row.nbytes,
        "first_nbytes": row.first_nbytes,
        "pending_nbytes": row.pending_nbytes,
        "growth": None if row.growth is None else attrs.asdict(row.growth),
        "sessions_nbytes": None if row.nbytes is None else row.nbytes * sessions,
        "cleared_by": list(row.cleared_by),
        "why": row.why or None,
        "questions": list(row.words.questions),
    }
    record = {**attrs.asdict(spec), **computed}
    return {name: record[name] for name in FIELDS["value"]}


def _total(total: Total, sessions: int) -> dict[str, Any]:
    record = {**attrs.asdict(total), "sessions_nbytes": total.nbytes * sessions}
    return {name: record[name] for name in FIELDS["total"]}
