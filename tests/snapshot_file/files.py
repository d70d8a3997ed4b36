"""Snapshot files for tests: a small value with a bit of everything, and files that lie.

`forged` knows the format: it changes what a head says and makes its checksum right again, as an
attacker can.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import numpy as np
import torch

from statekit.snapshot_file.file import open_snapshot, snapshot_bytes

DATE = datetime(2026, 1, 2, 3, 4, 5, 678901, timezone.utc)
ABOUT = {"session_id": "a", "models": [{"model": "toy", "fingerprint": "f00d"}]}


def sample() -> dict[str, Any]:
    """Every kind of value, some of them sharing memory."""
    base = torch.arange(24, dtype=torch.float32)
    key = (1, ("k", 2.5))
    bits = np.random.PCG64(7)
    return {
        "attrs": {
            "step": 3,
            "clip": torch.arange(6).reshape(2, 3).to(torch.bfloat16),
            "window": base[4:10].reshape(2, 3),
            "base": base,
            "turned": base.reshape(4, 6).T,
            "empty": torch.empty(0, 3),
            "big": 2**70,
            "text": "é\ud83d",
            "odd": [float("nan"), -0.0, complex(1, -0.0), np.float16(1.5), b"ab", None, True],
            "kinds": (torch.Size([2, 3]), torch.bfloat16, torch.device("cuda:1")),
            "keyed": OrderedDict([(key, {key}), (frozenset([1, "x"]), deque([1, 2], maxlen=3))]),
        },
        "objects": {
            "frames": [np.arange(12, dtype=np.uint8).reshape(3, 4), np.ones(2, ">i2")],
            "record": np.zeros(2, [("a", "<i2"), ("b", "<f8", (2,))]),
            "complex": torch.tensor([1 + 2j]).conj(),
            "seeds": [np.random.Generator(bits), np.random.RandomState(bits), random.Random(4)],
            "legacy": np.random.RandomState(5),
            "torch": torch.Generator().manual_seed(6),
        },
    }


def small() -> bytes:
    """A file of little more than a kilobyte, with a storage of a tensor and one of bytes."""
    value = {"attrs": {"x": torch.tensor([1.0, 2.0, 3.0]), "b": b"four", "d": {(1, 2): [3]}}}
    return snapshot_bytes(value, {"session_id": "a"}, created_at=DATE)


def header_of(data: bytes) -> dict[str, Any]:
    """The header, with the manifest read too."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    manifest = header["__metadata__"]["statekit.manifest"]
    header["__metadata__"]["statekit.manifest"] = json.loads(manifest)
    return header


def joined(header: dict[str, Any] | str, body: bytes) -> bytes:
    """A file of this header, its checksum made right, and this data."""
    if not isinstance(header, str):
        metadata = dict(header["__metadata__"])
        if not isinstance(metadata.get("statekit.manifest", ""), str):
            metadata["statekit.manifest"] = json.dumps(metadata["statekit.manifest"])
        header = json.dumps({**header, "__metadata__": metadata}, separators=(",", ":"))
    text = header.encode()
    text += b" " * (-len(text) % 8)
    mark = b'"statekit.header":"'
    at = text.find(mark) + len(mark)
    zeroed = text[:at] + b"0" * 64 + text[at + 64 :]
    length = len(zeroed).to_bytes(8, "little")
    digest = hashlib.sha256(length + zeroed).hexdigest().encode()
    return length + zeroed[:at] + digest + zeroed[at + 64 :] + body


def body_of(data: bytes) -> bytes:
    """What comes behind the header."""
    return data[8 + int.from_bytes(data[:8], "little") :]


def forged(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The file with a header that `change` was at, and a right checksum."""
    header = header_of(data)
    change(header)
    return joined(header, body_of(data))


def manifest_of(header: dict[str, Any]) -> dict[str, Any]:
    """The manifest in a header of `header_of`."""
    return header["__metadata__"]["statekit.manifest"]


def value_of(data: bytes) -> Any:
    """What a reader gets."""
    with open_snapshot(data) as snapshot:
        return snapshot.read()
