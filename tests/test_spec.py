"""ModelSpec: its lookups, and the session keys that follow from families."""

from __future__ import annotations

import pytest

from statekit.spec import Family, ModelSpec, Parameter, Ring, ValueSpec


def value(name: str, key: str = "", *families: str) -> ValueSpec:
    """A value of which only name, key and families matter."""
    return ValueSpec(
        name=name,
        bucket="StateObject",
        type="int",
        device="none",
        key=key,
        object="EncodeOnce",
        families=families,
    )


SPEC = ModelSpec(
    model="toy",
    symbols={"H": 1},
    constants={"RING": 4},
    parameters={"window": Parameter(default=2)},
    families={
        "branch": Family(members={"positive": "", "negative": "_neg"}),
        "mode": Family(members={"a": ".a", "b": ".b"}),
        "layer": Family(count="H"),
    },
    values=(
        value("plain"),
        value("renamed", "other.name"),
        value("branched", "kv{branch}", "branch"),
        value("both", "x{branch}{mode}", "branch", "mode"),
        value("layered", "kv{branch}/{layer}", "branch", "layer"),
    ),
    resets={"all_of_it": ("plain", "renamed"), "some": ("plain",)},
)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("plain", ("plain",)),
        ("renamed", ("other.name",)),
        ("branched", ("kv", "kv_neg")),
        ("both", ("x.a", "x.b", "x_neg.a", "x_neg.b")),
        ("layered", ("kv/{layer}", "kv_neg/{layer}")),
    ],
)
def test_keys_when_a_value_has_families_then_there_is_one_for_each_member(
    name: str, keys: tuple[str, ...]
) -> None:
    """Members are written out, outer family first; a number keeps its place."""
    assert SPEC.keys_of(SPEC[name]) == keys


@pytest.mark.parametrize(
    ("name", "matched", "others"),
    [
        ("renamed", ["other.name"], ["otherxname", "other.name2", ""]),
        ("branched", ["kv", "kv_neg"], ["kv_pos", "kv/0", "xkv"]),
        (
            "layered",
            ["kv/0", "kv_neg/63"],
            ["kv", "kv/", "kv/-1", "kv/1/2", "kv/x", "kv/{layer}", "kv_neg/1x"],
        ),
    ],
)
def test_key_pattern_when_matched_then_it_takes_the_members_and_no_others(
    name: str, matched: list[str], others: list[str]
) -> None:
    """The pattern of a value's keys matches whole keys of its members only."""
    pattern = SPEC.key_pattern(SPEC[name])
    assert [key for key in (*matched, *others) if pattern.fullmatch(key)] == matched


def test_spec_when_asked_for_a_value_then_it_is_found_by_name() -> None:
    """Values are looked up by name and iterated in the schema's order."""
    assert SPEC["plain"].name == "plain"
    assert [one.name for one in SPEC] == ["plain", "renamed", "branched", "both", "layered"]
    with pytest.raises(KeyError, match="nobody"):
        SPEC["nobody"]


def test_environment_when_overridden_then_the_override_wins() -> None:
    """Symbols, constants and parameter defaults are the numbers of expressions."""
    assert SPEC.environment() == {"H": 1, "RING": 4, "window": 2}
    assert SPEC.environment({"window": 5, "H": 7}) == {"H": 7, "RING": 4, "window": 5}


def test_cleared_by_when_asked_then_resets_come_in_order() -> None:
    """The resets that clear a value, in the order of the schema."""
    assert SPEC.cleared_by("plain") == ("all_of_it", "some")
    assert SPEC.cleared_by("renamed") == ("all_of_it",)
    assert SPEC.cleared_by("branched") == ()


def test_ring_when_it_has_a_bound_in_any_unit_then_it_is_bounded() -> None:
    """Items, frames and bytes are bounds; a reason for none is none."""
    assert Ring("4").bounded
    assert Ring(nbytes="4").bounded
    assert not Ring(unbounded="why").bounded
