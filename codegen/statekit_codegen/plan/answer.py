"""Answer: what a plan says, as data: for each model, and for several in given proportions.

Owns what is shown and in which order. Not here: layout (`text`), words (`words`), the document
(`document`).

    A1  A limit is that of the budgets alone: what weights, activations and the engine's pools take
        is to be taken off them before.
    A2  Totals leave out what nobody can compute, and `unknown` names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from statekit.declared import Ranks
from statekit_codegen.model import Model
from statekit_codegen.plan.crowd import (
    Group,
    first_over,
    greatest,
    occupied,
    over,
    repeated,
)
from statekit_codegen.plan.curve import Curve, curve_of
from statekit_codegen.plan.gain import Gain, Party, gains, groups_of
from statekit_codegen.plan.need import Need, fullest_rank
from statekit_codegen.plan.question import Question, require_held
from statekit_codegen.session import chosen_numbers

__all__ = ["Answer", "DeviceRow", "Fit", "Limit", "MixPlan", "ModelPlan", "answer"]


@attrs.frozen
class Limit:
    """What keeps one more from fitting.

    Attributes:
        device: the device whose budget is exceeded first.
        model: the model of the value.
        value: the value that takes the most there.
        value_nbytes: what it takes in the sessions that are one too many to fit, all together.
        used_nbytes: what these sessions take on the device.
        short_nbytes: how many bytes are missing for them.
    """

    device: str
    model: str
    value: str
    value_nbytes: int
    used_nbytes: int
    short_nbytes: int


@attrs.frozen
class Fit:
    """How many fit: `sessions`, or None where nothing limits them; and why not more."""

    sessions: int | None
    limit: Limit | None
    gains: tuple[Gain, ...]


@attrs.frozen
class DeviceRow:
    """One device.

    Attributes:
        device: its name.
        nbytes: bytes of one session between two steps.
        in_use_nbytes: the same while a step runs.
        sessions_nbytes: bytes of as many sessions as were asked for, all of them in use.
        budget_nbytes: its budget; None where it has none.
        fits: how many sessions fit on this device alone; None where nothing limits them.
    """

    device: str
    nbytes: int
    in_use_nbytes: int
    sessions_nbytes: int
    budget_nbytes: int | None
    fits: int | None


@attrs.frozen
class ModelPlan:
    """One model alone.

    Attributes:
        model: its name.
        file: the file of its schema.
        doc: what the schema says that its state is.
        numbers: symbols, constants and parameters as used here.
        variant: the variant of the schema that they are those of; empty: its own.
        ranks: the ranks, and the one that figures are for.
        idle_groups: parallel groups that were asked for and that nothing of the model is cut over.
        need: one session.
        devices: by device.
        fit: how many sessions fit; None where no budget was given.
        curve: the bytes of a session up to the step.
    """

    model: str
    file: str
    doc: str
    numbers: Mapping[str, int]
    variant: str
    ranks: Ranks
    idle_groups: tuple[str, ...]
    need: Need
    devices: tuple[DeviceRow, ...]
    fit: Fit | None
    curve: Curve


@attrs.frozen
class MixPlan:
    """Several models in given proportions.

    Attributes:
        parts: sessions of each model in the smallest crowd of these proportions.
        times: how many such crowds fit; None where nothing limits them.
        devices: by device; a row's bytes are those of one such crowd.
        fit: the same in sessions, all models together.
    """

    parts: Mapping[str, int]
    times: int | None
    devices: tuple[DeviceRow, ...]
    fit: Fit | None


@attrs.frozen
class Answer:
    """All models, and the mix if one was asked for."""

    asked: Question
    models: tuple[ModelPlan, ...]
    mix: MixPlan | None

    def holds(self) -> bool:
        """Whether as many sessions as were asked for fit: of each model alone, or of the mix."""
        fits = [one.fit for one in ([self.mix] if self.mix is not None else self.models)]
        return all(
            fit is None or fit.sessions is None or fit.sessions >= self.asked.sessions
            for fit in fits
        )


def answer(models: Iterable[Model], asked: Question, parts: Mapping[str, int] | None) -> Answer:
    """The answer to what is asked.

    Args:
        parts: proportions, by model; None for each model alone only.

    Raises:
        BudgetError: a budget is for a device that nothing lies on.
        GenerateError: a number is out of its bounds, or a size has no value under the numbers.
    """
    chosen = [one for one in models if parts is None or one.spec.model in parts]
    plans = tuple(_model(model, asked) for model in chosen)
    require_held(asked.budgets, [row.device for plan in plans for row in plan.devices])
    return Answer(asked, plans, _mix(chosen, asked, parts) if parts else None)


def _model(model: Model, asked: Question) -> ModelPlan:
    spec = model.spec
    party = (Party(spec, model.file),)
    groups = groups_of(party, asked)
    cut_over = {one.sharding.over for one in spec if one.sharding is not None}
    return ModelPlan(
        model=spec.model,
        file=model.file,
        doc=model.schema.doc,
        numbers=spec.environment(chosen_numbers(spec, model.file, asked.numbers)),
        variant=model.variant,
        ranks=fullest_rank(spec, model.file, asked),
        idle_groups=tuple(name for name in asked.groups if name not in cut_over),
        need=groups[0].need,
        devices=_devices(groups, asked, asked.sessions),
        fit=_fit(party, asked, groups)[1],
        curve=curve_of(spec, model.file, asked),
    )


def _mix(models: Iterable[Model], asked: Question, parts: Mapping[str, int]) -> MixPlan:
    by_name = {model.spec.model: model for model in models}
    parties = tuple(
        Party(by_name[name].spec, by_name[name].file, count) for name, count in parts.items()
    )
    groups = groups_of(parties, asked)
    times, fit = _fit(parties, asked, groups)
    return MixPlan(parts, times, _devices(groups, asked, 1), fit)


def _devices(groups: tuple[Group, ...], asked: Question, times: int) -> tuple[DeviceRow, ...]:
    """One row a device: the bytes of these groups, and of so many times as many."""
    devices = dict.fromkeys(device for group in groups for device in group.need.devices)
    in_use = occupied(groups, asked.budgets, asked.active)
    rows = []
    for device in devices:
        limit = asked.budgets.get(device)
        nbytes = sum(
            (one.nbytes or 0) * group.count
            for group in groups
            for one in group.need.values
            if one.device == device
        )
        alone = {} if limit is None else {device: limit}
        rows.append(
            DeviceRow(
                device=device,
                nbytes=nbytes,
                in_use_nbytes=in_use[device],
                sessions_nbytes=in_use[device] * times,
                budget_nbytes=limit,
                fits=greatest(groups, alone, asked.active) if alone else None,
            )
        )
    return tuple(rows)


def _fit(
    parties: tuple[Party, ...], asked: Question, groups: tuple[Group, ...]
) -> tuple[int | None, Fit | None]:
    """How many times the groups fit, and the same in sessions."""
    if not asked.budgets:
        return None, None
    times = greatest(groups, asked.budgets, asked.active)
    if times is None:
        return None, Fit(None, None, ())
    size = sum(group.count for group in groups)
    found = tuple(gains(parties, asked, times))
    return times, Fit(times * size, _limit(groups, asked, times + 1), found)


def _limit(groups: tuple[Group, ...], asked: Question, times: int) -> Limit:
    """What stands in the way of so many, which do not fit."""
    many = repeated(groups, times)
    used = occupied(many, asked.budgets, asked.active)
    device = first_over(many, asked.budgets, asked.active)
    share = {
        (group.need.model, one.name): one.in_use_nbytes * group.count
        for group in many
        for one in group.need.values
        if one.device == device
    }
    model, value = max(share, key=lambda one: share[one])
    return Limit(
        device, model, value, share[model, value], used[device], over(used, asked.budgets)[device]
    )
