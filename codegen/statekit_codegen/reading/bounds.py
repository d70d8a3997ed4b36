"""Bounds: the idioms that keep the newest of a list or tensor, and how many those are."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Literal, Protocol

import attrs

from statekit_codegen.reading.facts import Bound, Event, Held, Site
from statekit_codegen.reading.payload import literal_of, source_of

__all__ = [
    "Limit",
    "deleted",
    "is_sliced",
    "is_whole",
    "limit_of",
    "plain_bound",
    "popped",
    "under_limit",
]


@attrs.frozen
class Limit:
    """A test that an attribute is longer than `bound`; at least as long where not `strict`."""

    name: str
    bound: Bound
    strict: bool


class Found(Protocol):
    """What has been recorded so far."""

    events: list[Event]


class Where(Protocol):
    """What names mean where a statement stands."""

    limits: list[Limit]

    @property
    def found(self) -> Found:
        """What has been recorded so far."""

    def attribute(self, node: ast.expr) -> str | None:
        """The attribute of the state that an expression is, if it is one."""

    def bound(self, node: ast.expr, axis: int | None) -> Bound:
        """The bound that an expression says."""


def plain_bound(
    node: ast.expr, axis: int | None, site: Site, name: str | None = None, of_state: bool = False
) -> Bound:
    """A bound by its expression alone."""
    number = literal_of(node)
    return Bound(source_of(node), site, number if type(number) is int else None, axis=axis)


def limit_of(test: ast.expr, where: Where) -> Limit | None:
    """`len(self.x) > N` or `self.x.shape[2] > N` as a limit, None of any other test."""
    if isinstance(test, ast.BoolOp):
        return next(filter(None, (limit_of(part, where) for part in test.values)), None)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    left, right, operator = test.left, test.comparators[0], test.ops[0]
    if isinstance(operator, (ast.Lt, ast.LtE)):
        left, right = right, left
        operator = ast.Gt() if isinstance(operator, ast.Lt) else ast.GtE()
    if not isinstance(operator, (ast.Gt, ast.GtE, ast.Eq)):
        return None
    if not isinstance(left, ast.Call) or not isinstance(left.func, ast.Name):
        return None
    if left.func.id != "len" or len(left.args) != 1:
        return None
    name = where.attribute(left.args[0])
    if name is None:
        return None
    return Limit(name, where.bound(right, None), isinstance(operator, ast.Gt))


def popped(name: str, where: Where) -> Bound | None:
    """How many are left where the oldest is taken out under a test of the length."""
    for limit in reversed(where.limits):
        if limit.name == name:
            grown = any(e.name == name and e.kind == "append" for e in where.found.events)
            if limit.strict or not grown or limit.bound.number is None:
                return limit.bound
            number = limit.bound.number - 1
            return attrs.evolve(
                limit.bound, text=f"{limit.bound.text} - 1", number=number, name=None
            )
    return None


def under_limit(given: Held, name: str, limits: Sequence[Limit]) -> Held:
    """What is assigned, with the bound of `if len(self.x) > N: self.x = self.x[1:]`."""
    if given.bound is None and given.of == name and given.joined is None and given.appended is None:
        for limit in limits:
            if limit.name == name:
                return attrs.evolve(given, bound=limit.bound)
    return given


def deleted(
    index: ast.expr, name: str, where: Where
) -> tuple[Literal["clear", "trim", "entry"], Bound | None]:
    """What `del self.x[...]` does, and how many are left."""
    if is_whole(index):
        return "clear", None
    if isinstance(index, ast.Slice) and index.lower is None and index.step is None:
        upper = index.upper
        if isinstance(upper, ast.UnaryOp) and isinstance(upper.op, ast.USub):
            return "trim", where.bound(upper.operand, None)
        # `del self.x[: len(self.x) - N]`
        if isinstance(upper, ast.BinOp) and isinstance(upper.op, ast.Sub):
            return "trim", where.bound(upper.right, None)
    if literal_of(index) == 0:
        bound = popped(name, where)
        return ("trim", bound) if bound is not None else ("entry", None)
    return "entry", None


def is_whole(index: ast.expr) -> bool:
    """Whether an index is `[:]`."""
    if isinstance(index, ast.Constant):
        return index.value is ...
    return isinstance(index, ast.Slice) and index.lower is index.upper is index.step is None


def is_sliced(index: ast.expr) -> bool:
    """Whether an index reaches into a tensor: a slice, or several places at once."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return len(parts) > 1 or isinstance(parts[0], ast.Slice) or is_whole(parts[0])
