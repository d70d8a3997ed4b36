"""Conformity: whether a value is what its schema declares; in words where it is not.

Owns the comparison of type, dtype, rank, shape, device and size. How strict it is:

    F1  An extent that is a literal number must be that number.
    F2  An extent of constants and parameters alone is the most that is allowed.
    F3  A symbol means one number among the values that a session holds, whatever number the
        schema's deployment gives it. A symbol in one extent only may be anything. A value that
        had the old number may be the first to have a new one, until the next look at all values.
    F4  The axis along which a ring counts frames may be anything; the ring's bound holds for all
        items together.
    F5  `elements` is the most that is allowed, where the values that are held give its symbols.
    F6  `model` is one device: that of the first value on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs

from statekit.checking.arrays import arrays_of, device_of, dtype_of
from statekit.checking.declaration import Declaration
from statekit.checking.symbols import Extent, Symbols
from statekit.errors import ExpressionError
from statekit.expressions import Expression

__all__ = ["Finding", "Surroundings", "evaluated", "extents_of", "misfit", "uneven"]


@attrs.frozen
class Finding:
    """What was found against what is declared, and what to do."""

    found: str
    todo: str


class Surroundings:
    """What the other values of the session say; asked only where a declaration depends on it.

    Args:
        given: numbers of constants and parameters.
        shared: symbols that are held to one number.
        others: the other values: declaration, items, and whether symbols mean the same there.
        before: what the value is now, where it is about to be another.
    """

    def __init__(
        self,
        given: Mapping[str, int],
        shared: frozenset[str],
        others: Callable[[], Iterable[tuple[Declaration, Sequence[Any], bool]]],
        before: Sequence[Any] = (),
    ) -> None:
        self.shared = shared
        self._given, self._others, self._before = given, others, _opened(before)

    def may_move(self, extent: Extent) -> bool:
        """Whether the value changes its own number, and may be the first one to do so."""
        found = [one.shape for one in self._before if len(getattr(one, "shape", ())) > extent.dim]
        return bool(found) and all(shape[extent.dim] != extent.found for shape in found)

    @cached_property
    def symbols(self) -> Symbols:
        """The numbers of symbols, constants and parameters."""
        symbols = Symbols(self._given)
        for declaration, items, alike in self._others():
            if alike and declaration.shape is not None:
                for item in _opened(items):
                    extents = extents_of(item, declaration, self.shared)
                    symbols.learn(extents, declaration.name)
                if self.shared <= symbols.numbers.keys():
                    break
        return symbols

    @cached_property
    def model_device(self) -> tuple[str, str] | None:
        """The device that is "model" here, and a value that is there."""
        for declaration, items, _ in self._others():
            if declaration.value.device == "model":
                for item in items:
                    for _, array in arrays_of(item):
                        return device_of(array), declaration.name
        return None


def misfit(value: Any, declaration: Declaration, around: Surroundings) -> Finding | None:
    """The first thing in which `value` (or an item) is not as declared."""
    spec = declaration.value
    found = declaration.type.misfit(value)
    if found is not None:
        return Finding(f"{found}, declared {spec.type}", f"store {spec.type}, or mend `type`")
    arrays = list(arrays_of(value))
    for path, array in arrays:
        place = path or "it"
        if spec.device == "none":
            return Finding(f"{place} holds memory, declared device none", "mend `device`")
        if spec.dtype is not None and dtype_of(array) != spec.dtype:
            todo = f"convert it to {spec.dtype} before it is stored, or mend `dtype`"
            return Finding(f"{place} is {dtype_of(array)}, declared {spec.dtype}", todo)
    if declaration.shape is not None:
        for path, array in arrays:
            finding = _wrong_shape(array, declaration, around)
            if finding is not None:
                where = f"{path}: " if path else ""
                return Finding(f"{where}{finding.found}", finding.todo)
    return _wrong_device(arrays, spec.device, around) or _too_large(
        arrays, declaration, around
    )  # fmt: skip


def extents_of(value: Any, declaration: Declaration, shared: frozenset[str]) -> list[Extent]:
    """The extents of `value` that say something about shared symbols; none if its rank is wrong."""
    declared = declaration.shape
    if declared is None or value is None or len(getattr(value, "shape", ())) != len(declared):
        return []
    symbols = declaration.model.symbols.keys()
    return [
        Extent(dim, expression, found)
        for dim, (expression, found) in enumerate(zip(declared, value.shape, strict=True))
        if (named := expression.names & symbols)
        and named <= shared
        and dim != declaration.frame_axis
    ]


def uneven(items: Sequence[Any], declaration: Declaration, around: Surroundings) -> Finding | None:
    """Whether the items of a buffer give a symbol different numbers."""
    shapes = {getattr(item, "shape", None): item for item in _opened(items)}
    if declaration.shape is None or len(shapes) < 2:
        return None
    for item in shapes.values():
        finding = _wrong_shape(item, declaration, around)
        if finding is not None:
            return finding
    return None


def _opened(items: Sequence[Any]) -> list[Any]:
    """The items, and in the place of a block of several tensors these."""
    return [part for item in items for part in (item if type(item) is tuple else (item,))]


def _wrong_shape(value: Any, declaration: Declaration, around: Surroundings) -> Finding | None:
    declared = declaration.shape
    if declared is None:
        return None
    text = f"({', '.join(extent.text for extent in declared)}{',' * (len(declared) == 1)})"
    shape = tuple(value.shape)
    todo = "store that shape, or mend `shape`"
    if len(shape) != len(declared):
        found = f"it has {len(shape)} dimensions, {shape}, declared {text}"
        return Finding(found, todo)
    extents = extents_of(value, declaration, around.shared)
    if extents:
        around.symbols.learn(extents, declaration.name)
    for extent in extents:
        contradiction = around.symbols.contradiction(extent)
        if contradiction is not None and not around.may_move(extent):
            todo = "store that shape, clear what is of the old size first, or mend `shape`"
            return Finding(f"its shape is {shape}, declared {text}: {contradiction}", todo)
    for dim, (expression, found) in enumerate(zip(declared, shape, strict=True)):
        if dim == declaration.frame_axis or expression.names & declaration.model.symbols.keys():
            continue
        limit = evaluated(expression, around.symbols)
        if limit is not None and (found > limit if expression.names else found != limit):
            most = "at most " if expression.names else ""
            wrong = f"extent {dim} is {found}, not {most}{limit}"
            return Finding(f"its shape is {shape}, declared {text}: {wrong}", todo)
    return None


def _wrong_device(
    arrays: list[tuple[str, Any]], declared: str, around: Surroundings
) -> Finding | None:
    if not arrays:
        return None
    wanted, because = declared, ""
    if declared == "model":
        first = (device_of(arrays[0][1]), f"{arrays[0][0] or 'it'} of the same value")
        wanted, name = around.model_device or first
        because = f", which is {wanted} ({name} is there)"
    for path, array in arrays:
        found = device_of(array)
        if found != wanted and (":" in wanted or found.partition(":")[0] != wanted):
            text = f"{path or 'it'} is on {found}, declared {declared}{because}"
            todo = f"move it to {wanted} before it is stored, or mend `device`"
            return Finding(text, todo)
    return None


def _too_large(
    arrays: list[tuple[str, Any]], declaration: Declaration, around: Surroundings
) -> Finding | None:
    if not arrays or not declaration.elements:
        return None
    limits = [evaluated(one, around.symbols) for one in declaration.elements]
    known = [limit for limit in limits if limit is not None]
    if not known or len(known) < len(limits):
        return None
    count = sum(array.numel() if hasattr(array, "numel") else array.size for _, array in arrays)
    each = ""
    if declaration.value.object == "WindowedKV" and declaration.shape is None:
        ring = declaration.value.ring
        entries = arrays[0][1].shape[ring.axis or 0] if ring is not None else 1
        count, each = -(-count // max(1, entries)), " an entry"
    if count <= max(known):
        return None
    text = declaration.elements[known.index(max(known))].text
    found = f"it has {count} elements{each}, declared at most {text} = {max(known)}"
    return Finding(found, "store less, or mend `elements`")


def evaluated(expression: Expression, symbols: Symbols) -> int | None:
    """The number, or None where nobody gives all symbols, or none comes out."""
    if not expression.names <= symbols.numbers.keys():
        return None
    try:
        return expression.evaluate(symbols.numbers)
    except ExpressionError:
        return None
