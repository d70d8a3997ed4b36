"""Kinds: the words that few values have: keys, codec, lifetime, tolerance; and variants.

Owns what concerns several fields of one value beside its type. Not here: which fields a kind has
and the types that it takes (`check_values`), rings (`check_rings`).
"""

from __future__ import annotations

from collections.abc import Iterator

from statekit.declared import DTYPE_NBYTES
from statekit_codegen.check_values import NOT_IN_NUMPY
from statekit_codegen.fault import Fault, closest
from statekit_codegen.language import Schema, Value
from statekit_codegen.model import Path
from statekit_codegen.scalars import shown
from statekit_codegen.type_grammar import TypeExpr, TypeExprError

__all__ = ["FLOATING", "kinds", "variants"]

FLOATING = tuple(name for name in DTYPE_NBYTES if "float" in name)
"""The element types that a codec casts to."""
_COMPARED = ("torch.Tensor", "np.ndarray", "float")
"""What two runs can have nearly alike."""


def kinds(schema: Schema) -> Iterator[Fault]:
    """What is wrong with the keys, the codec, the lifetime or the tolerance of values."""
    for name, value in schema.values.items():
        path: Path = ("values", name)
        if value.index is not None:
            yield from _dtype((*path, "index", "dtype"), value.index.dtype)
        if value.codec is not None:
            yield from _codec(path, value, value.codec.cast)
        if value.lifetime == "request" and value.pending is not None:
            found = "pending beside lifetime: request, which is there for a request only already"
            yield Fault((*path, "pending"), "FIELD_FIT", found, "say one of the two")
        yield from _tolerance(path, value)


def variants(schema: Schema) -> Iterator[Fault]:
    """Variants that say nothing, or that give a number to what is no symbol."""
    for name, numbers in schema.variants.items():
        path: Path = ("variants", name)
        if not numbers:
            yield Fault(path, "LIST_EMPTY", "a variant without numbers", "say a number")
        for symbol in numbers:
            if symbol not in schema.symbols:
                found = f"unknown symbol {shown(symbol)}"
                todo = f"{closest(symbol, schema.symbols)}describe it under symbols"
                yield Fault((*path, symbol), "REFERENCE_UNKNOWN", found, todo)


def _codec(path: Path, value: Value, cast: str) -> Iterator[Fault]:
    if not _mentions(value, "torch.Tensor", "np.ndarray"):
        todo = "remove it: it casts tensors and arrays"
        yield Fault((*path, "codec"), "TYPE_FIT", f"a codec of {value.item}", todo)
    elif cast not in FLOATING:
        todo = f"{closest(cast, FLOATING)}use one of {', '.join(FLOATING)}"
        yield Fault((*path, "codec", "cast"), "DTYPE_KNOWN", f"a cast to {shown(cast)}", todo)
    elif cast in NOT_IN_NUMPY and _mentions(value, "np.ndarray"):
        todo = "use a dtype that numpy has"
        found = f"a cast of numpy arrays to {cast}"
        yield Fault((*path, "codec", "cast"), "DTYPE_KNOWN", found, todo)


def _dtype(path: Path, dtype: str) -> Iterator[Fault]:
    if dtype not in DTYPE_NBYTES:
        todo = f"{closest(dtype, DTYPE_NBYTES)}use one of {', '.join(DTYPE_NBYTES)}"
        yield Fault(path, "DTYPE_KNOWN", f"unknown dtype {shown(dtype)}", todo)


def _tolerance(path: Path, value: Value) -> Iterator[Fault]:
    tolerance = value.tolerance
    if tolerance is None:
        return
    if not _mentions(value, *_COMPARED):
        found = f"a tolerance for {value.item or value.type}"
        todo = "remove it: only tensors, arrays and floats are nearly alike"
        yield Fault((*path, "tolerance"), "FIELD_FIT", found, todo)
    for field in ("atol", "rtol"):
        number = getattr(tolerance, field)
        if number < 0:
            place = (*path, "tolerance", field)
            yield Fault(place, "NUMBER_MINIMUM", f"{number:g}", "write at least 0")
    if tolerance.atol == tolerance.rtol == 0:
        todo = "write one above 0, or remove the tolerance"
        yield Fault((*path, "tolerance"), "NUMBER_MINIMUM", "atol and rtol both 0", todo)


def _mentions(value: Value, *heads: str) -> bool:
    """Whether its type mentions one of `heads`; of a type that is none, another rule tells."""
    try:
        return TypeExpr.parse(value.item or value.type or "").mentions(*heads)
    except TypeExprError:
        return True
