"""Values: one attribute of a class against one value of a schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from statekit.errors import ExpressionError
from statekit.expressions import Expression
from statekit_codegen.audit.reader_view import fits, initial, read_type, within_families
from statekit_codegen.language import Value
from statekit_codegen.reading.annotations import known_text, union, without_none
from statekit_codegen.reading.facts import NOTHING, UNKNOWN, Attribute, Event, HandRolled, Site
from statekit_codegen.scaffold.yaml_text import plain_value
from statekit_codegen.type_grammar import TypeExpr

__all__ = ["Said", "compare"]

_MEND = "mend the one that is wrong"
_RANKS = ("replaced", "entries", "in_place")
_WITHOUT_LITERAL = ("deque", "set", "tuple")
_OLDEST = ("pop", "popleft")


@attrs.frozen
class Said:
    """Something to report: under which rule, at which line of the class and key of the schema.

    Attributes:
        note: whether it is no difference, but worth knowing.
    """

    rule: str
    site: Site
    key: tuple[str | int, ...]
    found: str
    todo: str = _MEND
    note: bool = False


def compare(
    attribute: Attribute, value: Value, state: HandRolled, numbers: Mapping[str, int]
) -> Iterator[Said]:
    """Everything that the two say differently."""
    yield from _type(attribute, value)
    yield from _default(attribute, value)
    yield from _restarts(attribute, value, state)
    yield from _memory(attribute, value, numbers)
    yield from _update(attribute, value)
    yield from _ring(attribute, value, numbers)


def _type(attribute: Attribute, value: Value) -> Iterator[Said]:
    seen = attribute.type
    sets_none = [e for e in attribute.of_kind("set") if e.held and e.held.default is None]
    start = attribute.default
    if sets_none or (start is not None and start.default is None):
        seen = union([seen, TypeExpr("None")])
    wanted = read_type(value)
    seen = within_families(seen, value)
    if value.family or value.bucket == "StateObject":
        seen = without_none(seen)  # None is how a reader sees that there is nothing
    if not fits(seen, wanted):
        found = f"{known_text(seen)} in the class, {known_text(wanted)} in the schema"
        field = "item" if value.item is not None else "type"
        yield Said("TYPE_DIFFERS", attribute.site, (field,), found)


def _default(attribute: Attribute, value: Value) -> Iterator[Said]:
    start, wanted = attribute.default, initial(value)
    if start is None or wanted is NOTHING:
        return
    site = attribute.default_site or attribute.site
    says = _shown(wanted)
    if not start.is_literal:
        if start.parameter is None or wanted is not None:
            found = f"starts as {start.source} in the class, as {says} in the schema"
            yield Said("DEFAULT_DIFFERS", site, ("default",), found, _MEND, note=True)
    elif not _same(start.default, wanted):
        heads = {part.head for part in attribute.type.alternatives}
        unsayable = start.default == [] and bool(heads & set(_WITHOUT_LITERAL))
        unsayable = unsayable or plain_value(start.default) is None
        found = f"starts as {start.source} in the class, as {says} in the schema"
        yield Said("DEFAULT_DIFFERS", site, ("default",), found, _MEND, note=unsayable)


def _restarts(attribute: Attribute, value: Value, state: HandRolled) -> Iterator[Said]:
    """Resets that leave another literal than the one that the value begins as."""
    start, wanted = attribute.default, initial(value)
    if wanted is NOTHING or start is None or not start.is_literal:
        return
    seen: set[tuple[int, str]] = set()
    for clearing in state.clearings:
        event = clearing.events.get(attribute.name)
        given = event.held if event is not None and event.kind == "set" else None
        if event is None or given is None or not given.is_literal:
            continue
        key = (event.site.line, repr(given.default))
        if key in seen or _same(given.default, start.default) or _same(given.default, wanted):
            continue
        seen.add(key)
        found = f"{clearing.label} leaves {given.source}, the schema clears it to {_shown(wanted)}"
        yield Said("DEFAULT_DIFFERS", event.site, ("default",), found)


def _memory(attribute: Attribute, value: Value, numbers: Mapping[str, int]) -> Iterator[Said]:
    """Element type, shape and device, where the class writes them out."""
    if attribute.dtype is not None and value.dtype not in (None, attribute.dtype):
        found = f"{attribute.dtype} in the class, {value.dtype} in the schema"
        yield Said("DTYPE_DIFFERS", attribute.site, ("dtype",), found)
    device = attribute.device
    if device is not None and _holds_memory(attribute) and not _same_device(device, value.device):
        found = f"{device} in the class, {value.device} in the schema"
        yield Said("DEVICE_DIFFERS", attribute.site, ("device",), found)
    if attribute.shape is None or value.shape is None or attribute.joined is not None:
        return
    wanted = [_number(extent, numbers) for extent in value.shape]
    if None not in wanted and wanted != [int(extent) for extent in attribute.shape]:
        schema = ", ".join(map(str, wanted))
        found = f"({', '.join(attribute.shape)}) in the class, ({schema}) in the schema"
        yield Said("SHAPE_DIFFERS", attribute.site, ("shape",), found)


def _holds_memory(attribute: Attribute) -> bool:
    return attribute.type == UNKNOWN or attribute.type.mentions("torch.Tensor", "np.ndarray")


def _same_device(seen: str, declared: str) -> bool:
    if declared == "model":
        return seen != "cpu"
    return seen.partition(":")[0] == declared.partition(":")[0]


def _update(attribute: Attribute, value: Value) -> Iterator[Said]:
    """Ways to change a value that the schema does not say."""
    if value.object == "FixedState":
        return
    depth = len(value.family)
    writes = [e for e in attribute.of_kind("write") if not _into_random(attribute)]
    entries: list[Event] = []
    for event in attribute.of_kind("entry", "append", "trim"):
        if value.object in ("LatentBuffer", "WindowedKV", "RetrievalStore"):
            if event.kind == "entry" and event.how not in _OLDEST:
                entries.append(event)
        elif not depth or event.depth > depth:
            entries.append(event)
    for events, least, what in (
        (writes, "in_place", "writes into it"),
        (entries, "entries", "replaces entries of it"),
    ):
        if events and _RANKS.index(value.update) < _RANKS.index(least):
            event = events[0]
            how = f" ({event.how})" if event.how else ""
            found = f"the class {what}{how}, the schema says update: {value.update}"
            yield Said("UPDATE_DIFFERS", event.site, ("update",), found, f"write update: {least}")
            return


def _into_random(attribute: Attribute) -> bool:
    return attribute.type.mentions("torch.Generator")


def _ring(attribute: Attribute, value: Value, numbers: Mapping[str, int]) -> Iterator[Said]:
    ring, bound = value.ring, attribute.bound
    if ring is None:
        return
    joined = attribute.joined
    concat = None if isinstance(value.view, str) else value.view.concat
    if joined is not None and joined >= 0 and concat is not None and concat != joined:
        found = f"joined along axis {joined} in the class, along {concat} in the schema"
        yield Said("RING_DIFFERS", attribute.site, ("view", "concat"), found)
    if bound is None:
        if ring.bound is not None and attribute.of_kind("append", "set"):
            found = f"no bound seen in the class, {ring.bound} in the schema"
            yield Said(
                "RING_DIFFERS", attribute.site, ("ring",), found, "see that it is meant", True
            )
        return
    if ring.bound is None:
        if getattr(ring, "nbytes", None) is None:
            found = f"the newest {bound.text} in the class, no bound in the schema"
            yield Said("RING_DIFFERS", bound.site, ("ring",), found, note=bound.number is None)
        return
    number = _number(ring.bound, numbers)
    one_name = bound.name is not None and bound.name == ring.bound  # which is compared by itself
    known = bound.number is not None and number is not None
    if known and bound.number != number and not one_name:
        found = f"the newest {_both(bound.text, bound.number)} in the class, "
        found += f"{_both(str(ring.bound), number)} in the schema"
        yield Said("RING_DIFFERS", bound.site, ("ring", "bound"), found)
    axes = (bound.axis, ring.axis)
    if bound.axis is not None and ring.axis != bound.axis:
        counted = "items" if ring.axis is None else f"axis {ring.axis}"
        found = f"counted along axis {axes[0]} in the class, in {counted} in the schema"
        yield Said("RING_DIFFERS", bound.site, ("ring", "axis"), found)


def _both(text: str, number: int | None) -> str:
    return text if text == str(number) else f"{text} = {number}"


def _number(text: Any, numbers: Mapping[str, int]) -> int | None:
    try:
        return Expression.parse(text).evaluate(numbers)
    except ExpressionError:
        return None


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and type(other) in (int, float):
        return bool(one == other)
    if isinstance(other, float) and type(one) is int:
        return bool(one == other)
    return type(one) is type(other) and bool(one == other)


def _shown(value: Any) -> str:
    return plain_value(value) or "nothing"
