"""Loops: what a loop goes over, and what a test looks at."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from statekit_codegen.reading import bounds, targets
from statekit_codegen.reading.facts import Held
from statekit_codegen.reading.payload import literal_of, source_of
from statekit_codegen.reading.reference import SELF, Reference

if TYPE_CHECKING:
    from statekit_codegen.reading.trace import Trace

__all__ = ["loop_target", "tested", "walk_for", "walk_while"]


def walk_for(trace: Trace, node: ast.For | ast.AsyncFor) -> None:
    """Walk through a loop; one over texts that are written out once for each of them."""
    trace.expression(node.iter)
    texts = _texts(trace, node.iter)
    if isinstance(node.target, ast.Name) and texts is not None:
        for text in texts:
            trace.constants[node.target.id] = text
            trace.block(node.body)
        trace.constants.pop(node.target.id, None)
    else:
        loop_target(trace, node.target, node.iter)
        trace.block(node.body)
    trace.block(node.orelse)


def loop_target(trace: Trace, target: ast.expr, source: ast.expr) -> None:
    """Bind the target of a loop: a part of the attribute that it goes over, if it does."""
    name = trace.element(source)
    if name is None and isinstance(source, ast.Call):
        inner = [*source.args]
        if isinstance(source.func, ast.Attribute):
            inner.append(source.func.value)
        name = next(filter(None, map(trace.element, inner)), None)
    targets.bind(trace, target, None, Held(source_of(source)))
    if name is not None:
        for part in ast.walk(target):
            if isinstance(part, ast.Name):
                trace.references[part.id] = Reference(name, 1)


def _texts(trace: Trace, node: ast.expr) -> list[str] | None:
    """The texts that a loop goes over, where they are written out."""
    if isinstance(node, ast.Name):
        node = trace.module.assigned.get(node.id, node)
    elif isinstance(node, ast.Attribute) and trace.references.get(_head(node)) == SELF:
        node = trace.lineage.class_value(node.attr) or node
    if not isinstance(node, (ast.Tuple, ast.List)) or not node.elts:
        return None
    texts = [literal_of(part) for part in node.elts]
    return texts if all(isinstance(text, str) for text in texts) else None


def walk_while(trace: Trace, node: ast.While) -> None:
    """Walk through a loop that may not run."""
    trace.expression(node.test)
    limit = bounds.limit_of(node.test, trace)
    if limit is not None:
        trace.limits.append(limit)
    trace.perhaps(node.body, tested(trace, node.test))
    if limit is not None:
        trace.limits.pop()
    trace.block(node.orelse)


def tested(trace: Trace, test: ast.expr) -> frozenset[str]:
    """The attributes that a test looks at; `?` among them where it looks at more."""
    names: set[str] = set()
    for part in ast.walk(test):
        if isinstance(part, ast.Name) and part.id in trace.parameters:
            names.add("?")
        elif isinstance(part, (ast.Attribute, ast.Subscript, ast.Name)):
            name = trace.element(part)
            if name:
                names.add(name)
    return frozenset(names or {"?"})


def _head(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
