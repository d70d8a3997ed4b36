"""Where the parts of a snapshot go, and whether this machine has what they need.

Owns the question whether a sound snapshot can be restored here: devices, dtypes, generators. It is
asked before a byte is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from statekit.errors import IncompatibleSnapshotError
from statekit.image.plain import decode_array_dtype, decode_dtype
from statekit.image.recipe import Recipe

__all__ = ["find_targets"]

_ABSENT = (RuntimeError, AssertionError, NotImplementedError, ValueError, TypeError)
"""What torch and numpy raise for a device or dtype that is not there."""


def find_targets(place: str, recipe: Recipe, moves: Mapping[str, str]) -> list[str]:
    """The device for each storage of a recipe that was checked.

    Args:
        place: of the snapshot, for errors.
        recipe: what is to be built.
        moves: where what was on a device goes. Storages in which an array or bytes lie stay in
            host memory.

    Raises:
        IncompatibleSnapshotError: a device, dtype or generator is not there.
    """
    nodes = recipe.data["nodes"]
    in_host = {
        node[-1][0] for node in nodes if node[0] in ("array", "bytes") and node[-1] is not None
    }
    targets = [
        "cpu" if number in in_host else moves.get(device, device)
        for number, (device, _) in enumerate(recipe.storages)
    ]
    seeded = {node[1] for node in nodes if node[0] == "torch_generator"}
    empty = {node[1]["device"] for node in nodes if node[0] == "tensor" and node[2] is None}
    wanted = {(device, moves.get(device, device)) for device in empty | seeded}
    wanted.update(zip((device for device, _ in recipe.storages), targets, strict=True))
    for device, target in sorted(wanted):
        _require_device(place, device, target)
    for device in sorted(seeded):
        _require_generator(place, device, moves.get(device, device))
    _require_dtypes(place, nodes)
    return targets


def _require_device(place: str, device: str, target: str) -> None:
    try:
        there = torch.empty(1, dtype=torch.uint8, device=target).device.type != "meta"
    except _ABSENT:
        there = False
    if there:
        return
    found = f"a part of it was on {device}, and this machine has no {target}"
    raise IncompatibleSnapshotError(
        place, found, f"pass devices={{{device!r}: 'cpu'}}, or another device that is there"
    )


def _require_generator(place: str, device: str, target: str) -> None:
    if torch.device(device).type != torch.device(target).type:
        raise IncompatibleSnapshotError(
            place,
            f"it holds a random generator of {device}, whose state means nothing on {target}",
            f"restore it on a device of the kind of {device}",
        )


def _require_dtypes(place: str, nodes: Iterable[list[Any]]) -> None:
    tensors = {node[1]["dtype"] for node in nodes if node[0] == "tensor"}
    tensors |= {node[1] for node in nodes if node[0] == "dtype"}
    _require_each(place, "torch", decode_dtype, tensors)
    arrays = [node[1]["dtype"] for node in nodes if node[0] == "array"]
    arrays += [node[1] for node in nodes if node[0] == "scalar"]
    _require_each(place, "numpy", decode_array_dtype, {str(code): code for code in arrays}.values())


def _require_each(
    place: str, library: str, decode: Callable[[Any], Any], codes: Iterable[Any]
) -> None:
    code: Any = None
    try:
        for code in codes:
            decode(code)
    except _ABSENT:
        raise IncompatibleSnapshotError(
            place,
            f"it holds a value of dtype {code}, which this {library} has not",
            f"restore it with the {library} that it was written with",
        ) from None
