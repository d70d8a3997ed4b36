"""Self-Forcing's decision, tried: K/V that was released under pressure comes back by clean passes.

The model is a small causal one, written for the test: what it puts out depends on all that its
window shows, and what it writes into the window depends on that as well, layer by layer. The
hand-rolled side keeps plain lists and loses nothing.
"""

from __future__ import annotations

import pytest
import torch

from statekit.adapters.generated.self_forcing import SelfForcingState
from statekit.events import Event, Released
from statekit.manager import SessionStateManager
from statekit.pressure.promise import promise
from tests.equivalence.bits import assert_same_bits

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {"H": 16, "W": 32, "LAYERS": 2, "window": 6, "sink": 3}
LAYERS, BLOCK, TOKENS, HEADS, SIZE = 2, 3, 2, 12, 128
BLOCKS = 6
KV = tuple[torch.Tensor, torch.Tensor]


class TinyModel:
    """Five passes a block: four that denoise, a clean one that writes the window."""

    def __init__(self) -> None:
        noise = torch.Generator().manual_seed(11)
        self.into_kv = [torch.randn(64, 2 * HEADS * SIZE, generator=noise) / 8 for _ in range(2)]

    def text(self, prompt: str) -> list[KV]:
        """Keys and values of the text, of each layer."""
        start = sum(prompt.encode())
        shape = (1, 512, HEADS, SIZE)
        return [
            (
                torch.full(shape, start % 17 + layer / 8, dtype=torch.bfloat16),
                torch.full(shape, start % 13, dtype=torch.bfloat16),
            )
            for layer in range(LAYERS)
        ]

    def layer(self, number: int, latents: torch.Tensor, seen: KV | None, text: KV) -> KV:
        """What one layer writes for these latents under what its window and its text show."""
        flat = latents.float().reshape(1, BLOCK, -1)
        if seen is not None:
            flat = flat + seen[0].float().mean() + seen[1].float().flatten()[-7:].sum()
        made = (flat + text[0][0, 7, number, 5].float()) @ self.into_kv[number][: flat.shape[-1]]
        made = made.to(torch.bfloat16).reshape(1, BLOCK, 1, 2, HEADS, SIZE)
        spread = made.expand(-1, -1, TOKENS, -1, -1, -1)
        return spread[:, :, :, 0].contiguous(), spread[:, :, :, 1].contiguous()

    def denoised(self, latents: torch.Tensor, written: list[KV]) -> torch.Tensor:
        """The latents after one denoise step that wrote this."""
        shift = sum((key.float().mean() - value.float().mean()) for key, value in written)
        return (latents.float() * 0.75 + shift).to(torch.bfloat16)


class HandRolled:
    """Lists of everything, and the window cut out of them for each pass."""

    def __init__(self, model: TinyModel, prompt: str) -> None:
        self.model, self.text = model, model.text(prompt)
        self.kv: list[list[KV]] = [[] for _ in range(LAYERS)]

    def window(self, layer: int) -> KV | None:
        if not self.kv[layer]:
            return None
        shown = []
        for part in (0, 1):
            all_of_it = torch.cat([pair[part] for pair in self.kv[layer]], dim=1)
            if all_of_it.shape[1] > SMALL["window"]:
                recent = SMALL["window"] - SMALL["sink"]
                all_of_it = torch.cat(
                    [all_of_it[:, : SMALL["sink"]], all_of_it[:, -recent:]], dim=1
                )
            shown.append(all_of_it)
        return shown[0], shown[1]

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        latents = noise
        for _ in range(4):
            latents = self.model.denoised(latents, self._pass(latents))
        for layer, written in enumerate(self._pass(latents)):
            self.kv[layer].append(written)
        return latents

    def _pass(self, latents: torch.Tensor) -> list[KV]:
        return [
            self.model.layer(layer, latents, self.window(layer), self.text[layer])
            for layer in range(LAYERS)
        ]


class Ported:
    """The same over the generated adapter, made anew for every block."""

    def __init__(self, model: TinyModel, state: SelfForcingState, prompt: str) -> None:
        self.model, self.state = model, state
        if state.text_kv().view() is None:
            state.text_kv().replace(model.text(prompt))
        self.text = state.text_kv().view() or []
        self.replayed = 0
        kept = state.clean_latents_object.view()
        if kept and state.kv().view() is None:
            for latents in kept:
                self._clean(latents)
            self.replayed = len(kept)

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        latents = noise
        for _ in range(4):
            written = self._pass(latents)
            for layer, one in enumerate(written):
                self.state.kv().object(layer).stage(one)
            latents = self.model.denoised(latents, written)
        self._clean(latents)
        self.state.clean_latents_object.append(latents)
        return latents

    def _clean(self, latents: torch.Tensor) -> None:
        for layer, written in enumerate(self._pass(latents)):
            ring = self.state.kv().object(layer)
            ring.stage(written)
            ring.commit()

    def _pass(self, latents: torch.Tensor) -> list[KV]:
        rings = [self.state.kv().object(layer) for layer in range(LAYERS)]
        return [
            self.model.layer(layer, latents, ring.view(include_staged=False), self.text[layer])
            for layer, ring in enumerate(rings)
        ]


def noises(seed: int) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    return [
        torch.randn(1, BLOCK, 16, 2, 2, generator=made).to(torch.bfloat16) for _ in range(BLOCKS)
    ]


def test_rollouts_when_their_kv_is_released_between_blocks_then_bits_are_those_of_lists() -> None:
    """Two rollouts in turn with room for the K/V of one: each block finds its K/V gone, replays
    clean passes, and puts out what the hand-rolled model does; windows and cursors too."""
    model = TinyModel()
    prompts = {"a": "a reef", "b": "a dune"}
    hand = {name: HandRolled(model, prompt) for name, prompt in prompts.items()}
    spec = SelfForcingState.SPEC
    promised = promise(spec, "cpu", SMALL, ())
    one, stays = promised.by_device["cpu"], promised.staying["cpu"]
    grown = 2 * BLOCKS * BLOCK * 16 * 2 * 2 * 2
    manager = SessionStateManager(budgets={"cpu": one + stays + grown})
    events: list[Event] = []
    manager.subscribe(events.append)
    replayed = 0
    steps = {name: noises(seed) for seed, name in enumerate(prompts)}
    for block in range(BLOCKS):
        for name, prompt in prompts.items():
            begin = None if block else spec
            with manager.lease(name, begin=begin, overrides=SMALL):
                state = SelfForcingState(name, manager, window=6, sink=3)
                # Fills what the decoder would, so that there is no room for both.
                state.vae_stream = state.vae_stream or [torch.zeros(4729 * 16 * 32 // 2).half()]
                ported = Ported(model, state, prompt)
                replayed += ported.replayed
                got = ported.forward(steps[name][block])
                assert_same_bits(got, hand[name].forward(steps[name][block]), f"{name} {block}")
                for layer in range(LAYERS):
                    ring = state.kv().object(layer)
                    assert_same_bits(ring.view(), hand[name].window(layer), f"window {layer}")
                    assert ring.global_end == (block + 1) * BLOCK
                    assert ring.local_end == min((block + 1) * BLOCK, 6)
    assert replayed > 0
    released = [one for one in events if isinstance(one, Released)]
    assert "kv" in {one.value for one in released}


def test_block_when_a_step_of_it_fails_then_the_window_is_that_of_the_block_before() -> None:
    """A block that fails after its third pass leaves nothing staged, and the retry gives its
    bits."""
    model, prompt = TinyModel(), "a cave"
    hand = HandRolled(model, prompt)
    manager = SessionStateManager()
    steps = noises(7)
    for block, noise in enumerate(steps[:3]):
        with manager.lease("one", begin=None if block else SelfForcingState.SPEC, overrides=SMALL):
            state = SelfForcingState("one", manager, window=6, sink=3)
            try:
                with state.step():
                    ported = Ported(model, state, prompt)
                    for layer, written in enumerate(ported._pass(noise)):
                        state.kv().object(layer).stage(written)
                    raise ZeroDivisionError
            except ZeroDivisionError:
                pass
            for layer in range(LAYERS):
                assert_same_bits(state.kv().object(layer).view(), hand.window(layer), "undone")
            with state.step():
                got = Ported(model, state, prompt).forward(noise)
            assert_same_bits(got, hand.forward(noise), f"block {block}")
