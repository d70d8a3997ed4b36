"""A simulated manager decides what a real one decides, in the same order."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.simulation.twins import DEVICE, MODELS, Counted, CountedTwin, Op, Real, Twin, name_memory

TIGHT = {DEVICE: 45_000, "cpu": 60_000, "disk": 40_000}
NARROW = {DEVICE: 45_000, "cpu": 12_000, "disk": 25_000}


def drive(real: Real, twin: Twin, seed: int, count: int) -> set[str]:
    """Both through one random script, compared after each line; all that was done."""
    dice = random.Random(seed)
    made = 0
    for _ in range(count):
        ops: list[Op] = [("begin", f"s{made}", dice.choice(sorted(MODELS)))]
        ops += [("take", key, "") for key in sorted(twin.idle())] * 2
        ops += [("end", key, "") for key in sorted(twin.in_use())] * 4
        ops += [("again", key, "") for key in sorted(twin.in_use())] * 2
        ops += [("close", key, "") for key in sorted(twin.idle())[:1]]
        op = dice.choice(ops)
        made += op[0] == "begin"
        before = len(twin.told)
        real.do(op)
        twin.do(op)
        assert real.told[before:] == twin.told[before:], op
        assert real.used() == twin.used(), op
        if op[0] == "close" or ("lost", op[1], "") in twin.told[before:]:
            twin.forget(op[1])
    parked = {(what, of.partition(":")[0]) for what, _, of in twin.told if what == "park"}
    return {what for what, _, _ in twin.told} | {place for _, place in parked}


@pytest.mark.parametrize(
    ("budgets", "tiers", "max_sessions", "done"),
    [
        (TIGHT, ("host", "disk"), 99, {"parked in host", "restore", "release", "refuse", "evict"}),
        (NARROW, ("host", "disk"), 99, {"parked in host", "parked in disk", "restore", "refuse"}),
        (TIGHT, ("disk",), 8, {"parked in disk", "restore", "release", "refuse", "lost"}),
        (TIGHT, (), 99, {"release", "refuse", "evict", "lost"}),
    ],
    ids=["host and disk", "little host", "disk", "no parking"],
)
def test_decisions_when_scripts_are_random_then_are_those_of_a_manager(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    budgets: Mapping[str, int],
    tiers: tuple[str, ...],
    max_sessions: int,
    done: set[str],
) -> None:
    """Refusals, releases, parks, evictions, returns and losses, one for one, with all bytes."""
    name_memory(monkeypatch)
    found: set[str] = set()
    for seed in range(6):
        folder = tmp_path / str(seed) if "disk" in tiers else None
        real = Real(budgets, folder, host="host" in tiers, max_sessions=max_sessions)
        found |= drive(real, Twin(budgets, tiers, max_sessions=max_sessions), seed, 200)
        real.manager.close()
    assert done <= found


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(300))
def test_decisions_when_scripts_are_many_then_are_those_of_a_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The same with budgets, tiers and bounds at random, for minutes."""
    name_memory(monkeypatch)
    dice = random.Random(seed)
    budgets = {
        DEVICE: dice.randint(20_000, 80_000),
        "cpu": dice.randint(10_000, 90_000),
        "disk": dice.randint(5_000, 90_000),
    }
    for device in ("cpu", "disk"):
        if dice.random() < 0.2:
            del budgets[device]
    tiers = dice.choice([("host", "disk"), ("host",), ("disk",), ()])
    size = dice.choice([5, 8, 99])
    folder = tmp_path if "disk" in tiers else None
    real = Real(budgets, folder, host="host" in tiers, max_sessions=size)
    drive(real, Twin(budgets, tiers, max_sessions=size), seed, 400)
    real.manager.close()


@pytest.mark.parametrize("seed", range(4))
def test_count_when_scripts_are_random_then_evicts_as_a_manager_does(seed: int) -> None:
    """Of the contract that counts: who leaves, in order, and who comes back to an empty session."""
    dice = random.Random(seed)
    real, twin = Counted(max_sessions=4), CountedTwin(max_sessions=4)
    for _ in range(300):
        busy = sorted(real.in_use)
        key = f"s{dice.randrange(7)}"
        if busy and dice.random() < 0.6:
            op: Op = ("end", dice.choice(busy), "")
        elif key in real.in_use:
            continue
        else:
            op = ("close" if dice.random() < 0.1 else "take", key, "")
        real.do(op)
        twin.do(op)
        assert real.told == twin.told, op
        assert real.used() == twin.used(), op
    assert {what for what, _, _ in twin.told} == {"evict", "restart"}
