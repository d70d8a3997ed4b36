"""Comparison: a class against a schema, whole: names, values, numbers, resets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from statekit_codegen.audit.difference import Difference, Place, Report
from statekit_codegen.audit.pairing import Pairing, pair
from statekit_codegen.audit.resets import compare_resets
from statekit_codegen.audit.values import Said, compare
from statekit_codegen.model import Model
from statekit_codegen.reading.facts import HandRolled, Site

__all__ = ["audit"]


def audit(
    state: HandRolled,
    model: Model,
    *,
    ignored: Sequence[str] = (),
    renamed: Mapping[str, str] | None = None,
) -> Report:
    """Compare a class with a schema.

    Args:
        ignored: attributes, values, resets and methods that differ on purpose.
        renamed: attributes whose value has another name.

    Raises:
        GenerateError: `ignored` or `renamed` names what neither has.
    """
    pairing = pair(state, model.schema, ignored, renamed or {})
    found = [
        *_names(state, pairing),
        *_values(state, model, pairing),
        *_numbers(state, model, ignored),
        *compare_resets(state, model.spec.resets, pairing.both, ignored),
    ]
    ours: list[Difference] = []
    notes: list[Difference] = []
    for name, said in found:
        (notes if said.note else ours).append(_placed(state, model, name, said))
    return Report(
        tuple(sorted(ours)),
        tuple(sorted(notes)),
        len(pairing.both),
        len({clearing.method for clearing in state.clearings}),
        tuple(ignored),
    )


def _placed(state: HandRolled, model: Model, name: str, said: Said) -> Difference:
    schema = Place(model.file, *model.loaded.positions.place(*said.key))
    only_there = said.rule in ("VALUE_INVENTED", "RESET_INVENTED")
    place = schema if only_there else Place(state.file, said.site.line, said.site.column)
    return Difference(place, said.rule, name, said.found, said.todo, schema)


def _names(state: HandRolled, pairing: Pairing) -> Iterator[tuple[str, Said]]:
    for name in pairing.missing:
        site = state.attributes[name].site
        todo = "describe it, or name it under outside"
        yield (
            name,
            Said("ATTRIBUTE_MISSING", site, ("values",), "the schema has no such value", todo),
        )
    for name in pairing.invented:
        found = "the class has no such attribute"
        todo = "remove it, or say --ignore or --rename"
        yield name, Said("VALUE_INVENTED", Site(1, 1), ("values", name), found, todo)
    for base in state.unread:
        found = f"what the base class {base} of another file keeps was not read"
        yield base, Said("ATTRIBUTE_MISSING", state.site, (), found, "audit that class too", True)
    for spot in state.blind:
        found = "sets what no line names"
        yield spot.source, Said("ATTRIBUTE_MISSING", spot.site, (), found, "look there", True)


def _values(state: HandRolled, model: Model, pairing: Pairing) -> Iterator[tuple[str, Said]]:
    schema = model.schema
    defaults = {name: parameter.default for name, parameter in schema.parameters.items()}
    numbers = {**schema.symbols, **schema.constants, **defaults}
    for name, value in pairing.both.items():
        found = compare(state.attributes[name], schema.values[value], state, numbers)
        for said in found:
            key = ("values", value, *said.key)
            yield name, Said(said.rule, said.site, key, said.found, said.todo, said.note)


def _numbers(state: HandRolled, model: Model, ignored: Sequence[str]) -> Iterator[tuple[str, Said]]:
    for name, constant in state.constants.items():
        known = model.schema.constants.get(name)
        if known is not None and known != constant.value and name not in ignored:
            found = f"{constant.value} in the class, {known} in the schema"
            yield name, Said("CONSTANT_DIFFERS", constant.site, ("constants", name), found)
    for name, parameter in state.parameters.items():
        described = model.schema.parameters.get(name)
        given = parameter.default
        if described is None or type(given) is not int or name in ignored:
            continue
        if given != described.default:
            found = f"default {given} in the class, {described.default} in the schema"
            key = ("parameters", name, "default")
            yield name, Said("PARAMETER_DIFFERS", parameter.site, key, found)
