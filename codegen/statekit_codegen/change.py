"""Change: one thing that is not as it was on the other side, with its place in today's schema."""

from __future__ import annotations

import attrs

from statekit_codegen.model import Path

__all__ = ["Change"]


@attrs.frozen
class Change:
    """One change of a model.

    Attributes:
        rule: the id under which it was looked at, of `BREAKING_RULES`.
        subject: the member, value, number, reset or group that it is about; empty for the model.
        was: how it was; empty if it was not there.
        now: how it is; empty if it is gone.
        why: what follows from it.
        breaks: whether code, or saved sessions, suffer.
        path: its place in today's schema, or what was its place.
    """

    rule: str
    subject: str
    was: str
    now: str
    why: str
    breaks: bool
    path: Path = ()

    @property
    def hurt(self) -> str:
        """Who is hurt if it breaks: SOURCE or SNAPSHOT."""
        return self.rule.partition("_")[0]
