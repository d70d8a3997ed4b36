"""Findings: one run for each rule that breaks it alone, and one that is clean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import torch

from statekit import measure
from statekit.manager import SessionStateManager
from statekit.measure.finding import RULES, Finding
from statekit.measure.findings import findings
from statekit.objects.latent_buffer import LatentBuffer
from statekit_codegen.load import load_text
from tests.measure.toy import SCHEMA, H, Toy, W, good_step, line_of, measured, rules

FRAME = H * W * 4
KEPT: list[torch.Tensor] = []


def but(change: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
    """A forward in which all is as declared, but for this."""

    def forward(state: Any, step: int) -> None:
        good_step(state, step)
        change(state, step)

    return forward


def more_bytes(state: Any, step: int) -> None:
    state.cache = [torch.zeros(H, W), torch.zeros(H, W), torch.zeros(1)]


def fewer_bytes(state: Any, step: int) -> None:
    state.cache = [torch.zeros(8)]


def another_dtype(state: Any, step: int) -> None:
    state.latent = torch.zeros(1, 4, H // 8, W // 8, dtype=torch.float16)


def another_literal(state: Any, step: int) -> None:
    state.latent = torch.zeros(1, 3, H // 8, W // 8)


def another_rank(state: Any, step: int) -> None:
    state.latent = torch.zeros(4, H // 8, W // 8)


def too_many_frames(state: Any, step: int) -> None:
    state.pending = torch.zeros(4, H, W)


def growing(state: Any, step: int) -> None:
    KEPT.append(torch.zeros(16))
    state.cache = list(KEPT)


def faster(state: Any, step: int) -> None:
    state.history_object.append(torch.zeros(H // 8, W // 8))


def larger_items(state: Any, step: int) -> None:
    state.history_object.append(torch.zeros(H // 4, W // 8))


def pinning(state: Any, step: int) -> None:
    state.latent = torch.zeros(8, 4, H // 8, W // 8)[:1]


def pinning_in_numpy(state: Any, step: int) -> None:
    state.latent = np.zeros((8, 4, H // 8, W // 8), np.float32)[:1]


def undeclared(state: Any, step: int) -> None:
    state.session.attrs["scratch"] = torch.zeros(4)


def undeclared_object(state: Any, step: int) -> None:
    state.session.put(f"latents/{step}", LatentBuffer[Any]().allocate())
    state.session.get(f"latents/{step}").append(torch.zeros(4))


def longer_ring(state: Any, step: int) -> None:
    if not step:
        state.session.put("ring", LatentBuffer[Any]().allocate(maxlen=6))
    state.ring_object.append(torch.zeros(H, W))


def unwritten(state: Any, step: int) -> None:
    state.pending = None


def on_no_memory(state: Any, step: int) -> None:
    state.count = torch.zeros(3)


CASES = [
    (more_bytes, "MEASURED_BELOW", "cache", "it held 4,100 B, declared 4,096 B"),
    (fewer_bytes, "MEASURED_ABOVE", "cache", "it held 32 B at most, declared 4,096 B"),
    (another_dtype, "MEASURED_DTYPE", "latent", "it was float16, declared float32"),
    (another_literal, "MEASURED_SHAPE", "latent", "extent 1 was 3, not 4"),
    (another_rank, "MEASURED_SHAPE", "latent", "its shape was (4, 2, 4), declared [1, 4, H / 8"),
    (too_many_frames, "MEASURED_BELOW", "pending", "extent 0 was 4, not at most 3"),
    (growing, "MEASURED_GROWTH", "cache", "it grew by 64 B a step to"),
    (faster, "MEASURED_GROWTH", "history", "it grew by 64 B a step, declared 32 B"),
    (larger_items, "MEASURED_BELOW", "history", "an item of it held 64 B, declared 32 B"),
    (pinning, "MEASURED_PINNED", "latent", "it shows 128 B and holds 1,024 B"),
    (pinning_in_numpy, "MEASURED_PINNED", "latent", "it shows 128 B and holds 1,024 B"),
    (undeclared, "MEASURED_UNDECLARED", "scratch", "a value of attrs, 16 B at most"),
    (undeclared_object, "MEASURED_UNDECLARED", "latents/*", "a value of StateObject"),
    (longer_ring, "MEASURED_BOUND", "ring", "it held 6 items, declared at most FRAMES = 4"),
    (unwritten, "MEASURED_UNWRITTEN", "pending", "it held nothing after any of 12 steps"),
    (on_no_memory, "MEASURED_DEVICE", "count", "it held 12 B on cpu, declared `device: none`"),
]
"""What a forward does beside its proper work, and the finding that it makes."""


def test_run_when_all_is_as_declared_then_nothing_is_found() -> None:
    """Other sizes than the schema's are no finding: they are solved for."""
    assert measured().findings() == []


@pytest.mark.parametrize(
    ("change", "rule", "value", "words"), CASES, ids=[case[0].__name__ for case in CASES]
)
def test_run_when_one_thing_is_wrong_then_it_alone_is_found(
    change: Callable[[Any, int], None], rule: str, value: str, words: str
) -> None:
    """Each finding has the schema's line, both figures in words, and what to do."""
    KEPT.clear()
    found = measured(but(change)).findings()
    assert rules(found) == {(rule, value)}
    finding = next(one for one in found if one.rule == rule)
    assert words in finding.found
    assert finding.todo
    assert finding.kind == RULES[rule][0]
    if rule == "MEASURED_UNDECLARED":
        assert finding.place == "schemas/toy.yaml"
    else:
        assert finding.place == f"schemas/toy.yaml:{line_of(f'{value}:')}"
    assert str(finding).startswith(f"{finding.place}: {rule} at {value}: ")


def test_rules_when_listed_then_each_has_a_case() -> None:
    """No rule goes untested."""
    assert {rule for _, rule, _, _ in CASES} == set(RULES)


def test_figures_when_bytes_are_compared_then_both_are_given() -> None:
    """A program gets the figures as whole bytes."""
    (finding,) = measured(but(too_many_frames)).findings()
    assert (finding.measured_nbytes, finding.declared_nbytes) == (4 * FRAME, 3 * FRAME)
    assert (finding.session, finding.sessions) == ("robot", 1)


def test_schema_when_another_is_given_then_it_is_compared_with() -> None:
    """A run can be held against a schema that was edited since, without another run."""
    record = measured()
    edited = SCHEMA.replace("[FRAMES - 1, H, W]", "[FRAMES - 2, H, W]")
    edited = edited.replace("  count:", "  spare:", 1)
    spec = load_text(edited.encode(), "edited.yaml").spec
    found = record.findings([spec])
    assert rules(found) == {
        ("MEASURED_BELOW", "pending"),
        ("MEASURED_UNWRITTEN", "spare"),
        ("MEASURED_UNDECLARED", "count"),
    }
    below = next(one for one in found if one.rule == "MEASURED_BELOW")
    assert below.todo == "write extent 0 as 3, where `FRAMES - 2` stands"
    assert below.file == "edited.yaml"


def test_numbers_when_given_then_they_stand_before_what_shapes_say() -> None:
    """With H=8 said, frames of 16 rows are too large."""
    found = measured().findings(numbers={"H": 8})
    assert ("MEASURED_BELOW", "pending") in rules(found)
    assert any("H" in one.found and "not 8" in one.found for one in found)


def test_symbols_when_no_shape_says_them_then_the_schema_s_are_used_and_named() -> None:
    """A finding tells which of the schema's own numbers is in its figure."""

    def forward(state: Any, step: int) -> None:
        state.cache = [torch.zeros(8)]

    found = [one for one in measured(forward).findings() if one.value == "cache"]
    assert found[0].rule == "MEASURED_ABOVE"
    assert "with the schema's H=352, W=640" in found[0].found


def test_device_when_it_is_another_one_then_found() -> None:
    """`cpu` and `model` are compared with where the bytes lay; `model` is one device."""
    recording = measured().recording
    (session,) = recording.sessions

    def on(name: str, device: str) -> set[tuple[str, str]]:
        values = tuple(
            attrs.evolve(one, peak_by_device={device: one.peak_nbytes}) if one.name == name else one
            for one in session.values
        )
        moved = attrs.evolve(session, values=values)
        found = findings(attrs.evolve(recording, sessions=(moved,)))
        return rules(found)

    assert on("ring", "cuda:0") == {("MEASURED_DEVICE", "ring")}
    assert on("latent", "cuda:0") == set()  # the only value on `model` says where that is


def test_cause_when_memory_is_pinned_then_its_bytes_are_not_told_twice() -> None:
    """A view that holds more than is declared is one finding, not two."""

    def forward(state: Any, step: int) -> None:
        good_step(state, step)
        state.latent = torch.zeros(1, 4, H // 8, 100 * W)[..., : W // 8]

    assert rules(measured(forward).findings()) == {("MEASURED_PINNED", "latent")}


def test_memory_when_several_values_show_all_of_it_then_it_is_not_pinned() -> None:
    """Two halves of one tensor, each in a value of its own, waste nothing."""

    def forward(state: Any, step: int) -> None:
        good_step(state, step)
        whole = torch.zeros(2, H, W)
        state.cache = [whole[:1], whole[1:]]

    assert measured(forward).findings() == []


def test_sessions_when_several_show_it_then_told_once_for_the_worst() -> None:
    """One finding for three sessions, with the figure of the one that held most."""
    manager = SessionStateManager()
    with measure.record(manager) as record:
        for number in (4, 6, 5):
            state = Toy(f"robot-{number}", manager)
            for step in range(2):
                with state.step():
                    good_step(state, step)
                    state.pending = torch.zeros(number, H, W)
    (finding,) = record.findings()
    assert isinstance(finding, Finding)
    assert (finding.session, finding.sessions) == ("robot-6", 3)
    assert finding.measured_nbytes == 6 * FRAME


def test_session_when_no_adapter_spoke_for_it_then_its_values_are_undeclared() -> None:
    """A session that is used without a schema has findings without a file."""
    manager = SessionStateManager()
    with measure.record(manager) as record:
        session = manager.get_or_create_session("robot")
        with session.step():
            session.attrs["latents"] = torch.zeros(4)
    (finding,) = record.findings()
    assert (finding.rule, finding.place) == ("MEASURED_UNDECLARED", "no schema")
