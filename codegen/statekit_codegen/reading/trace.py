"""Trace: what one function does to a state, statement by statement, in order.

Owns control flow (which lines always run, under chosen arguments), targets of assignment, and the
names that stand for the state or a part of it. Not here: what a call does (`calls`), what an
expression gives (`payload`).

    T1  A line that may not run is never `certain`.
    T2  Work is bounded: helpers are followed so deep, each a few times, once on a path.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from statekit_codegen.reading import bounds, calls, loops, targets
from statekit_codegen.reading.annotations import annotated
from statekit_codegen.reading.choices import decide
from statekit_codegen.reading.facts import UNKNOWN, BlindSpot, Bound, Event, Held, Site
from statekit_codegen.reading.lineage import Lineage
from statekit_codegen.reading.module import ModuleNames
from statekit_codegen.reading.payload import held, source_of
from statekit_codegen.reading.reference import SELF, Reference, reference
from statekit_codegen.type_grammar import TypeExpr

__all__ = ["Trace", "Traced"]

Function = ast.FunctionDef | ast.AsyncFunctionDef

Bounds = Callable[[ast.expr, int | None, Site, str | None, bool], Bound]

_MAX_HELPERS = 6
_MAX_CALLS = 8
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@attrs.define
class Traced:
    """What was found so far, shared by a function and the helpers that it calls."""

    events: list[Event] = attrs.field(factory=list)
    annotations: dict[str, tuple[ast.expr, Site]] = attrs.field(factory=dict)
    blind: list[BlindSpot] = attrs.field(factory=list)
    helpers: list[Function] = attrs.field(factory=list)
    budget: int = 200_000
    walked: Counter[str] = attrs.field(factory=Counter)


@attrs.define(eq=False)
class Trace:
    """A walk through one function whose arguments `receivers` are the state.

    Attributes:
        follow: whether calls of other methods are walked through where they stand.
        choices: what arguments are taken to be.
        certain: whether what is walked through always runs.
    """

    module: ModuleNames
    lineage: Lineage
    function: Function
    found: Traced
    receivers: frozenset[str]
    known: Callable[[str], TypeExpr] = lambda name: UNKNOWN
    bound_of: Bounds = bounds.plain_bound
    follow: bool = False
    choices: Mapping[str, Any] = attrs.field(factory=dict)
    certain: bool = True
    guards: frozenset[str] = frozenset()
    owner: str = ""
    stack: tuple[str, ...] = ()
    parameters: dict[str, ast.arg] = attrs.field(factory=dict)
    locals: dict[str, Held] = attrs.field(factory=dict)
    references: dict[str, Reference] = attrs.field(factory=dict)
    constants: dict[str, Any] = attrs.field(factory=dict)
    limits: list[bounds.Limit] = attrs.field(factory=list)

    def run(self) -> None:
        """Walk through the function."""
        arguments = self.function.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.parameters = {argument.arg: argument for argument in every}
        for name in self.receivers:
            self.references[name] = SELF
            self.parameters.pop(name, None)
        self.block(self.function.body)

    # -- what payload asks -------------------------------------------------------------------

    def attribute(self, node: ast.expr) -> str | None:
        """The attribute of the state that an expression is, if it is one."""
        found = reference(node, self)
        return found.name if found is not None and found.name and found.depth == 0 else None

    def element(self, node: ast.expr) -> str | None:
        """The attribute that an expression is a part of, if it is."""
        found = reference(node, self)
        return found.name if found is not None and found.name else None

    def type_of(self, name: str) -> TypeExpr:
        """The type of an attribute, as far as it is known by now."""
        if name in self.found.annotations:
            annotation, _ = self.found.annotations[name]
            return annotated(annotation, self.module.full_name, self.module.alias)
        return self.known(name)

    def bound(self, node: ast.expr, axis: int | None) -> Bound:
        """The bound that an expression says."""
        site = self.site(node)
        if isinstance(node, ast.Name):
            local = self.locals.get(node.id)
            if local is not None and type(local.default) is int:
                return Bound(source_of(node), site, local.default, axis=axis)
            constructs = self.function.name in ("__init__", "")
            taken = local is not None or (node.id in self.parameters and not constructs)
            return self.bound_of(node, axis, site, None if taken else node.id, False)
        name = None
        if isinstance(node, ast.Attribute):
            base = node.value
            of_class = isinstance(base, ast.Name) and (
                base.id == "cls" or self.lineage.has_class(base.id)
            )
            if of_class or reference(base, self) == SELF:
                name = node.attr
        return self.bound_of(node, axis, site, name, name is not None)

    # -- what happens ------------------------------------------------------------------------

    def site(self, node: ast.AST) -> Site:
        """Where a node lies."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        return Site(line, column + 1, self.function.name)

    def emit(self, node: ast.AST, name: str, kind: Any, **more: Any) -> None:
        """Record an event."""
        more.setdefault("certain", self.certain)
        event = Event(name, kind, self.site(node), guards=self.guards, **more)
        self.found.events.append(event)

    def blind(self, node: ast.AST) -> None:
        """Record a line that sets what nobody can name."""
        self.found.blind.append(BlindSpot(self.site(node), source_of(node)))

    def inline(
        self, function: Function, receivers: Iterable[str], choices: Mapping[str, Any], owner: str
    ) -> None:
        """Walk through a helper where it is called."""
        key = f"{owner}.{function.name}"
        if key in self.stack or len(self.stack) >= _MAX_HELPERS:
            return
        self.found.walked[key] += 1
        if self.found.walked[key] > _MAX_CALLS:
            return
        Trace(
            self.module, self.lineage, function, self.found, frozenset(receivers),
            self.known, self.bound_of, self.follow, choices, self.certain, self.guards, owner,
            (*self.stack, key),
        ).run()  # fmt: skip

    # -- statements --------------------------------------------------------------------------

    def block(self, body: Iterable[ast.stmt]) -> bool:
        """Walk through statements; whether the end of them is left by a jump."""
        before = self.certain, self.guards
        ends = any(self._statement_in_order(node) for node in body)
        self.certain, self.guards = before
        return ends

    def _statement_in_order(self, node: ast.stmt) -> bool:
        self.found.budget -= 1
        if self.found.budget < 0:
            raise RecursionError
        if isinstance(node, _ENDS):
            for child in ast.iter_child_nodes(node):
                self.expression(child)
            return True
        return self._statement(node)

    def _statement(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.If):
            return self._if(node)
        if isinstance(node, ast.Assign):
            self.expression(node.value)
            value = held(node.value, self)
            for target in node.targets:
                targets.bind(self, target, node.value, value)
        elif isinstance(node, ast.AnnAssign):
            targets.annotate(self, node)
        elif isinstance(node, ast.AugAssign):
            targets.augment(self, node)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                targets.delete(self, target)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            loops.walk_for(self, node)
        elif isinstance(node, ast.While):
            loops.walk_while(self, node)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self.expression(item.context_expr)
                if item.optional_vars is not None:
                    targets.bind(self, item.optional_vars, None, Held(source_of(item.context_expr)))
            return self.block(node.body)
        elif isinstance(node, ast.Match):
            self.expression(node.subject)
            for case in node.cases:
                self.perhaps(case.body)
        elif hasattr(node, "handlers"):
            self._try(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.perhaps(node.body)
        elif not isinstance(node, ast.ClassDef):
            for child in ast.iter_child_nodes(node):
                self.expression(child)
        return False

    def perhaps(self, body: Iterable[ast.stmt], guards: Iterable[str] = ()) -> bool:
        """Walk through statements that may not run."""
        certain, before = self.certain, self.guards
        self.certain, self.guards = False, before | set(guards)
        ends = self.block(body)
        self.certain, self.guards = certain, before
        return ends

    def _if(self, node: ast.If) -> bool:
        self.expression(node.test)
        chosen = decide(node.test, {**self.constants, **self.choices})
        if chosen is not None:
            return self.block(node.body if chosen else node.orelse)
        tested = loops.tested(self, node.test)
        limit = bounds.limit_of(node.test, self)
        if limit is not None:
            self.limits.append(limit)
        ends = self.perhaps(node.body, tested)
        if limit is not None:
            self.limits.pop()
        ends_else = self.perhaps(node.orelse, tested)
        if ends and ends_else and node.orelse:
            return True
        if (ends and not isinstance(node.body[-1], ast.Raise)) or ends_else:
            # What follows runs only where the test lets it; a refusal is no path of its own.
            self._rest_depends(node.test, tested)
        return False

    def _rest_depends(self, test: ast.expr, tested: frozenset[str]) -> None:
        self.certain = False
        self.guards = self.guards | tested

    def _try(self, node: Any) -> None:
        self.block(node.body)
        for handler in node.handlers:
            self.perhaps(handler.body)
        self.block(node.orelse)
        self.block(node.finalbody)

    # -- expressions -------------------------------------------------------------------------

    def expression(self, node: ast.AST) -> None:
        """Walk through an expression."""
        self.found.budget -= 1
        if isinstance(node, ast.Call):
            calls.call(node, self)
            return
        if isinstance(node, ast.NamedExpr):
            self.expression(node.value)
            targets.bind(self, node.target, node.value, held(node.value, self))
            return
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            for generator in node.generators:
                loops.loop_target(self, generator.target, generator.iter)
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Name)):
            name = self.element(node)
            if name:
                self.emit(node, name, "read")
                self.inside(node)
                return
        for child in ast.iter_child_nodes(node):
            self.expression(child)

    def inside(self, node: ast.expr) -> None:
        """What else an expression reads that ends in an attribute: `self.x[self.i]`."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            if isinstance(node, ast.Subscript):
                self.expression(node.slice)
            node = node.value
        if isinstance(node, ast.Call):
            self.expression(node)
