"""Against: one value of one session, beside what its schema declares.

Owns the rules that compare; each says what is declared, what was measured, what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from statekit.declared import DeclaredBytes
from statekit.expressions import Expression
from statekit.measure.comparison import Comparison
from statekit.measure.finding import Finding, mib
from statekit.measure.misshapen import wrong_shape
from statekit.measure.numbers import SCHEMA
from statekit.measure.recording import MeasuredSession
from statekit.spec import ModelSpec, ValueSpec

__all__ = ["compare", "model_device"]

_FAR = 2
"""Declared bytes are far above measured ones when they are more than so many times as many."""

_FASTER = 1.01


def model_device(spec: ModelSpec, session: MeasuredSession) -> str:
    """The device that `model` stands for.

    Where the manager says, if any such value lies there; else where most of their bytes lie.
    """
    total: dict[str, int] = {}
    for value in spec:
        measured = session.value(spec.model, value.name)
        if value.device == "model" and measured is not None:
            for device, nbytes in measured.peak_by_device.items():
                total[device] = total.get(device, 0) + nbytes
    if not total or session.model_device in total:
        return session.model_device
    return max(total, key=lambda device: (total[device], device))


def compare(one: Comparison) -> Iterator[Finding]:
    """Everything in which the value is not as declared."""
    yield from _device(one)
    yield from _dtype(one)
    yield from _pinned(one)
    over = _bound(one)
    if over is not None:
        yield over
    wrong = wrong_shape(one)
    explained = over is not None or one.value.device == "none"
    below = None if explained else _bytes(one, wrong)
    if wrong is not None and (below is None or below.rule != "MEASURED_BELOW"):
        yield one.finding("MEASURED_SHAPE", *wrong)
    if below is not None and (wrong is None or below.kind == "wrong"):
        yield below


def _device(one: Comparison) -> Iterator[Finding]:
    declared = one.value.device
    wanted = one.model_device if declared == "model" else declared
    elsewhere = {
        device: nbytes
        for device, nbytes in one.measured.peak_by_device.items()
        if nbytes and device != wanted and (":" in wanted or device.partition(":")[0] != wanted)
    }
    if not elsewhere:
        return
    where = ", ".join(f"{mib(nbytes)} on {device}" for device, nbytes in elsewhere.items())
    if declared == "none":
        yield one.finding(
            "MEASURED_DEVICE",
            f"it held {where}, declared `device: none`, which holds no memory",
            f"write `device: {next(iter(elsewhere))}`, with dtype and shape",
            one.measured.peak_nbytes,
            0,
        )
        return
    is_here = f", which is {wanted} here" if declared == "model" else ""
    alone = elsewhere.keys() == one.measured.peak_by_device.keys() and len(elsewhere) == 1
    instead = next(iter(elsewhere)) if alone else "the device that it is on"
    yield one.finding(
        "MEASURED_DEVICE",
        f"it held {where}, declared `device: {declared}`{is_here}",
        f"write `device: {instead}`, or move it to {wanted} before it is stored",
        sum(elsewhere.values()),
    )


def _dtype(one: Comparison) -> Iterator[Finding]:
    codec = one.value.codec
    declared = one.value.dtype if codec is None else codec.cast
    other = [dtype for dtype in one.measured.dtypes if dtype != declared]
    if declared is not None and other:
        yield one.finding(
            "MEASURED_DTYPE",
            f"it was {' and '.join(one.measured.dtypes)}, declared {declared}",
            f"write `dtype: {other[0]}`, or convert it before it is stored",
        )


def _bound(one: Comparison) -> Finding | None:
    ring = one.value.ring
    text = None if ring is None else ring.bound or ring.nbytes
    limit = None if text is None else one.limit(text)
    if ring is None or text is None or limit is None:
        return None
    held, unit = one.measured.items, "items"
    if ring.bound is None:
        held, unit = one.measured.peak_nbytes, "bytes"
    elif ring.axis is not None:
        held, unit = one.measured.frames, f"frames along axis {ring.axis}"
    if held <= limit:
        return None
    is_here = "" if text == str(limit) else f" = {limit}"
    declared = one.declared
    return one.finding(
        "MEASURED_BOUND",
        f"it held {held:,} {unit}, declared at most {text}{is_here}",
        f"write a bound of {held:,}, or build the buffer through the adapter",
        one.measured.peak_nbytes,
        None if declared is None else declared.most,
    )


def _pinned(one: Comparison) -> Iterator[Finding]:
    pinned = one.measured.pinned
    if pinned is None:
        return
    if one.value.bucket == "attrs":
        todo = "store a copy of the part, such as `part.clone()`"
    elif "compact" in one.value.on_commit:
        todo = "store through the adapter, which makes a copy, or `part.clone()`"
    else:
        todo = "write `on_commit: [compact]`, or store a copy of the part"
    shown = pinned.of_nbytes - pinned.nbytes
    yield one.finding(
        "MEASURED_PINNED",
        f"it shows {mib(shown)} and holds {mib(pinned.of_nbytes)}: views of larger memory",
        todo,
        pinned.of_nbytes,
        shown,
    )


def _bytes(one: Comparison, wrong: tuple[str, str] | None) -> Finding | None:
    """Growth, or declared bytes that are below or far above what was measured."""
    ring, measured, declared = one.value.ring, one.measured, one.declared
    if ring is not None and ring.bound is None and ring.nbytes is None:
        return None if declared is None else _unbounded(one, declared, wrong)
    if measured.grows:
        said = _said(one.value)
        most = None if declared is None else declared.most
        figure = "" if most is None else f", and {mib(most)}"
        return one.finding(
            "MEASURED_GROWTH",
            f"it grew by {mib(round(measured.growth))} a step to {mib(measured.peak_nbytes)}, "
            f"declared {said}{figure}",
            "clear it, or bound it; or make it a LatentBuffer with `ring: {unbounded: ...}`",
            measured.peak_nbytes,
            most,
        )
    if declared is None or not measured.peak_nbytes:
        return None
    pinned = 0 if measured.pinned is None else measured.pinned.nbytes
    steady, second = declared.most, declared.pending
    if one.value.lifetime == "request":  # all of it is there while a request runs alone
        steady, second = second, 0
    if measured.peak_nbytes - pinned > steady + second:
        return _below(one, measured.peak_nbytes, steady + second, wrong, second)
    if steady > _FAR * measured.peak_nbytes and not _is_cut(one.value):
        return one.finding(
            "MEASURED_ABOVE",
            f"it held {mib(measured.peak_nbytes)} at most, declared {mib(steady)}{_by_schema(one)}",
            "run what fills it, give the run's numbers (--set), or write less",
            measured.peak_nbytes,
            steady,
        )
    return None


def _unbounded(
    one: Comparison, declared: DeclaredBytes, wrong: tuple[str, str] | None
) -> Finding | None:
    """Of a buffer without a bound: one item, and how fast they come."""
    measured = one.measured
    if measured.item_nbytes > declared.steady:
        return _below(one, measured.item_nbytes, declared.steady, wrong, 0, "an item of it ")
    rate = declared.growth / declared.every_steps
    by_step = not one.session.counted.get("look-up")
    if measured.grows and by_step and measured.growth > rate * _FASTER:
        return one.finding(
            "MEASURED_GROWTH",
            f"it grew by {mib(round(measured.growth))} a step, declared {mib(round(rate))}",
            "write its `growth` with other `items` or `every_steps`",
            round(measured.growth),
            round(rate),
        )
    return None


def _below(
    one: Comparison, held: int, most: int, wrong: tuple[str, str] | None, pending: int,
    what: str = "it ",
) -> Finding:  # fmt: skip
    also = f" with the {mib(pending)} of its pending copy" if pending else ""
    found = f"{what}held {mib(held)}, declared {mib(most)}{also}{_by_schema(one)}"
    if wrong is not None:
        return one.finding("MEASURED_BELOW", f"{found}: {wrong[0]}", wrong[1], held, most)
    size = one.value.size
    said = "`elements`" if size is not None and size.shape is None else "`shape` or `dtype`"
    return one.finding("MEASURED_BELOW", found, f"write {said} for {held:,} B", held, most)


def _said(value: ValueSpec) -> str:
    """What a schema says of how large the value becomes."""
    ring = value.ring
    if ring is not None and (ring.bound or ring.nbytes):
        return (
            f"`ring: {{bound: {ring.bound}}}`"
            if ring.bound
            else f"`ring: {{nbytes: {ring.nbytes}}}`"
        )
    return f"`update: {value.update}` with a fixed size"


def _is_cut(value: ValueSpec) -> bool:
    return value.sharding is not None and value.sharding.over is not None


def _by_schema(one: Comparison) -> str:
    """Which of the numbers in a figure no shape of the run says."""
    size = one.value.size
    texts = () if size is None else (*(size.shape or ()), size.elements or "1", size.first or "1")
    names = {name for text in texts for name in Expression.parse(text).names}
    own = sorted(
        name for name in names & one.spec.symbols.keys() if one.numbers.sources[name] == SCHEMA
    )
    return (
        f" with the schema's {', '.join(f'{n}={one.numbers.values[n]}' for n in own)}"
        if own
        else ""
    )
