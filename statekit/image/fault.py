"""What is wrong with a recipe from elsewhere, and the words in which checks say so.

Owns the error and the two questions that every check asks. Needs neither torch nor numpy.
"""

from __future__ import annotations

from typing import Any

__all__ = ["LARGEST", "BadRecipeError", "is_count", "require"]

LARGEST = 2**62
"""Above any size or place; sums and products of a few still fit into 64 bits."""


class BadRecipeError(Exception):
    """The data are no recipe that could be built without harm; the caller knows the file.

    `node` is the place of the node at fault, once that is known.
    """

    def __init__(self, found: str, node: int | None = None) -> None:
        super().__init__(found, node)
        self.found, self.node = found, node

    def __str__(self) -> str:
        return self.found if self.node is None else f"{self.found}, in node {self.node}"


def require(good: bool, found: str) -> None:
    """Raises: BadRecipeError, unless it is good."""
    if not good:
        raise BadRecipeError(found)


def is_count(number: Any) -> bool:
    """Whether it is a whole number from 0 on, exactly an `int`, and of a size that can be."""
    return type(number) is int and 0 <= number < LARGEST
