"""StoredType: the type of a saved value, as far as it takes to compare it with another one.

Owns the reading of canonical type texts (`list[torch.Tensor | None]`), as specs hold them. Which
types a schema may name is the generator's grammar; here a name is only a name.
"""

from __future__ import annotations

import re

import attrs

__all__ = ["StoredType", "StoredTypeError"]

_MAX_CHARS = 200
_MAX_DEPTH = 16
_TOKEN = re.compile(r" *(?:([A-Za-z][A-Za-z0-9_.]*)|(\.\.\.)|([][|,])) *")


class StoredTypeError(ValueError):
    """A text is not the text of a type."""


@attrs.frozen
class StoredType:
    """A type: a name with what it holds, or several types, of which a value has one.

    Attributes:
        name: of the type or the container; `|` for alternatives, `...` for any number of them.
        arguments: what a container holds, or the alternatives.
    """

    name: str
    arguments: tuple[StoredType, ...] = ()

    @classmethod
    def parse(cls, text: str) -> StoredType:
        """The type that `text` writes.

        Raises:
            StoredTypeError: it writes none, or is too long or too deep.
        """
        if len(text) > _MAX_CHARS:
            raise StoredTypeError(f"a type of {len(text)} characters")
        tokens: list[str] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise StoredTypeError("not a type")
            tokens.append(found[1] or found[2] or found[3])
            at = found.end()
        reader = _Reader(tokens)
        parsed = reader.alternatives(0)
        if reader.tokens:
            raise StoredTypeError("not a type")
        return parsed

    def takes(self, other: StoredType) -> bool:
        """Whether every value of the type `other` is one of this type, as saved data."""
        if other.name == "|":
            return all(self.takes(one) for one in other.arguments)
        if self.name == "|":
            return any(one.takes(other) for one in self.arguments)
        if self.name != other.name:
            return False
        mine, theirs = self.arguments, other.arguments
        if self.name == "tuple" and mine[1:] == (_ANY_NUMBER,):
            kept = theirs[:1] if theirs[1:] == (_ANY_NUMBER,) else theirs
            return all(mine[0].takes(one) for one in kept)
        return len(mine) == len(theirs) and all(map(StoredType.takes, mine, theirs))


_ANY_NUMBER = StoredType("...")


class _Reader:
    """Reads the tokens of one text from the left."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens[::-1]

    def alternatives(self, depth: int) -> StoredType:
        found = [self._one(depth)]
        while self._next("|"):
            found.append(self._one(depth))
        return found[0] if len(found) == 1 else StoredType("|", tuple(found))

    def _one(self, depth: int) -> StoredType:
        name = self.tokens.pop() if self.tokens else ""
        if depth > _MAX_DEPTH or name in ("", "[", "]", "|", ","):
            raise StoredTypeError("not a type")
        if not self._next("["):
            return StoredType(name)
        arguments = [self.alternatives(depth + 1)]
        while self._next(","):
            arguments.append(self.alternatives(depth + 1))
        if not self._next("]"):
            raise StoredTypeError("not a type")
        return StoredType(name, tuple(arguments))

    def _next(self, token: str) -> bool:
        if self.tokens and self.tokens[-1] == token:
            self.tokens.pop()
            return True
        return False
