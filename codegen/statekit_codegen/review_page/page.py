"""The file: templates, style and script in one page, and the policy that allows nothing else.

P1  The page asks for nothing: no address, no font, no picture; its policy forbids all of it.
P2  Text of a schema is escaped by the templates, whatever it holds.
P3  The same models give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

import attrs
from jinja2 import Environment, PackageLoader, StrictUndefined

from statekit_codegen.review import Review
from statekit_codegen.review_change.comparison import ModelChange, ValueChange
from statekit_codegen.review_change.words import (
    KINDS,
    UNEXPLAINED,
    counts,
    effect,
    kind_words,
    on_top,
    outcome,
    row_words,
    said,
    signed,
)
from statekit_codegen.review_page.bars import Device, devices
from statekit_codegen.review_page.graph import Graph, graph
from statekit_codegen.review_page.table import Column, TableRow, columns, rows
from statekit_codegen.review_page.timeline import MOST_RESETS, Lane, Moment, lanes, moments
from statekit_codegen.review_words import (
    BUCKETS,
    notes,
    number_words,
    one_line,
    sections,
    sessions_words,
    total_extras,
)
from statekit_codegen.units import format_nbytes

__all__ = ["to_html"]

_TEMPLATES = Environment(
    loader=PackageLoader("statekit_codegen", "review_page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


@attrs.frozen
class _Section:
    """One model as the templates read it."""

    review: Review
    name: str
    file: str
    doc: str
    numbers: str
    session: str
    sessions: str
    extras: tuple[str, ...]
    buckets: tuple[tuple[str, int], ...]
    change: ModelChange | None
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    devices: tuple[Device, ...]
    moments: tuple[Moment, ...]
    lanes: tuple[Lane, ...]
    graph: Graph | None
    notes: tuple[str, ...]
    sections: tuple[tuple[str, list[tuple[str, str]]], ...]

    @property
    def device_names(self) -> tuple[str, ...]:
        """The devices to filter by, in the schema's order."""
        return tuple(dict.fromkeys(row.device for row in self.rows))

    @property
    def marked(self) -> bool:
        """Whether a value of today is marked as changed."""
        return any(row.change for row in self.rows)


def _whole(value: ValueChange) -> tuple[str, str]:
    """What a value that is new or gone is, or was, and why."""
    row = value.now or value.was
    assert row is not None
    return row_words(row), row.why or "no decision is recorded"


_TEMPLATES.globals.update(
    BUCKETS=BUCKETS,
    KINDS=KINDS,
    MOST_RESETS=MOST_RESETS,
    UNEXPLAINED=UNEXPLAINED,
    counts=counts,
    effect=effect,
    figure=format_nbytes,
    kind_words=kind_words,
    on_top=on_top,
    said=said,
    signed=signed,
    whole=_whole,
)


def to_html(
    reviews: Sequence[Review],
    sessions: int,
    changes: Sequence[ModelChange] = (),
    against: str = "",
) -> str:
    """The page for `reviews`, with what changed marked where the other side is given.

    Args:
        sessions: how many sessions the second column of figures is for.
        changes: what became of each model, those that are gone included.
        against: what the other side is called; empty where nothing is compared.
    """
    by_model = {change.model: change for change in changes}
    style, script = _asset("page.css"), _asset("page.js")
    page = _TEMPLATES.get_template("page.html.jinja")
    return page.render(
        style=style,
        script=script,
        policy=_policy(style, script),
        models=[_section(review, by_model.get(review.model.spec.model)) for review in reviews],
        several=sessions > 1,
        sessions=sessions_words(reviews[0]) if reviews else f"{sessions} sessions",
        against=against,
        outcome=outcome(changes, against) if against else [],
        gone=[change for change in changes if change.kind == "removed"],
    )


def _section(review: Review, change: ModelChange | None) -> _Section:
    model, total = review.model, review.totals[-1] if review.totals else None
    nbytes = 0 if total is None else total.nbytes
    return _Section(
        review=review,
        name=model.spec.model,
        file=one_line(model.file),
        doc=one_line(model.schema.doc),
        numbers=number_words(review),
        session=format_nbytes(nbytes),
        sessions=format_nbytes(nbytes * review.sessions),
        extras=() if total is None else tuple(total_extras(total)),
        buckets=tuple((name, len(review.bucket(name))) for name in BUCKETS),
        change=change,
        columns=columns(review),
        rows=rows(review, change),
        devices=devices(review),
        moments=moments(review),
        lanes=lanes(review),
        graph=graph(review),
        notes=tuple(notes(review)),
        sections=tuple(sections(review)),
    )


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """What the browser may do with the page: these very bytes of style and script, no more."""
    allowed = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}"
    return f"{allowed}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest())
    return f"'sha256-{digest.decode()}'"
