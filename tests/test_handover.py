"""hand_over: one session at a time at the fields of an object that all sessions share."""

from __future__ import annotations

import gc
import pickle
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch

from statekit import handover
from statekit.errors import HandOverError, HandOverTimeoutError
from statekit.handover import hand_over

FIELDS = ("cached_kv", "cached_freqs_gen")


class Transformer(torch.nn.Module):
    """A fake transformer: its forward takes a moment and leaves what it used."""

    cached_kv: Any
    cached_freqs_gen: Any

    def forward(self) -> tuple[Any, Any]:
        before = self.cached_kv
        time.sleep(0.002)  # another thread's load would come in between here
        return before, self.cached_freqs_gen


def mixed_up(handed_over: Callable[[Transformer], AbstractContextManager[None]]) -> int:
    """How many of 8 threads x 10 steps read or captured what another one had loaded."""
    transformer, mistakes = Transformer(), []
    start = threading.Barrier(8)

    def serve(session: int) -> None:
        start.wait()
        for step in range(10):
            mine = (f"kv {session}.{step}", f"freqs {session}.{step}")
            with handed_over(transformer):
                transformer.cached_kv, transformer.cached_freqs_gen = mine
                used = transformer()
                captured = (transformer.cached_kv, transformer.cached_freqs_gen)
            if used != mine or captured != mine:
                mistakes.append((session, step))

    threads = [threading.Thread(target=serve, args=(session,)) for session in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(mistakes)


def test_hand_over_when_many_threads_share_a_transformer_then_no_mix_up() -> None:
    """Load, forward and capture of one session do not interleave with another's."""
    assert mixed_up(lambda transformer: hand_over(transformer, FIELDS)) == 0


def test_hand_over_when_left_out_then_sessions_are_mixed_up() -> None:
    """The same threads without it do read each other's state: the test above can fail."""
    assert mixed_up(lambda _: nullcontext()) > 0


@pytest.mark.parametrize("error", [None, ValueError("forward failed"), KeyboardInterrupt()])
def test_hand_over_when_body_ends_then_fields_are_as_before(error: BaseException | None) -> None:
    """Fields are set back, and deleted where they were absent, also after an error."""
    transformer = Transformer()
    transformer.cached_kv = before = ["before"]

    def serve() -> None:
        with hand_over(transformer, FIELDS):
            assert transformer.cached_kv is before
            transformer.cached_kv = ["mine"]
            transformer.cached_freqs_gen = "mine"
            if error is not None:
                raise error

    with nullcontext() if error is None else pytest.raises(type(error)) as caught:
        serve()
    assert caught is None or caught.value is error
    assert transformer.cached_kv is before
    assert not hasattr(transformer, "cached_freqs_gen")
    with hand_over(transformer, FIELDS, timeout_s=0):
        pass


def test_hand_over_when_body_deletes_a_field_then_it_is_set_back() -> None:
    """A field that was there is there again, and one that was absent and stays so is no error."""
    transformer = Transformer()
    transformer.cached_kv = before = ["before"]
    with hand_over(transformer, FIELDS):
        del transformer.cached_kv
    assert transformer.cached_kv is before


def test_hand_over_when_field_is_a_buffer_then_module_keeps_it_registered() -> None:
    """A registered buffer of an nn.Module is set back as the buffer that it was."""
    transformer = Transformer()
    transformer.register_buffer("cached_kv", torch.ones(2), persistent=False)
    before = transformer.cached_kv
    with hand_over(transformer, ("cached_kv",)):
        transformer.cached_kv = torch.zeros(2)
    assert dict(transformer.named_buffers())["cached_kv"] is before


class ReadOnlyField:
    """Its first field can be written once only, so setting it back fails."""

    def __init__(self) -> None:
        self.writes = 0
        self.other = "before"

    @property
    def once(self) -> int:
        return self.writes

    @once.setter
    def once(self, _: object) -> None:
        if self.writes:
            raise AttributeError("written already")
        self.writes = 1


@pytest.mark.parametrize("fields", [("once", "other"), ("other", "once")])
def test_hand_over_when_a_field_cannot_be_set_back_then_the_others_are(
    fields: tuple[str, str],
) -> None:
    """One field's failure is raised, after all others were set back and the turn was given up."""
    owner = ReadOnlyField()

    def serve() -> None:
        with hand_over(owner, fields):
            owner.once = 7
            owner.other = "mine"

    with pytest.raises(AttributeError, match="written already"):
        serve()
    assert owner.other == "before"
    with hand_over(owner, fields, timeout_s=0):
        pass


def test_hand_over_when_same_thread_enters_again_then_refused_and_outer_goes_on() -> None:
    """Re-entrance is an error, not a deadlock, and leaves the fields to the outer body."""
    transformer = Transformer()
    with hand_over(transformer, FIELDS):
        transformer.cached_kv = "outer"
        with (
            pytest.raises(HandOverError, match="this thread hands it over already; end that"),
            hand_over(transformer, FIELDS),
        ):
            pytest.fail("the body must not run")
        assert transformer.cached_kv == "outer"
    assert not hasattr(transformer, "cached_kv")


def test_hand_over_when_owners_differ_then_neither_waits() -> None:
    """Two transformers are handed over at once, by one thread or by two."""
    one, two = Transformer(), Transformer()
    inside = threading.Barrier(2, timeout=30)

    def serve(transformer: Transformer) -> None:
        with hand_over(transformer, FIELDS):
            inside.wait()

    threads = [threading.Thread(target=serve, args=(owner,)) for owner in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not inside.broken
    with hand_over(one, FIELDS), hand_over(two, FIELDS):
        pass


def test_hand_over_when_other_thread_has_it_too_long_then_timeout_and_nothing_touched() -> None:
    """A caller that would not wait for ever gets a typed error that says for how long it did."""
    transformer = Transformer()
    errors: list[BaseException] = []

    def try_it() -> None:
        try:
            with hand_over(transformer, FIELDS, timeout_s=0.01):
                transformer.cached_kv = "mine"
        except HandOverTimeoutError as error:
            errors.append(error)

    with hand_over(transformer, FIELDS):
        transformer.cached_kv = "outer"
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
        assert transformer.cached_kv == "outer"
    assert isinstance(errors[0], HandOverError)
    assert str(errors[0]).startswith("hand-over of Transformer at 0x")
    assert str(errors[0]).endswith(
        "other threads had it for 0.01 s; pass a longer timeout_s, or see what holds it up"
    )
    assert str(pickle.loads(pickle.dumps(errors[0]))) == str(errors[0])


class Alike:
    """Equal to all of its kind, and without a hash."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alike)

    __hash__ = None  # type: ignore[assignment]


def test_hand_over_when_owners_are_equal_then_told_apart_by_identity() -> None:
    """An owner is that very object: one that is equal has a turn of its own."""
    with hand_over(Alike(), ("x",)), hand_over(Alike(), ("x",)):
        pass


def test_hand_over_when_owner_is_gone_then_its_lock_is_too() -> None:
    """Nothing keeps a transformer alive, and nothing is left of it afterwards."""
    gc.collect()
    known = len(handover._turns)
    transformer = Transformer()
    alive = weakref.ref(transformer)
    with hand_over(transformer, FIELDS):
        assert len(handover._turns) == known + 1
    del transformer
    gc.collect()
    assert alive() is None
    assert len(handover._turns) == known


def test_hand_over_when_arguments_are_mistaken_then_named() -> None:
    """One string is no list of fields, and an owner without weak references is refused."""
    with (
        pytest.raises(TypeError, match="got the string 'cached_kv'"),
        hand_over(Transformer(), "cached_kv"),
    ):
        pytest.fail("the body must not run")
    with pytest.raises(TypeError, match="weak reference"), hand_over(object(), FIELDS):
        pytest.fail("the body must not run")
