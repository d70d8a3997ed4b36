"""Assembly: one `Attribute` from all that the walks through a file found about it.

Owns which of several facts counts: an annotation before what is assigned, the last assignment of
the constructor as the default, one dtype only where no two lines disagree.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from statekit_codegen.reading.annotations import annotated, union
from statekit_codegen.reading.facts import UNKNOWN, Attribute, Bound, Event, Held, Site
from statekit_codegen.reading.fields import Field
from statekit_codegen.reading.module import ModuleNames, dotted
from statekit_codegen.reading.payload import source_of
from statekit_codegen.reading.trace import Traced
from statekit_codegen.type_grammar import TypeExpr

__all__ = ["Assembly"]


@attrs.frozen
class Assembly:
    """What is known beside the walks.

    Attributes:
        fields: what the body of the class declares.
        types: the types that an earlier round found.
        passed: attributes that are arguments of the constructor, and which.
        doc: what a comment at a line says.
    """

    module: ModuleNames
    fields: Mapping[str, Field]
    types: Mapping[str, TypeExpr]
    passed: Mapping[str, str]
    doc: Callable[[int], str]

    def type_of(
        self, name: str, events: Iterable[Event], walks: Iterable[Traced]
    ) -> tuple[TypeExpr, ast.expr | None]:
        """The type of an attribute, by its annotation if that says it, and the annotation."""
        notes = [walk.annotations[name][0] for walk in walks if name in walk.annotations]
        field = self.fields.get(name)
        if field is not None and field.annotation is not None:
            notes.append(field.annotation)
        table = name.removesuffix("[]")
        if table != name and table in self.module.annotations:
            whole = annotated(
                self.module.annotations[table], self.module.full_name, self.module.alias
            )
            if len(whole.arguments) == 2:
                return whole.arguments[1], self.module.annotations[table]
        for note in notes:
            type_ = annotated(note, self.module.full_name, self.module.alias)
            if type_ != UNKNOWN:
                return type_, note
        given = [event.held.type for event in events if event.kind == "set" and event.held]
        if table != name:
            given.append(self._entry(table).type)
        if field is not None and field.held is not None:
            given.insert(0, field.held.type)
        appended = union(
            event.held.type for event in events if event.kind == "append" and event.held
        )
        type_ = union(given)
        if appended != UNKNOWN:
            kinds = [part.head for part in type_.alternatives if part.head in ("list", "deque")]
            more = [TypeExpr(kind, (appended,)) for kind in kinds]
            type_ = union([type_, *more])
        return type_, notes[0] if notes else None

    def attributes(self, start: Traced, every: Traced) -> dict[str, Attribute]:
        """Every attribute, in the order of the source."""
        by_name: dict[str, list[Event]] = {}
        for event in sorted(_once(every.events), key=lambda e: (e.site.line, e.site.column)):
            by_name.setdefault(event.name, []).append(event)
        first: dict[str, Site] = {name: field.site for name, field in self.fields.items()}
        for event in start.events:
            first.setdefault(event.name, event.site)
            by_name.setdefault(event.name, [])
        for name, events in by_name.items():
            first.setdefault(name, events[0].site)
        for name, (_, site) in every.annotations.items():
            first.setdefault(name, site)
        touched = [
            name
            for name in first
            if name in self.fields
            or name in every.annotations
            or any(event.kind != "read" for event in by_name.get(name, ()))
        ]
        # Of several that one line sets, the order is that in which it does.
        made = {
            name: self._attribute(name, first[name], by_name.get(name, []), start, every)
            for name in touched
        }
        return dict(sorted(made.items(), key=lambda pair: pair[1].site.line))

    def _attribute(
        self, name: str, site: Site, events: list[Event], start: Traced, every: Traced
    ) -> Attribute:
        events = [_settled(event, self.types.get(name, UNKNOWN)) for event in events]
        type_, note = self.type_of(name, events, [start, every])
        default, default_site = self._initial(name, start, events)
        gives = [event.held for event in events if event.held is not None]
        gives += [] if default is None else [default]
        content = [event.held for event in events if event.kind in ("append", "set") and event.held]
        appends = [event for event in events if event.kind == "append"]
        appended = [event.held.type for event in appends if event.held]
        appended += [one.appended for one in gives if one.of == name and one.appended]
        joined = [one.joined for one in gives if one.of == name and one.joined is not None]
        bound_of = [event.bound for event in events if event.bound is not None]
        bound_of += [one.bound for one in gives if one.bound is not None]
        parameter = self.passed.get(name)
        if any(event.kind != "read" and event.site.function != "__init__" for event in events):
            parameter = None
        field = self.fields.get(name)
        if field is not None and field.argument and not any(e.kind != "read" for e in events):
            parameter = name if field.held is None else None
        table = name.removesuffix("[]")
        return Attribute(
            name=name,
            site=self._shown(name, default_site or site, every),
            type=type_,
            annotation=None if note is None else source_of(note),
            default=default,
            default_site=default_site,
            events=tuple(events),
            item=union(appended) if appends or appended else None,
            bound=_best(bound_of),
            dtype=_only(one.dtype for one in content),
            shape=_only(one.shape for one in content),
            odd_shape=_first(one.odd_shape for one in content),
            device=_only(one.device for one in content),
            odd_device=_first(one.odd_device for one in content),
            steps=tuple(dict.fromkeys(step for e in appends if e.held for step in e.held.steps)),
            joined=joined[0] if joined else None,
            doc=self._comment(name, site, events, every),
            table=table if table != name else None,
            parameter=parameter,
        )

    def _initial(
        self, name: str, start: Traced, events: list[Event]
    ) -> tuple[Held | None, Site | None]:
        """What an attribute is after the constructor, and the line that says it."""
        if name.endswith("[]"):
            default = [e for e in events if e.held and e.how in ("get", "setdefault")]
            site = default[0].site if default else events[0].site
            return (default[0].held if default else self._entry(name.removesuffix("[]"))), site
        for event in reversed(start.events):
            if event.name != name or event.kind != "set":
                continue
            if event.held is not None and event.held.of == name:
                continue
            return event.held, event.site
        field = self.fields.get(name)
        if field is not None and field.held is not None:
            return field.held, field.site
        return None, None

    def _entry(self, table: str) -> Held:
        """What a table gives for a session that it does not know: None but for a defaultdict."""
        made = self.module.assigned.get(table)
        if isinstance(made, ast.Call) and made.args:
            name = self.module.full_name(made.func)
            factory = dotted(made.args[0])
            if name == "collections.defaultdict" and factory in ("list", "dict"):
                inner = TypeExpr(factory, (UNKNOWN,) * (1 if factory == "list" else 2))
                return Held(f"{factory}()", inner, [] if factory == "list" else {})
        return Held("None", TypeExpr("None"), None)

    def _shown(self, name: str, site: Site, every: Traced) -> Site:
        """The place that stands for an attribute: where it is annotated, else where it starts."""
        noted = every.annotations.get(name)
        field = self.fields.get(name)
        if field is not None and not field.slot:
            return field.site
        return site if noted is None else noted[1]

    def _comment(self, name: str, site: Site, events: list[Event], every: Traced) -> str:
        """What a comment or a docstring right beside an attribute says."""
        lines = [site.line, *(event.site.line for event in events if event.kind == "set")]
        if name in every.annotations:
            lines.insert(0, every.annotations[name][1].line)
        return next(filter(None, map(self.doc, lines)), "")


def _once(events: Iterable[Event]) -> list[Event]:
    """Events once each: a helper may have been walked through twice."""
    seen: dict[tuple[str, str, Site], Event] = {}
    for event in events:
        seen.setdefault((event.name, event.kind, attrs.evolve(event.site, function="")), event)
    return list(seen.values())


def _settled(event: Event, type_: TypeExpr) -> Event:
    """An event whose kind the type decides: slices of lists are entries, `+=` writes a tensor."""
    heads = {part.head for part in type_.alternatives}
    tensor = bool(heads & {"torch.Tensor", "np.ndarray"})
    if event.kind == "write" and event.how == "[...] =" and heads & {"list", "deque", "dict"}:
        return attrs.evolve(event, kind="entry") if event.depth <= 1 else event
    if event.kind == "entry" and event.how in ("[...] =", "[]") and tensor:
        return attrs.evolve(event, kind="write")
    if event.kind == "augment" and tensor:
        return attrs.evolve(event, kind="write")
    if event.kind == "append" and heads and heads <= {"dict", "set", "int", "str"}:
        return attrs.evolve(event, kind="entry")
    return event


def _best(bounds: list[Bound]) -> Bound | None:
    """The bound that says most: a number that is known, and an axis."""
    ranked = sorted(bounds, key=lambda bound: (bound.number is None, bound.axis is None))
    return ranked[0] if ranked else None


def _only(found: Iterable[Any]) -> Any:
    """The one value that is there, None where there are several or none."""
    values = {value for value in found if value is not None}
    return values.pop() if len(values) == 1 else None


def _first(found: Iterable[str | None]) -> str | None:
    return next(filter(None, found), None)
