"""The state machine passes on what is right, and finds what is not, from the schema alone."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from statekit.adapters import generated
from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.attr import SessionAttr
from statekit.objects import LatentBuffer
from statekit.spec import ModelSpec, Size, ValueSpec
from statekit.testing import StateMachine, compare, park_now, state_machine
from statekit.testing.payloads import NoPayloadError, Payloads, small_numbers
from statekit.testing.plain import Ring as PlainRing
from statekit.testing.plain import Store, Window
from tests.equivalence.hand_rolled_dreamzero import HandRolledDreamZeroState
from tests.testing.toys import HandRolled, Toy, values

QUICK = settings(
    max_examples=150,
    stateful_step_count=12,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

GENERATED = sorted(path.stem for path in Path(generated.__file__).parent.glob("[a-z]*.py"))

FRAMES = st.integers(0, 99).map(lambda seed: (values(seed, 4, 8),))
LATENTS = st.integers(0, 99).map(lambda seed: (values(seed, 2, 4, dtype=torch.bfloat16),))


def camera(seed: int) -> tuple[np.ndarray[Any, Any]]:
    return (np.full((8, 8, 3), seed, np.uint8),)


TestToy = state_machine(Toy).TestCase

TestToyBesideHandRolled = state_machine(
    Toy, HandRolled, calls={"push": FRAMES, "remember": LATENTS}, resets={"window": "reset"}
).TestCase

TestDreamZero = state_machine(
    DreamZeroStateAdapter,
    HandRolledDreamZeroState,
    calls={"accumulate_frames": st.integers(0, 255).map(camera)},
    resets={"session": "reset", "window": "reset_inference_state",
            "video_latents": "clear_video_latents"},
    views={"vae_encoder_out": lambda out: None if out is None else out[:, :, -2:]},
    parameters={"vae_encoder_window": 2},
).TestCase  # fmt: skip

TestCosmos3 = state_machine(Cosmos3StateAdapter).TestCase


class ForgetfulReset(Toy):
    """A reset that leaves a value."""

    def reset_window(self) -> None:
        self._clear("count", "latent", "cache", "frames")


class GreedyReset(Toy):
    """A reset that clears one too many."""

    def reset_window(self) -> None:
        super().reset_window()
        self._clear("prompt")


class SmallRing(Toy):
    """Keeps two frames where the schema says three."""

    @property
    def frames_object(self) -> LatentBuffer[torch.Tensor]:
        return self._object(
            "frames", lambda: LatentBuffer[torch.Tensor]().allocate(maxlen=2), LatentBuffer
        )


class NotCoerced(Toy):
    """Keeps what is assigned as it is."""

    count: SessionAttr[int] = SessionAttr(default=0)


class OtherDefault(Toy):
    """Reads as another value at first."""

    count: SessionAttr[int] = SessionAttr(default=1, coerce=int)


class CopiedCache(Toy):
    """Hands out a copy of a list that the model writes into."""

    @property
    def cache(self) -> Any:
        cache = self.cache_object.view()
        return None if cache is None else list(cache)

    @cache.setter
    def cache(self, payload: Any) -> None:
        if payload is None:
            self.cache_object.clear()
        else:
            self.cache_object.commit(payload)


class Rounded(Toy):
    """Stores a value in fewer bits."""

    @property
    def frames(self) -> list[torch.Tensor]:
        return self.frames_object.view()

    @frames.setter
    def frames(self, items: Any) -> None:
        self.frames_object.replace([item.half().float() for item in items])


class OtherMean(Toy):
    """A method that does something else."""

    def push(self, frame: torch.Tensor) -> torch.Tensor:
        return super().push(frame).neg()


class KeepsMore(Toy):
    """A method that keeps something else."""

    def remember(self, latent: torch.Tensor) -> None:
        super().remember(latent)
        self.count += 1


MUTANTS: dict[type[Toy], str] = {
    ForgetfulReset: "previous",
    GreedyReset: "prompt",
    SmallRing: "frames",
    NotCoerced: "count",
    OtherDefault: "count",
    CopiedCache: "cache",
    Rounded: "frames",
}


@pytest.mark.parametrize("kind", MUTANTS, ids=lambda kind: kind.__name__)
def test_machine_when_an_adapter_is_wrong_then_found_from_the_schema(kind: type[Toy]) -> None:
    """Each mutant is told apart by the plain model alone, with the name of the value."""
    strategies = {"count": st.sampled_from([1, 2.5, True])}
    with pytest.raises(AssertionError, match=MUTANTS[kind]):
        run_state_machine_as_test(state_machine(kind, strategies=strategies), settings=QUICK)


@pytest.mark.parametrize(
    ("kind", "told"), [(OtherMean, "the result of push"), (KeepsMore, "count")]
)
def test_machine_when_a_method_is_wrong_then_found_beside_the_hand_rolled_one(
    kind: type[Toy], told: str
) -> None:
    """What no schema says is compared with the hand-rolled object."""
    machine = state_machine(
        kind, HandRolled, calls={"push": FRAMES, "remember": LATENTS}, resets={"window": "reset"}
    )
    with pytest.raises(AssertionError, match=told):
        run_state_machine_as_test(machine, settings=QUICK)


@pytest.mark.parametrize("name", GENERATED)
def test_machine_when_made_of_any_schema_of_this_repository_then_finds_nothing(name: str) -> None:
    """Every kind of object, family and lifetime that models use does as the plain model says."""
    module = importlib.import_module(f"statekit.adapters.generated.{name}")
    (adapter_class,) = (getattr(module, one) for one in module.__all__)
    machine = state_machine(adapter_class)
    run_state_machine_as_test(machine, settings=settings(QUICK, max_examples=3))


def test_machine_when_it_parks_then_something_is_parked() -> None:
    """The rules that park do so: the machine is not idle."""
    machine: StateMachine = state_machine(Toy)()
    machine.adapter.cache = [torch.ones(3)]  # type: ignore[attr-defined]
    assert park_now(machine.manager) == 1
    assert machine.manager.stats()["parked_nbytes:disk"] > 0
    machine.teardown()


class Opaque:
    """A class of somebody's own."""


OWN = ModelSpec(
    model="own",
    values=(ValueSpec("thing", "attrs", "Opaque | None", "none", default="None"),),
    resets={"session": ("thing",)},
)


def test_machine_when_a_value_is_of_an_own_class_then_needs_a_strategy() -> None:
    """The kit says which value it cannot make, before anything runs."""

    class Own(Toy):
        SPEC: ClassVar[ModelSpec] = OWN
        thing: SessionAttr[Any] = SessionAttr(default=None)

    with pytest.raises(NoPayloadError, match=r"value 'thing': .*strategies={'thing': "):
        state_machine(Own)
    assert state_machine(Own, strategies={"thing": st.integers()}) is not None


def test_small_numbers_when_sizes_divide_then_as_small_as_they_allow() -> None:
    """Symbols shrink as far as every size of the schema has a value."""
    small = small_numbers(DreamZeroStateAdapter.SPEC)
    assert {name: small[name] for name in ("H", "W", "BLOCK")} == {"H": 8, "W": 8, "BLOCK": 1}
    assert small["FRAMES_PER_CHUNK"] == 4


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int64", "bfloat16", "float8_e5m2", "complex64"]
)
def test_payload_when_made_of_a_number_then_the_same_each_time(dtype: str) -> None:
    """One number gives one payload, of the declared dtype and shape, with any bits."""
    spec = ValueSpec("x", "attrs", "torch.Tensor", "cpu", dtype=dtype, size=Size(("2", "H / 4")))
    payloads = Payloads(ModelSpec(model="m", symbols={"H": 32}, values=(spec,)))
    made = payloads.make(spec, 7)
    assert (made.dtype, tuple(made.shape)) == (getattr(torch, dtype), (2, 1))
    assert compare(payloads.make(spec, 7), made).difference is None
    assert len({str(payloads.make(spec, seed)) for seed in range(20)}) > 2


def test_plain_ring_when_counting_frames_then_cuts_the_oldest_item() -> None:
    """A ring of frames keeps the newest ones, of an item that is partly within only a part."""
    ring = PlainRing(bound=3, axis=0)
    for number in (1, 2, 3):
        ring.append(torch.full((number,), float(number)))
    assert [one.tolist() for one in ring.read()] == [[3, 3, 3]]
    ring.stage(torch.tensor([4.0]))
    assert [one.tolist() for one in ring.read()] == [[3, 3], [4]]
    assert [one.tolist() for one in ring.read(staged=False)] == [[3, 3, 3]]


def test_plain_window_when_it_has_a_sink_then_keeps_the_first_and_the_newest() -> None:
    """The sink stays, the rest of the bound slides."""
    window = Window(bound=4, axis=0, sink=1)
    for number in range(7):
        window.append((torch.tensor([number]), torch.tensor([-number])))
    keys, values_ = window.read()
    assert (keys.tolist(), values_.tolist()) == ([0, 4, 5, 6], [0, -4, -5, -6])


def test_plain_store_when_bounded_in_bytes_then_keeps_the_newest_that_fit() -> None:
    """Bytes are those of keys and of values in the form in which they are kept."""
    store = Store(bound=None, nbytes=20, cast=lambda one: one.to(torch.float16))
    for number in range(5):
        store.append((torch.tensor([1.0]), torch.full((2,), 0.1 * number)))
    kept = store.read()
    assert len(kept) == 2  # 4 bytes of a key and 4 of two half floats each: 20 // 8
    assert kept[-1][1].equal(torch.full((2,), 0.4).half().float())
