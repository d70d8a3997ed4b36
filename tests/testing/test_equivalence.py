"""assert_equivalent finds each single way in which an adapter can differ, and says where."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import torch

from statekit.adapter import StateAdapter
from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.manager import SessionStateManager
from statekit.spec import Tolerance
from statekit.testing import EquivalenceError, Trace, assert_equivalent, record
from tests.equivalence.dreamzero_pipeline import DreamZeroPipeline
from tests.equivalence.hand_rolled_cosmos3 import HandRolledCosmos3State
from tests.equivalence.hand_rolled_dreamzero import HandRolledDreamZeroState
from tests.equivalence.wan_stream import WanStream, build_vae
from tests.testing.toys import HandRolled, Toy, recorded, toy, values

TRACE = recorded()


class OneBit(Toy):
    """Stores another bit in a bfloat16 tensor."""

    def remember(self, latent: torch.Tensor) -> None:
        super().remember(latent)
        if self.count == 1:
            other = latent.clone()
            other.view(torch.int16)[1, 2] ^= 1
            self.history = [self.history[0], other]


class OtherBit(Toy):
    """Gives other bits back."""

    def push(self, frame: torch.Tensor) -> torch.Tensor:
        result = super().push(frame)
        if self.count == 1:
            result.view(torch.int32)[2, 3] ^= 1
        return result


class OtherDtype(Toy):
    """Stores the latent as float32."""

    def remember(self, latent: torch.Tensor) -> None:
        super().remember(latent)
        self.latent = self.latent.float()


class OtherShape(Toy):
    """Stores the latent flat."""

    def remember(self, latent: torch.Tensor) -> None:
        super().remember(latent)
        self.latent = self.latent.reshape(-1)


class MissingItem(Toy):
    """Keeps two frames where three are kept."""

    def newest(self) -> Any:
        self.frames = self.frames[-2:]
        return super().newest()


class ForgetfulReset(Toy):
    """Leaves one value as it is."""

    def reset(self) -> None:
        previous = self.previous
        super().reset()
        self.previous = previous


class GreedyReset(Toy):
    """Clears one value too many."""

    def reset(self) -> None:
        self.reset_session()


class LostAlias(Toy):
    """Stores a copy of the latent that the pipeline still holds."""

    def remember(self, latent: torch.Tensor) -> None:
        super().remember(latent)
        self.latent = latent.clone()


class GainedAlias(Toy):
    """Stores the latent once more, in the place of the one before."""

    def remember(self, latent: torch.Tensor) -> None:
        super().remember(latent)
        if self.previous is not None:
            self.previous.copy_(latent)
            self.previous = self.latent


class CopiedCache(Toy):
    """Hands out a copy of a list that the pipeline writes into."""

    @property
    def cache(self) -> Any:
        cache = self.cache_object.view()
        return None if cache is None else list(cache)

    @cache.setter
    def cache(self, payload: Any) -> None:
        if payload is not None:
            self.cache_object.commit(payload)


class NegativeZero(Toy):
    """Turns zeros into negative ones."""

    def push(self, frame: torch.Tensor) -> torch.Tensor:
        result = super().push(frame)
        return torch.where(result == 0, -0.0, result)


class AnArray(Toy):
    """Gives an array for a tensor."""

    def newest(self) -> Any:
        newest = super().newest()
        return None if newest is None else newest.numpy()


class NoError(Toy):
    """Takes what the hand-rolled class refuses."""

    def push(self, frame: torch.Tensor) -> torch.Tensor:
        return super().push(frame if frame.ndim == 2 else frame[None].expand(4, -1))


class OtherError(Toy):
    """Raises an error that no caller of the hand-rolled class would catch."""

    def push(self, frame: torch.Tensor) -> torch.Tensor:
        if frame.ndim != 2:
            raise TypeError("a frame has 2 dimensions")
        return super().push(frame)


class WritesArgument(Toy):
    """Writes into what it is given."""

    def push(self, frame: torch.Tensor) -> torch.Tensor:
        result = super().push(frame.clone())
        frame.zero_()
        return result


class OneMore(Toy):
    """Counts one call too many."""

    def remember(self, latent: torch.Tensor) -> None:
        super().remember(latent)
        self.count += 1


class NoMethod(Toy):
    """Lacks a method."""

    newest = None  # type: ignore[assignment]


FOUND: dict[type[Toy], tuple[str, str, str]] = {
    OneBit: ("step 2, call 21 (remember(...))", "history[1] has other bits", "[1, 2]"),
    OtherBit: ("step 2, call 15 (push(...))", "the result of push has other bits", "[2, 3]"),
    OtherDtype: ("step 1, call 8 (remember(...))", "latent has another dtype", "torch.float32"),
    OtherShape: ("step 1, call 8 (remember(...))", "latent has another shape", "(8,)"),
    MissingItem: ("step 3, call 45 (newest())", "frames has another length", "2 entries"),
    ForgetfulReset: ("step 4, call 47 (reset())", "previous has another type", "a torch.Tensor"),
    GreedyReset: ("step 4, call 47 (reset())", "prompt has another type", "None"),
    LostAlias: ("the end of step 1", "latent and what was passed to remember", "not"),
    CopiedCache: ("the end of step 1", "cache and what was passed to write cache", "not"),
    NegativeZero: ("step 1, call 3 (push(...))", "the result of push has other bits", "-0.0"),
    AnArray: ("step 1, call 12 (newest())", "the result of newest has another type", "numpy"),
    NoError: ("step 2, call ", "the result of push has another outcome", "ValueError"),
    OtherError: ("step 2, call ", "the result of push has another outcome", "TypeError"),
    WritesArgument: ("step 1, call 3 (push(...))", "argument 0 of push after", "0.0"),
    OneMore: ("step 1, call ", "count has another value", "1"),
    NoMethod: ("step 1, call ", "the result of newest has another outcome", "NoneType"),
}


@pytest.mark.parametrize("kind", FOUND, ids=lambda kind: kind.__name__)
def test_adapter_when_it_differs_in_one_thing_then_found_at_its_place(kind: type[Toy]) -> None:
    """Each mutant is told apart, with step, call, value and what is wrong, in 80 columns."""
    place, found, shown = FOUND[kind]
    with pytest.raises(EquivalenceError) as caught:
        assert_equivalent(HandRolled, toy(kind), TRACE)
    error, text = caught.value, str(caught.value)
    assert error.place.startswith(place), text
    assert found in error.found, text
    assert shown in text
    assert text.startswith("not equivalent at ")
    assert max(map(len, text.splitlines())) <= 78
    assert isinstance(error, AssertionError)
    assert str(pickle.loads(pickle.dumps(error))) == text


def test_adapter_when_it_does_the_same_then_all_is_counted() -> None:
    """An equivalent adapter passes, and the result says what was compared."""
    result = assert_equivalent(HandRolled, toy(), TRACE)
    assert (result.steps, result.left_out, result.within_count) == (4, (), 0)
    assert set(result.values) == {value.name for value in Toy.SPEC}
    assert result.bit_equal == result.compared > 50
    assert str(result).startswith("equivalent: 4 steps, 33 calls; ")


def test_values_when_a_property_fails_at_first_then_that_is_the_difference() -> None:
    """A property of the hand-rolled class that raises while there is nothing is a difference."""

    class Fails(HandRolled):
        @property
        def count(self) -> int:  # type: ignore[override]
            if not self.own:
                raise ValueError("nothing yet")
            return int(self.own)

        @count.setter
        def count(self, value: int) -> None:
            self.own = value

    with pytest.raises(EquivalenceError, match="count"):
        assert_equivalent(Fails, toy(), TRACE)


def test_report_when_one_bit_differs_then_shows_both_values_and_their_bits() -> None:
    """The report can be read aloud: where, which element, both numbers, both bit patterns."""
    with pytest.raises(EquivalenceError) as caught:
        assert_equivalent(HandRolled, toy(OtherBit), TRACE)
    assert (
        str(caught.value)
        == """\
not equivalent at step 2, call 15 (push(...))

  value        the result of push
  is a         torch.float32 (4, 8) on cpu
  element      [2, 3]
  hand-rolled  0.4962949752807617  0x3efe1a60
  adapter      0.4962950050830841  0x3efe1a61
  differing    1 of 32 elements
  apart        2.98023e-08 at most

Mend the adapter; or, where floating-point work is done in another order on
purpose, state a tolerance with its reason in the schema."""
    )


def test_bytes_when_hand_rolled_is_at_hand_no_more_then_compared_with_what_was_recorded(
    tmp_path: Path,
) -> None:
    """A trace in a file is enough: the old class may be gone."""
    TRACE.save(tmp_path / "run.trace")
    loaded = Trace.load(tmp_path / "run.trace")
    assert assert_equivalent(None, toy(), loaded).steps == 4
    with pytest.raises(EquivalenceError, match=r"(?s)step 2, call 15.*recorded .*0x3efe1a60"):
        assert_equivalent(None, toy(OtherBit), loaded)


def test_tolerance_when_the_schema_states_one_then_that_value_alone_may_differ() -> None:
    """Within its tolerance a value passes and is counted; beyond it, or without, it fails."""

    class Rounding(HandRolled):
        def finish(self) -> None:
            self.prompt = self.prompt + 0 if self.prompt is not None else None

    def run(state: Any) -> None:
        state.prompt = torch.tensor([1.0, 2, 3, 4])
        state.finish()
        _ = state.prompt

    recorder = record(Rounding())
    run(recorder.state)
    trace = recorder.trace

    def off_by(distance: float, **changes: Any) -> Any:
        class Off(Toy):
            SPEC = attrs.evolve(
                Toy.SPEC, values=tuple(
                    attrs.evolve(one, **changes) if one.name == "prompt" else one
                    for one in Toy.SPEC
                ),
            )  # fmt: skip

            def finish(self) -> None:
                self.prompt = self.prompt + torch.tensor([0, 0, distance, 0])

        return toy(Off)

    result = assert_equivalent(Rounding, off_by(7e-7), trace)
    assert (result.within_count, list(result.within)) == (3, ["prompt"])
    assert result.bit_equal == result.compared - 3
    assert "prompt: within its tolerance, at most 7.15e-07 apart" in str(result)
    with pytest.raises(EquivalenceError, match=r"(?s)3\.00000\d+.*atol 1e-06, rtol 0: 1 beyond"):
        assert_equivalent(Rounding, off_by(3e-6), trace)
    with pytest.raises(EquivalenceError, match="prompt"):
        assert_equivalent(Rounding, off_by(7e-7, tolerance=None), trace)
    relative = off_by(3e-6, tolerance=Tolerance(rtol=2e-6))
    assert assert_equivalent(Rounding, relative, trace).within_count == 3


def test_trace_when_hand_rolled_does_something_else_than_recorded_then_said_so() -> None:
    """A trace that is not whole proves nothing: the hand-rolled object is checked against it."""

    class Moody(HandRolled):
        def newest(self) -> Any:
            return torch.zeros(1)

    with pytest.raises(EquivalenceError, match=r"(?s)recorded .*hand-rolled .*Replay on an object"):
        assert_equivalent(Moody, toy(), TRACE)
    begun = HandRolled()
    begun.count = 3
    with pytest.raises(EquivalenceError, match="the start, before the first call"):
        assert_equivalent(begun, toy(), TRACE)


def test_values_when_renamed_or_left_out_then_compared_as_asked() -> None:
    """`names` says which values are compared, and what the adapter calls them."""

    class Renamed(Toy):
        @property
        def counter(self) -> int:
            return self.count

        @counter.setter
        def counter(self, value: int) -> None:
            self.count = value

    result = assert_equivalent(HandRolled, toy(Renamed), TRACE, names={"count": "counter"})
    assert result.values == ("count",)
    result = assert_equivalent(HandRolled, toy(ForgetfulReset), TRACE, names=["count", "frames"])
    assert result.values == ("count", "frames")


def test_after_step_when_given_then_goes_on_with_what_it_returns(tmp_path: Path) -> None:
    """Between two steps an adapter may be saved, restored and go on as another one."""
    path = tmp_path / "s.snap"
    steps: list[int] = []

    def through_a_file(step: int, adapter: StateAdapter) -> StateAdapter:
        steps.append(step)
        old = adapter.session.record
        assert old is not None
        managers[-1].save("s", path)
        managers.append(SessionStateManager())
        managers[-1].restore(path, Toy.SPEC)
        return Toy("s", managers[-1])

    managers = [SessionStateManager()]
    adapter = Toy("s", managers[0])
    assert_equivalent(HandRolled, adapter, TRACE, after_step=through_a_file)
    assert steps == [1, 2, 3, 4]


@pytest.fixture(scope="module")
def rollout() -> Trace:
    """A DreamZero rollout around the real encoder, recorded on the hand-rolled state."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    pipeline = DreamZeroPipeline(WanStream(build_vae(base_dim=4)), local_attn_size=8)
    recorder = record(HandRolledDreamZeroState())
    generator = np.random.default_rng(3)
    for number in range(6):
        shape = (32, 32, 3) if number in (0, 3) else (2, 32, 32, 3)
        frames = generator.integers(0, 256, shape, dtype=np.uint8)
        with recorder.step():
            pipeline.forward(recorder.state, frames, torch.arange(8)[None])
    torch.set_num_threads(threads)
    return recorder.trace


def newest_two(frames: Any) -> Any:
    return None if frames is None else frames[:, :, -2:]


def test_dreamzero_when_a_rollout_is_replayed_then_equivalent(rollout: Trace) -> None:
    """A recorded rollout of the real encoder gives the same bits on the adapter."""
    adapter = DreamZeroStateAdapter("s", SessionStateManager())
    views = {"vae_encoder_out": newest_two}  # the hand-rolled history grows for ever
    result = assert_equivalent(HandRolledDreamZeroState, adapter, rollout, views=views)
    assert (result.steps, result.left_out) == (6, ())
    assert result.compared > 250


@pytest.mark.parametrize("name", [one.name for one in DreamZeroStateAdapter.SPEC])
def test_dreamzero_when_the_session_reset_forgets_a_value_then_found(
    rollout: Trace, name: str
) -> None:
    """Whichever value a reset leaves as it was, the replay tells its name or what came of it."""

    class Forgetful(DreamZeroStateAdapter):
        def reset(self, *, clear_video_latents: bool = True) -> None:
            kept = getattr(self, name)
            super().reset(clear_video_latents=clear_video_latents)
            setattr(self, name, kept)

    adapter = Forgetful("s", SessionStateManager())
    views = {"vae_encoder_out": newest_two}
    with pytest.raises(EquivalenceError) as caught:
        assert_equivalent(HandRolledDreamZeroState, adapter, rollout, views=views)
    assert caught.value.place.startswith(("step 4", "the end of step 4"))


def test_cosmos3_when_state_goes_through_a_transformer_then_its_fields_are_compared() -> None:
    """What a method writes into an object that it is given is compared, too."""

    class Transformer:
        def __init__(self) -> None:
            self.cached_kv: Any = None
            self.cached_freqs_gen: Any = None

    recorder = record(HandRolledCosmos3State("s"))
    state, transformer = recorder.state, Transformer()
    for negative in (False, True, False):
        with recorder.step():
            state.load_into_transformer(transformer, negative)
            if transformer.cached_kv is None:
                transformer.cached_kv = [(values(1, 2), values(2, 2)), (values(3, 2), values(4, 2))]
                transformer.cached_freqs_gen = (values(5, 2), values(6, 2))
                state.capture_from_transformer(transformer, negative)
            state.get_branch_kv(negative)

    def adapter(kind: Callable[..., Any] = Cosmos3StateAdapter) -> Any:
        return kind("s", SessionStateManager())

    assert assert_equivalent(HandRolledCosmos3State, adapter(), recorder.trace).compared > 20

    class Crossed(Cosmos3StateAdapter):
        def load_into_transformer(self, transformer: Any, is_negative: bool) -> None:
            super().load_into_transformer(transformer, is_negative)
            freqs = transformer.cached_freqs_gen
            transformer.cached_freqs_gen = freqs and freqs[::-1]

    with pytest.raises(EquivalenceError) as caught:
        assert_equivalent(HandRolledCosmos3State, adapter(Crossed), recorder.trace)
    assert "after the call, at .cached_freqs_gen[0]" in caught.value.found
