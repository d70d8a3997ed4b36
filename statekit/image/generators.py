"""Random generators as plain data, and back: torch's, numpy's, Python's.

Owns the pairs of `describe` and `build`. A generator comes back with the state it has now, so that
both draw the same numbers from here on. What it refers to is a node of its own: two numpy
generators over one bit generator share it again, and so do two bit generators one seed sequence.

    G1  A state is kept whole: half-used words, the second of a pair of gaussians, how many
        children were spawned.
    G2  Only exact types of the closed set; a subclass would come back as its base.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from statekit.image.grammar import BIT_GENERATORS, Field
from statekit.image.memory import NoPictureError
from statekit.image.plain import decode_float, decode_int, encode_float, encode_int

__all__ = ["GENERATORS", "OVER_OTHERS", "build", "build_over", "describe", "held_by"]

_BIT_GENERATORS: dict[str, Any] = {name: getattr(np.random, name) for name in BIT_GENERATORS}

OVER_OTHERS: dict[type, str] = {
    np.random.Generator: "generator",
    np.random.RandomState: "random_state",
    **dict.fromkeys(_BIT_GENERATORS.values(), "bit_generator"),
}
"""Generators that refer to one other object, which `held_by` names."""

GENERATORS: dict[type, str] = {
    torch.Generator: "torch_generator",
    random.Random: "random",
    np.random.SeedSequence: "seed_sequence",
}
"""Generators, and seeds of such, that stand alone."""


def held_by(generator: Any) -> tuple[object, str]:
    """The object that a generator of `OVER_OTHERS` refers to, and the attribute's name."""
    if type(generator) is np.random.Generator:
        return generator.bit_generator, ".bit_generator"
    if type(generator) is np.random.RandomState:
        return generator._bit_generator, "._bit_generator"
    return generator._seed_seq, ".seed_seq"


def describe(generator: Any) -> list[Any]:
    """The node of a generator, without what `held_by` names. Raises: NoPictureError."""
    kind = type(generator)
    if kind is torch.Generator:
        state = generator.get_state().numpy().tobytes().hex()
        return ["torch_generator", str(generator.device), state]
    if kind is random.Random:
        _, words, gauss = generator.getstate()
        return ["random", list(words), None if gauss is None else encode_float(gauss)]
    if kind is np.random.SeedSequence:
        return _describe_seed(generator)
    if kind is np.random.Generator:
        return ["generator"]
    if kind is np.random.RandomState:
        state = generator.get_state(legacy=False)
        return ["random_state", int(state["has_gauss"]), encode_float(float(state["gauss"]))]
    return _describe_bits(generator)


def build(kind: str, data: list[Any], devices: dict[str, str]) -> Any:
    """The generator that stands alone, or the seed, of a node."""
    if kind == "torch_generator":
        device, state = data
        made = torch.Generator(devices.get(device, device))
        return made.set_state(torch.frombuffer(bytearray.fromhex(state), dtype=torch.uint8))
    if kind == "random":
        words, gauss = data
        twister = random.Random(0)
        gauss = None if gauss is None else decode_float(gauss)
        twister.setstate((3, tuple(words), gauss))
        return twister
    entropy, spawn_key, pool_size, children = data
    seed: Any = [decode_int(word) for word in entropy]
    return np.random.SeedSequence(
        seed if len(seed) > 1 else seed[0],
        spawn_key=[decode_int(word) for word in spawn_key],
        pool_size=pool_size,
        n_children_spawned=children,
    )


def build_over(kind: str, data: list[Any], held: Any) -> Any:
    """The generator of a node that refers to `held`."""
    if kind == "generator":
        return np.random.Generator(held)
    if kind == "random_state":
        has_gauss, gauss = data
        legacy = np.random.RandomState(held)
        state: dict[str, Any] = {**held.state, "has_gauss": has_gauss, "gauss": decode_float(gauss)}
        legacy.set_state(state)
        return legacy
    name, fields = data
    if held is None:  # seeded in the old way
        bits: Any = np.random.RandomState(0)._bit_generator
    else:
        bits = _BIT_GENERATORS[name](held)
    state = bits.state
    for field in BIT_GENERATORS[name]:
        at, key = _holder(state, field)
        code = fields[field.path]
        if field.count is None:
            at[key] = decode_int(code)
        else:
            at[key] = np.array(code, dtype=at[key].dtype)
    bits.state = state
    return bits


def _describe_seed(seed: np.random.SeedSequence) -> list[Any]:
    entropy: Any = seed.entropy
    words = [entropy] if isinstance(entropy, int | np.integer) else list(entropy)
    if not words:
        raise NoPictureError("a SeedSequence of nothing", "seed it with a number")
    code = [encode_int(int(word)) for word in words]
    key = [encode_int(int(word)) for word in seed.spawn_key]
    return ["seed_sequence", code, key, seed.pool_size, seed.n_children_spawned]


def _describe_bits(bits: Any) -> list[Any]:
    name = type(bits).__name__
    if bits._seed_seq is None and name != "MT19937":
        raise NoPictureError(f"a {name} without a seed", "store one that was made with a seed")
    fields: dict[str, Any] = {}
    state = bits.state
    for field in BIT_GENERATORS[name]:
        at, key = _holder(state, field)
        found = at[key]
        number = field.count is None
        fields[field.path] = encode_int(int(found)) if number else [int(word) for word in found]
    return ["bit_generator", name, fields]


def _holder(state: dict[str, Any], field: Field) -> tuple[dict[str, Any], str]:
    *outer, key = field.path.split(".")
    for name in outer:
        state = state[name]
    return state, key
