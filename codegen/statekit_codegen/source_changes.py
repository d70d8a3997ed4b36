"""Source changes: what of a changed schema breaks code that uses the generated class.

Owns the comparison of all that is no value: the class, its constants, parameters and resets.
The members that stand for values are compared by `access_changes`.
"""

from __future__ import annotations

from collections.abc import Iterator

from statekit.evolution.difference import listed
from statekit.spec import ModelSpec, Parameter
from statekit_codegen.access_changes import access_changes
from statekit_codegen.change import Change
from statekit_codegen.model import Model

__all__ = ["source_changes"]


def source_changes(old: Model, new: Model) -> Iterator[Change]:
    """What of `new` is not as code that uses the class of `old` knows it."""
    was, now = old.schema.class_, new.schema.class_
    if was != now:
        why = "code that imports the class by its old name fails"
        yield Change("SOURCE_CLASS", was, was, now, why, True, ("class",))
    yield from _constants(old.spec, new.spec)
    yield from _parameters(old.spec, new.spec)
    yield from access_changes(old, new)
    yield from _resets(old.spec, new.spec)


def _constants(old: ModelSpec, new: ModelSpec) -> Iterator[Change]:
    for name in dict.fromkeys((*old.constants, *new.constants)):
        was, now = old.constants.get(name), new.constants.get(name)
        path = ("constants", name)
        if was is None:
            yield _new(name, f"constant {now}", path)
        elif now is None:
            why = "code that reads it fails"
            yield Change("SOURCE_CONSTANT", name, str(was), "", why, True, path)
        elif was != now:
            why = "code that reads it goes on with another number"
            yield Change("SOURCE_CONSTANT", name, str(was), str(now), why, True, path)


def _parameters(old: ModelSpec, new: ModelSpec) -> Iterator[Change]:
    for name, now in new.parameters.items():
        if name not in old.parameters:
            yield _new(name, f"parameter, {now.default} if left out", ("parameters", name))
    for name, was in old.parameters.items():
        path = ("parameters", name)
        if name not in new.parameters:
            why = "code that passes it, or reads it, fails"
            text = f"default {was.default}"
            yield Change("SOURCE_PARAMETER_GONE", name, text, "", why, True, path)
            continue
        now = new.parameters[name]
        if (was.minimum, was.maximum) != (now.minimum, now.maximum):
            breaks = _narrower(was, now)
            why = "code that passes a number beyond the bounds fails"
            if not breaks:
                why = "every number that was accepted is accepted"
            rule = "SOURCE_PARAMETER_BOUNDS"
            yield Change(rule, name, _bounds(was), _bounds(now), why, breaks, path)
        if was.default != now.default:
            why = "code that leaves it out goes on with another number"
            texts = f"default {was.default}", f"default {now.default}"
            yield Change("SOURCE_PARAMETER_DEFAULT", name, *texts, why, True, path)


def _narrower(was: Parameter, now: Parameter) -> bool:
    """Whether a number that was accepted is not any more."""
    too_low = now.minimum is not None and (was.minimum is None or was.minimum < now.minimum)
    return too_low or (
        now.maximum is not None and (was.maximum is None or was.maximum > now.maximum)
    )


def _bounds(one: Parameter) -> str:
    least = "any number" if one.minimum is None else f"from {one.minimum}"
    return least if one.maximum is None else f"{least} to {one.maximum}"


def _resets(old: ModelSpec, new: ModelSpec) -> Iterator[Change]:
    for name in new.resets:
        if name not in old.resets:
            yield _new(f"reset_{name}", "method", ("resets", name))
    both = [value.name for value in new if value.name in {one.name for one in old}]
    for name, before in old.resets.items():
        path, method = ("resets", name), f"reset_{name}"
        if name not in new.resets:
            why = "code that calls it fails"
            yield Change("SOURCE_RESET_GONE", method, "method", "", why, True, path)
            continue
        after = new.resets[name]
        was, now = ([one for one in both if one in cleared] for cleared in (before, after))
        if was != now:
            more = [one for one in now if one not in was]
            less = [one for one in was if one not in now]
            texts = _what(keeps=more, clears=less), _what(clears=more, keeps=less)
            why = "code that calls it finds other values cleared than before"
            yield Change("SOURCE_RESET_CLEARS", method, *texts, why, True, path)


def _what(**names: list[str]) -> str:
    done = (f"{verb} {listed(of)}" for verb, of in sorted(names.items()) if of)
    return ", ".join(done)


def _new(name: str, what: str, path: tuple[str, str]) -> Change:
    return Change("SOURCE_MEMBER_NEW", name, "", what, "nothing used it", False, path)
