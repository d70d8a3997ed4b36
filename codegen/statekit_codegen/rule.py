"""Rule: one thing that a schema, or a change of one, is held to; `docs/rules.md` lists them."""

from __future__ import annotations

from typing import Literal

import attrs

__all__ = ["Rule"]


@attrs.frozen
class Rule:
    """One rule, by the id that its problems carry.

    Attributes:
        id: UPPER_SNAKE, noun first; never used again for something else.
        purpose: what holds where the rule finds nothing, in one sentence.
        since: the version of statekit that first had it.
        kind: when it is looked at: as the file is read (`load`), before anything is generated
            (`check`), by `statekit vet` only, or by `statekit breaking`, there by who is hurt
            (`source`, `snapshot`).
    """

    id: str
    purpose: str
    since: str
    kind: Literal["load", "check", "vet", "source", "snapshot"]
