"""Published figures, computed from the schemas: each of them, with its name and its rounding."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from statekit.declared import Ranks, by_device, declared_bytes, session_at_step
from statekit_codegen.plan.answer import answer
from tests.codegen.plan.schemas import GIB, MIB, asked, model, spec

ONE_BRANCH = Ranks({"cfg": 2})
"""One rank of two that have a branch of guidance each."""


def at_step(
    name: str, values: Collection[str], step: int, ranks: Ranks | None = None, **numbers: int
) -> int:
    """Bytes of some values of a session after `step` steps."""
    held = session_at_step(spec(name), step, numbers, ranks=ranks or Ranks())
    found = {one.value.name: one.nbytes for one in held}
    return sum(found[value] or 0 for value in values)


@pytest.mark.parametrize(
    ("value", "step", "mib"),
    [
        ("vae_enc_feat_map", 1, "305.508"),
        ("vae_enc_feat_map", 2, "603.281"),
        ("vae_enc_feat_map", 400, "603.281"),
        ("vae_encoder_out", 1, "0.215"),
        ("vae_encoder_out", 400, "0.430"),
        ("vae_pending_body_frames", 2, "3.867"),
    ],
)
def test_dreamzero_when_planned_then_its_values_have_the_measured_bytes(
    value: str, step: int, mib: str
) -> None:
    """The feature map after the seed and later, one and two latent frames, pending frames."""
    assert f"{at_step('dreamzero', [value], step) / MIB:.3f}" == mib


def test_dreamzero_when_there_are_64_sessions_then_their_feature_maps_take_37_7_gib() -> None:
    """The figure that is published for a full table."""
    (plan,) = answer([model("dreamzero")], asked(step=2, sessions=64), None).models
    (value,) = (one for one in plan.need.values if one.name == "vae_enc_feat_map")
    assert value.nbytes == 632_586_240
    assert f"{value.nbytes * 64 / GIB:.1f}" == "37.7"


def test_dreamzero_when_encoder_output_had_no_bound_then_400_steps_would_leave_21_7_mib() -> None:
    """One latent frame for the seed and one for each four of the frames that follow."""
    one = at_step("dreamzero", ["vae_encoder_out"], 2, vae_encoder_window=1)
    frames = 1 + 400 // 4
    assert f"{frames * one / MIB:.1f}" == "21.7"


@pytest.mark.parametrize(
    ("values", "mib"),
    [
        (["gdn"], "14.48"),
        (["conv_k"], "169.19"),
        (["conv_k_cam"], "169.19"),
        (["conv_ffn_t"], "75.20"),
        (["conv_k", "conv_k_cam", "conv_ffn_t"], "413.57"),
        (["softmax_kv"], "751.95"),
        (["gdn", "conv_k", "conv_k_cam", "conv_ffn_t", "softmax_kv"], "1180.01"),
    ],
)
def test_sana_wm_when_one_branch_is_planned_then_it_has_the_published_bytes(
    values: list[str], mib: str
) -> None:
    """Recurrent state, convolution tails, bounded K/V and their sum, for one branch of guidance."""
    assert f"{at_step('sana_wm', values, 100, ONE_BRANCH) / MIB:.2f}" == mib
    assert at_step("sana_wm", values, 100) == 2 * at_step("sana_wm", values, 100, ONE_BRANCH)


def test_sana_wm_when_a_chunk_of_three_frames_stays_then_it_adds_225_59_mib() -> None:
    """Each latent frame more in the window costs the same, so a window of 13 is a chunk more."""
    wide, usual = (
        at_step("sana_wm", ["softmax_kv"], 100, ONE_BRANCH, window=window) for window in (13, 10)
    )
    assert f"{(wide - usual) / MIB:.2f}" == "225.59"
    first = at_step("sana_wm", ["softmax_kv"], 1, ONE_BRANCH)
    assert first * 10 == usual * 4


def test_lingbot_when_its_decoder_is_planned_then_it_has_the_published_bytes() -> None:
    """Tails of 944,286,720 elements: 1801.08 MiB, flat over the steps."""
    assert at_step("lingbot_world_2", ["decoder_cache"], 1) == 944_286_720 * 2
    for step in (1, 2, 344):
        assert f"{at_step('lingbot_world_2', ['decoder_cache'], step) / MIB:.2f}" == "1801.08"


def test_lingbot_when_the_decoders_tails_are_listed_then_they_are_those_of_the_expression() -> None:
    """The published list of shapes has as many elements as the schema's one expression."""
    shapes = [
        (1, 16, 60, 104),
        (11, 384, 60, 104),
        (1, 192, 120, 208),
        (6, 384, 120, 208),
        (6, 192, 240, 416),
        (7, 96, 480, 832),
    ]
    listed = sum(count * channels * 2 * high * wide for count, channels, high, wide in shapes)
    assert sum(count for count, *_ in shapes) == 32
    assert at_step("lingbot_world_2", ["decoder_cache"], 1) == listed * 2


def test_lingbot_when_its_encoder_is_planned_then_it_has_the_published_bytes() -> None:
    """1069.5 MiB committed, and as many beside them while a tick runs."""
    assert f"{at_step('lingbot_world_2', ['encoder_cache'], 9) / MIB:.1f}" == "1069.5"
    figures = declared_bytes(spec("lingbot_world_2"), spec("lingbot_world_2")["encoder_cache"])
    assert figures is not None
    assert figures.pending == figures.steady


def test_lingbot_when_all_is_added_up_then_it_is_what_its_makers_declare() -> None:
    """Condition, camera modulation, encoder twice, decoder: 7597 MiB, which is 7.42 GiB."""
    names = ["condition_fixed_point", "camera_modulation", "encoder_cache", "decoder_cache"]
    assert f"{at_step('lingbot_world_2', names[1:2], 5) / MIB:.0f}" == "3656"
    assert f"{at_step('lingbot_world_2', names[:1], 5) / MIB:.2f}" == "0.71"
    (plan,) = answer([model("lingbot_world_2")], asked(step=5), None).models
    total = sum(one.in_use_nbytes for one in plan.need.values if one.name in names)
    assert f"{total / MIB:.0f}" == "7597"
    assert f"{total / GIB:.2f}" == "7.42"


def test_lingbot_when_it_runs_on_sequence_ranks_then_only_the_modulation_is_cut() -> None:
    """Four sequence ranks hold a quarter of the modulation each, and all of the rest."""
    alone = at_step("lingbot_world_2", ["camera_modulation"], 2)
    assert at_step("lingbot_world_2", ["camera_modulation"], 2, Ranks({"sp": 4})) * 4 == alone
    for value in ("encoder_cache", "decoder_cache", "condition_fixed_point"):
        whole = at_step("lingbot_world_2", [value], 2)
        assert at_step("lingbot_world_2", [value], 2, Ranks({"sp": 4})) == whole


@pytest.mark.parametrize(
    ("variant", "layers", "mib", "token_kib"),
    [("nano", 36, 72, 144), ("super", 64, 128, 256), ("edge", 28, 56, 112)],
)
def test_cosmos3_when_a_branch_has_512_tokens_then_it_has_the_published_bytes(
    variant: str, layers: int, mib: int, token_kib: int
) -> None:
    """72, 128 and 56 MiB a branch, from 144, 256 and 112 KiB a token."""
    both = at_step("cosmos3", ["und_kv"], 1, TOKENS=512, LAYERS=layers)
    assert both == 2 * mib * MIB
    assert at_step("cosmos3", ["und_kv"], 1, TOKENS=1, LAYERS=layers) == 2 * token_kib * 2**10
    assert by_device(
        session_at_step(spec("cosmos3"), 1, {"LAYERS": layers}, ranks=Ranks({"tp": 4}))
    ) == {"model": both // 4 + 2 * 2 * 7200 * 128 * 2}
