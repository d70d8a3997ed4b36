"""Whole runs: what is always true of them, and what tells the policies apart."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from statekit.simulation.outcome import Outcome
from statekit.simulation.run import POLICIES, PolicyName, between_us, simulate
from statekit.spec import ModelSpec
from tests.simulation.services import GROWING, HEAVY, LIGHT, deployment, workload

MODELS = (HEAVY, LIGHT, GROWING)
ROOT = Path(__file__).parents[2]


def run(
    policy: PolicyName,
    load: float,
    *,
    sessions: int = 600,
    seed: int = 1,
    models: Sequence[ModelSpec] = MODELS,
    **more: object,
) -> Outcome:
    """One policy at one load, on four replicas."""
    service = deployment(**more)
    asked = workload(sessions, (1,) * len(models), seed=seed)
    asked = attrs.evolve(asked, between_us=between_us(service, models, asked, load))
    return simulate(policy, service, models, asked)


@pytest.mark.parametrize("policy", POLICIES)
def test_run_when_it_has_ended_then_every_session_is_accounted_for(policy: PolicyName) -> None:
    """Each session was refused, finished or interrupted; all steps of the finished were taken."""
    outcome = run(policy, 4.0)
    assert outcome.begun == 600
    assert outcome.finished + outcome.refused + outcome.interrupted == outcome.begun
    assert outcome.continued >= outcome.finished - outcome.refused
    assert outcome.rebuilt <= outcome.released
    assert 0 <= outcome.over_share <= 1


@pytest.mark.parametrize("policy", POLICIES)
def test_run_when_it_is_made_again_then_all_but_its_time_is_the_same(policy: PolicyName) -> None:
    """Same seed, same outcome; another seed, another one."""
    assert run(policy, 4.0, sessions=300) == run(policy, 4.0, sessions=300)
    assert run(policy, 4.0, sessions=300) != run(policy, 4.0, sessions=300, seed=2)


def test_policies_when_load_is_high_then_only_parking_serves_everybody() -> None:
    """By count states are lost, by bytes sessions are refused, with parking neither happens."""
    count, nbytes, parking = (run(policy, 3.0) for policy in POLICIES)
    assert count.refused == 0
    assert count.over_share > 0.1
    assert nbytes.lost == 0
    assert nbytes.refused > 20
    assert nbytes.parked == 0
    assert parking.lost == parking.refused == 0
    assert parking.parked == parking.restored > 100
    assert 0 < parking.wait_p50_us <= parking.wait_p99_us
    assert nbytes.over_share == parking.over_share == 0


def test_count_when_more_sessions_live_than_the_table_keeps_then_states_are_lost() -> None:
    """The least recently used one leaves although its client comes back, without a word."""
    few = run("count", 6.0, max_sessions=8)
    assert few.interrupted > 100
    assert few.lost >= few.interrupted
    assert few.evicted >= few.lost
    assert run("count", 0.5).lost == 0


def test_parking_when_the_tiers_are_full_then_sessions_are_refused_and_none_is_lost() -> None:
    """Where nothing can be parked any more, who is admitted keeps its state."""
    small = {"cpu": 2_000_000_000, "disk": 3_000_000_000}
    outcome = run("parking", 6.0, budgets=small)
    assert outcome.refused > 50
    assert outcome.lost == 0
    assert outcome.moved["to disk"] > 0
    assert outcome.moved["from disk"] <= outcome.moved["to disk"]


def test_drains_when_replicas_are_emptied_then_their_sessions_move_and_all_finish() -> None:
    """Nobody is interrupted where replicas are taken out one after the other."""
    outcome = run("parking", 2.0, drains=4)
    assert outcome.moves > 10
    assert outcome.moved["network"] > 10 * 100_000_000
    assert outcome.finished == outcome.begun
    assert run("parking", 2.0).moved["network"] == 0


def test_run_when_links_are_slow_then_sessions_wait_longer() -> None:
    """The wait for parked bytes follows from the bandwidth that is stated."""
    service = deployment()
    slow = attrs.evolve(service, bandwidths=attrs.evolve(service.bandwidths, host=2_000_000_000))
    asked = workload(300, (1,))
    asked = attrs.evolve(asked, between_us=between_us(service, (HEAVY,), asked, 2.0))
    fast_us = simulate("parking", service, (HEAVY,), asked).wait_p50_us
    slow_us = simulate("parking", slow, (HEAVY,), asked).wait_p50_us
    assert fast_us >= 700_000_000 * 1_000_000 // service.bandwidths.host
    assert slow_us >= 8 * fast_us


KNOWN = Path(__file__).with_name("known_runs.txt")
_SCRIPT = "from tests.simulation.test_run import known; print(known(), end='')"


def known() -> str:
    """The figures of three runs, as text."""
    outcomes = [run(policy, 4.0, sessions=300, drains=2, max_sessions=8) for policy in POLICIES]
    return "".join(f"{attrs.asdict(attrs.evolve(one, cpu_s=0.0))}\n" for one in outcomes)


def test_run_when_it_is_made_on_any_machine_then_the_figures_are_those_written_down() -> None:
    """The figures of three runs, from a file."""
    assert known() == KNOWN.read_text("utf-8")


def test_run_when_hashes_are_others_then_the_figures_are_those_written_down() -> None:
    """Nothing depends on the order of a set."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout == KNOWN.read_text("utf-8")
