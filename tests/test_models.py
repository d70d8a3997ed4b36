"""The models that statekit describes: each schema's adapter holds what the schema declares.

Every value of every schema is written through the generated class, at small sizes, as a pipeline
would; then it is counted, put away and brought back, reset.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from statekit.accounting import SeenStorages
from statekit.declared import declared_bytes, members
from statekit.manager import SessionStateManager
from statekit.pressure.promise import promise
from tests.equivalence.bits import assert_same_bits
from tests.model_stand import SMALL, Stand, adapter_class, copied, state_of

ROOT = Path(__file__).parents[1]


@pytest.fixture(params=sorted(SMALL))
def stand(request: pytest.FixtureRequest) -> Stand:
    return Stand(request.param)


def test_models_when_listed_then_each_schema_is_here() -> None:
    """No schema of the project is without these tests."""
    assert sorted(SMALL) == sorted(path.stem for path in (ROOT / "schemas").glob("*.yaml"))


def test_value_when_written_then_its_bytes_are_those_declared(stand: Stand) -> None:
    """After a first step, and when every bound is reached: value by value, and in sum."""
    manager = SessionStateManager()
    with manager.lease("one", begin=stand.spec, overrides=SMALL[stand.name]):
        state = stand.cls("one", manager)
        assert not any(stand.held(state).values())
        stand.write_first(state)
        held, passing = stand.held(state), stand.passing()
        assert {**held, **dict.fromkeys(passing, 0)} == stand.declared("first")
        assert all(0 < held[name] <= most for name, most in passing.items())
        stand.fill(state)
        full = {**stand.declared("steady"), **passing}
        assert stand.held(state) == full
        assert manager.nbytes_by_device() == {"cpu": sum(full.values())}


def test_value_when_the_request_ends_then_what_lives_for_it_is_gone(stand: Stand) -> None:
    """Between two requests a session holds what is declared for between two steps."""
    manager = SessionStateManager()
    with manager.lease("one", begin=stand.spec, overrides=SMALL[stand.name]):
        state = stand.cls("one", manager)
        stand.write_first(state)
        stand.fill(state)
    assert stand.held(state) == stand.declared("steady")
    with manager.lease("one"):
        again = stand.values(stand.cls("one", manager))
    for value in stand.spec:
        if value.lifetime == "request" and value.bucket == "attrs":
            assert not again[value.name]


def test_session_when_another_takes_its_room_then_it_comes_back_with_its_bits(
    stand: Stand, tmp_path: Path
) -> None:
    """With room for one session in use and for what nothing can give up of another one: what may
    be released is gone, what may be parked lies on disk, and comes back bit for bit."""
    promised = promise(stand.spec, "cpu", SMALL[stand.name], ("disk",))
    room = promised.by_device["cpu"] + promised.staying.get("cpu", 0)
    manager = SessionStateManager(budgets={"cpu": room}, park_folder=tmp_path)
    with manager.lease("one", begin=stand.spec, overrides=SMALL[stand.name]):
        state = stand.cls("one", manager)
        stand.write_first(state)
        stand.fill(state)
        before = copied(stand.values(state))
    with manager.lease("two", begin=stand.spec, overrides=SMALL[stand.name]):
        stand.cls("two", manager)
        lying = manager.nbytes_by_device()
        assert lying.get("cpu", 0) <= promised.staying.get("cpu", 0)
        parked = [value for value in stand.spec if value.park and "release" not in value.operations]
        assert bool(lying.get("disk")) == bool(parked)
    manager.drop_session("two")
    with manager.lease("one"):
        after = stand.values(stand.cls("one", manager))
    for value in stand.spec:
        released = "release" in value.operations
        for name, seen in after.items():
            if name.split()[0] not in stand.names(value):
                continue
            if released or value.lifetime == "request":
                assert not seen, name
            else:
                assert_same_bits(state_of(seen), before[name], name)
    manager.close()


def test_reset_when_called_then_it_clears_what_it_names_and_nothing_else(stand: Stand) -> None:
    """Each reset of each model, on a session that holds everything."""
    assert stand.spec.resets
    for reset, cleared in stand.spec.resets.items():
        manager = SessionStateManager()
        state = stand.cls("one", manager)
        stand.write_first(state)
        before = stand.held(state)
        getattr(state, f"reset_{reset}")()
        kept = {name: nbytes for name, nbytes in before.items() if name not in cleared}
        assert stand.held(state) == {**dict.fromkeys(before, 0), **kept}, reset
        for value in stand.spec:
            for key in stand.spec.keys_of(value) if value.bucket == "attrs" else ():
                assert (key in state.session.attrs) == (value.name not in cleared), (reset, key)


def test_step_when_it_fails_then_every_value_is_as_it_was(stand: Stand) -> None:
    """A step that writes into what may be written into, clears all, writes all anew and fails."""
    manager = SessionStateManager()
    with manager.lease("one", begin=stand.spec, overrides=SMALL[stand.name]):
        state = stand.cls("one", manager)
        stand.write_first(state)
        before = copied(stand.values(state))
        held = stand.held(state)
        with pytest.raises(ZeroDivisionError), state.step():
            for value in stand.spec:
                for one in stand.written_into(state, value):
                    one.add_(1)
            getattr(state, f"reset_{next(iter(stand.spec.resets))}")()
            stand.write_first(state)
            stand.fill(state)
            raise ZeroDivisionError
        for name, seen in stand.values(state).items():
            assert_same_bits(state_of(seen), before[name], name)
        assert stand.held(state) == held


def test_fork_when_it_goes_on_then_the_session_does_not_see_it(stand: Stand) -> None:
    """A fork begins with the same bits, and neither sees what is written into the other."""
    manager = SessionStateManager()
    state = stand.cls("one", manager)
    stand.write_first(state)
    before = copied(stand.values(state))
    fork = state.fork()
    for name, seen in stand.values(fork).items():
        assert_same_bits(state_of(seen), before[name], name)
    getattr(fork, f"reset_{next(iter(stand.spec.resets))}")()
    stand.write_first(fork)
    stand.fill(fork)
    for name, seen in stand.values(state).items():
        assert_same_bits(state_of(seen), before[name], name)
    fork.session.discard()


def test_session_when_saved_then_another_process_would_go_on_with_its_bits(stand: Stand) -> None:
    """As bytes and back, in another manager: the same values, cursors and bounds."""
    manager, other = SessionStateManager(), SessionStateManager()
    with manager.lease("one", begin=stand.spec, overrides=SMALL[stand.name]):
        state = stand.cls("one", manager)
        stand.write_first(state)
        stand.fill(state)
        before = copied(stand.values(state))
        cursors = stand.cursors(state)
    assert other.restore(manager.to_bytes("one"), stand.spec) == "one"
    with other.lease("one"):
        again = stand.cls("one", other)
        assert stand.held(again) == stand.declared("steady")
        assert stand.cursors(again) == cursors
        after = stand.values(again)
        for value in stand.spec:
            for name, seen in after.items():
                if name.split()[0] in stand.names(value) and value.lifetime == "session":
                    assert_same_bits(state_of(seen), before[name], name)


def test_vjepa2_when_a_frame_is_forked_400_times_then_it_is_held_once() -> None:
    """What the published planner repeats in memory for each sample is one frame in all forks."""
    stand = Stand("vjepa2_ac")
    state = stand.cls("one", SessionStateManager())
    frame = torch.zeros(1, 1, 256, 1408)
    vars(state).update(context=frame, goal=frame.clone(), pose=torch.zeros(1, 1, 7))
    before = state.session.nbytes
    forks = [state.fork() for _ in range(400)]
    seen = SeenStorages()
    counted = [fork.session.nbytes_by_device(seen) for fork in (state, *forks)]
    assert sum(sum(by_device.values()) for by_device in counted) == before
    vars(forks[7])["context"] = frame + 1
    assert state.session.nbytes == before
    assert not frame.any()


def test_class_when_it_has_no_sizes_given_then_variants_are_other_numbers_of_it() -> None:
    """Every variant names symbols of its model alone, and has figures for all of its values."""
    for name in SMALL:
        spec = adapter_class(name).SPEC
        for variant, numbers in spec.variants.items():
            assert numbers.keys() <= spec.symbols.keys(), (name, variant)
            for value in spec:
                assert declared_bytes(spec, value, numbers) is not None
                assert members(spec, value, spec.environment(numbers)) >= 1
