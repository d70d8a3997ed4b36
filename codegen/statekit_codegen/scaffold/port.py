"""Port: what becomes of one method of a hand-rolled class in the subclass of its adapter.

Owns the judgement whether a body means the same there, and says why not where it does not. A body
that would run and do something else is never copied: it stands as a comment, above an error.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping

import attrs

from statekit_codegen.reading.facts import Clearing, HandRolled, Method
from statekit_codegen.reading.module import dotted
from statekit_codegen.scaffold.holder import Holder
from statekit_codegen.scaffold.imports import Imports
from statekit_codegen.scaffold.resets import DraftReset
from statekit_codegen.scaffold.words import series

__all__ = ["Ported", "port"]

_WIDTH = 88
_CODE_WIDTH = 100
_DECORATORS = ("property", "staticmethod", "classmethod")
_NAMED = (
    *(ast.ExceptHandler, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.MatchAs, ast.MatchStar),
)
_CHANGES = ("append", "entry", "write", "augment", "clear", "delete", "trim")


@attrs.frozen
class Ported:
    """The lines of one method, indented as in a class, and the names that they need.

    Attributes:
        copied: whether the body is the original one.
    """

    lines: tuple[str, ...]
    names: frozenset[str]
    copied: bool


def port(
    method: Method,
    state: HandRolled,
    values: Mapping[str, str],
    kinds: Mapping[str, Holder],
    resets: list[DraftReset],
    imports: Imports,
) -> Ported | None:
    """The method in the subclass; None where the generated class has it already."""
    ways = [(reset, c) for reset in resets for c in reset.clearings if c.method == method.name]
    every = [c for c in state.clearings if c.method == method.name]
    clean = len(ways) == len(every) and not any(c.sometimes or c.others for _, c in ways)
    if ways and clean and not _does_more(method):
        if len(ways) == 1 and f"reset_{ways[0][0].name}" == method.name:
            return None
        body = _reset_body(ways)
        if body is not None:
            return _written(method, body, imports, copied=True)
    reasons = list(_obstacles(method, state, values, kinds, imports))
    if not reasons:
        renamed = {name: value for name, value in values.items() if name != value}
        return Ported(tuple(_source(method, state, renamed)), _free(method.node), True)
    return _written(method, list(_commented(method, state, reasons)), imports, copied=False)


def _does_more(method: Method) -> bool:
    """Whether a reset returns something, or raises."""
    return any(
        (isinstance(node, ast.Return) and node.value is not None) or isinstance(node, ast.Raise)
        for node in ast.walk(method.node)
    )


def _reset_body(ways: list[tuple[DraftReset, Clearing]]) -> list[str] | None:
    """The body of a reset that calls the generated ones."""
    if len(ways) == 1:
        return [f"self.reset_{ways[0][0].name}()"]
    choices = [clearing.choice for _, clearing in ways]
    if len(ways) != 2 or any(len(choice) != 1 for choice in choices):
        return None
    name = choices[0][0][0]
    by_value = {choice[0][1]: reset.name for (reset, _), choice in zip(ways, choices, strict=True)}
    if set(by_value) != {True, False}:
        return None
    yes, no = by_value[True], by_value[False]
    return [
        f"if {name}:", f"    self.reset_{yes}()", "else:", f"    self.reset_{no}()",
    ]  # fmt: skip


def _obstacles(
    method: Method,
    state: HandRolled,
    values: Mapping[str, str],
    kinds: Mapping[str, Holder],
    imports: Imports,
) -> Iterator[str]:
    """Why a body would not mean the same in the subclass."""
    node = method.node
    if any(spot.site.function == method.name for spot in state.blind):
        yield "it sets attributes whose names no line says"
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id == "super":
            yield "it calls super()"
            break
    texts = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
    for name, value in values.items():
        if name != value and name in texts:  # which no renaming reaches
            yield f"{name} is called {value} here"
    first, last = node.lineno, node.end_lineno or node.lineno
    for name, attribute in state.attributes.items():
        events = [e for e in attribute.events if first <= e.site.line <= last]
        if not events:
            continue
        kind = kinds[name]
        written = values.get(name)
        if kind == "buffer" and any(event.kind in _CHANGES for event in events):
            yield f"it changes {name}, a LatentBuffer: use self.{written}_object there"
        elif attribute.table is not None:
            yield f"it looks {attribute.table} up, whose entry is self.{written} here"
        elif kind in ("given", "foreign"):
            yield f"it uses {name}, which no session holds"
    if _moves_badly(method, state):
        yield "its lines can't stand at another depth"
    unknown = sorted(name for name in _free(node) if not imports.has(name))
    if unknown:
        yield f"it needs {series(unknown)} of the original file"


def _free(node: ast.AST) -> frozenset[str]:
    """The names that a function reads and does not make."""
    read: set[str] = set()
    made: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            (read if isinstance(part.ctx, ast.Load) else made).add(part.id)
        elif isinstance(part, ast.arg):
            made.add(part.arg)
        elif isinstance(part, _NAMED) and part.name:
            made.add(part.name)
        elif isinstance(part, ast.alias):
            made.add(part.asname or part.name.partition(".")[0])
    decorators = [_head(decorator) for decorator in getattr(node, "decorator_list", ())]
    own = {getattr(node, "name", "")}  # in the body, a function of the file by the same name
    return frozenset(read - made | (own & read - set(decorators)))


def _head(node: ast.expr) -> str:
    return (dotted(node) or "").partition(".")[0]


def _source(method: Method, state: HandRolled, renamed: Mapping[str, str]) -> list[str]:
    """The lines of a method as they are, but for the names of attributes."""
    node = method.node
    lines = state.text.split("\n")
    for line, start, end, name in sorted(_uses(node, renamed), reverse=True):
        data = lines[line - 1].encode()
        lines[line - 1] = (data[:start] + name.encode() + data[end:]).decode()
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    chosen = lines[first - 1 : node.end_lineno]
    if node.col_offset == 4:
        return [line.rstrip() for line in chosen]
    return textwrap.indent(textwrap.dedent("\n".join(chosen)), "    ").split("\n")


def _uses(node: ast.AST, renamed: Mapping[str, str]) -> Iterator[tuple[int, int, int, str]]:
    """Where a method names attributes that are called something else here: line and columns."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and part.attr in renamed and dotted(part.value):
            end = part.end_col_offset or 0
            line = part.end_lineno or part.lineno
            yield line, end - len(part.attr.encode()), end, renamed[part.attr]


def _moves_badly(method: Method, state: HandRolled) -> bool:
    """Whether the lines of a method can't stand at another depth."""
    node = method.node
    if node.col_offset == 4:
        return False
    chosen = state.text.split("\n")[node.lineno - 1 : node.end_lineno]
    texts = (part for part in ast.walk(node) if isinstance(part, ast.Constant | ast.JoinedStr))
    return any("\t" in line for line in chosen) or any(
        part.end_lineno != part.lineno for part in texts
    )


def _commented(method: Method, state: HandRolled, reasons: list[str]) -> Iterator[str]:
    """A body as a comment, under what keeps it from being copied."""
    line = method.node.lineno
    yield from _comment(f"To be written anew ({state.file}:{line}): {'; '.join(reasons)}.", "")
    body = method.node.body
    if ast.get_docstring(method.node) is not None:
        body = body[1:]
    if body:
        yield "#"
        lines = state.text.split("\n")[body[0].lineno - 1 : method.node.end_lineno]
        if any("\t" in text for text in lines):
            lines = "\n".join(ast.unparse(node) for node in body).split("\n")
        for text in textwrap.dedent("\n".join(lines)).split("\n"):
            indent = " " * (len(text) - len(text.lstrip()))
            yield from _comment(text.strip(), f"    {indent}", _CODE_WIDTH)
    yield f'raise NotImplementedError("{method.name} is to be written")'


def _comment(text: str, indent: str, width: int = _WIDTH) -> list[str]:
    deeper = f"{indent}    " if indent else ""
    lines = textwrap.wrap(
        text,
        width - 8,
        initial_indent=f"# {indent}",
        subsequent_indent=f"# {deeper}",
        break_on_hyphens=False,
    )
    return lines or ["#"]


def _written(method: Method, body: list[str], imports: Imports, *, copied: bool) -> Ported:
    """A method with its own signature and docstring, and another body."""
    node = method.node
    lines = [f"@{name}" for d in node.decorator_list if (name := dotted(d)) in _DECORATORS]
    lines += [
        f"@{name}"
        for d in node.decorator_list
        if (name := dotted(d) or "").endswith((".setter", ".deleter"))
    ]
    lines += _signature(node, imports)
    doc = ast.get_docstring(node)
    if doc:
        lines += textwrap.indent(_docstring(doc), "    ").split("\n")
    lines += [f"    {text}" if text else "" for text in body]
    module = ast.parse(textwrap.dedent("\n".join(lines)))
    return Ported(tuple(f"    {line}".rstrip() for line in lines), _free(module), copied)


def _docstring(doc: str) -> str:
    text = doc.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    text = f"{text} " if text.endswith('"') else text
    lines = [line.rstrip() for line in text.split("\n")]
    if len(lines) == 1:
        return f'"""{lines[0]}"""'
    return "\n".join([f'"""{lines[0]}', *lines[1:], '"""'])


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, imports: Imports) -> list[str]:
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    parts = list(_arguments(node.args, imports))
    returns = "" if node.returns is None else f" -> {_annotation(node.returns, imports)}"
    flat = f"{word} {node.name}({', '.join(parts)}){returns}:"
    if len(flat) + 4 <= _WIDTH:
        return [flat]
    return [f"{word} {node.name}(", *(f"    {part}," for part in parts), f"){returns}:"]


def _arguments(arguments: ast.arguments, imports: Imports) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    for index, argument in enumerate(positional):
        default = arguments.defaults[index - missing] if index >= missing else None
        yield _argument(argument, default, imports)
        if index + 1 == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg is not None:
        yield "*" + _argument(arguments.vararg, None, imports)
    elif arguments.kwonlyargs:
        yield "*"
    for argument, given in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _argument(argument, given, imports)
    if arguments.kwarg is not None:
        yield "**" + _argument(arguments.kwarg, None, imports)


def _argument(argument: ast.arg, default: ast.expr | None, imports: Imports) -> str:
    text = argument.arg
    annotated = argument.annotation is not None
    if argument.annotation is not None:
        text += f": {_annotation(argument.annotation, imports)}"
    if default is None:
        return text
    known = all(imports.has(name) for name in _free(default))
    equals = " = " if annotated else "="
    return f"{text}{equals}{ast.unparse(default) if known else '...'}"


def _annotation(node: ast.expr, imports: Imports) -> str:
    known = all(imports.has(name) for name in _free(node))
    has_text = any(isinstance(part, ast.Constant) and isinstance(part.value, str)
                   for part in ast.walk(node))  # fmt: skip
    return ast.unparse(node) if known and not has_text else "Any"
