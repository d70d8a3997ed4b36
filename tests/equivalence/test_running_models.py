"""Three running models on generated adapters: the bits of the state by hand, whatever happens.

The streaming decoder of a real VAE, a transformer with sink-and-window keys and values, and a gated
linear recurrence; small, with random weights. Each goes through interleaved sessions, forwards that
fail at any operation, parking and release under a budget, and a process' end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import torch
from torch.overrides import TorchFunctionMode

from statekit.declared import session_at_step
from statekit.events import Event, Parked, Rebuilt, Released, Restored
from statekit.manager import SessionStateManager
from statekit.spec import ModelSpec
from statekit.testing import assert_equivalent, record
from tests.capture.sessions import assert_same_session, everything_of
from tests.equivalence.bits import assert_same_bits
from tests.equivalence.running.adapters import DecoderState, RecurrentState, WindowState
from tests.equivalence.running.gated_recurrence import GatedRecurrence, HandRolledRecurrentState
from tests.equivalence.running.wan_decoder import HandRolledDecoderState, WanDecoder
from tests.equivalence.running.window_transformer import HandRolledWindowState, WindowTransformer

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 7


@attrs.frozen(kw_only=True)
class Proof:
    """One model, its two kinds of state, and the numbers of its schema at this size.

    Attributes:
        parameters: of the adapter.
        frames: how many latent frames each step brings.
        shape: of one frame of the input, with the batch in front and the rest behind.
        axis: the input's axis of frames.
    """

    model: Callable[[], Any]
    by_hand: Callable[[], Any]
    adapter: type[Any]
    numbers: Mapping[str, int]
    frames: tuple[int, ...]
    shape: tuple[int, ...]
    axis: int
    dtype: torch.dtype = torch.bfloat16
    parameters: Mapping[str, int] = attrs.field(factory=dict)

    def inputs(self, name: str) -> list[torch.Tensor]:
        """What a session of this name is given, step by step."""
        generator = torch.Generator().manual_seed(ord(name))
        given = []
        for count in self.frames:
            shape = (*self.shape[: self.axis], count, *self.shape[self.axis :])
            given.append(torch.randn(shape, generator=generator).to(self.dtype))
        return given


PROOFS = {
    "decoder": Proof(
        model=WanDecoder,
        by_hand=HandRolledDecoderState,
        adapter=DecoderState,
        # The schema has the tails of the decoder with 96 channels; this one has 8.
        numbers={"H": 16, "W": 16, "CHUNK": 1, "LAYERS": 1, "HIDDEN": 1},
        frames=(1, 2, 1, 1, 2, 1, 1),
        shape=(1, 16, 4, 4),
        axis=2,
    ),
    "window": Proof(
        model=WindowTransformer,
        by_hand=HandRolledWindowState,
        adapter=WindowState,
        numbers={"H": 32, "W": 32, "BLOCK": 1, "LAYERS": 2, "HEADS": 2, "HEAD_DIM": 8,
                 "TEXT_TOKENS": 5, "window": 5, "sink": 1},
        frames=(2, 1, 2, 2, 1, 2, 2),
        shape=(1, 4, 16),
        axis=1,
        parameters={"window": 5, "sink": 1},
    ),
    "recurrence": Proof(
        model=GatedRecurrence,
        by_hand=HandRolledRecurrentState,
        adapter=RecurrentState,
        numbers={"H": 32, "W": 96, "GDN_LAYERS": 3, "SOFTMAX_LAYERS": 1, "BLOCKS": 1, "HEADS": 2,
                 "HEAD_DIM": 8, "LATENT_CHANNELS": 1, "TEXT_TOKENS": 1},
        frames=(4, 3, 3, 1, 3, 2, 3),
        shape=(1, 3, 16),
        axis=1,
        dtype=torch.float32,
    ),
}  # fmt: skip


@pytest.fixture(params=PROOFS)
def proof(request: pytest.FixtureRequest) -> Proof:
    return PROOFS[request.param]


def wanted(proof: Proof, model: Any, name: str) -> list[torch.Tensor]:
    """The outputs of a session by itself, with its state kept by hand."""
    state = proof.by_hand()
    return [model.forward(state, given) for given in proof.inputs(name)]


def test_sessions_when_interleaved_then_each_has_the_bits_of_itself_alone(proof: Proof) -> None:
    """Two sessions in turn, one of them reset in between, through one model: nothing is mixed."""
    model, manager = proof.model(), SessionStateManager()
    want = {name: wanted(proof, model, name) for name in "ab"}
    assert not torch.equal(want["a"][-1], want["b"][-1])
    for step in range(STEPS):
        for name in "ab":
            got = model.forward(
                proof.adapter(name, manager, **proof.parameters), proof.inputs(name)[step]
            )
            assert_same_bits(got, want[name][step], f"session {name}, step {step}")
    state = proof.adapter("a", manager, **proof.parameters)
    state.reset_session()
    for step, given in enumerate(proof.inputs("a")):
        got = model.forward(state, given)
        assert_same_bits(got, want["a"][step], f"after the reset, step {step}")


def test_recorded_run_when_replayed_then_each_value_and_result_is_the_same(proof: Proof) -> None:
    """What the model reads and what it is given, call by call."""
    model, recorder = proof.model(), record(proof.by_hand())
    for given in proof.inputs("a"):
        with recorder.step():
            model.forward(recorder.state, given)
    manager = SessionStateManager()
    done = assert_equivalent(
        proof.by_hand,
        lambda: proof.adapter("a", manager, **proof.parameters),
        recorder.trace,
    )
    assert done.compared > 100
    assert not done.within


def test_state_when_it_is_missing_then_the_bits_are_others(proof: Proof) -> None:
    """What the other tests compare does depend on the state: a fresh one gives other outputs."""
    model = proof.model()
    fresh = model.forward(proof.by_hand(), proof.inputs("a")[-1])
    last = wanted(proof, model, "a")[-1]
    assert fresh.shape != last.shape or not torch.equal(fresh, last)


class FaultError(Exception):
    """What is injected."""


class FailAt(TorchFunctionMode):
    """Fails before one of the torch operations within, the model's and statekit's alike."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        if self.count - 1 == self.at:
            raise FaultError(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("after", [0, 1, 4])
def test_forward_when_it_fails_at_any_operation_then_as_if_it_had_not_been(
    proof: Proof, after: int
) -> None:
    """A step undoes it to the last bit, and a retry gives the bits of a forward that never failed.

    The first forward, one before and one after the window is full; about 25 operations of each.
    """
    model, inputs = proof.model(), proof.inputs("a")
    want = wanted(proof, model, "a")
    state = proof.adapter("a", SessionStateManager(), **proof.parameters)
    for given in inputs[:after]:
        model.forward(state, given)
    twin, probe = _twin(proof, model, inputs[:after]), FailAt(-1)
    with probe:
        model.forward(twin, inputs[after])
    before = everything_of(state.session)
    failed = 0
    for at in range(0, probe.count, max(1, probe.count // 25)):
        with pytest.raises(FaultError), state.step(), FailAt(at):
            model.forward(state, inputs[after])
        assert_same_session(state.session, before)
        failed += 1
    assert failed >= 20
    for step in range(after, STEPS):
        with state.step():
            got = model.forward(state, inputs[step])
        assert_same_bits(got, want[step], f"step {step}")


def _twin(proof: Proof, model: Any, inputs: list[torch.Tensor]) -> Any:
    state = proof.adapter("twin", SessionStateManager(), **proof.parameters)
    for given in inputs:
        model.forward(state, given)
    return state


def test_sessions_when_there_is_room_for_one_then_they_wait_elsewhere_and_keep_their_bits(
    proof: Proof, tmp_path: Path
) -> None:
    """Each step of one session puts the other's state away: parked, or released and rebuilt."""
    model = proof.model()
    want = {name: wanted(proof, model, name) for name in "ab"}
    spec, budget = _room_for_one(proof, model)
    manager = SessionStateManager(budgets={"cpu": budget}, park_folder=tmp_path)
    events: list[Event] = []
    manager.subscribe(events.append)
    for step in range(STEPS):
        for name in "ab":
            numbers = None if step else proof.numbers
            with manager.lease(name, begin=None if step else spec, overrides=numbers):
                state = proof.adapter(name, manager, **proof.parameters)
                with state.step():
                    got = model.forward(state, proof.inputs(name)[step])
            assert_same_bits(got, want[name][step], f"session {name}, step {step}")
            assert manager.nbytes_by_device()["cpu"] <= budget
    away = Counter(type(one) for one in events)
    assert away[Parked] + away[Released] >= STEPS
    assert away[Restored] + away[Rebuilt] >= STEPS
    manager.close()


def _room_for_one(proof: Proof, model: Any) -> tuple[ModelSpec, int]:
    """The schema without what this model does not use, and a budget that two sessions exceed.

    Both fit while one of them has put away what it can, and do not fit otherwise.
    """
    manager = SessionStateManager()
    whole = proof.adapter.SPEC
    with manager.lease("probe", begin=whole, overrides=proof.numbers) as session:
        state = proof.adapter("probe", manager, **proof.parameters)
        for given in proof.inputs("a"):
            model.forward(state, given)
        used = [one for one in whole if one.name in session.attrs or any(
            whole.key_pattern(one).fullmatch(key) for key in session.names)]  # fmt: skip
        spec = attrs.evolve(whole, values=tuple(used), atomic={}, resets={})
        movable = sum(
            session.objects[key].nbytes
            for one in used
            for key in session.names
            if (one.park or one.rebuild) and whole.key_pattern(one).fullmatch(key)
        )
    held = manager.nbytes_by_device()["cpu"]
    manager.close()
    assert movable > held / 2
    values = session_at_step(spec, None, proof.numbers)
    declared = sum((one.nbytes or 0) + one.pending_nbytes for one in values)
    return spec, max(declared, held) + held - movable // 2


def test_session_when_saved_after_each_step_then_another_manager_goes_on_with_its_bits(
    proof: Proof,
) -> None:
    """Each step runs in a manager of its own, on what the one before has saved."""
    model, spec = proof.model(), proof.adapter.SPEC
    want = wanted(proof, model, "a")
    saved = None
    for step, given in enumerate(proof.inputs("a")):
        manager = SessionStateManager()
        if saved is None:
            lease = manager.lease("a", begin=spec, overrides=proof.numbers)
        else:
            assert manager.restore(saved, spec) == "a"
            lease = manager.lease("a")
        with lease:
            state = proof.adapter("a", manager, **proof.parameters)
            with state.step():
                got = model.forward(state, given)
        assert_same_bits(got, want[step], f"step {step}")
        saved = manager.to_bytes("a")
        manager.close()


def test_forks_when_two_futures_are_tried_then_the_kept_one_goes_on(
    proof: Proof,
) -> None:
    """A speculative forward in a fork changes nothing of the session that it was forked from."""
    model, inputs = proof.model(), proof.inputs("a")
    want = wanted(proof, model, "a")
    manager = SessionStateManager()
    state = proof.adapter("a", manager, **proof.parameters)
    for given in inputs[:3]:
        model.forward(state, given)
    before = everything_of(state.session)
    other = proof.inputs("b")[3]
    tried, kept = state.fork(), state.fork()
    model.forward(tried, other)
    assert_same_bits(model.forward(kept, inputs[3]), want[3], "in the fork")
    assert_same_session(state.session, before)
    tried.session.discard()
    kept.session.promote()
    for step in range(4, STEPS):
        assert_same_bits(model.forward(state, inputs[step]), want[step], f"step {step}")
