"""Lineage: a class and the bases of the same file, as the order in which Python looks names up.

Owns which method or class-level value a name is, and which bases the file does not have.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import attrs

from statekit_codegen.reading.module import ModuleNames, dotted

__all__ = ["Lineage"]

Function = ast.FunctionDef | ast.AsyncFunctionDef

_HARMLESS = ("object", "abc.ABC", "typing.Generic", "Generic", "typing.Protocol", "enum.Enum")
_ACCESSORS = ("property", "functools.cached_property")
_MAX_BASES = 50


@attrs.frozen
class Lineage:
    """A class and its bases, the class first.

    Attributes:
        classes: by name, in the order of look-up.
        unread: bases that another file has.
        constants: names of the class that are numbers or texts which nothing sets on an instance.
    """

    classes: Mapping[str, ast.ClassDef]
    unread: tuple[str, ...]
    constants: frozenset[str] = frozenset()
    _methods: Mapping[str, tuple[str, Function]] = attrs.field(factory=dict, alias="methods")
    _properties: frozenset[str] = attrs.field(default=frozenset(), alias="properties")

    @classmethod
    def of(cls, node: ast.ClassDef, name: str, module: ModuleNames) -> Lineage:
        """The lineage of a class of a file."""
        classes: dict[str, ast.ClassDef] = {}
        unread: dict[str, None] = {}
        _collect(node, name, module, classes, unread)
        methods: dict[str, tuple[str, Function]] = {}
        properties: set[str] = set()
        for owner, class_ in classes.items():
            last: dict[str, Function] = {}
            for function in _functions(class_):
                if _is_accessor(function, module):
                    properties.add(function.name)
                last[function.name] = function
            for name_, function in last.items():
                methods.setdefault(name_, (owner, function))
        return cls(classes, tuple(unread), frozenset(), methods, frozenset(properties))

    def is_method(self, name: str) -> bool:
        """Whether a name is a method, and no property."""
        return name in self._methods and name not in self._properties

    def is_property(self, name: str) -> bool:
        """Whether a name is a property."""
        return name in self._properties

    def is_constant(self, name: str) -> bool:
        """Whether a name is a constant of the class."""
        return name in self.constants

    def has_class(self, name: str) -> bool:
        """Whether a class of this name is among them."""
        return name in self.classes

    def methods(self) -> Iterator[tuple[str, Function]]:
        """The methods that an instance has, properties too, with the class of each."""
        yield from self._methods.values()

    def written(self) -> Iterator[tuple[str, Function]]:
        """The methods that an instance has, every accessor of a property among them."""
        for owner, function in self.every_function():
            mine, last = self._methods[function.name]
            accessor = function.name in self._properties
            if function is last or (owner == mine and accessor):
                yield owner, function

    def every_function(self) -> Iterator[tuple[str, Function]]:
        """All methods, those that another class overrides too."""
        for owner, class_ in self.classes.items():
            for function in _functions(class_):
                yield owner, function

    def method(self, name: str) -> tuple[str, Function | None]:
        """The method that an instance has under a name, with its class."""
        return self._methods.get(name, ("", None))

    def method_of(self, owner: str, name: str) -> tuple[str, Function | None]:
        """The method of one class."""
        class_ = self.classes.get(owner)
        found = [] if class_ is None else [f for f in _functions(class_) if f.name == name]
        return (owner, found[-1]) if found else ("", None)

    def method_after(self, owner: str, name: str) -> tuple[str, Function | None]:
        """What `super().name` is in a method of `owner`."""
        order = list(self.classes)
        start = order.index(owner) + 1 if owner in order else len(order)
        for base in order[start:]:
            found = self.method_of(base, name)
            if found[1] is not None:
                return found
        return "", None

    def class_value(self, name: str) -> ast.expr | None:
        """The expression that a class gives to a name."""
        for class_ in self.classes.values():
            for node in class_.body:
                if isinstance(node, ast.Assign):
                    if any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                        return node.value
                elif isinstance(node, ast.AnnAssign) and dotted(node.target) == name:
                    return node.value
        return None


def _collect(
    node: ast.ClassDef,
    name: str,
    module: ModuleNames,
    classes: dict[str, ast.ClassDef],
    unread: dict[str, None],
) -> None:
    if name in classes or len(classes) >= _MAX_BASES:
        return
    classes[name] = node
    for base in node.bases:
        inner = base.value if isinstance(base, ast.Subscript) else base
        written = dotted(inner) or "..."
        full = module.full_name(inner) or written
        parent = module.classes.get(written)
        if parent is not None and parent is not node:
            _collect(parent, written, module, classes, unread)
        elif full not in _HARMLESS:
            unread[written] = None


def _functions(class_: ast.ClassDef) -> Iterator[Function]:
    stack: list[ast.stmt] = list(class_.body)
    while stack:
        node = stack.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
        elif isinstance(node, (ast.If, ast.Try)):
            stack = [*node.body, *node.orelse, *stack]


def _is_accessor(function: Function, module: ModuleNames) -> bool:
    for decorator in function.decorator_list:
        name = module.full_name(decorator) or ""
        if name in _ACCESSORS or name.endswith((".setter", ".getter", ".deleter")):
            return True
    return False
