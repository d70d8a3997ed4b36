"""Reader: the facts of one class, from the walks through its functions.

Owns the order: what the body declares, what the constructor sets, what every function does to the
state, what each reset clears; and how those make one `Attribute` each.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from statekit.errors import GenerateError
from statekit_codegen.reading.assembly import Assembly
from statekit_codegen.reading.choices import defaults
from statekit_codegen.reading.clearing import CONSTRUCTORS, clearings
from statekit_codegen.reading.facts import (
    UNKNOWN,
    Attribute,
    Clearing,
    Constant,
    Event,
    HandRolled,
    Method,
    Site,
)
from statekit_codegen.reading.fields import Field, fields
from statekit_codegen.reading.lineage import Lineage
from statekit_codegen.reading.module import ModuleNames, dotted
from statekit_codegen.reading.numbers import Numbers
from statekit_codegen.reading.payload import literal_of, source_of
from statekit_codegen.reading.source import Source, Target, find_class, parse_source, read_file
from statekit_codegen.reading.trace import Function, Trace, Traced
from statekit_codegen.type_grammar import TypeExpr

__all__ = ["read_class", "read_source"]


def read_class(path: Path, name: str, file: str | None = None) -> HandRolled:
    """The facts of the class `name` in the file at `path`; `file` is its name in messages.

    Raises:
        GenerateError: the file can't be read or parsed, or has no such class.
    """
    file = file or path.as_posix()
    target = Target.parse(f"{path.with_suffix('').as_posix()}.py:{name}")
    return read_source(read_file(path, file), target, file)


def read_source(data: bytes, target: Target, file: str) -> HandRolled:
    """The facts of a class in the bytes of a file.

    Raises:
        GenerateError: the bytes can't be parsed, or have no such class.
    """
    source = parse_source(data, file)
    try:
        return _Reader(source, target).read()
    except RecursionError:
        raise GenerateError(
            file, f"{target.name} is too deep or too large to be followed", "simplify the class"
        ) from None


class _Reader:
    """The steps from a parsed file to the facts of one class."""

    def __init__(self, source: Source, target: Target) -> None:
        self.source, self.target = source, target
        self.module = ModuleNames.of(source)
        self.node = find_class(source, target)
        self.lineage = Lineage.of(self.node, target.name, self.module)
        self.types: dict[str, TypeExpr] = {}
        self.fields: dict[str, Field] = {}
        self.numbers = Numbers(self.module)
        self.docs = self._find_docs()

    def read(self) -> HandRolled:
        """All of it."""
        nobody = ast.FunctionDef(
            "", ast.arguments([], [], None, [], [], None, []), [], [], lineno=1, col_offset=0
        )
        scope = self._trace(nobody, [], Traced())
        for field in fields(self.lineage, self.module, scope):
            before = self.fields.get(field.name)
            if before is None or not field.slot:
                self.fields[field.name] = field
        self.numbers.find_arguments(self.lineage, self.fields)
        names = self.numbers.find_constants(self.lineage, self.fields, self._everything().events)
        self.lineage = attrs.evolve(self.lineage, constants=names)
        for name in names:
            del self.fields[name]
        start = self._start()
        self._learn(start, Traced())
        self.numbers.fix(self._everything().events)
        start = self._start()  # again, with the types and bounds that the first walk found
        every = self._everything()
        self._learn(start, every)
        attributes = self._assembly().attributes(start, every)
        attributes = {name: one for name, one in attributes.items() if self._concerns(one)}
        called = frozenset(
            node.func.attr
            for class_ in self.lineage.classes.values()
            for node in ast.walk(class_)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        )
        initial = {
            name: attribute.default
            for name, attribute in attributes.items()
            if attribute.default is not None
        }
        found = clearings(
            self.lineage.methods(), initial, attributes, called, self._reset_events, _doc
        )
        attributes = self._with_reset_defaults(attributes, found)
        site = Site(self.node.lineno, self.node.col_offset + 1)
        return HandRolled(
            file=self.source.file,
            name=self.target.name,
            site=site,
            doc=_first_line(ast.get_docstring(self.node)),
            attributes=attributes,
            constants=self._used_constants(attributes),
            parameters=self.numbers.arguments,
            clearings=tuple(found),
            methods=tuple(self._methods(found)),
            blind=tuple(dict.fromkeys(sorted(every.blind, key=lambda spot: spot.site))),
            unread=self.lineage.unread,
            text=self.source.text,
            tree=self.source.tree,
        )

    # -- walks -------------------------------------------------------------------------------

    def _trace(
        self, function: Function, receivers: Iterable[str], found: Traced, **more: Any
    ) -> Trace:
        return Trace(
            self.module, self.lineage, function, found, frozenset(receivers),
            lambda name: self.types.get(name, UNKNOWN), self.numbers.bound, **more,
        )  # fmt: skip

    def _start(self) -> Traced:
        """What the constructor does, with the helpers that it calls."""
        found = Traced()
        for name in CONSTRUCTORS:
            owner, function = self.lineage.method(name)
            if function is not None:
                receiver = _receiver(function)
                choices = defaults(function)
                trace = self._trace(
                    function, receiver, found, follow=True, owner=owner, choices=choices,
                    stack=(f"{owner}.{name}",),
                )  # fmt: skip
                trace.run()
        return found

    def _everything(self) -> Traced:
        """What every function of the file does to the state, each on its own."""
        found = Traced()
        for owner, function in self.lineage.every_function():
            self._trace(function, _receiver(function), found, owner=owner).run()
        own = {id(function) for _, function in self.lineage.every_function()}
        for node in ast.walk(self.source.tree):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or id(node) in own:
                continue
            receivers = self._annotated_receivers(node)
            if receivers or self.module.tables:
                self._trace(node, receivers, found).run()
        return found

    def _annotated_receivers(self, function: Function) -> list[str]:
        """The arguments of a function that are states, by their annotations."""
        names = []
        for argument in [*function.args.args, *function.args.kwonlyargs]:
            parts = [] if argument.annotation is None else list(ast.walk(argument.annotation))
            written = {dotted(part) for part in parts if isinstance(part, ast.expr)}
            texts = [part.value for part in parts if isinstance(part, ast.Constant)]
            written.update(word for text in texts for word in re.findall(r"[\w.]+", str(text)))
            if written & set(self.lineage.classes):
                names.append(argument.arg)
        return names

    def _reset_events(
        self, function: Function, choices: Mapping[str, Any], owner: str
    ) -> Iterable[Event]:
        found = Traced()
        trace = self._trace(
            function, _receiver(function), found, follow=True, choices=choices, owner=owner,
            stack=(f"{owner}.{function.name}",),
        )  # fmt: skip
        trace.run()
        return found.events

    def _assembly(self) -> Assembly:
        return Assembly(self.module, self.fields, self.types, self.numbers.passed, self._words)

    # -- attributes --------------------------------------------------------------------------

    def _learn(self, start: Traced, every: Traced) -> None:
        """Note the types of attributes, and which are arguments of the constructor."""
        events = [*start.events, *every.events]
        by_name: dict[str, list[Event]] = {name: [] for name in self.fields}
        for event in events:
            by_name.setdefault(event.name, []).append(event)
        assembly = self._assembly()
        for name, own in by_name.items():
            self.types[name] = assembly.type_of(name, own, [start, every])[0]
        for event in start.events:
            given = event.held.parameter if event.kind == "set" and event.held else None
            if given is not None and given in self.numbers.arguments:
                self.numbers.passed[event.name] = given

    def _with_reset_defaults(
        self, attributes: dict[str, Attribute], found: Iterable[Clearing]
    ) -> dict[str, Attribute]:
        """What only a reset sets starts as what that sets it to."""
        done = dict(attributes)
        for clearing in found:
            for name, event in clearing.events.items():
                attribute = done.get(name)
                known = event.held is not None and event.held.is_literal
                if attribute is not None and attribute.default is None and known:
                    done[name] = attrs.evolve(
                        attribute, default=event.held, default_site=event.site
                    )
        return done

    def _concerns(self, attribute: Attribute) -> bool:
        """Whether an entry of a table belongs to this class: it touches it, or no class does."""
        if attribute.table is None:
            return True
        noted = self.module.annotations.get(attribute.table)
        made = [event.held.source for event in attribute.events if event.held is not None]
        words = {
            word
            for text in [source_of(noted or ast.Constant(0)), *made]
            for word in re.findall(r"\w+", text)
        }
        if words & set(self.module.classes):
            return False  # a table of states of this class, or of another one
        lines = {event.site.line for event in attribute.events}

        def touches(class_: ast.ClassDef) -> bool:
            return any(class_.lineno <= line <= (class_.end_lineno or 0) for line in lines)

        own = self.lineage.classes.values()
        return any(map(touches, own)) or not any(map(touches, self.module.classes.values()))

    def _used_constants(self, attributes: Mapping[str, Attribute]) -> dict[str, Constant]:
        """The numbers of the class, and those of the module that bound something."""
        bounds = {one.bound.name for one in attributes.values() if one.bound is not None}
        return {
            name: constant
            for name, constant in self.numbers.constants.items()
            if name in bounds or name in self.lineage.constants
        }

    # -- words and methods -------------------------------------------------------------------

    def _words(self, line: int) -> str:
        """What stands beside a line: a text right after it, or a comment."""
        return self.docs.get(line) or self.module.comment(line)

    def _find_docs(self) -> dict[int, str]:
        """Texts that stand as statements right after an assignment, by its line."""
        found: dict[int, str] = {}
        functions = [function for _, function in self.lineage.every_function()]
        for block in [*self.lineage.classes.values(), *functions]:
            for before, after in zip(block.body, block.body[1:], strict=False):
                text = literal_of(after.value) if isinstance(after, ast.Expr) else None
                if isinstance(before, (ast.Assign, ast.AnnAssign)) and isinstance(text, str):
                    found[before.lineno] = _first_line(text)
        return found

    def _helpers_of_constructors(self) -> frozenset[str]:
        """The helpers that only constructors name."""
        named: dict[str, set[bool]] = {}
        for _, caller in self.lineage.every_function():
            for node in ast.walk(caller):
                if isinstance(node, ast.Attribute):
                    named.setdefault(node.attr, set()).add(caller.name in CONSTRUCTORS)
        return frozenset(n for n, by in named.items() if n.startswith("_") and by == {True})

    def _methods(self, found: Iterable[Clearing]) -> Iterator[Method]:
        left_out = {*CONSTRUCTORS, *self._helpers_of_constructors()}
        for owner, function in sorted(self.lineage.written(), key=lambda pair: pair[1].lineno):
            if function.name not in left_out:
                site = Site(function.lineno, function.col_offset + 1, function.name)
                yield Method(function.name, site, function, owner)


def _doc(function: Function) -> str:
    return _first_line(ast.get_docstring(function))


def _receiver(function: Function) -> list[str]:
    decorators = [dotted(decorator) for decorator in function.decorator_list]
    names = [*function.args.posonlyargs, *function.args.args]
    if "staticmethod" in decorators or "classmethod" in decorators or not names:
        return []
    return [names[0].arg]


def _first_line(text: str | None) -> str:
    return " ".join((text or "").strip().partition("\n\n")[0].split())
