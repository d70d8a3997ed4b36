"""Question: what a plan is asked for, read from the command line's words.

Owns the notation of budgets, parallel groups and mixes, and that they name what there is. Amounts
of bytes are read by `statekit.pressure.budget`, as the runtime reads them.

    Q1  Every figure and every budget is that of one rank: each rank has a manager of its own.
    Q2  An accelerator without an index is its first one: `cuda` is `cuda:0`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import attrs

from statekit.errors import BudgetError, GenerateError
from statekit.pressure.budget import Budgets
from statekit_codegen.fault import closest, listed

__all__ = [
    "GROUPS",
    "Question",
    "budgets",
    "device_named",
    "groups",
    "mix",
    "model_device",
    "numbers",
    "require_held",
]

GROUPS = ("tp", "sp", "cfg", "pp")
"""The parallel groups that a schema can cut a value over."""

PLACES = ("cpu", "disk")
"""Devices that may have a budget whatever the schemas say: values are parked there."""

_BARE = re.compile(r"(?!cpu$|disk$|none$|model$)[a-z]+")
_DIGITS = 9


@attrs.frozen
class Question:
    """What is asked.

    Attributes:
        budgets: bytes by device; a device that is absent has no limit.
        step: the step after which bytes are counted, from 1.
        numbers: in place of the schemas' own.
        model_device: the device that schemas call `model`.
        groups: size of each parallel group.
        active: sessions that are in use at the same time, where the others are put away.
        sessions: the number of sessions that figures are shown for.
    """

    budgets: Mapping[str, int] = attrs.field(factory=dict)
    step: int = 1
    numbers: Mapping[str, int] = attrs.field(factory=dict)
    model_device: str = "cuda:0"
    groups: Mapping[str, int] = attrs.field(factory=dict)
    active: int = 1
    sessions: int = 64


def device_named(text: str) -> str:
    """The device as byte counts name it, by Q2."""
    return f"{text}:0" if _BARE.fullmatch(text) else text


def model_device(given: str) -> str:
    """The device that schemas call `model`, by Q2.

    Raises:
        GenerateError: it is no device that a model could run on.
    """
    device = device_named(given.strip())
    try:
        Budgets.parse({device: 1})
    except BudgetError as error:
        raise GenerateError("--model-device", f"{given!r} is no device", error.todo) from None
    if device == "disk":
        raise GenerateError("--model-device", "no model runs on a disk", "name cuda, or cpu")
    return device


def budgets(given: Iterable[str]) -> dict[str, int]:
    """Budgets written as `DEVICE=AMOUNT`, in bytes.

    Raises:
        BudgetError: one is not written so, names no device or no amount, or comes twice.
    """
    found: dict[str, int] = {}
    for text in given:
        name, equals, amount = text.partition("=")
        device = device_named(name.strip())
        if not equals or not name.strip():
            todo = "write a device and an amount, such as cuda=80GiB or cpu=50%"
            raise BudgetError(repr(text), "no budget", todo)
        if device in found:
            raise BudgetError(device, "two amounts", "say one")
        found.update(Budgets.parse({device: amount.strip()}).limits)
    return found


def require_held(limits: Mapping[str, int], devices: Collection[str]) -> None:
    """Refuse a budget that nothing could ever use: most likely it was meant for another device.

    Raises:
        BudgetError: no value lies on the device of a budget.
    """
    known = list(dict.fromkeys((*devices, *PLACES)))
    for device in limits:
        if device not in known:
            todo = f"{closest(device, known)}devices here: {listed(known)}; --model-device names "
            raise BudgetError(
                device, "no value lies there", f"{todo}the one that schemas call `model`"
            )


def groups(given: Iterable[str]) -> dict[str, int]:
    """Sizes of parallel groups written as `GROUP=NUMBER`.

    Raises:
        GenerateError: one is not written so, is no group, or comes twice.
    """
    found: dict[str, int] = {}
    for text in given:
        name, size = _pair("--shard", text, f"write a group and its size, such as {GROUPS[0]}=4")
        if name not in GROUPS:
            todo = f"{closest(name, GROUPS)}groups: {listed(GROUPS)}"
            raise GenerateError("--shard", f"no group {name!r}", todo)
        if name in found:
            raise GenerateError("--shard", f"two sizes for {name}", "say one")
        found[name] = size
    return found


def mix(given: str, models: Collection[str]) -> dict[str, int]:
    """Proportions written as `MODEL=NUMBER,MODEL=NUMBER`.

    Raises:
        GenerateError: they are not written so, name no model that there is, or name one twice.
    """
    found: dict[str, int] = {}
    for text in given.split(","):
        name, parts = _pair("--mix", text, "write models and their parts, as in a=3,b=1")
        if name not in models:
            todo = f"{closest(name, models)}models here: {listed(models)}"
            raise GenerateError("--mix", f"no model {name!r}", todo)
        if name in found:
            raise GenerateError("--mix", f"two parts for {name}", "say one")
        found[name] = parts
    return found


def numbers(given: Iterable[str], known: Collection[str]) -> dict[str, int]:
    """Numbers in place of the schemas' own, written as `NAME=NUMBER`.

    Args:
        known: the names that some schema has.

    Raises:
        GenerateError: one is not written so, or no schema has it.
    """
    found: dict[str, int] = {}
    for text in given:
        name, number = _pair("--set", text, "write a name and a whole number, such as H=480")
        if name not in known:
            todo = f"{closest(name, known)}numbers here: {listed(known)}"
            raise GenerateError("--set", f"no schema has a number {name!r}", todo)
        found[name] = number
    return found


def _pair(option: str, text: str, todo: str) -> tuple[str, int]:
    name, _, number = (part.strip() for part in text.partition("="))
    if not name or not number.isdecimal() or not number.isascii():
        raise GenerateError(option, f"{text.strip()!r}", todo)
    if len(number) > _DIGITS or int(number) < 1:
        raise GenerateError(option, f"{text.strip()!r}", f"use 1 to {10**_DIGITS - 1:,}")
    return name, int(number)
