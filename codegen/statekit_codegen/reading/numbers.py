"""Numbers: the whole numbers of a class: constants, arguments of the constructor, bounds.

Owns which name stands for which number where a bound is written. A name that may be another thing
there (an argument of another method, an attribute of another object) stands for none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

import attrs

from statekit_codegen.reading.choices import defaults
from statekit_codegen.reading.facts import NOTHING, Bound, Constant, Event, Parameter, Site
from statekit_codegen.reading.fields import Field
from statekit_codegen.reading.lineage import Lineage
from statekit_codegen.reading.module import ModuleNames
from statekit_codegen.reading.payload import literal_of, source_of

__all__ = ["Numbers"]


@attrs.define
class Numbers:
    """The numbers of one class, as they are found.

    Attributes:
        arguments: of the constructor.
        passed: attributes that are such an argument, and which.
        fixed: attributes that are one number for good, and where that is set.
    """

    module: ModuleNames
    arguments: dict[str, Parameter] = attrs.field(factory=dict)
    passed: dict[str, str] = attrs.field(factory=dict)
    constants: dict[str, Constant] = attrs.field(factory=dict)
    fixed: dict[str, tuple[int, Site]] = attrs.field(factory=dict)

    def find_arguments(self, lineage: Lineage, fields: Mapping[str, Field]) -> None:
        """Note the arguments of the constructor, a generated one too."""
        _, function = lineage.method("__init__")
        if function is None:
            for field in fields.values():
                if field.argument:
                    text = None if field.annotation is None else source_of(field.annotation)
                    default = NOTHING if field.held is None else field.held.default
                    self.arguments[field.name] = Parameter(field.name, field.site, text, default)
            return
        known = defaults(function)
        for argument in [*function.args.args[1:], *function.args.kwonlyargs]:
            site = Site(argument.lineno, argument.col_offset + 1, function.name)
            text = None if argument.annotation is None else source_of(argument.annotation)
            self.arguments[argument.arg] = Parameter(
                argument.arg, site, text, known.get(argument.arg, NOTHING)
            )

    def find_constants(
        self, lineage: Lineage, fields: Mapping[str, Field], events: Iterable[Event]
    ) -> frozenset[str]:
        """The names that only the class itself holds; its numbers are noted."""
        on_instances = {event.name for event in events if event.kind != "read"}
        names = []
        for name, field in fields.items():
            if not field.class_level or name in on_instances or field.held is None:
                continue
            shouts = name.isupper() or (field.annotation is not None and _is_class_var(field))
            if shouts or lineage.is_method(field.held.source):  # another name of a method
                names.append(name)
                self._add(name, field.held.default, field.site)
        return frozenset(names)

    def fix(self, events: Iterable[Event]) -> None:
        """Note the attributes that the constructor sets to a number, and that nobody changes."""
        by_name: dict[str, list[Event]] = {}
        for event in events:
            if event.kind != "read":
                by_name.setdefault(event.name, []).append(event)
        for name, own in by_name.items():
            given = own[0].held
            once = len(own) == 1 and own[0].kind == "set" and own[0].site.function == "__init__"
            if once and given is not None and type(given.default) is int:
                self.fixed[name] = (given.default, own[0].site)

    def bound(
        self, node: ast.expr, axis: int | None, site: Site, name: str | None, of_state: bool
    ) -> Bound:
        """What a bound says; `name` is that of the state, its class or the module, if it is one."""
        text = source_of(node)
        literal = literal_of(node)
        if type(literal) is int:
            return Bound(text, site, literal, axis=axis)
        if name is None:
            return Bound(text, site, axis=axis)
        if of_state:
            name = self.passed.get(name, name)
        if name in self.arguments and (not of_state or name in self.passed.values()):
            default = self.arguments[name].default
            number = default if type(default) is int else None
            return Bound(text, site, number, name, parameter=True, axis=axis)
        if name in self.fixed and of_state:
            number, where = self.fixed[name]
            self._add(name, number, where)
        elif name not in self.constants and not of_state:
            found = self.module.number(name)
            if found is not None:
                self._add(name, found, Site(self.module.assigned[name].lineno, 1))
        if name in self.constants:
            return Bound(text, site, self.constants[name].value, name, axis=axis)
        return Bound(text, site, axis=axis)

    def _add(self, name: str, value: object, site: Site) -> None:
        if type(value) is int:
            self.constants.setdefault(name, Constant(name, value, site))


def _is_class_var(field: Field) -> bool:
    return "ClassVar" in ast.dump(field.annotation or ast.Constant(None))
