"""Faults that servers of such sessions had, one test each, by the number of a public list.

Not here, because no manager of session state can cause or prevent them:

    10  paging unit against eviction unit of an engine's KV pool: the engine's
    12  step and batch execution that do not bind state: the runner's
    13  a condition precomputed for a fixed horizon: the model's (`pending` declares its cure)
    15  a position table that ends: the model's
    16  chunk latency that grows without a window: the model's; the schema says ring or unbounded,
        and the rule RING_REASON asks why (tests/rules)
    20  a sender that frees before the receiver has read: there is no wire yet
    22  a changed prompt that is ignored, two key styles in one dict: the model's. Its third part,
        trimmed views that pin padded storage, is test_fault_22 below
"""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.errors import (
    BudgetTooSmallError,
    SessionAdmissionError,
    SessionStateLostError,
)
from statekit.events import AboveDeclared, Event
from statekit.manager import SessionStateManager
from statekit.objects import HeldValue, LatentBuffer
from statekit.pressure.promise import promise
from statekit.spec import ModelSpec, Park, Size, ValueSpec

KIB = 1024


def toy(nbytes: int = 64 * KIB, *, park: bool = False, may_be_lost: bool = False) -> ModelSpec:
    """A model with one value of known size."""
    return ModelSpec(
        model="toy",
        values=(
            ValueSpec(
                name="cache",
                bucket="StateObject",
                type="torch.Tensor",
                device="model",
                object="HeldValue",
                dtype="uint8",
                size=Size(elements=str(nbytes)),
                park=Park(tiers=("disk",)) if park else None,
                operations=("park",) if park else (),
            ),
        ),
        resets={"session": ("cache",)},
        may_be_lost=may_be_lost,
    )


def hold(session: Any, nbytes: int = 64 * KIB) -> torch.Tensor:
    """Make a session hold that many bytes."""
    cache = torch.ones(nbytes, dtype=torch.uint8)
    session.get_or_create("cache", lambda: HeldValue().allocate(), HeldValue).append(cache)
    return cache


def test_fault_01_clients_that_leave_without_a_word_do_not_fill_the_pool() -> None:
    """Sessions of clients that are gone end by idle time, and new ones are admitted again."""
    now = [0.0]
    manager = SessionStateManager(
        budgets={"cpu": 100 * KIB}, idle_timeout_s=60, clock=lambda: now[0]
    )
    for number in range(5):
        lease = manager.lease(f"client-{number}", begin=toy())
        hold(lease.begin())
        del lease  # the connection breaks: nobody says goodbye
        gc.collect()
        manager.stats()  # any call notices; from then on the session is idle
        now[0] += 61
    assert len(manager) == 1


def test_fault_02_a_rollout_does_not_restart_silently() -> None:
    """Where a session cannot be rebuilt, a new one is refused when full; nothing starts anew."""
    manager = SessionStateManager(budgets={"cpu": 100 * KIB})
    with manager.lease("old", begin=toy()) as session:
        cache = hold(session)
    with pytest.raises(SessionAdmissionError):
        manager.lease("new", begin=toy()).begin()
    with manager.lease("old") as session:
        assert session.get("cache").view() is cache
    manager.drop_session("old")
    with pytest.raises(SessionStateLostError):
        manager.lease("old").begin()


def test_fault_03_a_drop_frees_buffers_and_not_only_the_entry() -> None:
    """Per-request keys do not keep their bytes: after the drop nothing is held, by nobody."""
    manager = SessionStateManager()
    adapter = Cosmos3StateAdapter("request", manager)
    adapter.set_branch_kv(False, [(torch.zeros(64), torch.zeros(64))])
    manager.drop_session("request")
    assert manager.nbytes_by_device() == {}
    assert adapter.session.nbytes == 0


def test_fault_04_two_requests_do_not_mix_through_a_shared_module() -> None:
    """While one request has the transformer, another one's load waits."""
    manager = SessionStateManager()

    class Transformer:
        cached_kv: Any = None
        cached_freqs_gen: Any = None

    transformer, order = Transformer(), []
    inside, go_on = threading.Event(), threading.Event()

    def first() -> None:
        with Cosmos3StateAdapter("1", manager).on_transformer(transformer, False):
            inside.set()
            go_on.wait(5)
            order.append(1)
            transformer.cached_kv, transformer.cached_freqs_gen = [(1, 1)], (1, 1)

    def second() -> None:
        with Cosmos3StateAdapter("2", manager).on_transformer(transformer, False):
            order.append(2)
            assert transformer.cached_kv is None
            transformer.cached_kv, transformer.cached_freqs_gen = [(2, 2)], (2, 2)

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    inside.wait(5)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(5)
    assert order == [1, 2]
    assert Cosmos3StateAdapter("1", manager).get_branch_kv(False) == [(1, 1)]
    assert Cosmos3StateAdapter("2", manager).get_branch_kv(False) == [(2, 2)]


def test_fault_05_frequencies_belong_to_the_branch() -> None:
    """Each branch keeps its own frequencies, and keeps them over all steps."""
    adapter = Cosmos3StateAdapter("request", SessionStateManager())
    adapter.freqs_gen("positive").append((torch.zeros(3), torch.ones(3)))
    adapter.freqs_gen("negative").append((torch.zeros(5), torch.ones(5)))
    for _ in range(3):
        positive, negative = (adapter.freqs_gen(one).view() for one in ("positive", "negative"))
        assert positive is not None
        assert negative is not None
        assert (len(positive[0]), len(negative[0])) == (3, 5)


def test_fault_06_convolution_tails_belong_to_the_session() -> None:
    """Two sessions in turn each read their own tails and their own first-frame flag."""
    manager = SessionStateManager()
    tails = {name: [torch.full((2,), ord(name))] for name in "ab"}
    for name in "ab":
        adapter = DreamZeroStateAdapter(name, manager)
        adapter.vae_enc_feat_map = list(tails[name])
        adapter.vae_stream_initialized = name == "a"
    for name in "abab":
        adapter = DreamZeroStateAdapter(name, manager)
        assert adapter.vae_enc_feat_map is not None
        assert adapter.vae_enc_feat_map[0] is tails[name][0]
        assert adapter.vae_stream_initialized is (name == "a")


def test_fault_07_admission_counts_what_the_schema_declares() -> None:
    """The bytes asked for at admission are those of the spec that production passes."""
    spec = DreamZeroStateAdapter.SPEC
    small = {"H": 64, "W": 64}
    declared = promise(spec, "cpu", small).by_device["cpu"]
    feature_map = 1404 * 64 * 64 * 2
    assert declared > feature_map
    manager = SessionStateManager(budgets={"cpu": declared})
    with manager.lease("a", begin=spec, overrides=small):
        pass
    manager.drop_session("a")
    too_small = SessionStateManager(budgets={"cpu": declared - 1})
    with pytest.raises(SessionAdmissionError) as caught:
        too_small.lease("a", begin=spec, overrides=small).begin()
    assert caught.value.need == declared


def test_fault_08_a_value_above_its_declaration_is_named() -> None:
    """Two live sessions that hold more than declared are both reported, by value and figure."""
    manager = SessionStateManager()
    events: list[Event] = []
    manager.subscribe(events.append)
    for name in ("a", "b"):
        with manager.lease(name, begin=toy(KIB)) as session:
            hold(session, 3 * KIB)
    above = [one for one in events if isinstance(one, AboveDeclared)]
    assert [(one.session_id, one.value, one.nbytes, one.declared_nbytes) for one in above] == [
        ("a", "cache", 3 * KIB, KIB),
        ("b", "cache", 3 * KIB, KIB),
    ]


def test_fault_09_a_budget_below_one_session_is_refused_with_both_figures() -> None:
    """The error has what one session needs and what was given."""
    with pytest.raises(BudgetTooSmallError) as caught:
        SessionStateManager(budgets={"cpu": 1000}, specs=[toy()])
    assert (caught.value.need_nbytes, caught.value.budget_nbytes) == (64 * KIB, 1000)


def test_fault_11_lost_and_refused_are_two_errors_with_two_cures() -> None:
    """A client can tell "your rollout is gone" from "no room now", and why it is gone."""
    manager = SessionStateManager(budgets={"cpu": 100 * KIB})
    with manager.lease("a", begin=toy()) as session:
        hold(session)
    with pytest.raises(SessionAdmissionError, match="drop a session, or raise"):
        manager.lease("b", begin=toy()).begin()
    manager.drop_session("a")
    with pytest.raises(SessionStateLostError, match=r"dropped .* begin a new session"):
        manager.lease("a").begin()


def test_fault_14_what_grows_is_counted_as_it_grows() -> None:
    """An unbounded buffer's bytes are exact after every append."""
    manager = SessionStateManager()
    session = manager.get_or_create_session("a")
    buffer: LatentBuffer[torch.Tensor] = session.get_or_create(
        "latents", lambda: LatentBuffer[torch.Tensor]().allocate(), LatentBuffer
    )
    for step in range(1, 20):
        buffer.append(torch.zeros(10, dtype=torch.uint8))
        assert manager.stats()["nbytes:cpu"] == 10 * step


def test_fault_17_branches_do_not_alias_and_a_dummy_run_leaves_nothing() -> None:
    """What a warm-up run stored is gone after its drop, for the next user of its id."""
    manager = SessionStateManager()
    warm = Cosmos3StateAdapter("warm-up", manager)
    warm.set_branch_kv(True, [(torch.ones(1), torch.ones(1))])
    assert warm.get_branch_kv(False) is None
    manager.drop_session("warm-up")
    del warm
    again = Cosmos3StateAdapter("warm-up", manager)
    assert again.get_branch_kv(True) is None
    assert manager.nbytes_by_device() == {}


def test_fault_18_staged_data_is_not_seen_after_a_failure() -> None:
    """What a forward staged before it died is dropped by discard, and what was committed stays."""
    session = SessionStateManager().get_or_create_session("a")
    buffer: LatentBuffer[int] = session.get_or_create(
        "latents", lambda: LatentBuffer[int]().allocate(), LatentBuffer
    )
    buffer.append(1)
    try:
        buffer.stage(2)
        raise RuntimeError("the forward dies")
    except RuntimeError:
        buffer.discard()
    assert buffer.view() == [1]


def test_fault_19_an_empty_manager_is_not_thrown_away() -> None:
    """`manager or default` keeps an empty manager, and so does an empty buffer."""
    manager = SessionStateManager()
    assert (manager or None) is manager
    buffer = LatentBuffer[int]().allocate()
    assert (buffer or None) is buffer


def test_fault_21_a_leased_session_is_visible_to_admission_and_never_waited_for(
    tmp_path: Path,
) -> None:
    """Bytes in use count: a new session is refused at once instead of waiting for them."""
    manager = SessionStateManager(budgets={"cpu": 100 * KIB}, park_folder=tmp_path)
    with manager.lease("a", begin=toy(park=True)) as session:
        hold(session)
        with pytest.raises(SessionAdmissionError):
            manager.lease("b", begin=toy(park=True)).begin()
    with manager.lease("b", begin=toy(park=True)) as session:  # now the idle one is parked for it
        hold(session)
    assert manager.stats()["nbytes:cpu"] <= 100 * KIB
    manager.close()


def test_fault_22_trimmed_keys_and_values_do_not_pin_their_padding() -> None:
    """K and V that arrive as slices of padded tensors are held as long as the prompt, no longer."""
    manager = SessionStateManager()
    adapter = Cosmos3StateAdapter("request", manager)
    padded = torch.ones(1, 512, 8, 128, dtype=torch.bfloat16)
    adapter.set_branch_kv(False, [(padded[:, :40], padded[:, :40])])
    del padded
    assert manager.nbytes_by_device() == {"cpu": 2 * 40 * 8 * 128 * 2}
