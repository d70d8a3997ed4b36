"""TypeText: the `type` of a value as its spec has it, and whether a value is of that type.

Owns a small parser of the canonical text that the generator writes (`torch.Tensor | None`,
`list[tuple[int, str]]`); the grammar's errors are the generator's business. A name that is not in
the grammar is a class of somebody's own, and anything is taken for one.
"""

from __future__ import annotations

import ast
from collections import deque
from functools import lru_cache
from typing import Any

import attrs
import numpy as np
import torch

__all__ = ["TypeText", "a_kind"]

_CLASSES: dict[str, type | tuple[type, ...]] = {
    "None": type(None), "bool": bool, "bytes": bytes, "int": int, "float": (float, int), "str": str,
    "np.ndarray": np.ndarray, "torch.Generator": torch.Generator, "torch.Tensor": torch.Tensor,
    "deque": deque, "dict": dict, "list": list, "set": set, "tuple": tuple,
}  # fmt: skip


@attrs.frozen
class TypeText:
    """A parsed type. Build with `TypeText.parse`.

    Attributes:
        head: a name, a container, or `|` for alternatives.
        arguments: of a container, or the alternatives.
        variadic: whether this is `tuple[T, ...]`.
    """

    head: str
    arguments: tuple[TypeText, ...] = ()
    variadic: bool = False

    @classmethod
    def parse(cls, text: str) -> TypeText:
        """The type that `text` names."""
        return _parse(text)

    @property
    def alternatives(self) -> tuple[TypeText, ...]:
        """What `|` joins; of any other type, the type itself."""
        return self.arguments if self.head == "|" else (self,)

    @property
    def is_one_array(self) -> bool:
        """Whether a value is one tensor or array, or None."""
        heads = {alternative.head for alternative in self.alternatives} - {"None"}
        return bool(heads) and heads <= {"torch.Tensor", "np.ndarray"}

    def misfit(self, value: Any, path: str = "") -> str | None:
        """Where `value` is not of this type, as `[2] is a float`; None where all of it is."""
        if self.head == "|":
            misfits = [one.misfit(value, path) for one in self.arguments]
            if None in misfits:
                return None
            inner = [text for one, text in zip(self.arguments, misfits, strict=True)
                     if one._is_kind(value)]  # fmt: skip
            return inner[0] if inner else f"{path or 'it'} is {a_kind(value)}"
        if not self._is_kind(value):
            return f"{path or 'it'} is {a_kind(value)}"
        for where, part, kind in self._parts(value):
            found = kind.misfit(part, path + where)
            if found is not None:
                return found
        if self.head == "tuple" and not self.variadic and len(value) != len(self.arguments):
            return f"{path or 'it'} has {len(value)} entries"
        return None

    def _is_kind(self, value: Any) -> bool:
        kind = _CLASSES.get(self.head)
        if kind is None:
            return True
        if type(value) is bool:  # which Python takes for a number
            return self.head == "bool"
        return isinstance(value, kind)

    def _parts(self, value: Any) -> list[tuple[str, Any, TypeText]]:
        """The entries of a container, with their places and types."""
        kinds = self.arguments
        if not kinds:
            return []
        if self.head == "dict":
            keys = [(f" key {key!r}", key, kinds[0]) for key in value]
            return keys + [(f"[{key!r}]", part, kinds[1]) for key, part in value.items()]
        if self.head == "set":
            return [(f" member {part!r}", part, kinds[0]) for part in value]
        if self.head == "tuple" and not self.variadic:
            pairs = zip(value, kinds, strict=False)
            return [(f"[{index}]", part, kind) for index, (part, kind) in enumerate(pairs)]
        return [(f"[{index}]", part, kinds[0]) for index, part in enumerate(value)]


def a_kind(value: Any) -> str:
    """What `value` is, in the words of the grammar: `None`, `a list`, `an int`."""
    if value is None:
        return "None"
    name = type(value).__name__
    if isinstance(value, torch.Tensor):
        return "a torch.Tensor"
    if isinstance(value, np.ndarray):
        return "an np.ndarray"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


@lru_cache(maxsize=256)
def _parse(text: str) -> TypeText:
    return _read(ast.parse(text.strip(), mode="eval").body)


def _read(node: ast.expr) -> TypeText:
    if isinstance(node, ast.BinOp):
        left, right = _read(node.left), _read(node.right)
        return TypeText("|", (*left.alternatives, *right.alternatives))
    if isinstance(node, ast.Subscript):
        head = ast.unparse(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        variadic = isinstance(parts[-1], ast.Constant) and parts[-1].value is ...
        arguments = tuple(_read(part) for part in (parts[:-1] if variadic else parts))
        if head == "Optional":
            return TypeText("|", (*arguments[0].alternatives, TypeText("None")))
        return TypeText(head, arguments, variadic)
    return TypeText(ast.unparse(node))
