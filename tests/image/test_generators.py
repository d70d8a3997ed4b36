"""Random generators in pictures: `statekit.image.generators`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from statekit.errors import UnparkableError
from statekit.image.check import check_recipe
from statekit.image.grammar import BIT_GENERATORS
from statekit.image.recipe import Recipe
from statekit.image.taking import take_image


def back(value: Any) -> Any:
    """What `value` is built into, through JSON and the check of what comes from a file."""
    image = take_image(value)
    data = json.loads(json.dumps(image.recipe.data))
    check_recipe(data, image.nbytes)
    return Recipe(data).build([storage.clone() for storage in image.storages])


DRAWS: dict[str, tuple[Callable[[int], Any], Callable[[Any], Any]]] = {
    "torch": (
        lambda seed: torch.Generator().manual_seed(seed),
        lambda g: torch.randn(7, generator=g).tolist(),
    ),
    "random": (random.Random, lambda g: [g.gauss(0, 1), g.random()]),
    "legacy": (np.random.RandomState, lambda g: [g.normal(), g.randint(9)]),
    **{
        name: (
            lambda seed, name=name: np.random.Generator(getattr(np.random, name)(seed)),
            lambda g: [g.normal(), int(g.integers(0, 1 << 20, dtype=np.uint32))],
        )
        for name in BIT_GENERATORS
    },
}


@pytest.mark.parametrize(("make", "draw"), DRAWS.values(), ids=DRAWS)
@given(st.integers(0, 2**32 - 1), st.integers(0, 5))
def test_generator_when_built_then_it_draws_what_the_other_would(
    make: Callable[[int], Any], draw: Callable[[Any], Any], seed: int, drawn: int
) -> None:
    """However much was drawn before, both draw the same from here on."""
    one = make(seed)
    for _ in range(drawn):
        draw(one)
    other = back([one])[0]
    assert type(other) is type(one)
    assert [draw(one) for _ in range(3)] == [draw(other) for _ in range(3)]


def test_generators_when_they_share_bits_then_they_share_them_again() -> None:
    """A bit generator that two hold, and one that is held alone too, is one again."""
    bits = np.random.PCG64(3)
    value = [
        np.random.Generator(bits),
        bits,
        np.random.RandomState(bits),
        np.random.Generator(bits),
    ]
    new = back((value, {"again": value[0]}))
    first, alone, legacy, last = new[0]
    assert first.bit_generator is alone is legacy._bit_generator is last.bit_generator
    assert new[1]["again"] is first
    assert first is not last


@pytest.mark.parametrize("entropy", [5, 2**200, [1, 2], (3, 2**70), np.int64(9), np.arange(3)])
def test_generator_when_it_spawns_then_the_children_are_the_same(entropy: Any) -> None:
    """The seed comes back as well: children that are spawned later draw the same."""
    one = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(1, 2**40), pool_size=8))
    one.spawn(3)
    other = back(one)
    for a, b in zip(one.spawn(2), other.spawn(2), strict=True):
        assert a.random() == b.random()


def test_seed_when_two_share_it_then_they_share_it_again() -> None:
    """A seed sequence counts its children for all that were made with it."""
    seed = np.random.SeedSequence(4)
    new = back([np.random.PCG64(seed), np.random.Philox(seed), seed])
    assert new[0].seed_seq is new[1].seed_seq is new[2]


def test_generator_when_a_key_then_it_is_found_again() -> None:
    """Generators are hashed by identity, as any object."""
    one = random.Random(1)
    new = back({"held": one, "by": {one: 1}})
    assert new["by"][new["held"]] == 1


class OwnRandom(random.Random):
    """A subclass."""


class OwnGenerator(np.random.Generator):
    """A subclass."""


@pytest.mark.parametrize(
    "value",
    [OwnRandom(1), random.SystemRandom(), OwnGenerator(np.random.PCG64(1))],
    ids=lambda value: type(value).__name__,
)
def test_generator_when_a_subclass_then_it_has_no_picture(value: Any) -> None:
    """What would come back as its base, or has no state, is refused."""
    with pytest.raises(UnparkableError, match=r"\$\[0\]: an instance of"):
        take_image([value])


def test_generators_when_taken_then_they_draw_as_if_they_had_not_been() -> None:
    """Taking a picture advances nothing."""
    one, other = (np.random.default_rng(8) for _ in range(2))
    take_image(one)
    assert one.normal(size=9).tolist() == other.normal(size=9).tolist()
