"""Numbers: which numbers the symbols of a schema have in a session that was measured.

A schema's own are one deployment's, and a test has smaller pictures. So a number is taken from
what is given, else from the first value whose shape says it, else from the schema; `sources` tells
which. Numbers of constants and parameters are those that the session's objects were built with.

Never from `elements`: they would be compared with themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from statekit.checking.symbols import Extent, Symbols
from statekit.errors import ExpressionError
from statekit.expressions import Expression
from statekit.measure.recording import MeasuredSession, MeasuredValue
from statekit.spec import ModelSpec, ValueSpec

__all__ = ["GIVEN", "SCHEMA", "Numbers", "extents_of", "numbers_of"]

GIVEN, SCHEMA, RUN = "given", "the schema", "the run"


@attrs.frozen
class Numbers:
    """The numbers of one model in one session.

    Attributes:
        values: by name, for all that expressions may name.
        sources: of each, `given`, `the schema`, `the run` (parameters, and what a session began
            with), or the name of the value whose shape says it.
    """

    values: Mapping[str, int]
    sources: Mapping[str, str]
    _symbols: Symbols = attrs.field(repr=False, eq=False)

    def contradiction(self, extent: Extent) -> str | None:
        """Why `extent` can't be, in words; None where it can, or no shape and nobody says."""
        return self._symbols.contradiction(extent)

    def evaluate(self, expression: Expression) -> int | None:
        """The number; None where none comes out."""
        try:
            return expression.evaluate(self.values)
        except ExpressionError:
            return None

    def are_those_of(self, spec: ModelSpec, text: str) -> bool:
        """Whether all names in an expression have the numbers that the schema gives them."""
        own = spec.environment()
        names = Expression.parse(text).names
        return all(self.values.get(name) == own.get(name) for name in names)


def numbers_of(
    spec: ModelSpec, session: MeasuredSession, given: Mapping[str, int] | None = None
) -> Numbers:
    """The numbers of `spec` in `session`; `given` ones before all others."""
    own = spec.environment()
    said = {name: number for name, number in (given or {}).items() if name in own}
    run = {**session.overrides, **session.parameters.get(spec.model, {})}
    run = {name: number for name, number in run.items() if name in own}
    fixed = {name: own[name] for name in own if name not in spec.symbols}
    symbols = Symbols({**fixed, **run, **said})
    sources = {**dict.fromkeys(own, SCHEMA), **dict.fromkeys(run, RUN)}
    sources.update(dict.fromkeys(said, GIVEN))
    for _ in range(2):  # a value may need a symbol that a later one says
        for value in spec:
            measured = session.value(spec.model, value.name)
            if measured is None:
                continue
            before = set(symbols.numbers)
            symbols.learn(_told(spec, value, measured), value.name)
            sources.update(dict.fromkeys(symbols.numbers.keys() - before, value.name))
    return Numbers({**own, **symbols.numbers}, sources, symbols)


def extents_of(value: ValueSpec, shape: tuple[int, ...]) -> list[Extent]:
    """The extents of a shape beside what is declared, those aside that may be anything."""
    declared = () if value.size is None else value.size.shape or ()
    if len(declared) != len(shape):
        return []
    axis = None if value.ring is None else value.ring.axis
    free = None if axis is None else axis % len(shape)
    return [
        Extent(dim, Expression.parse(text), found)
        for dim, (text, found) in enumerate(zip(declared, shape, strict=True))
        if dim != free
    ]


def _told(spec: ModelSpec, value: ValueSpec, measured: MeasuredValue) -> Iterator[Extent]:
    """What a value says of symbols: the extents that it had when it held most, and its members."""
    for shape in measured.peak_shapes[:1]:
        yield from extents_of(value, shape)
    for family, count in measured.members.items():
        declared = spec.families[family].count if family in spec.families else None
        if declared is not None:
            yield Extent(-1, Expression.parse(declared), count)
