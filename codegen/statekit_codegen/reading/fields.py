"""Fields: what the body of a class declares, before any method runs.

Owns dataclasses, attrs classes, slots, annotations and class-level values. A name that only the
class has is a constant; one that instances have is an attribute.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import attrs

from statekit_codegen.reading.annotations import annotated
from statekit_codegen.reading.facts import NOTHING, UNKNOWN, Held, Site
from statekit_codegen.reading.lineage import Lineage
from statekit_codegen.reading.module import ModuleNames, dotted
from statekit_codegen.reading.payload import held, literal_of, source_of
from statekit_codegen.reading.trace import Trace

__all__ = ["Field", "fields"]

_DATACLASSES = ("dataclasses.dataclass", "pydantic.dataclasses.dataclass")
_ATTRS = (
    *(f"attr.{name}" for name in ("s", "attrs", "define", "mutable", "frozen", "dataclass")),
    *(f"attrs.{name}" for name in ("define", "mutable", "frozen")),
)
_FIELDS = (
    *("dataclasses.field", "attr.ib", "attr.attrib", "attr.field", "attrs.field"),
    *("pydantic.Field", "msgspec.field"),
)
_FACTORIES = ("attr.Factory", "attrs.Factory")
_RECORDS = ("BaseModel", "pydantic.BaseModel", "msgspec.Struct", "Struct", "NamedTuple")


@attrs.frozen
class Field:
    """One name of a class body.

    Attributes:
        held: what an instance gets, None where the body does not say.
        argument: whether the constructor takes it as an argument.
        class_level: whether the class itself holds the value.
        slot: whether it is known from `__slots__` alone.
    """

    name: str
    site: Site
    annotation: ast.expr | None = None
    held: Held | None = None
    argument: bool = False
    class_level: bool = False
    slot: bool = False


def fields(lineage: Lineage, module: ModuleNames, scope: Trace) -> Iterator[Field]:
    """The names of the bodies of a class and its bases, the furthest base first."""
    for class_ in reversed(list(lineage.classes.values())):
        generated = _has_fields(class_, module)
        for node in class_.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield from _annotated(node, node.target.id, generated, module, scope)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        yield from _assigned(target, node.value, generated, module, scope)


def _has_fields(class_: ast.ClassDef, module: ModuleNames) -> bool:
    for decorator in class_.decorator_list:
        inner = decorator.func if isinstance(decorator, ast.Call) else decorator
        if module.full_name(inner) in (*_DATACLASSES, *_ATTRS):
            return True
    return any(module.full_name(base) in _RECORDS for base in class_.bases)


def _annotated(
    node: ast.AnnAssign, name: str, generated: bool, module: ModuleNames, scope: Trace
) -> Iterator[Field]:
    site = Site(node.lineno, node.col_offset + 1)
    outer = node.annotation.value if isinstance(node.annotation, ast.Subscript) else node.annotation
    if isinstance(outer, ast.Constant) and isinstance(outer.value, str):
        outer = ast.Name(outer.value.partition("[")[0].rpartition(".")[2])
    wrapper = (module.full_name(outer) or "").rpartition(".")[2]
    if wrapper == "InitVar":
        return
    if wrapper == "ClassVar":
        value = None if node.value is None else held(node.value, scope)
        yield Field(name, site, node.annotation, value, class_level=True)
        return
    value, argument = _initial(node.value, module, scope)
    if value is not None:
        type_ = annotated(node.annotation, module.full_name, module.alias)
        if type_ != UNKNOWN:
            value = attrs.evolve(value, type=type_)
    class_level = not generated and node.value is not None
    yield Field(name, site, node.annotation, value, generated and argument, class_level)


def _assigned(
    target: ast.Name, value: ast.expr, generated: bool, module: ModuleNames, scope: Trace
) -> Iterator[Field]:
    site = Site(target.lineno, target.col_offset + 1)
    if target.id == "__slots__":
        for part in [value] if isinstance(value, ast.Constant) else ast.iter_child_nodes(value):
            text = literal_of(part) if isinstance(part, ast.expr) else NOTHING
            if isinstance(text, str) and not text.endswith("__"):
                yield Field(text, Site(part.lineno, part.col_offset + 1), slot=True)  # type: ignore[attr-defined]
        return
    if target.id.startswith("__"):
        return
    if isinstance(value, ast.Call) and module.full_name(value.func) in _FIELDS:
        given, argument = _initial(value, module, scope)
        type_node = next((k.value for k in value.keywords if k.arg == "type"), None)
        yield Field(target.id, site, type_node, given, argument)
        return
    yield Field(target.id, site, None, held(value, scope), class_level=True)


def _initial(node: ast.expr | None, module: ModuleNames, scope: Trace) -> tuple[Held | None, bool]:
    """What a field starts as, and whether the constructor takes it as an argument."""
    if node is None:
        return None, True
    if isinstance(node, ast.Call) and module.full_name(node.func) in _FACTORIES:
        return _made(node.args[0] if node.args else node, module, scope), True
    if not isinstance(node, ast.Call) or module.full_name(node.func) not in _FIELDS:
        return held(node, scope), True
    arguments: dict[str | None, ast.expr] = {
        keyword.arg: keyword.value for keyword in node.keywords
    }
    init = arguments.get("init")
    argument = not (isinstance(init, ast.Constant) and init.value is False)
    for key in ("default_factory", "factory"):
        if key in arguments:
            return _made(arguments[key], module, scope), argument
    default: Any = arguments.get("default")
    if isinstance(default, ast.Call) and module.full_name(default.func) in _FACTORIES:
        return _made(default.args[0] if default.args else default, module, scope), argument
    return (None if default is None else held(default, scope)), argument


def _made(factory: ast.expr, module: ModuleNames, scope: Trace) -> Held:
    """What a factory gives: a type, a lambda, or a partial call."""
    if isinstance(factory, ast.Lambda):
        return held(factory.body, scope)
    if isinstance(factory, ast.Call) and module.full_name(factory.func) == "functools.partial":
        inner = factory.args[0] if factory.args else factory
        return held(ast.Call(inner, factory.args[1:], factory.keywords), scope)
    if dotted(factory) is None:
        return Held(source_of(factory))
    return held(ast.Call(factory, [], []), scope)
