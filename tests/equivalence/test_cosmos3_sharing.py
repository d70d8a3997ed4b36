"""Cosmos3 among many requests: one transformer, one budget."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.errors import MissingOutputError
from statekit.events import Event, Released
from statekit.manager import SessionStateManager

LAYERS, HEADS, DIM, PADDED = 3, 2, 8, 64


class Transformer:
    """Encodes a request's text where nothing is loaded, else uses what is; slow on purpose."""

    def __init__(self) -> None:
        self.cached_kv: Any = None
        self.cached_freqs_gen: Any = None

    def forward(self, request: int, tokens: int) -> int:
        """The number of the request whose text was used."""
        if self.cached_kv is None:
            time.sleep(0.0005)
            self.cached_kv = [
                (torch.full((1, PADDED, HEADS, DIM), float(request))[:, :tokens],) * 2
                for _ in range(LAYERS)
            ]
            self.cached_freqs_gen = (torch.zeros(4), torch.ones(4))
        time.sleep(0.0005)  # another thread gets in here, unless it is kept out
        return int(self.cached_kv[0][0][0, 0, 0, 0])


def rollout(
    transformer: Transformer, manager: SessionStateManager, request: int, *, alone: bool
) -> list[int]:
    """What a request's steps used, with the transformer to itself in each, or not."""
    used = []
    state = Cosmos3StateAdapter(f"request-{request}", manager)
    try:
        for step in range(6):
            is_negative = step % 2 == 1
            if alone:
                with state.on_transformer(transformer, is_negative):
                    used.append(transformer.forward(request, 8))
            else:
                with nullcontext():
                    state.load_into_transformer(transformer, is_negative)
                    used.append(transformer.forward(request, 8))
                    state.capture_from_transformer(transformer, is_negative)
    finally:
        manager.drop_session(f"request-{request}")
    return used


def mixed_up(*, alone: bool) -> int:
    """How many steps of 8 concurrent requests used another request's text, or failed."""
    transformer, manager = Transformer(), SessionStateManager()
    wrong = []

    def serve(request: int) -> None:
        try:
            used = rollout(transformer, manager, request, alone=alone)
            wrong.extend(one for one in used if one != request)
        except (MissingOutputError, TypeError) as error:  # torn by another thread's load
            wrong.append(error)

    threads = [threading.Thread(target=serve, args=(request,)) for request in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(wrong)


def test_transformer_when_shared_by_threads_then_on_transformer_keeps_requests_apart() -> None:
    """With the hand-over no step uses another request's text; without it, some do."""
    assert mixed_up(alone=True) == 0
    assert mixed_up(alone=False) > 0


def test_on_transformer_when_the_forward_fails_then_nothing_is_stored() -> None:
    """An error in the body goes on unchanged and leaves neither half of the branch behind."""
    transformer, manager = Transformer(), SessionStateManager()
    state = Cosmos3StateAdapter("request", manager)

    def fail() -> None:
        with state.on_transformer(transformer, False):
            transformer.forward(1, 8)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert transformer.cached_kv is None
    assert transformer.cached_freqs_gen is None
    assert not state.is_branch_initialized(False)


def test_branch_when_over_budget_then_both_halves_go_and_are_encoded_anew() -> None:
    """Under pressure a whole branch is released, and the next step encodes it anew."""
    kv_nbytes = LAYERS * 8 * HEADS * DIM * 4  # K and V are one tensor here; padding is not held
    branch = kv_nbytes * 2 + 32
    manager = SessionStateManager(budgets={"cpu": 3 * branch})
    events: list[Event] = []
    manager.subscribe(events.append)
    small = {"LAYERS": LAYERS, "KV_HEADS": 1, "TOKENS": 1, "MEDIA_TOKENS": 1}
    transformer = Transformer()
    for request in (1, 2):
        name = f"request-{request}"
        with manager.lease(name, begin=Cosmos3StateAdapter.SPEC, overrides=small):
            state = Cosmos3StateAdapter(name, manager)
            for is_negative in (False, True):
                with state.on_transformer(transformer, is_negative):
                    transformer.forward(request, 8)
            assert manager.nbytes_by_device()["cpu"] <= 2 * 2 * branch
    released = [one for one in events if isinstance(one, Released)]
    assert {one.session_id for one in released} == {"request-1"}
    assert {one.value for one in released} <= {
        "und_kv+freqs_gen[positive]",
        "und_kv+freqs_gen[negative]",
    }
    assert manager.nbytes_by_device()["cpu"] <= 3 * branch
    gone = "positive" in released[0].value
    with manager.lease("request-1"):
        state = Cosmos3StateAdapter("request-1", manager)
        assert state.get_branch_kv(not gone) is None
        assert state.freqs_gen("positive" if gone else "negative").view() is None
        with state.on_transformer(transformer, not gone):
            assert transformer.forward(1, 8) == 1
        assert state.is_branch_initialized(not gone)
