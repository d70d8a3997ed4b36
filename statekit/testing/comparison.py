"""Comparison bit for bit: types, dtypes, shapes, devices and every byte; never "close enough".

Owns what "the same" means: `compare` finds the first difference between two values, `first_bits`
which element of two arrays differs first, and by what. Not here: how it is told
(`statekit.testing.report`), and where values come from.

    B1  A NaN equals the NaN with its bits alone, and -0.0 is not 0.0.
    B2  Containers are compared with their types and in their order, sets and dicts by their keys;
        a torch tensor is never equal to an array.
    B3  Strides are how a value lies, not what it is: they are compared only on request.
    B4  With a tolerance, a difference of floating-point numbers within it is counted, not reported.

Changes nothing; copies to host memory what lies elsewhere.
"""

from __future__ import annotations

import random
import struct
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import attrs
import numpy as np
import torch

from statekit.spec import Tolerance
from statekit.testing.elements import ArrayDifference, Within, as_flat_array, first_bits
from statekit.testing.fields import fields_of
from statekit.testing.shown import a_kind, shown

__all__ = ["Comparison", "Difference", "assert_same_bits", "compare"]

Path = tuple[Any, ...]
"""Steps from the outermost value: a key or an index in a list of one, or an attribute's name."""


@attrs.frozen
class Difference:
    """Where two values part, and how.

    Attributes:
        path: from the outermost value to the part that differs, such as `[0]['k']`.
        aspect: what of it differs: type, dtype, shape, device, strides, bits, length, keys, value.
        got: the part as it is, in words.
        want: the part as it should be, in words.
        elements: which elements of an array differ, where `aspect` is "bits".
    """

    path: str
    aspect: str
    got: str
    want: str
    elements: ArrayDifference | None = None

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        if self.elements is not None:
            return place + str(self.elements)
        return f"{place}{self.aspect} {self.got}, want {self.want}"


@attrs.frozen
class Comparison:
    """What a comparison found: the first difference, or None; and what the tolerance let pass."""

    difference: Difference | None = None
    within: Within | None = None


def compare(
    got: Any, want: Any, *, tolerance: Tolerance | None = None, strides: bool = False
) -> Comparison:
    """The first difference between two values, in the order of `want`.

    Args:
        tolerance: how far floating-point numbers may be from `want`.
        strides: whether arrays have to lie in memory in the same way, too.
    """
    comparing = _Comparing(tolerance, strides)
    difference = comparing.difference(got, want, ())
    return Comparison(difference, comparing.within)


def assert_same_bits(got: Any, want: Any, what: str = "value", *, strides: bool = False) -> None:
    """Fail with the place of the first difference, and nothing less than every bit will do.

    Raises:
        AssertionError: they differ.
    """
    found = compare(got, want, strides=strides).difference
    if found is not None:
        joint = "" if found.path else ": "
        raise AssertionError(f"{what}{joint}{found}")


class _Comparing:
    """One comparison under way."""

    def __init__(self, tolerance: Tolerance | None, strides: bool) -> None:
        self._tolerance = tolerance
        self._strides = strides
        self._open: set[tuple[int, int]] = set()
        self.within: Within | None = None

    def difference(self, got: Any, want: Any, path: Path) -> Difference | None:
        if type(got) is not type(want):
            return _differs(path, "type", a_kind(got), a_kind(want))
        if want is None or type(want) in (bool, int, str):
            return None if got == want else _differs(path, "value", shown(got), shown(want))
        if isinstance(want, torch.Tensor):
            return self._of_tensors(got, want, path)
        if isinstance(want, (np.ndarray, np.generic)):
            return self._of_arrays(np.asarray(got), np.asarray(want), path)
        if isinstance(want, float):
            return self._of_floats(got, want, path)
        fields = fields_of(want)
        if fields is None and not isinstance(want, (list, tuple, dict, set, frozenset, deque)):
            return _of_others(got, want, path)
        pair = (id(got), id(want))
        if got is want or pair in self._open:
            return None
        self._open.add(pair)
        try:
            if fields is not None:
                return self._of_fields(fields_of(got) or {}, fields, path)
            return self._of_containers(got, want, path)
        finally:
            self._open.discard(pair)

    def _of_containers(self, got: Any, want: Any, path: Path) -> Difference | None:
        if isinstance(want, (set, frozenset)):
            return None if got == want else _differs(path, "members", shown(got), shown(want))
        if isinstance(want, deque) and got.maxlen != want.maxlen:
            return _differs(path, "maxlen", str(got.maxlen), str(want.maxlen))
        if isinstance(want, (list, tuple, deque)) and len(got) != len(want):
            return _differs(path, "length", f"{len(got)} entries", f"{len(want)} entries")
        if isinstance(want, dict) and not _same_keys(got, want):
            return _differs(path, "keys", shown(list(got)), shown(list(want)))
        return self._of_parts(_parts(got, want), path)

    def _of_fields(
        self, got: dict[str, Any], want: dict[str, Any], path: Path
    ) -> Difference | None:
        if got.keys() != want.keys():
            return _differs(path, "attributes", shown(list(got)), shown(list(want)))
        return self._of_parts(((f".{name}", got[name], want[name]) for name in want), path)

    def _of_parts(self, parts: Iterable[tuple[Any, Any, Any]], path: Path) -> Difference | None:
        for step, one, other in parts:
            found = self.difference(one, other, (*path, step))
            if found is not None:
                return found
        return None

    def _of_tensors(self, got: Any, want: Any, path: Path) -> Difference | None:
        if got is want:
            return None
        for aspect in ("dtype", "shape", "device", "layout"):
            one, other = getattr(got, aspect), getattr(want, aspect)
            if one is not other and one != other:
                return _differs(path, aspect, _aspect(one), _aspect(other))
        if want.is_meta:
            return None
        if want.layout is not torch.strided:
            return self.difference(got.to_dense(), want.to_dense(), path)
        if self._strides and got.stride() != want.stride():
            return _differs(path, "strides", str(got.stride()), str(want.stride()))
        floating = want.dtype.is_floating_point or want.dtype.is_complex
        return self._of_bits(got, want, path, floating)

    def _of_arrays(self, got: Any, want: Any, path: Path) -> Difference | None:
        for aspect in ("dtype", "shape"):
            one, other = getattr(got, aspect), getattr(want, aspect)
            if one != other:
                return _differs(path, aspect, _aspect(one), _aspect(other))
        if self._strides and got.strides != want.strides:
            return _differs(path, "strides", str(got.strides), str(want.strides))
        if want.dtype.hasobject:
            return self.difference(got.tolist(), want.tolist(), path)
        return self._of_bits(got, want, path, want.dtype.kind in "fc")

    def _of_bits(
        self, got: Any, want: Any, path: Path, floating: bool, name: str = ""
    ) -> Difference | None:
        form = partial(_form, want, name)
        found = first_bits(got, want, form, self._tolerance if floating else None)
        if isinstance(found, Within):
            self.within = found if self.within is None else self.within.joined(found)
            return None
        if found is None:
            return None
        return Difference(_shown_path(path), "bits", found.got, found.want, found)

    def _of_floats(self, got: float, want: float, path: Path) -> Difference | None:
        if struct.pack("<d", got) == struct.pack("<d", want):
            return None
        return self._of_bits(np.array(got), np.array(want), path, True, "float")


def _differs(path: Path, aspect: str, got: str, want: str) -> Difference:
    return Difference(_shown_path(path), aspect, got, want)


def _shown_path(path: Path) -> str:
    steps = (step if isinstance(step, str) else f"[{shown(step[0])}]" for step in path)
    return "".join(steps)


def _form(value: Any, name: str) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)} on {value.device}"
    return name or f"numpy {value.dtype} {value.shape}"


def _aspect(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, tuple) else str(value)


def _same_keys(got: dict[Any, Any], want: dict[Any, Any]) -> bool:
    if got.keys() != want.keys():
        return False
    return not isinstance(want, OrderedDict) or list(got) == list(want)


def _parts(got: Any, want: Any) -> Iterator[tuple[Any, Any, Any]]:
    if isinstance(want, dict):
        for key in want:
            yield [key], got[key], want[key]
    else:
        for index, (one, other) in enumerate(zip(got, want, strict=True)):
            yield [index], one, other


def _of_others(got: Any, want: Any, path: Path) -> Difference | None:
    """Numbers, text, generators, and whatever else has an equality of its own."""
    if isinstance(want, (torch.Generator, np.random.Generator, random.Random)):
        same = _state_of(got) == _state_of(want)
        return None if same else _differs(path, "state", "another", "that of the generator")
    if isinstance(want, complex):
        one, other = (struct.pack("<2d", part.real, part.imag) for part in (got, want))
        return None if one == other else _differs(path, "value", repr(got), repr(want))
    if got is want:
        return None
    same = got == want
    if isinstance(same, bool) and same:
        return None
    return _differs(path, "value", shown(got), shown(want))


def _state_of(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return str(generator.device), as_flat_array(generator.get_state()).tobytes()
    if isinstance(generator, np.random.Generator):
        return repr(generator.bit_generator.state)
    return generator.getstate()
