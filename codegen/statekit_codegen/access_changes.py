"""Access changes: what code that reads and writes values finds changed about the members for it.

Owns the comparison of members of one name, whichever value stands behind them.
"""

from __future__ import annotations

from collections.abc import Iterator

from statekit.evolution.difference import listed
from statekit.evolution.stored_type import StoredType
from statekit_codegen.access import Access, accesses
from statekit_codegen.change import Change
from statekit_codegen.check_values import HOLDERS
from statekit_codegen.model import Model, Path
from statekit_codegen.type_grammar import TypeExpr

__all__ = ["access_changes"]

_ASSIGNED_ALIKE = ("attrs", "HeldValue")
"""What is assigned any number of times, and read back as the very object."""


def access_changes(old: Model, new: Model) -> Iterator[Change]:
    """What of the members that stand for values is not as it was, in today's order."""
    before, after = accesses(old), accesses(new)
    known, named = ({value.name for value in side.spec} for side in (old, new))
    for name, now in after.items():
        was = before.pop(name, None)
        if was is None:
            if now.form != "object" or now.value.name in known:  # else told with its attribute
                why = "nothing used it"
                yield Change("SOURCE_MEMBER_NEW", name, "", _form(now), why, False, _path(now))
        else:
            yield from _changes(was, now)
    for name, was in before.items():
        path = _path(was)
        if was.form == "object":
            if was.value.name in named:
                why = "code that uses the object fails"
                yield Change("SOURCE_OBJECT", name, was.kind, "", why, True, path)
        elif was.value.name in named and was.value.families:
            why = "code that names this member of the family fails"
            yield Change("SOURCE_FAMILY", name, _form(was), "", why, True, path)
        else:
            why = "code that uses it fails"
            yield Change("SOURCE_VALUE_GONE", name, _form(was), "", why, True, path)


def _changes(was: Access, now: Access) -> Iterator[Change]:
    """What differs between two members of one name."""
    path = _path(now)
    if was.form != now.form or [name for name, _ in was.arguments] != [
        name for name, _ in now.arguments
    ]:
        why = "code reaches the value in another way"
        yield Change("SOURCE_FORM", now.name, _form(was), _form(now), why, True, path)
        return
    for (axis, before), (_, after) in zip(was.arguments, now.arguments, strict=True):
        gone = [label for label in before if label not in after]
        if before != after:
            why = f"code that passes {listed(gone)} fails" if gone else "nothing named the others"
            texts = f"{axis}: {listed(before)}", f"{axis}: {listed(after)}"
            yield Change("SOURCE_FAMILY", now.name, *texts, why, bool(gone), (*path, "family"))
    if was.kind != now.kind:
        alike = was.form == "attribute" and {was.kind, now.kind} <= set(_ASSIGNED_ALIKE)
        why = "it is read and assigned as before" if alike else _another_kind(was, now)
        yield Change("SOURCE_OBJECT", now.name, was.kind, now.kind, why, not alike, path)
    if now.form != "object":  # what an object holds is what the attribute beside it tells
        yield from _types(was, now, path)
        yield from _words(was, now, path)


def _another_kind(was: Access, now: Access) -> str:
    if was.form == "attribute" and now.kind == "EncodeOnce":
        return "code that assigns it twice fails: it is written once"
    if was.form == "attribute" and now.kind in ("LatentBuffer", "RetrievalStore"):
        return "code that changes what it reads changes a copy"
    if was.form == "attribute" and now.kind == "FixedState":
        return "code that keeps what it read finds it overwritten"
    return "code finds another kind of object"


def _types(was: Access, now: Access, path: Path) -> Iterator[Change]:
    at = (*path, "item" if now.value.object in HOLDERS["item"] else "type")
    before, after = was.value, now.value
    dtypes = {one.dtype for one in (before, after)}
    arrays = TypeExpr.parse(before.type).mentions("np.ndarray")
    if was.read == now.read and arrays and len(dtypes) == 2:
        texts = before.dtype or "any dtype", after.dtype or "any dtype"
        why = "code that is type-checked finds another dtype"
        breaks = None not in dtypes
        yield Change("SOURCE_READ_TYPE", now.name, *texts, why, breaks, (*path, "dtype"))
    if was.read != now.read:
        breaks = not StoredType.parse(was.read).takes(StoredType.parse(now.read))
        why = "readers get what they did not get before" if breaks else "readers get less, not more"
        yield Change("SOURCE_READ_TYPE", now.name, was.read, now.read, why, breaks, at)
    if was.write != now.write:
        breaks = not StoredType.parse(now.write).takes(StoredType.parse(was.write))
        why = "writers pass what is not taken any more" if breaks else "writers may pass more"
        yield Change("SOURCE_WRITE_TYPE", now.name, was.write, now.write, why, breaks, at)


def _words(was: Access, now: Access, path: Path) -> Iterator[Change]:
    """What the schema says of how a value is handed out and taken in."""
    if was.view != now.view and was.read == now.read:
        why = "readers get the items in another form"
        yield Change("SOURCE_VIEW", now.name, was.view, now.view, why, True, (*path, "view"))
    before, after = was.value, now.value
    first = _first(was), _first(now)
    if first[0] != first[1] and was.view == now.view:
        why = "readers get another value before anything is assigned"
        yield Change("SOURCE_DEFAULT", now.name, *first, why, True, (*path, "default"))
    if before.coerce != after.coerce:
        why = "what is assigned reads back as something else"
        texts = before.coerce or "", after.coerce or ""
        yield Change("SOURCE_COERCE", now.name, *texts, why, True, (*path, "coerce"))
    stored = _stored(was), _stored(now)
    if stored[0] != stored[1]:
        why = "readers get what was stored in another state, or from another device"
        yield Change("SOURCE_ON_COMMIT", now.name, *stored, why, True, (*path, "on_commit"))
    keys = _keys(was), _keys(now)
    if keys[0] != keys[1] and was.kind == now.kind:
        why = "code that stores under keys, or asks for the nearest, finds another measure"
        yield Change("SOURCE_INDEX", now.name, *keys, why, True, (*path, "index"))
    if before.lifetime != after.lifetime:
        shorter = after.lifetime == "request"
        why = "it is still there when a request ends"
        if shorter:
            why = "code that reads it in the next request finds nothing"
        texts = before.lifetime, after.lifetime
        yield Change("SOURCE_LIFETIME", now.name, *texts, why, shorter, (*path, "lifetime"))


def _first(one: Access) -> str:
    """What a reader gets before anything is assigned."""
    if one.kind == "attrs":
        return one.value.default
    return "[]" if one.view.startswith("a list") else "None"


def _stored(one: Access) -> str:
    """What a reader can notice of what was done to a payload when it was stored."""
    steps = [step for step in one.value.on_commit if step != "compact"]
    moved = f" to {one.value.device}" if "move" in steps else ""
    codec = one.value.codec
    kept = [] if codec is None else [f"kept as {codec.cast}"]
    return ", ".join([*filter(None, [", ".join(sorted(steps)) + moved]), *kept])


def _keys(one: Access) -> str:
    """What a caller passes as a key, and what is near."""
    index = one.value.index
    if index is None:
        return ""
    return f"[{', '.join(index.shape)}] {index.dtype}, {index.metric}"


def _form(one: Access) -> str:
    if one.form == "method":
        return f"method({', '.join(name for name, _ in one.arguments)})"
    return f"{one.form}, {one.kind}" if one.form == "object" else f"{one.form}, {one.read}"


def _path(one: Access) -> Path:
    return ("values", one.value.name)
