"""The record: the part of a spec that the bytes of a snapshot depend on, as plain JSON data.

Owns the form and its fingerprint. The way back, from data of which nothing is trusted, is
`reading`.

    E1  Words, places, decisions, measurements, and what is done with a value under pressure are no
        part of it: they may change, and the fingerprint stays.
    E2  What came into the language later is left out where nothing is said of it: the record of a
        schema from before, and its fingerprint, stay.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from statekit.spec import ModelSpec, Ring, Size, ValueSpec

__all__ = ["RECORD_VERSION", "fingerprint", "record_of"]

RECORD_VERSION = 1


def record_of(spec: ModelSpec) -> dict[str, Any]:
    """What saved bytes depend on in `spec`, as data that JSON can carry."""
    return {
        "record": RECORD_VERSION,
        "model": spec.model,
        "symbols": dict(spec.symbols),
        "constants": dict(spec.constants),
        "parameters": {
            name: {"default": one.default, "minimum": one.minimum, "maximum": one.maximum}
            for name, one in spec.parameters.items()
        },
        "families": {
            name: {"members": dict(one.members), "count": one.count}
            for name, one in spec.families.items()
        },
        "atomic": {name: list(members) for name, members in spec.atomic.items()},
        "values": {value.name: _value(spec, value) for value in spec},
    }


def _value(spec: ModelSpec, value: ValueSpec) -> dict[str, Any]:
    size = value.size or Size()
    later = {
        "index": value.index
        and {
            "shape": list(value.index.shape),
            "dtype": value.index.dtype,
            "metric": value.index.metric,
        },
        "codec": value.codec and value.codec.cast,
        "lifetime": None if value.lifetime == "session" else value.lifetime,
    }
    return {
        "bucket": value.bucket,
        "object": value.object,
        "type": value.type,
        "key": value.key or value.name,
        "keys": list(spec.keys_of(value)),
        "families": list(value.families),
        "dtype": value.dtype,
        "shape": None if size.shape is None else list(size.shape),
        "elements": size.elements,
        "first": size.first,
        "ring": value.ring and _ring_of(value.ring),
        "device": value.device,
        "default": value.default,
        "coerce": value.coerce,
        "update": value.update,
        **_said(later),
    }


def _ring_of(ring: Ring) -> dict[str, Any]:
    later = {"sink": ring.sink, "nbytes": ring.nbytes}
    return {"bound": ring.bound, "axis": ring.axis, **_said(later)}


def _said(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that say something, by E2."""
    return {key: entry for key, entry in entries.items() if entry is not None}


def fingerprint(record: Mapping[str, Any]) -> str:
    """The sha256 of `record`, in hex; the same for the same content in whatever order."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
