"""Snapshot files changed at random: each is refused with a typed error, or harmless.

Bytes are changed where they are, which the checksums see; and what a head says is changed with its
checksum made right, which only the checks can see. `make test-soak` does it ten thousand times.
"""

from __future__ import annotations

import copy
import resource
from collections import deque
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statekit.errors import SnapshotError
from statekit.snapshot_file.file import open_snapshot, snapshot_bytes
from tests.snapshot_file.files import (
    ABOUT,
    DATE,
    body_of,
    header_of,
    joined,
    manifest_of,
    sample,
    small,
)

SOME = settings(max_examples=300, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=10_000, suppress_health_check=list(HealthCheck))

SMALL = small()
WHOLE = snapshot_bytes(sample(), ABOUT, created_at=DATE)
HEADER = header_of(WHOLE)
BODY = body_of(WHOLE)

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 50),
    st.sampled_from([2**31, 2**32, 2**61, 2**62, 2**63 - 1, -(2**63), 10**19]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "cpu", "cuda:0", "meta", "float32", "complex64", "bool", "<f8", "|V9"]),
    st.sampled_from(["|O", "<U9", "0xff", "ff", "00" * 8, "tuple", "list", "dict", "tensor"]),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
)


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every container of a tree of JSON, with each of its keys."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        keys = part if isinstance(part, dict) else range(len(part))
        for key in keys:
            found.append((part, key))
            if isinstance(part[key], dict | list):
                waiting.append(part[key])
    return found


def change(draw: Any, tree: Any) -> None:
    """Change one thing in a tree of JSON."""
    found = places(tree)
    part, key = found[draw(st.integers(0, len(found) - 1))]
    how = draw(st.sampled_from(["junk", "junk", "near", "copy", "remove", "double"]))
    if how == "junk":
        part[key] = draw(JUNK)
    elif how == "near" and type(part[key]) is int:
        part[key] += draw(st.sampled_from([-1, 1, 8, -8, 1 << 32]))
    elif how == "copy":
        other, at = found[draw(st.integers(0, len(found) - 1))]
        part[key] = copy.deepcopy(other[at])
    elif how == "remove":
        del part[key]
    elif how == "double" and isinstance(part, list):
        part.insert(key, copy.deepcopy(part[key]))


def use(value: Any) -> None:
    """Read every element of every tensor and array of a tree, as far as there are few."""
    met: set[int] = set()
    waiting = deque([value])
    while waiting:
        part = waiting.popleft()
        if id(part) in met:
            continue
        met.add(id(part))
        if isinstance(part, torch.Tensor):
            assert part.untyped_storage().nbytes() <= len(BODY)
            if part.numel() < 10_000:
                part.detach().resolve_conj().resolve_neg().clone()
                repr(part.shape)
        elif isinstance(part, np.ndarray):
            if part.size < 10_000 and part.itemsize < 10_000:
                part.copy()
        elif isinstance(part, np.random.Generator | np.random.RandomState):
            part.normal(size=3)
        elif isinstance(part, dict):
            waiting += [*part, *part.values()]
        elif isinstance(part, list | tuple | set | frozenset | deque):
            waiting += part


def take(data: bytes) -> Any:
    """What a careful caller does with a file of unknown origin."""
    try:
        with open_snapshot(data) as snapshot:
            repr(snapshot.entries)
            value = snapshot.read()
    except SnapshotError:
        return None
    use(value)
    return value


def changed_bytes(draw: Any) -> bytes:
    data = bytearray(SMALL)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data) - 1))
        how = draw(st.sampled_from(["set", "cut", "insert", "move"]))
        if how == "set":
            data[at] = draw(st.integers(0, 255))
        elif how == "cut":
            del data[at : at + draw(st.integers(1, 40))]
        elif how == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=40))
        else:
            to = draw(st.integers(0, len(data) - 1))
            part = data[at : at + 16]
            data[to : to + len(part)] = part
        if not data:
            break
    return bytes(data)


def check_changed_bytes(draw: Any) -> None:
    data = changed_bytes(draw)
    value = take(data)
    assert (value is not None) == (data == SMALL)


def check_changed_head(draw: Any) -> None:
    header = copy.deepcopy(HEADER)
    manifest = manifest_of(header)
    where = draw(st.sampled_from(["node", "node", "node", "node", "recipe", "manifest", "header"]))
    for _ in range(draw(st.integers(1, 3))):
        nodes = manifest["recipe"].get("nodes") or [[]]
        tree = {"recipe": manifest["recipe"], "manifest": manifest, "header": header}.get(where)
        if tree is None:  # a node alone: most places are in the few states of generators
            tree = nodes[draw(st.integers(0, len(nodes) - 1))]
        if isinstance(tree, dict | list) and places(tree):
            change(draw, tree)
        if not isinstance(manifest.get("recipe"), dict):
            break
    if not isinstance(header.get("__metadata__"), dict):
        return
    try:
        data = joined(header, BODY)
    except (TypeError, ValueError):
        return
    take(data)


@SOME
@given(st.data())
def test_bytes_when_changed_at_random_then_only_the_same_are_read(data: st.DataObject) -> None:
    """Whatever is done to the bytes, the file is refused unless it is what it was."""
    check_changed_bytes(data.draw)


@SOME
@given(st.data())
def test_head_when_it_lies_at_random_then_nothing_bad_happens(data: st.DataObject) -> None:
    """Whatever a head with a right checksum says: a typed error, or a value that can be used."""
    check_changed_head(data.draw)


@pytest.mark.soak
@MANY
@given(st.data())
def test_bytes_when_changed_ten_thousand_times_then_only_the_same_are_read(
    data: st.DataObject,
) -> None:
    """As above, for longer."""
    check_changed_bytes(data.draw)


@pytest.mark.soak
def test_head_when_it_lies_ten_thousand_times_then_memory_stays_bounded() -> None:
    """As above, for longer; the process does not grow by more than some multiples of a file."""

    @MANY
    @given(st.data())
    def run(data: st.DataObject) -> None:
        check_changed_head(data.draw)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10
