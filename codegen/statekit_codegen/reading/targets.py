"""Targets: what an assignment, an annotation or a `del` does to the state."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

from statekit_codegen.reading import bounds, calls
from statekit_codegen.reading.annotations import annotated
from statekit_codegen.reading.facts import UNKNOWN, Held
from statekit_codegen.reading.payload import held, source_of
from statekit_codegen.reading.reference import SELF, Reference, reference

if TYPE_CHECKING:
    from statekit_codegen.reading.trace import Trace

__all__ = ["annotate", "augment", "bind", "delete"]


def annotate(trace: Trace, node: ast.AnnAssign) -> None:
    """Note an annotation, and what is assigned with it."""
    name = trace.attribute(node.target)
    if name is not None:
        trace.found.annotations.setdefault(name, (node.annotation, trace.site(node.target)))
    elif isinstance(node.target, ast.Name) and node.value is not None:
        type_ = annotated(node.annotation, trace.module.full_name, trace.module.alias)
        trace.expression(node.value)
        value = held(node.value, trace)
        known = value.type if type_ == UNKNOWN else type_
        bind(trace, node.target, node.value, attrs.evolve(value, type=known))
        return
    if node.value is not None:
        trace.expression(node.value)
        bind(trace, node.target, node.value, held(node.value, trace))


def augment(trace: Trace, node: ast.AugAssign) -> None:
    """Change a target by `+=` and the like."""
    trace.expression(node.value)
    found = reference(node.target, trace)
    if found is None or not found.name:
        return
    if found.depth:
        trace.emit(node, found.name, "entry", how="[]", depth=found.depth)
    elif isinstance(node.op, ast.Add) and isinstance(node.value, (ast.List, ast.Tuple)):
        item = held(node.value, trace).type.arguments
        gives = Held(source_of(node.value), item[0] if item else UNKNOWN)
        trace.emit(node, found.name, "append", how="+=", held=gives)
    else:
        trace.emit(node, found.name, "augment", how="+=", held=held(node.value, trace))


def bind(trace: Trace, target: ast.expr, value: ast.expr | None, given: Held) -> None:
    """Assign to a target."""
    if isinstance(target, ast.Starred):
        bind(trace, target.value, None, Held(given.source))
    elif isinstance(target, (ast.Tuple, ast.List)):
        parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        paired = len(parts) == len(target.elts)
        for index, part in enumerate(target.elts):
            if paired:
                bind(trace, part, parts[index], held(parts[index], trace))
            else:
                bind(trace, part, None, Held(given.source))
    elif isinstance(target, ast.Name):
        _bind_name(trace, target.id, value, given)
    else:
        _bind_part(trace, target, given)


def _bind_name(trace: Trace, name: str, value: ast.expr | None, given: Held) -> None:
    trace.references.pop(name, None)
    found = None if value is None else reference(value, trace)
    if found is not None and not _is_copy(trace, value, found):
        trace.references[name] = found
    trace.locals[name] = given
    trace.parameters.pop(name, None)


def _is_copy(trace: Trace, value: ast.expr | None, found: Reference) -> bool:
    """Whether an expression is a slice of a list: a new list, unlike a slice of a tensor."""
    sliced = isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice)
    heads = {part.head for part in trace.type_of(found.name).alternatives}
    return sliced and bool(heads & {"list", "deque", "tuple"})


def _bind_part(trace: Trace, target: ast.expr, given: Held) -> None:
    found = reference(target, trace)
    if found is None or not found.name:
        if found is SELF or calls.dict_of_state(target, trace):
            trace.blind(target)
        return
    if found.depth == 0:
        if trace.lineage.is_property(found.name):
            return
        given = bounds.under_limit(given, found.name, trace.limits)
        trace.emit(target, found.name, "set", how="=", held=given)
        return
    whole = isinstance(target, ast.Subscript) and bounds.is_whole(target.slice)
    if whole and found.depth == 1 and given.default == []:
        trace.emit(target, found.name, "clear", how="[:] =")
        return
    sliced = isinstance(target, ast.Subscript) and bounds.is_sliced(target.slice)
    kind = "write" if sliced else "entry"
    trace.emit(target, found.name, kind, how="[...] =", held=given, depth=found.depth)


def delete(trace: Trace, target: ast.expr) -> None:
    """Delete a target: an attribute, or a part of one."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            delete(trace, part)
        return
    found = reference(target, trace)
    if found is None or not found.name:
        return
    if found.depth == 0:
        trace.emit(target, found.name, "delete", how="del")
    elif isinstance(target, ast.Subscript) and found.depth == 1:
        kind, bound = bounds.deleted(target.slice, found.name, trace)
        trace.emit(target, found.name, kind, how="del", depth=1, bound=bound)
