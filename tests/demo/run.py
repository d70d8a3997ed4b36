"""The demo: from the schemas to a rollout of both models, hand-rolled beside generated.

    1  regenerates the adapters from the schemas
    2  shows what a session of each model holds
    3  runs a rollout of each on both kinds of state, and compares every step bit for bit
    4  sums up

Exits with 1 if one bit or one byte differs, and says where first. Nothing is downloaded: models
have random weights, pictures are those that scikit-image ships.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run the demo; the exit code."""
    start = time.perf_counter()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))  # Python puts this file's folder there, not the project's
    from tests.demo.show import heading, print_review, print_summary, track

    console = Console(highlight=False)
    heading(console, "1  Generate", "statekit generate: one typed adapter a schema")
    code, text = _statekit("generate")
    console.print(text.rstrip(), markup=False, soft_wrap=True)
    if code:
        return code

    heading(console, "2  Review", "statekit review tells the reasons too; here are the figures")
    code, text = _statekit(
        "review", "schemas/dreamzero.yaml", "schemas/cosmos3.yaml", "--format", "json"
    )
    if code:
        console.print(text, markup=False, soft_wrap=True)
        return code
    print_review(console, json.loads(text))

    heading(console, "3  Rollout", "each step on both kinds of state, compared bit for bit")
    # Only now: the adapters are those that have just been generated.
    import torch

    from tests.demo.cosmos3 import Cosmos3Rollout
    from tests.demo.dreamzero import DreamZeroRollout

    torch.set_num_threads(1)  # at this size threads wait for each other, and blur the times
    comparisons = []
    for rollout in (DreamZeroRollout(), Cosmos3Rollout()):
        track(console, rollout)
        comparisons.append(rollout.comparison)

    heading(console, "4  Result")
    print_summary(console, comparisons)
    different = [comparison for comparison in comparisons if not comparison.equal]
    console.print()
    for comparison in different:
        console.print(f"{comparison.model} differs, first at {comparison.first_difference}")
    if not different:
        took = time.perf_counter() - start
        console.print(f"Both models: equal bits, every byte accounted for. {took:.0f} s.")
    return 1 if different else 0


def _statekit(*argv: str) -> tuple[int, str]:
    """Run the command line in this process; its exit code, and what it printed."""
    from statekit_codegen.cli import main as statekit

    out = io.StringIO()
    code = statekit(argv, out, out)
    return code, out.getvalue()


if __name__ == "__main__":
    raise SystemExit(main())
