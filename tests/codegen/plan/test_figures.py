"""Published figures, computed from the schemas: each of them, with its name and its rounding.

The section that a docstring names is that of the facts about the models which each figure is from.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest
import torch

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


def written(nbytes: int, figure: str) -> str:
    """Bytes in the unit and with the decimals of a figure that is published."""
    number, unit = figure.split()
    decimals = len(number.partition(".")[2])
    return f"{nbytes / {'MiB': MIB, 'GiB': GIB}[unit]:.{decimals}f} {unit}"


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
    modulation = declared_bytes(spec("lingbot_world_2"), spec("lingbot_world_2")[names[1]])
    assert modulation is not None
    assert f"{modulation.pending / MIB:.0f}" == "3656"
    assert f"{at_step('lingbot_world_2', names[:1], 5) / MIB:.2f}" == "0.71"
    (plan,) = answer([model("lingbot_world_2")], asked(step=5), None).models
    total = sum(one.in_use_nbytes for one in plan.need.values if one.name in names)
    assert f"{total / MIB:.0f}" == "7597"
    assert f"{total / GIB:.2f}" == "7.42"


def test_lingbot_when_it_runs_on_sequence_ranks_then_only_the_modulation_is_cut() -> None:
    """Four sequence ranks hold a quarter of the modulation each, and all of the rest."""
    model = spec("lingbot_world_2")
    alone, cut = (
        declared_bytes(model, model["camera_modulation"], ranks=Ranks({"sp": ranks}))
        for ranks in (1, 4)
    )
    assert alone is not None
    assert cut is not None
    assert cut.pending * 4 == alone.pending
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
    """72, 128 and 56 MiB a branch, from 144, 256 and 112 KiB a token, by variant (section 4)."""
    numbers = spec("cosmos3").variants[variant]
    assert numbers == {"LAYERS": layers}
    both = at_step("cosmos3", ["und_kv"], 1, TOKENS=512, **numbers)
    assert both == 2 * mib * MIB
    assert at_step("cosmos3", ["und_kv"], 1, TOKENS=1, **numbers) == 2 * token_kib * 2**10
    assert by_device(session_at_step(spec("cosmos3"), 1, numbers, ranks=Ranks({"tp": 4}))) == {
        "model": both // 4 + 2 * 2 * 7200 * 128 * 2
    }


def test_cosmos3_when_frequencies_are_planned_then_a_token_has_512_bytes_a_branch() -> None:
    """Cosine and sine of 128 numbers each, replicated over the ranks of a branch (section 4)."""
    assert at_step("cosmos3", ["freqs_gen"], 1, MEDIA_TOKENS=1) == 2 * 512
    for ranks in (Ranks(), Ranks({"tp": 4})):
        assert at_step("cosmos3", ["freqs_gen"], 1, ranks) == 2 * 512 * 7200


def test_cosmos3_multiview_when_a_request_runs_then_its_packed_tensors_take_2_5_gib() -> None:
    """About 2.5 GiB while a request runs and nothing between two (section 4)."""
    packed = declared_bytes(spec("cosmos3_multiview"), spec("cosmos3_multiview")["packed_qkv"])
    assert packed is not None
    assert f"{packed.pending / GIB:.1f}" == "2.5"
    assert (packed.first, packed.steady) == (0, 0)
    one_camera = at_step("cosmos3", ["und_kv"], 1)
    assert at_step("cosmos3_multiview", ["und_kv"], 1) == 7 * one_camera


@pytest.mark.parametrize(
    ("values", "numbers", "figure"),
    [
        (["kv"], {"SLOTS": 1}, "21.42 GiB"),
        (["kv"], {}, "85.7 GiB"),
        (["cross_kv"], {}, "400 MiB"),
        (["cross_kv"], {}, "0.39 GiB"),
        (["kv", "cross_kv"], {"SLOTS": 1}, "21.8 GiB"),
        (["last_decoded_latent"], {}, "0.76 MiB"),
    ],
)
def test_lingbot_fast_when_planned_then_it_has_the_published_bytes(
    values: list[str], numbers: dict[str, int], figure: str
) -> None:
    """One ring of 18 frames, four rings; text K/V and the latent (sections 1a and 2)."""
    assert written(at_step("lingbot_world_fast", values, 9, **numbers), figure) == figure


def test_lingbot_fast_when_a_ring_has_a_frame_more_then_it_adds_1218_75_mib() -> None:
    """Each latent frame costs the same in all layers of one denoise step (section 1a)."""
    wide, usual = (
        at_step("lingbot_world_fast", ["kv"], 9, window=window, SLOTS=1) for window in (19, 18)
    )
    assert f"{(wide - usual) / MIB:.2f}" == "1218.75"
    assert usual == 18 * (wide - usual)


def test_lingbot_fast_when_it_has_one_slot_then_the_variant_says_so() -> None:
    """The variants are the two ways in which the class is used (section 1a)."""
    variants = spec("lingbot_world_fast").variants
    four, one = (
        at_step("lingbot_world_fast", ["kv"], 9, **variants[name])
        for name in ("four_steps", "one_slot")
    )
    assert four == 4 * one == at_step("lingbot_world_fast", ["kv"], 9)
    on_four_ranks = at_step("lingbot_world_fast", ["kv", "cross_kv"], 9, Ranks({"tp": 4}))
    assert on_four_ranks * 4 == at_step("lingbot_world_fast", ["kv", "cross_kv"], 9)


def test_lingbot_when_the_condition_is_of_30_frames_then_it_is_that_of_the_old_layout() -> None:
    """7.14 MiB, which the layout before the encoder's cache kept of the first image (section 2)."""
    assert f"{at_step('lingbot_world_2', ['condition_fixed_point'], 2, CHUNK=30) / MIB:.2f}" == (
        "7.14"
    )


@pytest.mark.parametrize(
    ("values", "numbers", "figure"),
    [
        (["kv"], {}, "5.62 GiB"),
        (["kv"], {"BRANCHES": 2}, "11.25 GiB"),
        (["text_kv"], {}, "90 MiB"),
        (["text_kv"], {"BRANCHES": 2}, "180 MiB"),
        (["clean_latents"], {"BLOCK": 1}, "0.19 MiB"),
        (["vae_stream"], {}, "1801 MiB"),
    ],
)
def test_self_forcing_when_planned_then_it_has_the_published_bytes(
    values: list[str], numbers: dict[str, int], figure: str
) -> None:
    """21 frames of K/V, twice with guidance; text; a latent frame; the decoder (section 5)."""
    step = 1 if "BLOCK" in numbers else 7
    assert written(at_step("self_forcing", values, step, **numbers), figure) == figure


def test_self_forcing_when_guided_on_two_ranks_then_each_has_one_branch() -> None:
    """The guided variant has twice the layers, dealt out over the ranks of guidance (section 5)."""
    numbers = spec("self_forcing").variants["guided"]
    alone = at_step("self_forcing", ["kv", "text_kv"], 7)
    assert at_step("self_forcing", ["kv", "text_kv"], 7, **numbers) == 2 * alone
    assert at_step("self_forcing", ["kv", "text_kv"], 7, ONE_BRANCH, **numbers) == alone
    assert spec("self_forcing").variants["distilled"] == {"BRANCHES": 1}


@pytest.mark.parametrize(
    ("value", "of_15", "of_6"),
    [
        ("kv", "2320 MiB", "928 MiB"),
        ("mouse_kv", "1547 MiB", "619 MiB"),
        ("keyboard_kv", "1.8 MiB", "0.7 MiB"),
        ("image_kv", "45 MiB", "45 MiB"),
    ],
)
def test_matrix_game_2_when_planned_then_it_has_the_published_bytes(
    value: str, of_15: str, of_6: str
) -> None:
    """Three windows of 15 and of 6 frames, and the image's K/V, which have none (section 6)."""
    for window, figure in ((15, of_15), (6, of_6)):
        assert written(at_step("matrix_game_2", [value], 9, window=window), figure) == figure


def test_matrix_game_3_when_clips_are_added_then_they_have_the_published_bytes() -> None:
    """4.8 MiB of latents with the first clip's 15 frames, 3.2 with each later one's 10; the newest
    four on the device (section 7)."""
    one = 48 * 44 * 80 * 2 + 4 * 4 * 4  # a latent frame, and the pose that it is found by
    first = at_step("matrix_game_3", ["latents"], 1)
    assert first == 15 * one
    assert f"{first / MIB:.1f}" == "4.8"
    assert at_step("matrix_game_3", ["latents"], 2) == 25 * one
    grown = at_step("matrix_game_3", ["latents"], 3) - at_step("matrix_game_3", ["latents"], 2)
    assert grown == 10 * one
    assert f"{grown / MIB:.1f}" == "3.2"
    assert f"{at_step('matrix_game_3', ['img_cond'], 1) / MIB:.1f}" == "1.3"


def test_matrix_game_3_when_it_runs_on_two_ranks_then_only_rank_0_has_the_decoders_tails() -> None:
    """Where each rank keeps the rest, rank 0 alone has 3 GiB more (section 7)."""
    first, second = (Ranks({"sp": 2}, rank) for rank in (0, 1))
    tails = at_step("matrix_game_3", ["vae_cache"], 2, first)
    assert f"{tails / GIB:.2f}" == "3.00"
    assert at_step("matrix_game_3", ["vae_cache"], 2, second) == 0
    for value in ("latents", "img_cond"):
        held = [at_step("matrix_game_3", [value], 2, ranks) for ranks in (first, second)]
        assert held[0] == held[1] > 0


@pytest.mark.parametrize(
    ("name", "value", "figure"),
    [
        ("hunyuan_gamecraft", "last_latents", "3.7 MiB"),
        ("hunyuan_gamecraft", "ref_latents", "0.4 MiB"),
        ("oasis", "latents", "1.1 MiB"),
        ("vjepa2_ac", "context", "1.4 MiB"),
        ("vjepa2_ac", "goal", "1.4 MiB"),
    ],
)
def test_small_model_when_planned_then_it_has_the_published_bytes(
    name: str, value: str, figure: str
) -> None:
    """What the models without K/V keep (sections 9, 10 and 11)."""
    assert written(at_step(name, [value], 50), figure) == figure


def test_oasis_when_a_frame_is_planned_then_it_has_36_kib() -> None:
    """One latent frame, of which the ring keeps 32 (section 10)."""
    assert at_step("oasis", ["latents"], 1) == 36 * 2**10
    assert at_step("oasis", ["latents"], 2) == 32 * 36 * 2**10


def test_vjepa2_ac_when_it_plans_then_the_trajectory_takes_1_6_gib() -> None:
    """400 samples of three frames while a request runs, and nothing between two (section 11)."""
    figures = declared_bytes(spec("vjepa2_ac"), spec("vjepa2_ac")["trajectory"])
    assert figures is not None
    assert f"{figures.pending / GIB:.1f}" == "1.6"
    assert (figures.first, figures.steady) == (0, 0)


WAN_2_2 = {
    "base_dim": 160,
    "decoder_base_dim": 256,
    "z_dim": 48,
    "is_residual": True,
    "in_channels": 12,
    "out_channels": 12,
    "patch_size": 2,
    "scale_factor_spatial": 16,
    "latents_mean": [0.0] * 48,
    "latents_std": [1.0] * 48,
}


@pytest.mark.parametrize(
    ("name", "value", "configuration"),
    [
        ("lingbot_world_2", "decoder_cache", {}),
        ("self_forcing", "vae_stream", {}),
        ("matrix_game_2", "vae_stream", {}),
        ("matrix_game_3", "vae_cache", WAN_2_2),
    ],
)
def test_decoder_when_the_real_one_is_asked_then_its_tails_are_those_of_the_expression(
    name: str, value: str, configuration: dict[str, object]
) -> None:
    """The Wan decoders that a package ships, run without memory over three latent frames of the
    schema's resolution: 32 tails, and as many elements in them."""
    diffusers = pytest.importorskip("diffusers")
    numbers = spec(name).symbols
    stride = 16 if configuration else 8
    with torch.device("meta"), torch.no_grad():
        vae = diffusers.AutoencoderKLWan(**configuration)
        high, wide = numbers["H"] // stride, numbers["W"] // stride
        latents = vae.post_quant_conv(torch.zeros(1, vae.config.z_dim, 3, high, wide))
        vae.clear_cache()
        for index in range(3):
            vae._conv_idx = [0]
            first = {"first_chunk": index == 0} if configuration else {}
            vae.decoder(
                latents[:, :, index : index + 1],
                feat_cache=vae._feat_map,
                feat_idx=vae._conv_idx,
                **first,
            )
    tails = [tail for tail in vae._feat_map if isinstance(tail, torch.Tensor)]
    assert len(tails) == 32
    assert at_step(name, [value], 2) == 2 * sum(tail.numel() for tail in tails)
