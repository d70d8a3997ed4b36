"""The page of the Python API: which public names there are, in which order, and one line on each.

Owns the order. Signatures and texts are the docstrings', put in when the site is built. A name
that `statekit` exports and no section has, or the other way round, is an error.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import attrs

import statekit

__all__ = ["api_page"]


@attrs.frozen
class _Section:
    """Names that one reader looks for together.

    Attributes:
        title: of the section.
        names: exported by `statekit`.
        modules: shown whole, with every public name.
    """

    title: str
    names: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


_SECTIONS = (
    _Section(
        "Managers and sessions",
        ("SessionStateManager", "Lease", "SessionState", "DEFAULT_MAX_SESSIONS"),
    ),
    _Section(
        "Adapters",
        (
            "StateAdapter",
            "SessionAttr",
            "DreamZeroStateAdapter",
            "Cosmos3StateAdapter",
            "hand_over",
            "maybe_adapter",
        ),
    ),
    _Section(
        "State objects",
        (
            "StateObject",
            "LatentBuffer",
            "EncodeOnce",
            "HeldValue",
            "FixedState",
            "WindowedKV",
            "RetrievalStore",
            "EngineHandle",
        ),
    ),
    _Section("Snapshots", ("save_session", "session_bytes", "restore_session")),
    _Section("Settings", ("SessionStateSettings", "resolve_session_state_config")),
    _Section("Bytes", ("device_bytes", "merge_bytes", "SeenStorages")),
    _Section("What a schema says", ("ModelSpec", "ValueSpec")),
    _Section("Checking mode", modules=("statekit.checking",)),
    _Section("Measuring", modules=("statekit.measure",)),
    _Section(
        "Watching",
        modules=(
            "statekit.watch.metrics",
            "statekit.watch.server",
            "statekit.watch.service",
            "statekit.watch.logs",
        ),
    ),
    _Section(
        "Testing",
        modules=(
            "statekit.testing.recorder",
            "statekit.testing.trace",
            "statekit.testing.equivalence",
            "statekit.testing.machine",
            "statekit.testing.faults",
        ),
    ),
    _Section("Ranks", modules=("statekit.distributed.sessions",)),
    _Section(
        "Replicas",
        modules=(
            "statekit.replicas.sessions",
            "statekit.replicas.replica",
            "statekit.replicas.placement",
            "statekit.replicas.reports",
        ),
    ),
    _Section("Events", modules=("statekit.events",)),
    _Section("Errors", modules=("statekit.errors",)),
)
_BESIDES = frozenset(
    {
        "SessionAdmissionError",
        "SessionExistsError",
        "SessionStateLostError",
        "StatekitError",
        "__version__",
    }
)
"""Exported by `statekit`, and shown with their module or not at all."""

_WITH_BASES = ("SessionStateManager", "DreamZeroStateAdapter", "Cosmos3StateAdapter")
"""Shown with what they have from their bases: a reader looks for it there."""


@cache
def api_page(header: str) -> str:
    """The page, with a directive for each name that the site's builder fills."""
    shown = [name for section in _SECTIONS for name in section.names]
    wrong = set(shown) ^ (set(statekit.__all__) - _BESIDES)
    if wrong:
        raise ValueError(f"{', '.join(sorted(wrong))}: add to, or remove from, a section")
    lines = [
        header,
        "# Python API",
        "",
        "What a server and a model use. Names in a table can be imported from `statekit` itself,",
        "all others from the module that is named.",
        "",
    ]
    for section in _SECTIONS:
        lines += [f"## {section.title}", ""]
        lines += _table(section)
        lines += _directives(section)
    return "\n".join(lines)


def _table(section: _Section) -> Iterator[str]:
    yield "| name | what |"
    yield "|---|---|"
    for name in section.names:
        yield f"| `{name}` | {_first_line(getattr(statekit, name))} |"
    for module in section.modules:
        yield f"| `{module}` | {_sentence(_docstring(module))} |"
    yield ""


def _first_line(what: object) -> str:
    if isinstance(what, int):
        return f"{what}: sessions of a manager that was not told how many."
    return _sentence(inspect.getdoc(what) or "")


def _sentence(docstring: str) -> str:
    """The first paragraph, in a cell of a table."""
    return " ".join(docstring.split("\n\n")[0].split()).replace("|", "\\|")


def _docstring(module: str) -> str:
    """What a module says of itself; it is not run, so what it needs need not be there."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""


def _directives(section: _Section) -> Iterator[str]:
    for name in section.names:
        yield f"::: {_place(name)}"
        if name in _WITH_BASES:
            yield "    options: {inherited_members: true}"
        yield ""
    for module in section.modules:
        alone = len(section.modules) == 1  # then the section's title is its heading
        shown = "show_root_toc_entry: false, show_root_heading: false"
        yield f"::: {module}"
        yield f"    options: {{{shown if alone else 'show_root_full_path: true'}}}"
        yield ""


def _place(name: str) -> str:
    """Where a name is defined: the site's builder reads files, and imports nothing."""
    what = getattr(statekit, name)
    module = getattr(what, "__module__", None) or "statekit.manager"
    return f"{module}.{name}"
