"""Audit: nothing where class and schema agree, and each of many drifts where one of them moves."""

from __future__ import annotations

import attrs
import pytest

from statekit_codegen.audit.comparison import audit
from statekit_codegen.audit.difference import AUDIT_RULES, Report
from statekit_codegen.load import load_text
from tests.codegen.scaffold.sources import ROOT, read

DREAMZERO = (ROOT / "tests" / "equivalence" / "hand_rolled_dreamzero.py").read_text("utf-8")
DREAMZERO_SCHEMA = (ROOT / "schemas" / "dreamzero.yaml").read_text("utf-8")
COSMOS3 = (ROOT / "tests" / "equivalence" / "hand_rolled_cosmos3.py").read_text("utf-8")
COSMOS3_SCHEMA = (ROOT / "schemas" / "cosmos3.yaml").read_text("utf-8")
COSMOS3_NAMES = {"cached_kv": "und_kv", "cached_freqs_gen": "freqs_gen"}


def dreamzero(source: str = DREAMZERO, schema: str = DREAMZERO_SCHEMA) -> Report:
    """An audit of DreamZero's class, or of a changed one, against its schema, or a changed one."""
    model = load_text(schema.encode(), "schemas/dreamzero.yaml")
    return audit(read(source, "HandRolledDreamZeroState", "hand.py"), model)


def cosmos3(source: str = COSMOS3, schema: str = COSMOS3_SCHEMA) -> Report:
    """The same for Cosmos3, whose values have other names."""
    model = load_text(schema.encode(), "schemas/cosmos3.yaml")
    state = read(source, "HandRolledCosmos3State", "hand.py")
    return audit(state, model, renamed=COSMOS3_NAMES)


def replaced(text: str, before: str, after: str) -> str:
    """`text` with its only occurrence of `before` replaced."""
    assert text.count(before) == 1, (before, text.count(before))
    return text.replace(before, after)


def test_audit_when_dreamzero_is_compared_then_nothing_differs() -> None:
    """The hand-rolled DreamZero class and its schema agree, without a word of excuse."""
    report = dreamzero()
    assert report.differences == ()
    assert (report.values, report.resets) == (12, 4)
    assert [note.name for note in report.notes] == ["vae_encoder_out"]


def test_audit_when_cosmos3_is_compared_then_only_two_names_have_to_be_said() -> None:
    """The hand-rolled Cosmos3 class agrees with its schema once its two attributes are named."""
    report = cosmos3()
    assert report.differences == ()
    assert (report.values, report.resets) == (2, 1)


@attrs.frozen
class Drift:
    """A change to one of the two, and what the audit has to say."""

    rule: str
    name: str
    before: str
    after: str


IN_THE_CLASS = {
    "new attribute": Drift(
        "ATTRIBUTE_MISSING", "noise", "        self.call_count = 0\n",
        "        self.call_count = 0\n        self.noise = None\n",
    ),
    "attribute by setattr": Drift(
        "ATTRIBUTE_MISSING", "noise", "        self.call_count = 0\n",
        "        self.call_count = 0\n        setattr(self, 'noise', None)\n",
    ),
    "attribute of a helper": Drift(
        "ATTRIBUTE_MISSING", "noise", "        self.call_count += 1\n",
        "        self.call_count += 1\n        remember(self)\n",
    ),
    "attribute of the pipeline": Drift(
        "ATTRIBUTE_MISSING", "last", "    if state.vae_encoder_out is None:\n",
        "    state.last = chunk\n    if state.vae_encoder_out is None:\n",
    ),
    "attribute gone": Drift(
        "VALUE_INVENTED", "ys", "        self.ys: torch.Tensor | None = None\n", ""
    ),
    "other start": Drift(
        "DEFAULT_DIFFERS", "call_count", "self.call_count = 0\n", "self.call_count = 1\n"
    ),
    "none instead of zero": Drift(
        "TYPE_DIFFERS", "current_start_frame", "self.current_start_frame = 0\n",
        "self.current_start_frame: int | None = 0\n",
    ),
    "other type": Drift(
        "TYPE_DIFFERS", "ys", "self.ys: torch.Tensor | None", "self.ys: np.ndarray | None"
    ),
    "other item": Drift(
        "TYPE_DIFFERS", "stitched_buffer", "self.stitched_buffer: list[np.ndarray]",
        "self.stitched_buffer: list[torch.Tensor]",
    ),
    "text instead of tokens": Drift(
        "TYPE_DIFFERS", "language", "self.language: torch.Tensor | None", "self.language: str|None"
    ),
    "flag as a number": Drift(
        "TYPE_DIFFERS", "vae_stream_initialized", "self.vae_stream_initialized = False",
        "self.vae_stream_initialized: float = False",
    ),
    "longer ring": Drift(
        "CONSTANT_DIFFERS", "FRAMES_PER_CHUNK", "FRAMES_PER_CHUNK = 4", "FRAMES_PER_CHUNK = 8"
    ),
    "other ring": Drift(
        "RING_DIFFERS", "stitched_buffer", "del self.stitched_buffer[: -self.FRAMES_PER_CHUNK]",
        "del self.stitched_buffer[:-6]",
    ),
    "new bound": Drift(
        "RING_DIFFERS", "video_latents_across_time",
        "        self.video_latents_across_time.append(video_out.transpose(1, 2).detach().cpu())\n",
        "        self.video_latents_across_time.append(video_out.transpose(1, 2).detach().cpu())\n"
        "        del self.video_latents_across_time[:-100]\n",
    ),
    "other axis": Drift(
        "RING_DIFFERS", "vae_encoder_out", "torch.cat([state.vae_encoder_out, chunk], dim=2)",
        "torch.cat([state.vae_encoder_out, chunk], dim=1)",
    ),
    "other cut": Drift(
        "RING_DIFFERS", "vae_encoder_out", "torch.cat([state.vae_encoder_out, chunk], dim=2)",
        "torch.cat([state.vae_encoder_out, chunk], dim=2)[:, :, -3:]",
    ),
    "other device": Drift(
        "DEVICE_DIFFERS", "video_latents_across_time", ".detach().cpu())", ".detach().cuda())"
    ),
    "other dtype": Drift(
        "DTYPE_DIFFERS", "video_latents_across_time", ".detach().cpu())",
        ".detach().to('cpu', torch.float16))",
    ),
    "written in place": Drift(
        "UPDATE_DIFFERS", "ys", "        self.call_count += 1\n",
        "        self.call_count += 1\n        self.ys[:, :1] = 0\n",
    ),
    "written through a view": Drift(
        "UPDATE_DIFFERS", "clip_feas", "        self.call_count += 1\n",
        "        self.call_count += 1\n        one = self.clip_feas[:, 0]\n        one.zero_()\n",
    ),
    "tensors of a list written": Drift(
        "UPDATE_DIFFERS", "vae_enc_feat_map", "        self.call_count += 1\n",
        "        self.call_count += 1\n"
        "        for part in self.vae_enc_feat_map:\n            part.mul_(2)\n",
    ),
    "entries of a buffer replaced": Drift(
        "UPDATE_DIFFERS", "video_latents_across_time", "        self.call_count += 1\n",
        "        self.call_count += 1\n        self.video_latents_across_time[0] = None\n",
    ),
    "reset clears more": Drift(
        "RESET_DIFFERS", "reset(clear_video_latents=False)",
        "        self.reset_inference_state()\n        if clear_video_latents:\n",
        "        self.reset_inference_state()\n        self.language = None\n"
        "        if clear_video_latents:\n",
    ),
    "reset clears less": Drift(
        "RESET_DIFFERS", "reset(clear_video_latents=True)",
        "            self.prompt_embeds = None\n", "",
    ),
    "reset of a stream keeps one": Drift(
        "RESET_DIFFERS", "reset_vae_encoder_stream()",
        "    def reset_vae_encoder_stream(self) -> None:\n"
        "        self.vae_stream_initialized = False\n",
        "    vae_stream_initialized = False\n\n"
        "    def reset_vae_encoder_stream(self) -> None:\n",
    ),
    "reset to something else": Drift(
        "DEFAULT_DIFFERS", "language", "            self.language = None\n",
        "            self.language = ''\n",
    ),
    "new reset": Drift(
        "RESET_MISSING", "clear_conditioning()", "    def clear_video_latents(self) -> None:\n",
        "    def clear_conditioning(self) -> None:\n        self.prompt_embeds = None\n\n"
        "    def clear_video_latents(self) -> None:\n",
    ),
    "reset gone": Drift(
        "RESET_INVENTED", "video_latents",
        "    def clear_video_latents(self) -> None:\n        self.video_latents_across_time = []\n",
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("drift", IN_THE_CLASS.values(), ids=IN_THE_CLASS)
def test_audit_when_the_class_drifts_then_it_is_told(drift: Drift) -> None:
    """One change of the class is one difference, by its rule, at its line."""
    source = replaced(DREAMZERO, drift.before, drift.after)
    source += "\n\ndef remember(state):\n    state.noise = 1\n"
    report = dreamzero(source)
    told = {(one.rule, one.name) for one in report.differences}
    assert (drift.rule, drift.name) in told
    # A changed number is a changed constant and a changed bound; a changed reset may be two.
    assert len({one.name for one in report.differences}) <= 2, report.differences
    for one in report.differences:
        assert one.schema.file == "schemas/dreamzero.yaml"
        assert one.place.line > 1


IN_THE_SCHEMA = {
    "value gone": Drift(
        "ATTRIBUTE_MISSING", "ys", "  ys:\n    bucket: attrs\n", "  yz:\n    bucket: attrs\n"
    ),
    "value invented": Drift(
        "VALUE_INVENTED", "yz", "  ys:\n    bucket: attrs\n", "  yz:\n    bucket: attrs\n"
    ),
    "default": Drift(
        "DEFAULT_DIFFERS", "call_count",
        "window reset.\n    type: int\n    default: 0",
        "window reset.\n    type: int\n    default: 1",
    ),
    "default none": Drift(
        "DEFAULT_DIFFERS", "call_count",
        "window reset.\n    type: int\n    default: 0\n    coerce: int",
        "window reset.\n    type: int | None\n    default: null",
    ),
    "flag": Drift(
        "DEFAULT_DIFFERS", "vae_stream_initialized", "    default: false", "    default: true"
    ),
    "type": Drift(
        "TYPE_DIFFERS", "call_count",
        "window reset.\n    type: int\n    default: 0\n    coerce: int",
        "window reset.\n    type: str\n    default: \"\"\n    coerce: str",
    ),
    "item": Drift(
        "TYPE_DIFFERS", "stitched_buffer", "item: np.ndarray", "item: torch.Tensor"
    ),
    "list": Drift(
        "TYPE_DIFFERS", "vae_enc_feat_map", "type: list[torch.Tensor | None]", "type: torch.Tensor"
    ),
    "none in a list": Drift(
        "TYPE_DIFFERS", "vae_enc_feat_map", "type: list[torch.Tensor | None]",
        "type: list[torch.Tensor]",
    ),
    "view": Drift("TYPE_DIFFERS", "vae_encoder_out", "    view: {concat: 2}\n", ""),
    "view axis": Drift("RING_DIFFERS", "vae_encoder_out", "view: {concat: 2}", "view: {concat: 1}"),
    "bound": Drift(
        "RING_DIFFERS", "stitched_buffer", "{bound: FRAMES_PER_CHUNK}", "{bound: 5}"
    ),
    "no bound": Drift(
        "RING_DIFFERS", "stitched_buffer", "{bound: FRAMES_PER_CHUNK}",
        "{unbounded: for ever, growth: {items: 1, every_steps: 1}}",
    ),
    "constant": Drift(
        "CONSTANT_DIFFERS", "FRAMES_PER_CHUNK", "FRAMES_PER_CHUNK: 4", "FRAMES_PER_CHUNK: 5"
    ),
    "device": Drift(
        "DEVICE_DIFFERS", "video_latents_across_time", "    device: cpu\n    ring:\n",
        "    device: model\n    ring:\n",
    ),
    "bucket": Drift(
        "UPDATE_DIFFERS", "stitched_buffer",
        "    bucket: StateObject\n    doc: The newest stitched camera frames, each (H, W, 3).\n"
        "    object: LatentBuffer\n    key: frames\n    item: np.ndarray\n",
        "    bucket: attrs\n    default: []\n    type: list[np.ndarray]\n",
    ),
    "window keeps more": Drift(
        "RESET_DIFFERS", "reset(clear_video_latents=False)", "      - prompt_embeds\n",
        "      - prompt_embeds\n      - clip_feas\n",
    ),
    "window keeps less": Drift(
        "RESET_DIFFERS", "reset(clear_video_latents=False)", "      - prompt_embeds\n", ""
    ),
    "stream clears less": Drift(
        "RESET_DIFFERS", "reset_vae_encoder_stream()",
        "clears: [vae_stream_initialized, vae_enc_feat_map,", "clears: [vae_enc_feat_map,",
    ),
    "session clears less": Drift(
        "RESET_DIFFERS", "reset(clear_video_latents=True)", "    clears: all", "    keeps: [ys]"
    ),
    "reset invented": Drift(
        "RESET_INVENTED", "prompt", "  video_latents:\n    doc: The rollout",
        "  prompt:\n    clears: [language, ys]\n  video_latents:\n    doc: The rollout",
    ),
    "reset gone": Drift(
        "RESET_MISSING", "clear_video_latents()",
        "  video_latents:\n    doc: The rollout has been decoded.\n"
        "    clears: [video_latents_across_time]\n", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("drift", IN_THE_SCHEMA.values(), ids=IN_THE_SCHEMA)
def test_audit_when_the_schema_drifts_then_it_is_told(drift: Drift) -> None:
    """One change of the schema is one difference, by its rule, with both places."""
    schema = replaced(DREAMZERO_SCHEMA, drift.before, drift.after)
    if drift.rule == "UPDATE_DIFFERS":
        schema = schema.replace(
            "    ring: {bound: FRAMES_PER_CHUNK}\n    on_commit: [compact]", "   "
        )
        schema = schema.replace("   # a clip arrives whole; a frame of it would pin the others", "")
        schema = schema.replace("      operations: [accumulate]\n      why: Frames acc",
                                "      operations: []\n      why: Frames acc")  # fmt: skip
    report = dreamzero(schema=schema)
    told = {(one.rule, one.name) for one in report.differences}
    assert (drift.rule, drift.name) in told
    assert len({one.name for one in report.differences}) <= 2, report.differences


def test_audit_when_a_member_of_a_family_has_another_type_then_it_is_told() -> None:
    """Families are compared by what one member holds."""
    schema = replaced(
        COSMOS3_SCHEMA,
        "    family: [branch, layer]\n    type: tuple[torch.Tensor, torch.Tensor]",
        "    family: [branch, layer]\n    type: torch.Tensor",
    )
    (one,) = cosmos3(schema=schema).differences
    assert (one.rule, one.name) == ("TYPE_DIFFERS", "cached_kv")


def test_audit_when_a_family_is_written_into_then_it_is_told() -> None:
    """Storing a member is no change of a tensor; writing into one is."""
    source = replaced(
        COSMOS3,
        "        self.cached_kv[bool(is_negative)] = layers\n",
        "        self.cached_kv[bool(is_negative)] = layers\n"
        "        for key, value in self.cached_kv[True]:\n            key.mul_(2)\n",
    )
    (one,) = cosmos3(source).differences
    assert (one.rule, one.name) == ("UPDATE_DIFFERS", "cached_kv")


def test_audit_when_an_attribute_is_added_then_both_places_are_named() -> None:
    """A difference names the line of the class, and the line of the schema to look at."""
    source = replaced(DREAMZERO, "        self.call_count = 0\n", "        self.call_count = 3\n")
    (one,) = dreamzero(source).differences
    assert str(one) == (
        "hand.py:38:9: DEFAULT_DIFFERS at call_count: starts as 3 in the class, as 0 in the "
        f"schema; mend the one that is wrong (schemas/dreamzero.yaml:{one.schema.line}:5)"
    )
    assert DREAMZERO_SCHEMA.splitlines()[one.schema.line - 1] == "    default: 0"


def test_drifts_when_counted_then_every_rule_has_one() -> None:
    """No rule of the audit is without a drift that it finds."""
    told = {drift.rule for drift in (*IN_THE_CLASS.values(), *IN_THE_SCHEMA.values())}
    assert told | {"SHAPE_DIFFERS", "PARAMETER_DIFFERS"} == set(AUDIT_RULES)
    assert len(IN_THE_CLASS) + len(IN_THE_SCHEMA) >= 30
