"""A service under all that happens to one: moves, a death, a node that comes and goes.

The real encoder as model; every output of every session that lives is compared, bit for bit, with
that of a run in one process.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import ray

from statekit.errors import (
    MoveError,
    ServiceError,
    SessionRewoundError,
    SessionStateLostError,
    StepUnknownError,
)
from statekit.ray.cluster import RaySessions, connect, start
from statekit.ray.link import NAMESPACE, actor_name
from tests.ray.wan_model import alone, frames, make

pytestmark = pytest.mark.ray

SESSIONS = 64
CLIENTS = 4


def go_on_from(step: int, outputs: list[str]) -> None:
    """The session has done so many steps; what was given and not received is unknown."""
    outputs[step:] = [""] * max(0, step - len(outputs))


class Pace:
    """How far clients may go together, so that what happens meanwhile happens in the middle."""

    def __init__(self) -> None:
        self.limit = 0
        self.stories: list[Story] = []

    def done(self) -> int:
        """Steps so far, of all sessions."""
        return sum(len(one) for story in self.stories for one in story.outputs.values())

    def wait(self) -> None:
        """Return when one more step may be done."""
        self._until(lambda: self.done() < self.limit)

    def reach(self, count: int) -> None:
        """Let clients go so far at least, and wait for that."""
        self.limit = max(self.limit, count)
        self._until(lambda: self.done() >= count)

    def _until(self, claim: Callable[[], bool]) -> None:
        until = time.monotonic() + 240
        while not claim():
            assert time.monotonic() < until
            time.sleep(0.005)


@attrs.define
class Story:
    """What a client saw of its sessions."""

    outputs: dict[str, list[str]] = attrs.field(factory=dict)
    rewound: list[str] = attrs.field(factory=list)
    lost: list[str] = attrs.field(factory=list)
    errors: list[Exception] = attrs.field(factory=list)


def serve(service: str, lengths: dict[str, int], seed: int, story: Story, pace: Pace) -> None:
    """A client: begins its sessions and steps them in random order until all are as long."""
    chance = random.Random(seed)
    sessions = connect(service)
    try:
        for name in lengths:
            sessions.begin(name)
            story.outputs[name] = []
        todo = list(lengths)
        while todo:
            pace.wait()
            name = chance.choice(todo)
            step_once(sessions, name, story)
            if name in story.lost or len(story.outputs[name]) >= lengths[name]:
                todo.remove(name)
    except Exception as error:
        story.errors.append(error)


def step_once(sessions: RaySessions, name: str, story: Story) -> None:
    """The next step of a session; what a death has undone is to be sent again."""
    outputs = story.outputs[name]
    try:
        outputs.append(sessions.step(name, frames(name, len(outputs))))
    except SessionRewoundError as told:
        story.rewound.append(name)
        go_on_from(told.step, outputs)
    except StepUnknownError:
        go_on_from(sessions.count(name), outputs)
    except SessionStateLostError:
        story.lost.append(name)


def run(
    service: str, lengths: dict[str, int], seed: int, meanwhile: Callable[[Pace], None]
) -> Story:
    """Several clients at a time, and what happens meanwhile."""
    pace = Pace()
    pace.stories = [Story() for _ in range(CLIENTS)]
    threads = []
    for i, story in enumerate(pace.stories):
        mine = {name: lengths[name] for name in list(lengths)[i::CLIENTS]}
        threads.append(threading.Thread(target=serve, args=(service, mine, seed + i, story, pace)))
    for thread in threads:
        thread.start()
    try:
        meanwhile(pace)
    finally:
        pace.limit = sum(lengths.values()) + 1
        for thread in threads:
            thread.join(300)
    assert not any(thread.is_alive() for thread in threads)
    whole = Story()
    for story in pace.stories:
        whole.outputs.update(story.outputs)
        whole.rewound += story.rewound
        whole.lost += story.lost
        whole.errors += story.errors
    return whole


def move_some(sessions: RaySessions, names: list[str], chance: random.Random, count: int) -> int:
    """Move sessions at random; how many moved."""
    return sum(moves(sessions, name) for name in chance.sample(names, count))


def moves(sessions: RaySessions, name: str) -> bool:
    """Whether a session moves; one that is about to begin or to be restored need not."""
    try:
        sessions.move(name)
    except (MoveError, ServiceError, SessionStateLostError):
        return False
    return True


def kill(service: str, replica: str) -> None:
    """The process of a replica dies in the middle of whatever it does."""
    ray.kill(ray.get_actor(actor_name(service, "replica", replica), NAMESPACE))


def everything(cluster: Any, seed: int, steps: tuple[int, int], *, save_every: int | None) -> None:
    """Moves, a replica that is killed, a node that is added and drained, all while serving."""
    chance = random.Random(seed)
    lengths = {f"s{i}": chance.randint(*steps) for i in range(SESSIONS)}
    total = sum(lengths.values())
    service = f"story{seed}"
    sessions = start(
        make, ["a", "b"], service=service, save_every=save_every, actor={"num_cpus": 1},
        check_every_s=1.0,
    )  # fmt: skip
    counts: dict[str, Any] = {}

    def meanwhile(pace: Pace) -> None:
        pace.reach(total // 8)
        pace.limit = total // 4
        counts["moved"] = move_some(sessions, list(lengths), chance, 8)
        node = cluster.add_node(num_cpus=1, resources={"late": 1})
        late = attrs.evolve(sessions._plan, actor={"num_cpus": 1, "resources": {"late": 1}})
        RaySessions(service, late).add("c")
        pace.limit = total + 1
        counts["moved"] += move_some(sessions, list(lengths), chance, 8)
        pace.reach(total // 4 + chance.randrange(total // 4))
        kill(service, "b")
        move_some(sessions, list(lengths), chance, 4)
        pace.reach(total * 5 // 8)
        counts["nodes"] = sessions.nodes()
        counts["drained"] = sessions.drain("c")
        sessions.remove("c")
        cluster.remove_node(node)

    try:
        story = run(service, lengths, seed, meanwhile)
        status = sessions.status()
    finally:
        sessions.shutdown()
    if story.errors:
        raise story.errors[0]
    expected = alone(lengths)
    lost = set(story.lost)
    for name, outputs in story.outputs.items():
        wanted = expected[name][: len(outputs)]
        assert outputs == [got and right for got, right in zip(outputs, wanted, strict=True)]
        assert name in lost or len(outputs) == lengths[name]
    assert sum("" in outputs for outputs in story.outputs.values()) <= CLIENTS
    assert lost <= {one.session_id for one in status.lost}
    assert counts["moved"] > 8
    assert len(set(counts["nodes"].values())) == 2
    assert counts["drained"].moved
    assert not counts["drained"].stayed
    assert [one.facts.name for one in status.replicas if one.state == "dead"] == ["b"]
    if save_every is None:
        assert lost
    else:
        assert not lost
        assert story.rewound


def test_sessions_when_replicas_move_die_and_drain_then_outputs_are_those_of_one_process(
    cluster: Any,
) -> None:
    """64 sessions through forced moves, a death and a node that comes and goes: equal bits."""
    everything(cluster, 1, (4, 8), save_every=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 8))
def test_sessions_when_all_that_happens_again_and_again_then_outputs_are_equal(
    cluster: Any, seed: int
) -> None:
    """Other random moments, longer sessions; in every other run nothing is saved, and losses are
    reported."""
    everything(cluster, seed, (8, 24), save_every=None if seed % 2 else 2)
