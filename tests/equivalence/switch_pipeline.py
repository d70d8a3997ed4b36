"""One pipeline and one deploy config: which state it runs on is decided by the switch alone.

Run as `python -m tests.equivalence.switch_pipeline DEPLOY_YAML`: serves several sessions,
interleaved, and prints a report as JSON: the path taken, what of statekit was imported, the resets
that happened, and one digest over all outputs.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from statekit.settings import SessionStateSettings
from statekit.switch import maybe_adapter
from tests.equivalence.bits import to_bytes
from tests.equivalence.dreamzero_pipeline import DreamZeroPipeline
from tests.equivalence.hand_rolled_dreamzero import HandRolledDreamZeroStates
from tests.equivalence.wan_stream import WanStream, build_vae

__all__ = ["open_states", "serve"]

MAX_SESSIONS = 4
HEIGHT, WIDTH = 32, 48


def open_states(config: Path) -> tuple[str, Callable[[str], Any]]:
    """The path that the switch chooses, and what gives the state of a session on it."""
    hand_rolled = HandRolledDreamZeroStates(MAX_SESSIONS).get
    states: Callable[[str], Any] = maybe_adapter(
        hand_rolled,
        "statekit.adapters.dreamzero:DreamZeroStateAdapter",
        SessionStateSettings.from_file(config),
        max_sessions=MAX_SESSIONS,
    )
    return "hand-rolled" if states is hand_rolled else "manager", states


def requests() -> Iterator[tuple[str, int, int]]:
    """Session, number of frames, prompt: three robots in turn, with all that disturbs them."""
    for step in range(12):
        yield "left", 1 if step == 0 else 4, 0
        yield "right", 1 if step in (0, 7) else 2, 1  # starts over with a single frame
        if step == 4:
            yield "visitor", 1, 2  # a fourth session
        if step == 6:
            yield "guest", 1, 0  # the table is full: the visitor is evicted
        if step == 8:
            yield "visitor", 4, 2  # comes back and starts anew
        yield "arm", 4, 3 if step < 6 else 2  # its prompt changes


def serve(get_state: Callable[[str], Any]) -> tuple[str, list[str]]:
    """Serve all requests; the digest of every output, and the resets as `session: reason`."""
    pipeline = DreamZeroPipeline(WanStream(build_vae(base_dim=8)), local_attn_size=10)
    generator = np.random.default_rng(0)
    digest = hashlib.sha256()
    resets = []
    for session_id, frames, prompt in requests():
        shape = (HEIGHT, WIDTH, 3) if frames == 1 else (frames, HEIGHT, WIDTH, 3)
        stitched = generator.integers(0, 256, shape, dtype=np.uint8)
        tokens = torch.arange(8)[None] * (prompt + 1)
        result = pipeline.forward(get_state(session_id), stitched, tokens)
        digest.update(to_bytes(result.latents) + to_bytes(result.video))
        if result.reset is not None:
            resets.append(f"{session_id}: {result.reset}")
    for session_id in ("left", "right", "arm"):
        digest.update(to_bytes(get_state(session_id).get_concatenated_video_latents()))
    return digest.hexdigest(), resets


def main() -> None:
    """Run as the module's docstring says."""
    torch.set_num_threads(1)
    path, get_state = open_states(Path(sys.argv[1]))
    sha256, resets = serve(get_state)
    report = {
        "states": path,
        "imported": sorted(name for name in sys.modules if name.partition(".")[0] == "statekit"),
        "resets": resets,
        "sha256": sha256,
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
