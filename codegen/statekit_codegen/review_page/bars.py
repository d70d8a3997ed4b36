"""Bytes by device: how much of a session lies where, and which values that is."""

from __future__ import annotations

import attrs

from statekit_codegen.review import Review, Row, Total
from statekit_codegen.review_words import growth_words, total_extras
from statekit_codegen.units import format_nbytes

__all__ = ["Device", "Share", "devices"]

_WIDTH = 1000
"""Units across a whole bar."""


@attrs.frozen
class Share:
    """What one value has of its device.

    Attributes:
        name: the value.
        bucket: its bucket.
        start: where its part of the device's bar begins, in thousandths of the largest device.
        width: how long that part is.
        of_device: how long a bar of its own is, in thousandths of the device.
        percent: the same for people.
        session: bytes in a session.
        sessions: bytes in so many.
        extras: what comes on top.
    """

    name: str
    bucket: str
    start: int
    width: int
    of_device: int
    percent: str
    session: str
    sessions: str
    extras: str


@attrs.frozen
class Device:
    """One device, its largest value first."""

    name: str
    session: str
    sessions: str
    extras: tuple[str, ...]
    shares: tuple[Share, ...]
    empty: tuple[str, ...]
    unknown: tuple[str, ...]


def devices(review: Review) -> tuple[Device, ...]:
    """The devices of a model, without the sum of all."""
    totals = [total for total in review.totals if total.device != "all"]
    largest = max((total.nbytes for total in totals), default=0)
    return tuple(_device(review, total, largest) for total in totals)


def _device(review: Review, total: Total, largest: int) -> Device:
    here = [row for row in review.rows if row.spec.device == total.device]
    filled = sorted((row for row in here if row.nbytes), key=lambda row: -(row.nbytes or 0))
    shares, before = [], 0
    for row in filled:
        shares.append(_share(review, row, before, total, largest))
        before += row.nbytes or 0
    return Device(
        name=total.device,
        session=format_nbytes(total.nbytes),
        sessions=format_nbytes(total.nbytes * review.sessions),
        extras=tuple(total_extras(total)),
        shares=tuple(shares),
        empty=tuple(row.spec.name for row in here if row.nbytes == 0),
        unknown=tuple(row.spec.name for row in here if row.nbytes is None),
    )


def _share(review: Review, row: Row, before: int, total: Total, largest: int) -> Share:
    nbytes = row.nbytes or 0
    start = before * _WIDTH // largest
    tenths = (nbytes * 2000 + total.nbytes) // (2 * total.nbytes)
    extras = [] if row.growth is None else [growth_words(row.growth)]
    if row.pending_nbytes:
        extras.append(f"+{format_nbytes(row.pending_nbytes)} while a step runs")
    return Share(
        name=row.spec.name,
        bucket=row.spec.bucket,
        start=start,
        width=max(1, (before + nbytes) * _WIDTH // largest - start),
        of_device=max(2, nbytes * _WIDTH // total.nbytes),
        percent=f"{tenths // 10}.{tenths % 10} %" if tenths else "< 0.1 %",
        session=format_nbytes(nbytes),
        sessions=format_nbytes(nbytes * review.sessions),
        extras="; ".join(extras),
    )
