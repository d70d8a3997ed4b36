"""The plan agrees with what a real manager counts, step by step, with real adapters."""

from __future__ import annotations

import functools

import numpy as np
import torch

from statekit.accounting import SeenStorages, device_bytes
from statekit.adapters.cosmos3 import Cosmos3StateAdapter
from statekit.adapters.dreamzero import DreamZeroStateAdapter
from statekit.adapters.generated.lingbot_world_2 import LingbotWorld2State
from statekit.adapters.generated.sana_wm import SanaWmState
from statekit.manager import SessionStateManager
from statekit_codegen.load import load_text
from statekit_codegen.model import Model
from statekit_codegen.plan.need import Need, need_of
from tests.codegen.plan.schemas import ROOT, asked, model
from tests.equivalence.dreamzero_pipeline import DreamZeroPipeline
from tests.equivalence.wan_stream import WanStream, build_vae, feature_map_elements

HEIGHT, WIDTH, BASE_DIM, TOKENS = 32, 48, 8, 7


def small_deployment() -> Model:
    """DreamZero's schema with the channels of the small models that the pipeline of tests has."""
    text = (ROOT / "schemas" / "dreamzero.yaml").read_text("utf-8")
    area = HEIGHT * WIDTH
    first = feature_map_elements(base_dim=BASE_DIM, height=HEIGHT, width=WIDTH, first=True)
    then = feature_map_elements(base_dim=BASE_DIM, height=HEIGHT, width=WIDTH)
    assert (first % area, 2 * then % area) == (0, 0)
    for old, new in [
        ("711 * H * W", f"{first // area} * H * W"),
        ("1404 * H * W", f"{2 * then // area} * H * W / 2"),
        ("[1, 257, 1280]", "[1, 1, 20]"),
        ("[1, TOKENS, 4096]", "[1, TOKENS, 64]"),
        ("  H: 352", f"  H: {HEIGHT}"),
        ("  W: 640", f"  W: {WIDTH}"),
        ("  SPAN: 9", "  SPAN: 1"),
        ("  TOKENS: 512", f"  TOKENS: {TOKENS}"),
    ]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    start, end = text.index("    measured:"), text.index("    decision:", text.index("measured:"))
    return load_text((text[:start] + text[end:]).encode(), "schemas/dreamzero.yaml")


@functools.cache
def rollout() -> tuple[tuple[dict[str, int], dict[str, int]], ...]:
    """What each value held after each of 17 forwards, and what the manager counted by device."""
    manager = SessionStateManager()
    stream = WanStream(build_vae(base_dim=BASE_DIM))
    pipeline = DreamZeroPipeline(stream, local_attn_size=-1, num_frame_per_block=2)
    noise, tokens = np.random.default_rng(0), torch.arange(TOKENS)[None]
    found = []
    for step in range(17):
        frames = noise.integers(0, 256, (4 if step else 1, HEIGHT, WIDTH, 3), dtype=np.uint8)
        state = DreamZeroStateAdapter("robot", manager)
        pipeline.forward(state, frames, tokens)
        held = {}
        for value in state.SPEC:
            counted = device_bytes(getattr(state, value.name), SeenStorages())
            held[value.name] = sum(counted.values())
        found.append((held, manager.nbytes_by_device()))
    return tuple(found)


def planned(step: int) -> Need:
    """The need of a session of the small deployment, everything on the host."""
    small = small_deployment()
    return need_of(small.spec, small.file, asked(step=step, model_device="cpu"))


def test_dreamzero_when_it_really_runs_then_values_hold_what_the_plan_says() -> None:
    """Seventeen forwards with the real encoder: every value that is full holds its planned bytes.

    Not full are, in the plan's favour: the raw frames that wait for a chunk of four, and until the
    first chunk is complete, with step 5, what the encoder has put out and cached.
    """
    for step, (held, _) in enumerate(rollout(), 1):
        filling = {"vae_pending_body_frames"}
        if 1 < step < 5:
            filling |= {"vae_enc_feat_map", "vae_encoder_out"}
        for one in planned(step).values:
            assert one.nbytes is not None
            if one.name in filling:
                assert held[one.name] <= one.nbytes, (step, one.name)
            else:
                assert held[one.name] == one.nbytes, (step, one.name)


def test_dreamzero_when_nothing_is_filling_then_the_manager_counts_the_planned_bytes() -> None:
    """With three frames waiting, as after every fourth step, the sums are equal to the byte."""
    counted = {step: by_device for step, (_, by_device) in enumerate(rollout(), 1)}
    for step in (8, 12, 16):
        assert counted[step] == planned(step).in_use()
    for step in counted:
        assert counted[step]["cpu"] <= planned(step).in_use()["cpu"]


def test_dreamzero_when_the_rollout_goes_on_then_only_what_is_planned_to_grow_grows() -> None:
    """From a step to the fourth one after it, the manager counts four blocks more."""
    counted = [by_device["cpu"] for _, by_device in rollout()]
    block = 16 * 2 * (HEIGHT // 8) * (WIDTH // 8) * 2
    assert {later - now for now, later in zip(counted[4:], counted[8:], strict=False)} == {
        4 * block
    }
    grown = {step: sum(one.grown_nbytes for one in planned(step).values) for step in (1, 2, 17)}
    assert grown == {1: 0, 2: block, 17: 16 * block}


def test_cosmos3_when_both_branches_are_stored_then_the_manager_counts_the_planned_bytes() -> None:
    """Text K/V of all layers and the frequencies, each branch once, padding not among them."""
    numbers = {"LAYERS": 3, "TOKENS": 11, "MEDIA_TOKENS": 24}
    manager = SessionStateManager()
    adapter = Cosmos3StateAdapter("request", manager)
    padded = torch.zeros(1, 40, 8, 128, dtype=torch.bfloat16)
    freqs = torch.zeros(1, 24, 1, 128, dtype=torch.bfloat16)
    for negative in (False, True):
        adapter.set_branch_kv(
            negative, [(padded[:, :11].clone(), padded[:, :11].clone()) for _ in range(3)]
        )
        branch = adapter.freqs_gen("negative" if negative else "positive")
        branch.append((freqs.clone(), freqs.clone()))
    held = need_of(
        model("cosmos3").spec, "cosmos3.yaml", asked(numbers=numbers, model_device="cpu")
    )
    assert manager.nbytes_by_device() == held.in_use()


def test_sana_wm_when_a_stream_is_full_then_the_manager_counts_the_planned_bytes() -> None:
    """Every tensor of its shape, stored through the generated adapter: equal to the byte."""
    numbers = {"H": 64, "W": 96, "BLOCKS": 3, "GDN_LAYERS": 2, "SOFTMAX_LAYERS": 1}
    tokens, hidden = 2 * 3, 20 * 112
    manager = SessionStateManager()
    state = SanaWmState("stream", manager, window=10)
    state.language = torch.zeros(1, 300, dtype=torch.int64)
    chunk = torch.zeros(1, 128, 3, 2, 3, dtype=torch.bfloat16)
    state.warmup_latents_object.append(chunk[:, :, -1:])

    def tail(frames: int) -> torch.Tensor:
        return torch.zeros(1, frames, tokens, hidden, dtype=torch.bfloat16)

    def kv(frames: int) -> torch.Tensor:
        return torch.zeros(2, 1, frames, tokens, 20, 112, dtype=torch.bfloat16)

    def recurrence() -> dict[str, torch.Tensor]:
        return {
            "state_kv": torch.zeros(1, 20, 112, 112),
            "state_z": torch.zeros(1, 20, 112, 1),
        }

    # The first chunk has 4 frames and later ones 3, until the window of 10 is full.
    for step, chunks in ((1, (4,)), (2, (3, 3, 3))):
        for branch in ("positive", "negative"):
            state.gdn(branch).replace(recurrence() for _ in range(2))
            state.conv_k(branch).replace(tail(3) for _ in range(2))
            state.conv_k_cam(branch).replace(tail(3) for _ in range(2))
            state.conv_ffn_t(branch).replace(tail(1) for _ in range(3))
            for frames in chunks:
                state.softmax_kv("main", branch).object(0).append(kv(frames))
                state.softmax_kv("camera", branch).object(0).append(kv(frames))
            text = torch.zeros(1, 300, 20, 112, dtype=torch.bfloat16)
            state.text_kv(branch).replace((text.clone(), text.clone()) for _ in range(3))
        question = asked(step=step, numbers=numbers, model_device="cpu")
        held = need_of(model("sana_wm").spec, "sana_wm.yaml", question)
        assert manager.nbytes_by_device() == held.in_use()


def test_lingbot_when_a_tick_is_under_way_then_the_manager_counts_the_planned_bytes() -> None:
    """Committed and staged encoder caches, decoder tails, modulation: equal to the byte."""
    numbers = {"H": 32, "W": 48, "LAYERS": 2}
    manager = SessionStateManager()
    state = LingbotWorld2State("world", manager)
    area = 32 * 48
    state.generator_state = torch.zeros(5056, dtype=torch.uint8)
    state.camera_tail = (torch.zeros(1, 4, 4), torch.zeros(1, 4))
    state.condition_fixed_point = torch.zeros(1, 20, 3, 4, 6, dtype=torch.bfloat16)
    state.encoder_cache = [torch.zeros(1404 * area, dtype=torch.bfloat16), None]
    state.decoder_cache = [torch.zeros(4729 * area // 2, dtype=torch.bfloat16)]
    held = need_of(
        model("lingbot_world_2").spec, "x.yaml", asked(numbers=numbers, model_device="cpu")
    )
    between = sum(one.nbytes or 0 for one in held.values)
    assert manager.nbytes_by_device() == {"cpu": between}
    half = torch.zeros(3 * (area // 256) * 5120, dtype=torch.bfloat16)
    state.camera_modulation().replace((half.clone(), half.clone()) for _ in range(2))
    pending = [torch.zeros(1404 * area, dtype=torch.bfloat16)]
    state.encoder_cache_object.stage(pending)
    beside = sum(device_bytes(pending, SeenStorages()).values())
    assert manager.nbytes_by_device()["cpu"] + beside == held.in_use()["cpu"]
