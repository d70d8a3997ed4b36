"""Subclass: the hand-written class over a generated adapter, drafted: what no schema can say."""

from __future__ import annotations

import ast
import textwrap

from statekit_codegen.reading.facts import HandRolled
from statekit_codegen.scaffold.document import class_name
from statekit_codegen.scaffold.holder import holders, session_values
from statekit_codegen.scaffold.imports import Imports
from statekit_codegen.scaffold.port import Ported, port
from statekit_codegen.scaffold.resets import draft_resets

__all__ = ["subclass"]

_WIDTH = 88


def subclass(state: HandRolled, module: str) -> str:
    """The text of a module with the subclass of the adapter that `module` will have."""
    assert state.tree is not None
    values = session_values(state)
    kinds = holders(state)
    imports = Imports.of(state.tree)
    resets = draft_resets(state, values)
    ported = [
        one
        for method in state.methods
        if (one := port(method, state, values, kinds, resets, imports)) is not None
    ]
    base = class_name(state.name)
    name = f"{base}Adapter"
    lines = [*_head(state, base), "", "from __future__ import annotations", ""]
    needed = _needed(ported, imports)
    plain = imports.definitions(needed)
    inside = [part for value in plain.values() for part in ast.walk(value)]
    needed += [part.id for part in inside if isinstance(part, ast.Name)]
    for group in imports.groups(sorted(set(needed))):
        lines += [*group, ""]
    lines += [f"from {module} import {base}", "", f'__all__ = ["{name}"]', ""]
    lines += [f"{known} = {ast.unparse(value)}" for known, value in plain.items()]
    lines += [""] * (2 if plain else 1)
    lines += [f"class {name}({base}):", *_docstring(state), "", "    __slots__ = ()"]
    for one in ported:
        lines += ["", *one.lines]
    return "\n".join(lines) + "\n"


def _needed(ported: list[Ported], imports: Imports) -> list[str]:
    names = {name for one in ported for name in one.names}
    if any("Any" in one.names for one in ported) and "Any" not in imports.by_name:
        imports.by_name.update(Imports.of(ast.parse("from typing import Any")).by_name)
    return sorted(names)


def _head(state: HandRolled, base: str) -> list[str]:
    text = (
        f"Drafted by `statekit scaffold` from {state.file}:{state.name}. Bodies were copied where "
        "they mean the same here; the others stand as comments, with what keeps them from it. "
        "Read every one of them."
    )
    summary = f'"""{base}Adapter: what no schema can say of this state, written by hand.'
    return [summary, "", *textwrap.wrap(text, _WIDTH, break_on_hyphens=False), '"""']


def _docstring(state: HandRolled) -> list[str]:
    doc = state.doc.replace("\\", "\\\\").replace('"', "'")
    text = doc or f"The state of {state.name.rpartition('.')[2]}, over the generated adapter."
    lines = textwrap.wrap(text, _WIDTH - 7, break_on_hyphens=False)
    if len(lines) == 1:
        return [f'    """{lines[0]}"""']
    return [f'    """{lines[0]}', *(f"    {line}" for line in lines[1:]), '    """']
