"""Module names: what a generated module imports, and which names its members cannot have.

Owns the list of importable names and the order of import lines. Knows nothing of schemas.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from statekit_codegen.layout import WIDTH

__all__ = ["RESERVED_NAMES", "import_lines", "names_in"]

_STANDARD = {
    "collections": ("deque",),
    "collections.abc": ("Iterable",),
    "typing": ("Any", "ClassVar", "Literal"),
}
_ALIASED = {
    "np": "import numpy as np",
    "npt": "import numpy.typing as npt",
    "torch": "import torch",
}
_STATEKIT = {
    "statekit.adapter": ("StateAdapter",),
    "statekit.attr": ("SessionAttr",),
    "statekit.family": ("ObjectFamily",),
    "statekit.manager": ("SessionStateManager",),
    "statekit.objects": (
        "Cast",
        "EncodeOnce",
        "FixedState",
        "HeldValue",
        "LatentBuffer",
        "RetrievalStore",
        "WindowedKV",
    ),
    "statekit.on_commit": ("OnCommit",),
    "statekit.spec": (
        "Codec",
        "Family",
        "Growth",
        "Index",
        "Measured",
        "ModelSpec",
        "Parameter",
        "Park",
        "Pending",
        "Rebuild",
        "Ring",
        "Sharding",
        "Size",
        "Tolerance",
        "ValueSpec",
    ),
}

_BUILTINS = (
    "bool",
    "bytes",
    "dict",
    "float",
    "int",
    "list",
    "property",
    "set",
    "str",
    "super",
    "tuple",
)

RESERVED_NAMES = frozenset(
    {"annotations", "build", "manager", "self", "session_id", *_ALIASED, *_BUILTINS}.union(
        *_STANDARD.values(), *_STATEKIT.values()
    )
)
"""Names that the code of a module may use; neither its class nor a member can be called so."""


def names_in(code: str) -> frozenset[str]:
    """Every name that `code` reads."""
    return frozenset(node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name))


def import_lines(names: Collection[str]) -> list[list[str]]:
    """The imports of those of `names` that are importable, sorted, in groups."""
    groups = [
        _from_imports(_STANDARD, names),
        [text for name, text in _ALIASED.items() if name in names],
        _from_imports(_STATEKIT, names),
    ]
    return [group for group in groups if group]


def _from_imports(modules: dict[str, tuple[str, ...]], names: Collection[str]) -> list[str]:
    lines = []
    for module, exported in modules.items():
        used = [name for name in exported if name in names]
        flat = f"from {module} import {', '.join(used)}"
        if len(flat) > WIDTH:
            flat = "\n".join([f"from {module} import (", *(f"    {name}," for name in used), ")"])
        if used:
            lines.append(flat)
    return lines
