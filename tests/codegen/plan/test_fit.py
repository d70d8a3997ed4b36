"""How many fit: against the runtime's own admission, against counting one by one, and by hand."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import attrs
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from statekit.errors import BudgetError, GenerateError, SessionAdmissionError
from statekit.manager import SessionStateManager
from statekit.objects import EncodeOnce, HeldValue, LatentBuffer
from statekit.pressure.promise import promise
from statekit.spec import Tier
from statekit_codegen.plan.answer import Answer, Fit, answer
from statekit_codegen.plan.crowd import Group, greatest, occupied, over, repeated
from statekit_codegen.plan.gain import Gain
from statekit_codegen.plan.need import Need, Relief, ValueNeed, need_of
from tests.codegen.plan.schemas import GIB, MIB, ROOT, TOY, asked, model, toy

MODELS = sorted(path.stem for path in (ROOT / "schemas").glob("*.yaml"))


def fit_of(found: Answer) -> Fit:
    """How many of the only model fit."""
    (plan,) = found.models
    assert plan.fit is not None
    return plan.fit


def gain(fit: Fit, change: str, name: str) -> Gain:
    """The gain of one change to one value or parameter."""
    (one,) = (one for one in fit.gains if one.change == change and name in one.names)
    return one


# -- against the runtime --------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_need_when_nothing_has_grown_then_it_is_what_a_session_is_admitted_with(name: str) -> None:
    """A session in use needs its promise, and one that waits what stays promised to it."""
    spec = model(name).spec
    need = need_of(spec, name, asked(step=2)).without_growth()
    for relief, tiers in (
        (("rebuild",), ()),
        (("park", "rebuild"), ("host", "disk")),
    ):
        promised = promise(spec, "cuda:0", None, tiers)
        assert need.in_use() == promised.by_device
        assert {d: n for d, n in need.staying(relief).items() if n} == promised.staying


def test_fit_when_a_real_manager_admits_then_it_takes_as_many_as_planned() -> None:
    """Begun one after the other, the first session that is refused is the first too many."""
    small = toy()
    question = asked(step=2, budgets={"cpu": 1000}, model_device="cpu")
    fits = fit_of(answer([small], question, None)).sessions
    assert fits == 1000 // (90 + 40 + 6 + 50 + 10)
    manager = SessionStateManager(100, budgets={"cpu": 1000}, model_device="cpu")
    leases = []  # in use, all of them: a lease that nobody holds any more has ended
    for number in range(fits):
        leases.append(manager.lease(f"robot-{number}", begin=small.spec))
        leases[-1].begin()
    with pytest.raises(SessionAdmissionError):
        manager.lease("one-too-many", begin=small.spec).begin()
    for lease in leases:
        lease.end()


def fill(manager: SessionStateManager, session_id: str) -> None:
    """Let a session hold what the toy declares for its second step, with N = 1000."""

    def some(count: int) -> torch.Tensor:
        return torch.zeros(count, dtype=torch.uint8)

    def buffer(maxlen: int | None = None) -> LatentBuffer[torch.Tensor]:
        return LatentBuffer[torch.Tensor]().allocate(maxlen=maxlen)

    cache, text = HeldValue[torch.Tensor]().allocate(), EncodeOnce[torch.Tensor]().allocate()
    ring, three, history = buffer(4), buffer(3), buffer()
    cache.commit(some(8000))
    text.commit(some(5000))
    ring.extend([some(1000) for _ in range(4)])
    three.extend([some(2) for _ in range(3)])
    history.append(some(1000))
    session = manager.get_or_create_session(session_id)
    for name, held in [("cache", cache), ("ring", ring), ("three", three), ("text", text)]:
        session.put(name, held)
    session.put("history", history)


@pytest.mark.parametrize(("change", "parks"), [("rebuild", False), ("park and rebuild", True)])
def test_gains_when_a_real_manager_puts_sessions_away_then_it_takes_as_many_as_planned(
    tmp_path: Path, change: str, parks: bool
) -> None:
    """Used one at a time, and filled: what is parked and released makes the planned room."""
    large = toy(TOY.replace("{N: 10}", "{N: 1000}"))
    budgets = {"cpu": 100_000, **({"disk": 10**9} if parks else {})}
    question = asked(step=2, budgets=budgets, model_device="cpu")
    (planned,) = (
        one.fits for one in fit_of(answer([large], question, None)).gains if one.change == change
    )
    manager = SessionStateManager(
        100, budgets=budgets, model_device="cpu", park_folder=tmp_path if parks else None
    )
    admitted = 0
    with pytest.raises(SessionAdmissionError):
        while True:
            with manager.lease(f"robot-{admitted}", begin=large.spec):
                fill(manager, f"robot-{admitted}")
            admitted += 1
    assert admitted == planned
    manager.close()


# -- against counting -----------------------------------------------------------------------------

TIERS: list[tuple[Tier, ...]] = [(), ("host",), ("disk",), ("host", "disk"), ("disk", "host")]
RELIEFS: list[tuple[Relief, ...]] = [(), ("park",), ("rebuild",), ("park", "rebuild")]


@st.composite
def needs(draw: st.DrawFn) -> Need:
    """A session of one to four values on any devices."""
    values = []
    for number in range(draw(st.integers(1, 4))):
        device = draw(st.sampled_from(["cuda:0", "cuda:0", "cpu", "none"]))
        tiers = draw(st.sampled_from(TIERS))
        if device == "cpu":
            tiers = tuple(tier for tier in tiers if tier != "host")
        nbytes = 0 if device == "none" else draw(st.integers(0, 9))
        pending = 0 if device == "none" else draw(st.integers(0, 3))
        rebuildable = draw(st.booleans())
        values.append(ValueNeed(f"v{number}", device, nbytes, pending, 0, tiers, rebuildable))
    return Need("toy", tuple(values))


CROWDS = st.lists(st.builds(Group, need=needs(), count=st.integers(1, 3)), min_size=1, max_size=3)
BUDGETS = st.dictionaries(st.sampled_from(["cuda:0", "cpu", "disk"]), st.integers(1, 60))


@given(crowd=CROWDS, budgets=BUDGETS, active=st.integers(1, 5), relief=st.sampled_from(RELIEFS))
def test_greatest_when_counted_one_by_one_then_it_is_the_same(
    crowd: list[Group], budgets: dict[str, int], active: int, relief: tuple[Relief, ...]
) -> None:
    """Halving finds what counting up finds, and one session more never makes room."""
    found = greatest(crowd, budgets, active, relief)
    fits = [
        not over(occupied(repeated(crowd, times), budgets, active, relief), budgets)
        for times in range(1, 250)
    ]
    counted = fits.index(False) if False in fits else None
    assert found == counted
    assert not any(fits[counted:] if counted is not None else [])


@given(crowd=CROWDS, budgets=BUDGETS, active=st.integers(1, 5), relief=st.sampled_from(RELIEFS))
def test_occupied_when_sessions_are_put_away_then_no_byte_is_lost_or_made(
    crowd: list[Group], budgets: dict[str, int], active: int, relief: tuple[Relief, ...]
) -> None:
    """What is released is gone, what is parked is elsewhere or stays: nothing is counted twice."""
    used = occupied(crowd, budgets, active, relief)
    alike = occupied(crowd, budgets, active)
    released = pending = 0
    size = sum(group.count for group in crowd)
    for group in crowd:
        busy = min(group.count, -(-active * group.count // size))
        for one in group.need.values:
            waiting = group.count - busy
            if "rebuild" in relief and one.rebuildable:
                released += one.in_use_nbytes * waiting
            elif "park" in relief and one.tiers:
                pending += one.pending_nbytes * waiting
    assert all(number >= 0 for number in used.values())
    kept = sum(alike.values()) - released
    assert kept - pending <= sum(used.values()) <= kept
    if "disk" not in budgets:
        assert not used.get("disk")


@given(crowd=CROWDS, budgets=BUDGETS, active=st.integers(1, 5))
def test_occupied_when_there_is_more_relief_then_a_budgeted_device_never_has_less_room(
    crowd: list[Group], budgets: dict[str, int], active: int
) -> None:
    """Parking fills other devices up to their budgets and never over them."""
    before = occupied(crowd, budgets, active)
    after = occupied(crowd, budgets, active, ("park",))
    exceeded = over(after, budgets)
    assert all(device in over(before, budgets) for device in exceeded)


# -- by hand --------------------------------------------------------------------------------------


def test_fit_when_a_device_is_short_then_it_and_its_largest_value_are_named() -> None:
    """On the device: 80 + 10 + 40 + 50 bytes a session; on the host 16, later more."""
    fit = fit_of(answer([toy()], asked(step=2, budgets={"cuda:0": 1000, "cpu": 90}), None))
    assert fit.sessions == 5
    limit = fit.limit
    assert limit is not None
    assert (limit.device, limit.model, limit.value) == ("cuda:0", "toy", "cache")
    assert (limit.value_nbytes, limit.used_nbytes, limit.short_nbytes) == (540, 1080, 80)
    fit = fit_of(answer([toy()], asked(step=2, budgets={"cuda:0": 1000, "cpu": 50}), None))
    assert fit.sessions == 3
    assert fit.limit is not None
    assert (fit.limit.device, fit.limit.value) == ("cpu", "history")


def test_fit_when_the_step_is_later_then_growth_counts() -> None:
    """After step 31 the history holds 210 bytes, and dropping its growth gives them back."""
    question = asked(step=31, budgets={"cuda:0": 10_000, "cpu": 1000})
    fit = fit_of(answer([toy()], question, None))
    assert fit.sessions == 1000 // (6 + 10 + 20 * 10) == 4
    dropped = gain(fit, "growth", "history")
    assert (dropped.fits, dropped.more, dropped.full) == (55, 51, "cuda:0")


def test_gains_when_bounds_are_one_less_then_the_parameter_and_the_number_are_tried() -> None:
    """One frame less of the window is 10 bytes on the device, one of three frames 2 on the host."""
    fit = fit_of(answer([toy()], asked(step=2, budgets={"cuda:0": 3400}), None))
    assert fit.sessions == 18
    window = gain(fit, "bound", "window")
    assert (window.to, window.fits, window.more, window.full) == (3, 20, 2, "cuda:0")
    three = gain(fit, "bound", "three")
    assert (three.to, three.fits, three.more) == (2, 18, 0)


def test_gains_when_sessions_are_put_away_then_those_in_use_keep_all() -> None:
    """One in use takes 180 of the device; each that waits its ring and, unless released, its text.

    The cache of those that wait goes to the host as far as that has room; the history to disk.
    """
    budgets = {"cuda:0": 1000, "cpu": 16 * 11 + 80 * 2}
    fit = fit_of(answer([toy()], asked(step=2, budgets=budgets), None))
    assert fit.sessions == 5
    # six: 16 * 6 of the host, so room for 3 caches; 180 + 5 * 90 and the 2 caches without room
    # seven would be 180 + 6 * 90 and 4 caches without room
    parked = gain(fit, "park", "cache")
    assert (parked.fits, parked.more) == (6, 1)
    # 180 and 40 + 90 for each one that waits without its text
    released = gain(fit, "rebuild", "text")
    assert (released.fits, released.more) == (7, 2)
    with_disk = asked(step=2, budgets={**budgets, "disk": 10**6})
    fit = fit_of(answer([toy()], with_disk, None))
    # everything that has a tier leaves: 180, and 90 for each one that waits
    assert gain(fit, "park", "cache").fits == 10
    # and 40 without the text
    assert gain(fit, "park and rebuild", "text").fits == 21


def test_gains_when_more_sessions_are_in_use_then_less_is_put_away() -> None:
    """With three in use at a time, three keep their caches."""
    budgets = {"cuda:0": 1000, "cpu": 10**6, "disk": 10**6}
    fits = [
        gain(
            fit_of(answer([toy()], asked(step=2, budgets=budgets, active=active), None)),
            "park",
            "cache",
        ).fits
        for active in (1, 2, 3, 5, 50)
    ]
    assert fits == [10, 9, 8, 6, 5]


def test_fit_when_no_budget_limits_what_is_held_then_there_is_no_limit() -> None:
    """A budget for a disk alone limits nothing that sessions hold in memory."""
    fit = fit_of(answer([toy()], asked(step=2, budgets={"disk": 5}), None))
    assert fit == Fit(None, None, ())
    (plan,) = answer([toy()], asked(step=2), None).models
    assert plan.fit is None
    assert [row.fits for row in plan.devices] == [None, None]


def test_fit_when_not_one_session_fits_then_it_is_none_and_says_what_is_missing() -> None:
    """Zero is an answer, with the bytes that one session lacks."""
    fit = fit_of(answer([toy()], asked(step=2, budgets={"cuda:0": 100}), None))
    assert fit.sessions == 0
    assert fit.limit is not None
    assert fit.limit.short_nbytes == 80


def test_mix_when_models_share_devices_then_whole_crowds_are_counted() -> None:
    """Three DreamZero and one Cosmos3 fit 41 times into 80 GiB, and their gains are for all."""
    question = asked(step=400, budgets={"cuda:0": 80 * GIB, "cpu": 256 * GIB})
    models = [model("dreamzero"), model("cosmos3"), model("sana_wm")]
    found = answer(models, question, {"dreamzero": 3, "cosmos3": 1})
    assert [plan.model for plan in found.models] == ["dreamzero", "cosmos3"]
    mix = found.mix
    assert mix is not None
    assert mix.fit is not None
    one, three = (
        need_of(model(name).spec, name, question).in_use()["cuda:0"]
        for name in ("cosmos3", "dreamzero")
    )
    assert mix.times == 80 * GIB // (one + 3 * three) == 41
    assert mix.fit.sessions == 164
    assert mix.fit.limit is not None
    assert (mix.fit.limit.model, mix.fit.limit.value) == ("dreamzero", "vae_enc_feat_map")
    changes = [(g.change, g.model) for g in mix.fit.gains]
    assert changes[:3] == [("park", ""), ("rebuild", ""), ("park and rebuild", "")]
    assert ("growth", "dreamzero") in changes
    more = [g.more for g in mix.fit.gains[:3]]
    assert more[2] is not None
    assert more[0] is not None
    assert more[2] > more[0] > 0


def test_holds_when_a_mix_is_asked_for_then_it_decides() -> None:
    """As many sessions as were asked for: of the mix where there is one, else of each model."""
    question = asked(step=2, budgets={"cuda:0": 80 * GIB}, sessions=164)
    models = [model("dreamzero"), model("cosmos3")]
    assert not answer(models, question, None).holds()
    assert answer(models, question, {"dreamzero": 3, "cosmos3": 1}).holds()
    more = attrs.evolve(question, sessions=165)
    assert not answer(models, more, {"dreamzero": 3, "cosmos3": 1}).holds()


# -- ranks ----------------------------------------------------------------------------------------


def ranked(sharding: str) -> Need:
    """The toy on four tensor ranks, with its cache sharded so."""
    text = TOY.replace(
        "    elements: {first: 4 * N, then: 8 * N}\n", f"    elements: 8 * N\n{sharding}"
    )
    return need_of(toy(text).spec, "toy.yaml", asked(step=2, groups={"tp": 4}))


@pytest.mark.parametrize(
    ("sharding", "nbytes"),
    [
        ("", 80),
        ("    sharding: replicated\n", 80),
        ("    sharding: {over: sp, dim: 0}\n", 80),
        ("    sharding: {over: tp, dim: 0}\n", 20),
        ("    sharding: {rank: 2}\n", 80),
    ],
)
def test_ranks_when_a_value_is_cut_then_only_its_own_group_divides_it(
    sharding: str, nbytes: int
) -> None:
    """The figure is that of the fullest rank: the one that holds alone what one rank holds."""
    held = {one.name: one.nbytes for one in ranked(sharding).values}
    assert held["cache"] == nbytes
    assert held["ring"] == 40


def test_ranks_when_there_are_fewer_than_the_schema_names_then_it_could_not_run() -> None:
    """A value on rank 4 of 4 has nowhere to be: the value, and how many ranks it takes."""
    with pytest.raises(GenerateError, match=r"cache: it lies on rank 4, and there are 4; use at"):
        ranked("    sharding: {rank: 4}\n")


def test_need_when_a_schema_names_an_accelerator_without_its_index_then_it_is_the_first() -> None:
    """`cuda` in a schema, in a budget and for the model are one device."""
    text = TOY.replace(
        "    device: cpu\n    ring: {bound: 3}", "    device: cuda\n    ring: {bound: 3}"
    )
    found = answer([toy(text)], asked(step=2, budgets={"cuda:0": 186 * 5}), None)
    assert fit_of(found).sessions == 5
    assert [one.device for one in found.models[0].curve.devices] == ["cuda:0", "cpu"]


def test_answer_when_groups_divide_nothing_then_it_says_which() -> None:
    """Ranks of a group that no value is cut over change no figure, and are named."""
    (plan,) = answer([model("dreamzero")], asked(step=2, groups={"tp": 4}), None).models
    assert plan.idle_groups == ("tp",)
    assert (plan.ranks.count, plan.ranks.rank) == (4, 0)
    (plan,) = answer([model("cosmos3")], asked(step=2, groups={"tp": 4}), None).models
    assert plan.idle_groups == ()
    assert plan.need.in_use()["cuda:0"] == 36 * MIB + 2 * 2 * 7200 * 128 * 2


# -- errors ---------------------------------------------------------------------------------------


def test_answer_when_a_budget_is_for_a_device_without_values_then_it_is_refused() -> None:
    """A budget that nothing could use was meant for another device; the cure names those."""
    with pytest.raises(BudgetError) as caught:
        answer([toy()], asked(step=2, budgets={"cuda:1": 5}), None)
    assert str(caught.value) == (
        "budget of cuda:1: no value lies there; did you mean cuda:0? devices here: cuda:0, cpu, "
        "disk; --model-device names the one that schemas call `model`"
    )


@pytest.mark.parametrize("numbers", [{"window": 0}, {"N": 0}])
def test_answer_when_a_number_has_no_meaning_then_it_could_not_run(numbers: dict[str, int]) -> None:
    """A parameter out of its bounds and a size of nothing name the place in the schema."""
    with pytest.raises(GenerateError) as caught:
        answer([toy()], asked(step=2, numbers=numbers), None)
    assert caught.value.place.startswith("schemas/toy.yaml: ")


def names(values: Collection[ValueNeed]) -> list[str]:
    """Their names."""
    return [one.name for one in values]


def test_need_when_values_wait_then_release_comes_before_parking() -> None:
    """What can be rebuilt is released rather than parked, as the planner does."""
    both = TOY.replace(
        "operations: [stage, release]", "operations: [stage, release, park]"
    ).replace(
        "rebuild: {from: [prompt], cost: a pass}",
        "rebuild: {from: [prompt], cost: a pass}\n    park: {tiers: [disk]}",
    )
    need = need_of(toy(both).spec, "toy.yaml", asked(step=2))
    assert names(need.parked(("park", "rebuild"))) == ["cache", "history"]
    assert names(need.parked(("park",))) == ["cache", "text", "history"]
    assert names(need.parked(("rebuild",))) == []


def test_need_when_something_released_is_rebuilt_from_a_value_then_that_value_stays() -> None:
    """A source is neither released nor parked while what it makes is gone, as in the runtime."""
    chain = TOY.replace(
        "rebuild: {from: [prompt], cost: a pass}", "rebuild: {from: [cache], cost: x}"
    )
    need = need_of(toy(chain).spec, "toy.yaml", asked(step=2))
    assert [one.name for one in need.values if one.source] == ["cache"]
    assert need.staying(("rebuild",)) == {"cuda:0": 90 + 40, "cpu": 16}
    assert need.staying(("park", "rebuild")) == {"cuda:0": 90 + 40, "cpu": 6}
    assert need.staying(("park",)) == {"cuda:0": 40 + 50, "cpu": 6}
