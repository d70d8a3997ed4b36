"""Placement: pure, fair, never where it does not fit; room is made with few moves."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from statekit.replicas.placement import (
    Movable,
    ReplicaFacts,
    fits,
    free_share,
    least_loaded,
    make_room,
)


def replica(
    name: str, used: int = 0, *, limit: int = 100, sessions: int = 0, draining: bool = False
) -> ReplicaFacts:
    return ReplicaFacts(name, {"cpu": limit}, {"cpu": used}, sessions, 8, draining)


BYTES = st.dictionaries(st.sampled_from(["cpu", "cuda:0"]), st.integers(0, 60), max_size=2)
REPLICAS = st.lists(
    st.builds(
        ReplicaFacts,
        name=st.sampled_from("abcdef"),
        budgets=st.dictionaries(st.sampled_from(["cpu", "cuda:0"]), st.integers(1, 100)),
        promised=BYTES,
        sessions=st.integers(0, 4),
        max_sessions=st.integers(1, 4),
        draining=st.booleans(),
    ),
    max_size=5,
    unique_by=lambda one: one.name,
)


def test_least_loaded_when_several_fit_then_most_is_left_on_the_tightest_device() -> None:
    """What counts is the tightest device once the session is there."""
    tight = ReplicaFacts("a", {"cpu": 1000, "cuda:0": 100}, {"cuda:0": 80}, 0, 100)
    loose = ReplicaFacts("b", {"cpu": 1000, "cuda:0": 100}, {"cpu": 500, "cuda:0": 50}, 0, 100)
    assert least_loaded({"cpu": 10, "cuda:0": 10}, [tight, loose]) == "b"


def test_least_loaded_when_equal_then_by_name_whatever_the_order() -> None:
    """Ties are broken by name."""
    same = [replica("b", 10), replica("a", 10), replica("c", 10)]
    assert least_loaded({"cpu": 5}, same) == least_loaded({"cpu": 5}, same[::-1]) == "a"


def test_least_loaded_when_none_fits_then_none() -> None:
    """Full of bytes, full of sessions, draining: none of them."""
    crowd = [replica("a", 96), replica("b", sessions=8), replica("c", draining=True)]
    assert least_loaded({"cpu": 5}, crowd) is None
    assert least_loaded({"cpu": 5}, []) is None


def test_fits_when_a_device_has_no_budget_then_it_has_no_bound() -> None:
    """Only budgets bound; a device that a session does not use may be over its own."""
    assert fits({"cuda:0": 10**12}, replica("a", 120))


@given(BYTES, REPLICAS)
def test_least_loaded_when_asked_then_fits_and_leaves_most(
    declared: dict[str, int], replicas: list[ReplicaFacts]
) -> None:
    """It fits where it goes; nothing that fits leaves more; the order of facts is no matter."""
    name = least_loaded(declared, replicas)
    assert name == least_loaded(declared, replicas[::-1])
    able = [one for one in replicas if fits(declared, one)]
    if name is None:
        assert not able
        return
    chosen = next(one for one in replicas if one.name == name)
    assert chosen in able
    assert all(free_share(declared, chosen) >= free_share(declared, one) for one in able)


def test_make_room_when_it_is_in_pieces_then_one_session_moves() -> None:
    """Two replicas with 30 free each: the smallest session whose going is enough goes over."""
    replicas = [replica("a", 70, sessions=3), replica("b", 70, sessions=2)]
    movable = [
        Movable("large", "a", {"cpu": 40}),
        Movable("small", "a", {"cpu": 10}),
        Movable("medium", "a", {"cpu": 20}),
        Movable("other", "b", {"cpu": 35}),
    ]
    room = make_room({"cpu": 50}, replicas, movable)
    assert room is not None
    assert room.replica == "a"
    assert [(move.session_id, move.target) for move in room.moves] == [("medium", "b")]


def test_make_room_when_too_many_would_move_then_none() -> None:
    """Beyond the most moves the session is refused instead."""
    replicas = [replica("a", 90, sessions=9), replica("b", 0, limit=30)]
    replicas[0] = attrs.evolve(replicas[0], max_sessions=20)
    movable = [Movable(f"s{i}", "a", {"cpu": 10}) for i in range(9)]
    assert make_room({"cpu": 40}, replicas, movable) is None
    room = make_room({"cpu": 40}, replicas, movable, most_moves=3)
    assert room is not None
    assert len(room.moves) == 3


@given(BYTES, REPLICAS, st.data())
def test_make_room_when_it_answers_then_all_of_it_fits(
    declared: dict[str, int], replicas: list[ReplicaFacts], data: st.DataObject
) -> None:
    """Carried out move by move, each session fits where it goes, and the new one at the end."""
    movable = [
        Movable(f"{one.name}{i}", one.name, data.draw(BYTES))
        for one in replicas
        for i in range(min(2, one.sessions))
    ]
    room = make_room(declared, replicas, movable)
    if room is None:
        return
    facts = {one.name: one for one in replicas}
    sizes = {one.session_id: one.declared for one in movable}

    def change(name: str, nbytes: dict[str, int], count: int) -> None:
        one = facts[name]
        promised = dict(one.promised)
        for device, size in nbytes.items():
            promised[device] = max(0, promised.get(device, 0) + count * size)
        facts[name] = attrs.evolve(one, promised=promised, sessions=one.sessions + count)

    for move in room.moves:
        nbytes = dict(sizes[move.session_id])
        assert fits(nbytes, facts[move.target])
        change(move.source, nbytes, -1)
        change(move.target, nbytes, 1)
    assert fits(declared, facts[room.replica])
