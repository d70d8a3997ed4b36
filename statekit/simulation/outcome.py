"""Outcome: what a simulation reports of one policy."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from statekit.simulation.tally import Tally

__all__ = ["Outcome", "outcome_of"]


@attrs.frozen
class Outcome:
    """The figures of one policy; all but `cpu_s` are the same on every machine.

    Attributes:
        begun: sessions that asked to begin; each was refused, finished, or interrupted.
        finished: of them, how many got all of their steps from one state.
        refused: how many were not admitted anywhere.
        interrupted: how many found their state gone when they came back: with an error under
            budgets, without a word where sessions are counted.
        lost: how often that was so.
        continued: steps after the first.
        evicted, released, rebuilt, parked, restored, moves: how often that was done.
        moved: bytes by link.
        over_share: part of the replicas' time during which some device was over its budget.
        waited: uses that had to wait for bytes to come back; wait_p50_us, wait_p99_us: how long.
        move_waited: uses that had to wait for the bytes of a session that had moved; likewise.
        planned, placed: how often the planner and the placement were asked.
        span_us: virtual time; cpu_s: the time that one core worked on it.
    """

    policy: str
    replicas: int
    begun: int
    finished: int
    refused: int
    interrupted: int
    lost: int
    continued: int
    evicted: int
    released: int
    rebuilt: int
    parked: int
    restored: int
    moves: int
    moved: Mapping[str, int]
    over_share: float
    waited: int
    wait_p50_us: int
    wait_p99_us: int
    move_waited: int
    move_wait_p50_us: int
    move_wait_p99_us: int
    planned: int
    placed: int
    span_us: int
    cpu_s: float = attrs.field(eq=False)

    @property
    def decisions(self) -> int:
        """Begins and continues, and what was given up for them."""
        given_up = self.evicted + self.released + self.parked + self.moves
        return self.begun + self.continued + given_up

    @property
    def decisions_per_s(self) -> float:
        """How many of them in a second of one core."""
        return self.decisions / self.cpu_s if self.cpu_s else 0.0


def outcome_of(policy: str, tally: Tally, replicas: int, span_us: int, cpu_s: float) -> Outcome:
    """The figures, from what was counted."""
    waits, move_waits = sorted(tally.waits_us), sorted(tally.move_waits_us)
    return Outcome(
        policy=policy,
        replicas=replicas,
        begun=tally.begun,
        finished=tally.finished,
        refused=tally.refused,
        interrupted=tally.interrupted,
        lost=tally.lost,
        continued=tally.continued,
        evicted=tally.evicted,
        released=tally.released,
        rebuilt=tally.rebuilt,
        parked=tally.parked,
        restored=tally.restored,
        moves=tally.moves,
        moved=dict(tally.moved),
        over_share=tally.over_us / (span_us * replicas) if span_us else 0.0,
        waited=len(waits),
        wait_p50_us=_quantile(waits, 50),
        wait_p99_us=_quantile(waits, 99),
        move_waited=len(move_waits),
        move_wait_p50_us=_quantile(move_waits, 50),
        move_wait_p99_us=_quantile(move_waits, 99),
        planned=tally.planned,
        placed=tally.placed,
        span_us=span_us,
        cpu_s=cpu_s,
    )


def _quantile(ordered: list[int], percent: int) -> int:
    """The least of them that so many in a hundred do not exceed."""
    return ordered[-(-len(ordered) * percent // 100) - 1] if ordered else 0
