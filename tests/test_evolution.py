"""Evolution: which changes of a schema break bytes that were saved under the old one."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statekit.evolution import (
    SNAPSHOT_RULES,
    BadRecordError,
    Difference,
    fingerprint,
    read_record,
    record_of,
    snapshot_differences,
)
from statekit.evolution.stored_type import StoredType, StoredTypeError
from statekit.spec import (
    Codec,
    Family,
    Index,
    Measured,
    ModelSpec,
    Parameter,
    Park,
    Rebuild,
    Ring,
    Sharding,
    Size,
    Tolerance,
    ValueSpec,
)

ROOT = Path(__file__).parents[1]


def carried(name: str, type_: str = "int", default: str = "0", **fields: Any) -> ValueSpec:
    """An `attrs` value."""
    given_fields = {"device": "none", **fields}
    return ValueSpec(name=name, bucket="attrs", type=type_, default=default, **given_fields)


def managed(name: str, kind: Any = "HeldValue", **fields: Any) -> ValueSpec:
    """A `StateObject` value that holds tensors."""
    given_fields = {"type": "torch.Tensor", "device": "model", "dtype": "float32", **fields}
    return ValueSpec(name=name, bucket="StateObject", object=kind, **given_fields)


SPEC = ModelSpec(
    model="toy",
    symbols={"H": 16, "LAYERS": 4, "UNUSED": 1},
    constants={"RING": 4},
    parameters={"window": Parameter(default=2, minimum=1, maximum=8)},
    families={
        "branch": Family(members={"cond": "", "uncond": "_neg"}),
        "layer": Family(count="LAYERS"),
    },
    values=(
        carried("count", coerce="int"),
        carried("noise", "torch.Tensor | None", "None", dtype="float32", size=Size(("H", "4"))),
        carried("seen", key="seen{branch}", families=("branch",)),
        managed("cache", size=Size(elements="8 * H", first="4 * H"), update="entries"),
        managed("frames", "LatentBuffer", size=Size(("1", "2", "H")), ring=Ring("window", 1)),
        managed("history", "LatentBuffer", ring=Ring(unbounded="for good")),
        managed("kv", "EncodeOnce", key="kv{branch}/{layer}", families=("branch", "layer")),
        managed("window_kv", "WindowedKV", size=Size(("1", "2", "H")), ring=Ring("8", 1, "2")),
        managed(
            "pool",
            "RetrievalStore",
            size=Size(("H", "2")),
            ring=Ring(nbytes="1024"),
            index=Index(("H",), "float32"),
            codec=Codec("float16"),
        ),
    ),
    resets={"all": ("count",)},
    atomic={"stream": ("cache", "frames")},
)


def with_value(which: str, spec: ModelSpec = SPEC, **changes: Any) -> ModelSpec:
    """`spec` with another description of one value."""
    values = tuple(attrs.evolve(one, **changes) if one.name == which else one for one in spec)
    return attrs.evolve(spec, values=values)


def without(name: str) -> ModelSpec:
    """SPEC without one value."""
    values = tuple(one for one in SPEC if one.name != name)
    atomic = {group: tuple(x for x in of if x != name) for group, of in SPEC.atomic.items()}
    return attrs.evolve(SPEC, values=values, atomic=atomic)


def and_value(value: ValueSpec, **atomic: tuple[str, ...]) -> ModelSpec:
    """SPEC with one more value, and perhaps groups that it is in."""
    return attrs.evolve(SPEC, values=(*SPEC.values, value), atomic={**SPEC.atomic, **atomic})


def differences(new: ModelSpec, old: ModelSpec = SPEC, **options: Any) -> tuple[Difference, ...]:
    """What differs between two specs, by way of JSON, as a snapshot would have it."""
    before, after = (json.loads(json.dumps(record_of(one))) for one in (old, new))
    return snapshot_differences(before, after, **options)


def short(found: tuple[Difference, ...]) -> list[tuple[str, str, bool]]:
    """Rule, value and verdict of each difference."""
    return [(one.rule.removeprefix("SNAPSHOT_"), one.value, one.breaks) for one in found]


STREAM = ("cache", "frames", "extra")

CHANGES: list[tuple[str, ModelSpec, list[tuple[str, str, bool]]]] = [
    ("nothing", SPEC, []),
    ("another model", attrs.evolve(SPEC, model="other"), [("MODEL", "", True)]),
    ("a value gone", without("count"), [("VALUE_GONE", "count", True)]),
    (
        "a value renamed",
        with_value("count", name="counter"),
        [("VALUE_NEW", "counter", False), ("VALUE_GONE", "count", True)],
    ),
    ("a value added", and_value(carried("extra")), [("VALUE_NEW", "extra", False)]),
    (
        "a value added to a group",
        and_value(carried("extra"), stream=STREAM),
        [("VALUE_NEW", "extra", False), ("ATOMIC", "stream", True)],
    ),
    (
        "an old value joins a group",
        attrs.evolve(SPEC, atomic={"stream": ("cache", "frames", "count")}),
        [("ATOMIC", "stream", False)],
    ),
    (
        "a group of new values",
        and_value(carried("extra"), alone=("extra",)),
        [("VALUE_NEW", "extra", False), ("ATOMIC", "alone", False)],
    ),
    ("a group gone", attrs.evolve(SPEC, atomic={}), [("ATOMIC", "stream", False)]),
    (
        "the other bucket",
        with_value("noise", bucket="StateObject", object="HeldValue", default=""),
        [("BUCKET", "noise", True)],
    ),
    (
        "the other bucket, another default",
        with_value("count", bucket="StateObject", object="HeldValue", default="", coerce=None),
        [("DEFAULT", "count", True), ("BUCKET", "count", True)],
    ),
    ("another object", with_value("cache", object="EncodeOnce"), [("OBJECT", "cache", True)]),
    ("another key", with_value("cache", key="other"), [("KEY", "cache", True)]),
    ("the key written out", with_value("cache", key="cache"), []),
    ("another template", with_value("seen", key="was_seen{branch}"), [("KEY", "seen", True)]),
    (
        "another text of a member",
        attrs.evolve(
            SPEC,
            families={**SPEC.families, "branch": Family(members={"cond": "_c", "uncond": "_neg"})},
        ),
        [("KEY", "seen", True), ("KEY", "kv", True)],
    ),
    (
        "members whose texts change places",
        attrs.evolve(
            SPEC,
            families={**SPEC.families, "branch": Family(members={"cond": "_neg", "uncond": ""})},
        ),
        [("KEY", "seen", True), ("KEY", "kv", True)],
    ),
    (
        "a member gone",
        attrs.evolve(SPEC, families={**SPEC.families, "branch": Family(members={"cond": ""})}),
        [("FAMILY", "seen", True), ("FAMILY", "kv", True)],
    ),
    (
        "a member added",
        attrs.evolve(
            SPEC,
            families={
                **SPEC.families,
                "branch": Family(members={"cond": "", "uncond": "_neg", "third": "_3"}),
            },
        ),
        [("FAMILY", "seen", False), ("FAMILY", "kv", False)],
    ),
    (
        "no family any more",
        with_value("seen", families=(), key=""),
        [("FAMILY", "seen", True)],
    ),
    (
        "more layers",
        attrs.evolve(SPEC, symbols={**SPEC.symbols, "LAYERS": 5}),
        [("NUMBER", "LAYERS", False), ("FAMILY", "kv", True)],
    ),
    ("a wider type", with_value("count", type="int | None"), [("TYPE", "count", False)]),
    ("a narrower type", with_value("noise", type="torch.Tensor"), [("TYPE", "noise", True)]),
    ("another dtype", with_value("cache", dtype="bfloat16"), [("DTYPE", "cache", True)]),
    ("a dtype no more", with_value("cache", dtype=None), [("DTYPE", "cache", False)]),
    ("a dtype at last", with_value("history", dtype="int8"), [("DTYPE", "history", True)]),
    ("another extent", with_value("noise", size=Size(("H", "5"))), [("SIZE", "noise", True)]),
    ("another rank", with_value("noise", size=Size(("1", "H", "4"))), [("SIZE", "noise", True)]),
    ("the same extents", with_value("noise", size=Size(("2 * H / 2", "RING"))), []),
    (
        "a symbol that sizes name",
        attrs.evolve(SPEC, symbols={**SPEC.symbols, "H": 32}),
        [
            ("NUMBER", "H", False),
            ("SIZE", "noise", True),
            ("SIZE", "cache", True),
            ("SIZE", "frames", True),
            ("SIZE", "window_kv", True),
            ("SIZE", "pool", True),
            ("INDEX", "pool", True),
        ],
    ),
    (
        "a symbol that no size names",
        attrs.evolve(SPEC, symbols={**SPEC.symbols, "UNUSED": 9}),
        [("NUMBER", "UNUSED", False)],
    ),
    (
        "elements for a shape",
        with_value("noise", size=Size(elements="4 * H")),
        [("SIZE", "noise", False)],
    ),
    (
        "other elements after the first step",
        with_value("cache", size=Size(elements="8 * H", first="2 * H")),
        [("SIZE", "cache", True)],
    ),
    (
        "no other size after the first step any more",
        with_value("cache", size=Size(elements="8 * H")),
        [("SIZE", "cache", True)],
    ),
    ("a size no more", with_value("cache", size=None), [("SIZE", "cache", False)]),
    (
        "pieces of more frames",
        with_value("frames", size=Size(("1", "3", "H"))),
        [("SIZE", "frames", False)],
    ),
    ("a bound raised", with_value("frames", ring=Ring("16", 1)), [("RING", "frames", False)]),
    (
        "a bound that is lower for some sessions",
        with_value("frames", ring=Ring("4", 1)),
        [("RING", "frames", True)],
    ),
    ("no bound any more", with_value("frames", ring=Ring(None)), [("RING", "frames", False)]),
    ("a bound at last", with_value("history", ring=Ring("4")), [("RING", "history", True)]),
    ("another axis", with_value("frames", ring=Ring("window", 0)), [("RING", "frames", True)]),
    (
        "a window raised",
        with_value("window_kv", ring=Ring("9", 1, "2")),
        [("RING", "window_kv", False)],
    ),
    (
        "another sink",
        with_value("window_kv", ring=Ring("8", 1, "1")),
        [("RING", "window_kv", True)],
    ),
    (
        "a sink that an expression says again",
        with_value("window_kv", ring=Ring("8", 1, "RING - 2")),
        [("RING", "window_kv", False)],
    ),
    ("no sink any more", with_value("window_kv", ring=Ring("8", 1)), [("RING", "window_kv", True)]),
    (
        "another kind that appends",
        with_value("window_kv", object="LatentBuffer", ring=Ring("8", 1)),
        [("OBJECT", "window_kv", True)],
    ),
    ("a larger store", with_value("pool", ring=Ring(nbytes="2048")), [("RING", "pool", False)]),
    ("a smaller store", with_value("pool", ring=Ring(nbytes="512")), [("RING", "pool", True)]),
    ("a bound in items", with_value("pool", ring=Ring("2048")), [("RING", "pool", True)]),
    ("a store without bound", with_value("pool", ring=Ring()), [("RING", "pool", False)]),
    (
        "keys of another shape",
        with_value("pool", index=Index(("4", "4"), "float32")),
        [("INDEX", "pool", True)],
    ),
    (
        "keys of another dtype",
        with_value("pool", index=Index(("H",), "float64")),
        [("INDEX", "pool", True)],
    ),
    (
        "another metric",
        with_value("pool", index=Index(("H",), "float32", "cosine")),
        [("INDEX", "pool", True)],
    ),
    ("the same keys", with_value("pool", index=Index(("16",), "float32")), []),
    ("another codec", with_value("pool", codec=Codec("bfloat16")), [("CODEC", "pool", True)]),
    ("no codec", with_value("pool", codec=None), [("CODEC", "pool", True)]),
    (
        "only for a request",
        with_value("noise", lifetime="request"),
        [("LIFETIME", "noise", True)],
    ),
    (
        "a tolerance, variants",
        attrs.evolve(
            with_value("noise", tolerance=Tolerance(atol=1.0)), variants={"large": {"H": 32}}
        ),
        [],
    ),
    ("another default", with_value("count", default="1"), [("DEFAULT", "count", True)]),
    ("no conversion", with_value("count", coerce=None), [("COERCE", "count", False)]),
    ("another device", with_value("cache", device="cpu"), [("DEVICE", "cache", False)]),
    ("another update", with_value("cache", update="in_place"), [("UPDATE", "cache", False)]),
    (
        "a higher default of a parameter",
        attrs.evolve(SPEC, parameters={"window": Parameter(3, 1, 8)}),
        [("PARAMETER", "window", False)],
    ),
    (
        "a lower maximum",
        attrs.evolve(SPEC, parameters={"window": Parameter(2, 1, 7)}),
        [("PARAMETER", "window", True)],
    ),
    (
        "a higher minimum",
        attrs.evolve(SPEC, parameters={"window": Parameter(2, 2, 8)}),
        [("PARAMETER", "window", True)],
    ),
    (
        "no bounds",
        attrs.evolve(SPEC, parameters={"window": Parameter(2)}),
        [("PARAMETER", "window", False)],
    ),
    (
        "a parameter gone",
        attrs.evolve(with_value("frames", ring=Ring("8", 1)), parameters={}),
        [("PARAMETER", "window", False), ("RING", "frames", False)],
    ),
    (
        "a parameter added",
        attrs.evolve(SPEC, parameters={**SPEC.parameters, "more": Parameter(1)}),
        [("PARAMETER", "more", False)],
    ),
]


@pytest.mark.parametrize(
    ("new", "expected"), [change[1:] for change in CHANGES], ids=[change[0] for change in CHANGES]
)
def test_differences_when_something_changed_then_it_is_told_with_its_verdict(
    new: ModelSpec, expected: list[tuple[str, str, bool]]
) -> None:
    """Each kind of change has its rule, and breaks where saved data would be lost or misread."""
    assert short(differences(new)) == expected


def test_changes_when_compared_with_the_rules_then_each_rule_has_one() -> None:
    """Every rule is tried, and finds something that breaks where it can."""
    tried = {f"SNAPSHOT_{rule}" for _, _, found in CHANGES for rule, _, _ in found}
    assert tried == set(SNAPSHOT_RULES)
    assert all(sentence.endswith(".") for sentence in SNAPSHOT_RULES.values())


def test_differences_when_told_then_every_text_says_something() -> None:
    """A difference has a reason, and is different: the texts on its two sides are not equal."""
    for _, new, _ in CHANGES:
        for one in differences(new):
            assert one.why
            assert one.was != one.now


NAMES = [value.name for value in SPEC]


@settings(max_examples=300)
@given(
    st.sampled_from(CHANGES),
    st.none() | st.sets(st.sampled_from(NAMES)),
    st.none() | st.builds(dict, window=st.integers(1, 8)),
)
def test_differences_when_a_restore_would_refuse_then_a_review_has_told(
    change: tuple[str, ModelSpec, Any], present: set[str] | None, parameters: dict[str, int] | None
) -> None:
    """Whatever a snapshot holds and was built with, what breaks for it breaks in a review."""
    told = {one[:2] for one in short(differences(change[1])) if one[2]}
    found = short(differences(change[1], present=present, parameters=parameters))
    assert {one[:2] for one in found if one[2]} <= told


@pytest.mark.parametrize("change", CHANGES, ids=[change[0] for change in CHANGES])
def test_differences_when_a_review_tells_of_a_break_then_some_restore_refuses(
    change: tuple[str, ModelSpec, Any],
) -> None:
    """What breaks in a review breaks for some snapshot: one that has all values, or lacks all."""
    told = {one for one in short(differences(change[1])) if one[2]}
    some = [
        one
        for present in (NAMES, [])
        for window in (1, 2, 8)
        for one in short(differences(change[1], present=present, parameters={"window": window}))
    ]
    assert told <= set(some)


def test_differences_when_a_snapshot_lacks_a_value_then_only_its_default_matters() -> None:
    """What a snapshot holds no data of may change in any way but in what it reads as."""
    changed = with_value("noise", type="bytes", dtype="uint8", size=None, bucket="attrs", key="x")
    assert short(differences(changed, present=["count"])) == []
    assert short(differences(without("noise"), present=["count"])) == [
        ("VALUE_GONE", "noise", False)
    ]
    other = with_value("count", default="1")
    assert short(differences(other, present=[])) == [("DEFAULT", "count", True)]
    assert short(differences(other, present=["count"])) == [("DEFAULT", "count", False)]


def test_differences_when_a_group_has_no_data_then_it_may_gain_a_value() -> None:
    """A group is torn only where a snapshot has data of its other values."""
    new = and_value(carried("extra"), stream=STREAM)
    assert ("ATOMIC", "stream", False) in short(differences(new, present=["count"]))
    assert ("ATOMIC", "stream", True) in short(differences(new, present=["frames"]))


def test_differences_when_the_parameters_are_known_then_they_decide() -> None:
    """A session built with 3 frames fits a bound of 4, one built with 5 does not."""
    new = with_value("frames", ring=Ring("4", 1))
    assert short(differences(new, parameters={"window": 3})) == [("RING", "frames", False)]
    assert short(differences(new, parameters={"window": 5})) == [("RING", "frames", True)]
    narrower = attrs.evolve(SPEC, parameters={"window": Parameter(2, 1, 4)})
    assert short(differences(narrower, parameters={"window": 4})) == [
        ("PARAMETER", "window", False)
    ]
    assert short(differences(narrower, parameters={"window": 5})) == [("PARAMETER", "window", True)]


def test_differences_when_a_default_is_lower_then_sessions_keep_their_number() -> None:
    """A session goes on with the number that it was built with, also where that was a default."""
    new = attrs.evolve(SPEC, parameters={"window": Parameter(1, 1, 8)})
    assert short(differences(new)) == [("PARAMETER", "window", False)]
    assert short(differences(new, parameters={})) == [("PARAMETER", "window", False)]


def test_differences_when_a_session_began_with_a_symbol_of_its_own_then_that_stays() -> None:
    """The schema's own number of a symbol is no matter to a session that has another one."""
    new = attrs.evolve(SPEC, symbols={**SPEC.symbols, "H": 32})
    assert short(differences(new, parameters={"H": 64})) == [("NUMBER", "H", False)]
    assert ("SIZE", "noise", True) in short(differences(new, parameters={"LAYERS": 4}))


def test_differences_when_a_size_has_no_value_then_equal_texts_are_equal() -> None:
    """A size that no number fits is compared as text."""
    odd = with_value("cache", size=Size(elements="H / window"))
    assert short(differences(odd, odd, parameters={"window": 3})) == []
    assert ("SIZE", "cache", True) in short(differences(odd, parameters={"window": 3}))


@pytest.mark.parametrize(
    "changes",
    [
        {"line": 99, "measured": (Measured(1, "a desk", "2026-11-29"),)},
        {"park": Park(("disk",)), "operations": ("park",), "rebuild": Rebuild(("count",))},
        {"on_commit": ("compact",), "sharding": Sharding(over="tp")},
    ],
)
def test_fingerprint_when_what_bytes_do_not_depend_on_changes_then_it_stays(
    changes: dict[str, Any],
) -> None:
    """Places, measurements, and what the manager may do with a value are no part of it."""
    assert fingerprint(record_of(with_value("cache", **changes))) == fingerprint(record_of(SPEC))
    other = attrs.evolve(SPEC, resets={}, may_be_lost=True, schema="x.yaml", inputs={"a": True})
    assert fingerprint(record_of(other)) == fingerprint(record_of(SPEC))


@pytest.mark.parametrize(
    "new",
    [new for _, new, found in CHANGES if found],
    ids=[name for name, _, found in CHANGES if found],
)
def test_fingerprint_when_something_differs_then_it_is_another(new: ModelSpec) -> None:
    """Whatever is told as a difference changes the fingerprint."""
    assert fingerprint(record_of(new)) != fingerprint(record_of(SPEC))


def test_fingerprint_when_the_order_changes_then_it_stays() -> None:
    """Values and names in another order are the same record."""
    turned = attrs.evolve(
        SPEC,
        values=SPEC.values[::-1],
        symbols=dict(reversed(SPEC.symbols.items())),
        families=dict(reversed(SPEC.families.items())),
    )
    assert fingerprint(record_of(turned)) == fingerprint(record_of(SPEC))
    assert snapshot_differences(record_of(turned), record_of(SPEC)) == ()


def test_record_when_read_back_then_it_is_the_same_record() -> None:
    """A record survives JSON, and the way through a spec."""
    record = json.loads(json.dumps(record_of(SPEC)))
    assert record == record_of(SPEC)
    assert record_of(read_record(record)) == record


def _damaged(record: Any, path: tuple[str, ...], new: Any) -> Any:
    damaged = copy.deepcopy(record)
    part = damaged
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = new
    return damaged


@pytest.mark.parametrize(
    ("path", "new", "place"),
    [
        (("record",), 2, "record.record"),
        (("record",), True, "record.record"),
        (("model",), None, "record.model"),
        (("more",), 1, "record.'more'"),
        (("symbols", "H"), 1.5, "record.symbols.'H'"),
        (("symbols", "H"), 2**63, "record.symbols.'H'"),
        (("symbols",), [["H", 1]], "record.symbols"),
        (("parameters", "window", "minimum"), "1", "record.parameters.'window'.minimum"),
        (("families", "branch", "members"), {}, "record.families.'branch'"),
        (("families", "branch", "count"), "2", "record.families.'branch'"),
        (("families", "branch", "members", "cond"), "{branch}", "record.families.'branch'"),
        (("families", "layer", "count"), "exit()", "record.families.'layer'.count"),
        (("atomic", "stream"), "cache", "record.atomic.'stream'"),
        (("values",), None, "record.values"),
        (("values", "count"), None, "record.values.'count'"),
        (("values", "count", "bucket"), "heap", "record.values.'count'.bucket"),
        (("values", "count", "bucket"), ["attrs"], "record.values.'count'.bucket"),
        (("values", "count", "object"), "HeldValue", "record.values.'count'.object"),
        (("values", "cache", "object"), None, "record.values.'cache'.object"),
        (("values", "count", "type"), "int |", "record.values.'count'.type"),
        (("values", "count", "type"), "list[int", "record.values.'count'.type"),
        (("values", "count", "type"), "a[" * 99 + "b" + "]" * 99, "record.values.'count'.type"),
        (("values", "count", "families"), ["branch"], "record.values.'count'.keys"),
        (("values", "count", "families"), ["nobody"], "record.values.'count'.families"),
        (("values", "seen", "families"), ["branch"] * 2, "record.values.'seen'.families"),
        (("values", "seen", "keys"), ["seen"], "record.values.'seen'.keys"),
        (("values", "seen", "key"), "seen" * 99, "record.values.'seen'.key"),
        (("values", "noise", "elements"), "4", "record.values.'noise'.shape"),
        (("values", "cache", "elements"), None, "record.values.'cache'.shape"),
        (("values", "noise", "shape"), ["H", "9" * 40], "record.values.'noise'.shape"),
        (("values", "noise", "default"), 0, "record.values.'noise'.default"),
        (("values", "noise", "x\n" * 99), 0, "record.values.'noise'."),
        (("values", "frames", "ring"), {"bound": "window"}, "record.values.'frames'.ring.axis"),
        (("values", "pool", "ring", "nbytes"), None, "record.values.'pool'.ring.nbytes"),
        (("values", "window_kv", "ring", "sink"), "exit()", "record.values.'window_kv'.ring.sink"),
        (("values", "pool", "index"), None, "record.values.'pool'.index"),
        (("values", "pool", "index", "metric"), "near", "record.values.'pool'.index.metric"),
        (("values", "pool", "index", "more"), 1, "record.values.'pool'.index.'more'"),
        (("values", "pool", "object"), "HeldValue", "record.values.'pool'.index"),
        (("values", "pool", "codec"), 16, "record.values.'pool'.codec"),
        (("values", "noise", "lifetime"), "for good", "record.values.'noise'.lifetime"),
    ],
)
def test_record_when_it_comes_from_a_file_that_lies_then_it_is_refused(
    path: tuple[str, ...], new: Any, place: str
) -> None:
    """What no schema says is refused by its place, before anything is compared."""
    with pytest.raises(BadRecordError) as raised:
        snapshot_differences(_damaged(record_of(SPEC), path, new), record_of(SPEC))
    assert raised.value.place.startswith(place)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 300


def test_record_when_nothing_new_is_said_then_it_is_that_of_a_file_from_before() -> None:
    """Words that came into the language later are in the records of those schemas that say them."""
    record = record_of(SPEC)
    new = {"index", "codec", "lifetime"}
    said = {name: new & one.keys() for name, one in record["values"].items() if new & one.keys()}
    assert said == {"pool": {"index", "codec"}}
    assert record["values"]["frames"]["ring"] == {"bound": "window", "axis": 1}
    assert "variants" not in record


def test_difference_when_a_record_holds_odd_text_then_it_can_be_printed() -> None:
    """Texts of a file are shown on one line, and not at any length."""
    odd = "\x1b[31m\n\u202e"
    damaged = _damaged(record_of(SPEC), ("values", "count", "default"), odd + "x" * 10_000)
    damaged = _damaged(damaged, ("values", odd), damaged["values"].pop("noise"))
    found = snapshot_differences(damaged, record_of(SPEC))
    assert ("DEFAULT", "count", True) in short(found)
    for one in found:
        assert all(text.isprintable() for text in (one.value, one.was, one.now))
        assert len(one.was) < 1_100


def test_record_when_parameters_lie_then_they_are_refused() -> None:
    """The numbers of a session come from the same file."""
    record = record_of(SPEC)
    for lie in ({"window": "2"}, {"window": 2**70}, {3: 1}, [("window", 1)]):
        with pytest.raises(BadRecordError, match=r"^parameters"):
            snapshot_differences(record, record, parameters=lie)  # type: ignore[arg-type]


def _places(part: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = list(part.items()) if isinstance(part, dict) else []
    inner = list(enumerate(part)) if isinstance(part, list) else inner
    return [path] * bool(path) + [
        place for key, one in inner for place in _places(one, (*path, key))
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
RECORD: Any = record_of(SPEC)
PLACES = _places(RECORD)


@settings(max_examples=300)
@given(st.sampled_from(PLACES), JSON | st.sampled_from(PLACES), st.booleans())
def test_record_when_any_part_is_anything_then_it_is_compared_or_refused(
    path: tuple[Any, ...], new: Any, known: bool
) -> None:
    """Whatever stands in a record, the answer is differences or a BadRecordError."""
    if isinstance(new, tuple):  # a part of the record in another one's place
        found: Any = RECORD
        for key in new:
            found = found[key]
        new = copy.deepcopy(found)
    damaged = _damaged(RECORD, path, new)
    try:
        found = snapshot_differences(damaged, RECORD, parameters={"window": 2} if known else None)
    except BadRecordError:
        return
    assert all(isinstance(one, Difference) for one in found)
    assert all(one.rule in SNAPSHOT_RULES for one in found)


@settings(max_examples=200)
@given(JSON)
def test_record_when_it_is_anything_at_all_then_it_is_refused(data: Any) -> None:
    """No other data passes as a record."""
    with pytest.raises(BadRecordError):
        read_record(data)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("int | None", "int"),
        ("int | str | None", "None | str"),
        ("list[int | None]", "list[int]"),
        ("dict[str, list[int] | None]", "dict[str, list[int]]"),
        ("tuple[int, ...]", "tuple[int, int]"),
        ("tuple[int | str, ...]", "tuple[int, ...]"),
        ("list[int] | list[str]", "list[str]"),
    ],
)
def test_type_when_wider_then_it_takes_the_other_and_not_the_reverse(
    wide: str, narrow: str
) -> None:
    """A type takes another one if every value of that is a value of it."""
    one, other = StoredType.parse(wide), StoredType.parse(narrow)
    assert one.takes(one)
    assert other.takes(other)
    assert one.takes(other)
    assert not other.takes(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int", "bool"),
        ("float", "int"),
        ("list[int]", "set[int]"),
        ("tuple[int, int]", "tuple[int, ...]"),
        ("tuple[int, int]", "tuple[int]"),
        ("list[int] | list[str]", "list[int | str]"),
    ],
)
def test_type_when_not_wider_then_it_does_not_take_the_other(one: str, other: str) -> None:
    """Saved data is read as it is, so a number of another kind is another value."""
    assert not StoredType.parse(one).takes(StoredType.parse(other))


@pytest.mark.parametrize(
    "text", ["", "|", "int|", "list[", "list]", "a b", "list[int]]", "list[]", "a,b", "é", "int;"]
)
def test_type_when_it_is_no_type_then_it_is_refused(text: str) -> None:
    """A text outside the grammar is refused."""
    with pytest.raises(StoredTypeError):
        StoredType.parse(text)


@pytest.mark.parametrize(
    "file", sorted((ROOT / "schemas").glob("*.yaml")), ids=lambda one: one.stem
)
def test_record_when_of_our_schemas_then_it_is_read_back_and_equal(file: Path) -> None:
    """The schemas of this project have records that compare as equal with themselves."""
    from statekit_codegen.load import load_text

    record = record_of(load_text(file.read_bytes(), file.name).spec)
    assert record_of(read_record(json.loads(json.dumps(record)))) == record
    assert snapshot_differences(record, record) == ()


def test_evolution_when_imported_then_neither_torch_nor_the_generator_is() -> None:
    """A tool compares records without loading either."""
    unwanted = "{'torch', 'yaml', 'statekit_codegen'}"
    code = f"import sys, statekit.evolution; print(*{unwanted} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
