"""Load: from schema files to models; the only way in.

Owns the order (read, structure, check, resolve), the files themselves, and what concerns several
of them. A problem is never raised alone: `SchemaError` carries everything that is wrong.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from statekit.errors import Problem, SchemaError
from statekit_codegen import nodes
from statekit_codegen.check import check
from statekit_codegen.fault import Fault
from statekit_codegen.language import LANGUAGE_VERSION, Schema
from statekit_codegen.mend import lies_in, mend
from statekit_codegen.model import Loaded, Model
from statekit_codegen.project import Project
from statekit_codegen.resolve import resolve
from statekit_codegen.rule import Rule
from statekit_codegen.scalars import invisible, shown
from statekit_codegen.structure import structure

__all__ = ["LOAD_RULES", "load_model", "load_models", "load_text", "load_tree"]


def _rule(id: str, purpose: str) -> Rule:
    return Rule(id, purpose, since="0.1.0", kind="load")


LOAD_RULES = (
    _rule("FILE_READABLE", "A schema is a file that can be read, under a name without surprises."),
    _rule("FILE_SIZE", f"A schema has at most {nodes.MAX_BYTES:,} bytes."),
    _rule("FILE_ENCODING", "A schema is UTF-8 text without a byte order mark."),
    _rule("FILE_EMPTY", "A schema says something."),
    _rule("TEXT_INVISIBLE", "No character of a file is hidden from its reader."),
    _rule("YAML_SYNTAX", "A schema is YAML."),
    _rule(
        "YAML_LIMIT", f"Nesting goes {nodes.MAX_DEPTH} deep, a file has {nodes.MAX_NODES:,} nodes."
    ),
    _rule("YAML_DOCUMENTS", "One file holds one document."),
    _rule("YAML_ALIAS", "Nothing is an alias of something else in the file, or an anchor for one."),
    _rule("YAML_TAG", "No value carries a tag that says how to read it."),
    _rule("YAML_MERGE", "No mapping is merged into another one."),
    _rule("YAML_SURPRISE", "Every YAML reader, and every person, reads an unquoted value alike."),
    _rule("NUMBER_RANGE", "Numbers fit in 63 bits."),
    _rule("KEY_TEXT", "Keys are text."),
    _rule("KEY_DUPLICATE", "A mapping has every key once."),
    _rule("LANGUAGE_VERSION", "The file is in a version of the language that this tool reads."),
    _rule("WRONG_TYPE", "Every value has the form that the language has for it."),
    _rule("NOT_ONE_OF", "Where the language offers words, one of them is used."),
    _rule("UNKNOWN_KEY", "Every key is a word of the language."),
    _rule("MISSING_KEY", "What the language cannot do without is there."),
    _rule("MODEL_TWICE", "No two schemas of a project describe a model of the same name."),
)


def load_text(data: bytes, file: str) -> Model:
    """The model that the bytes of a schema describe; `file` is its name in messages.

    Raises:
        SchemaError: something is wrong with it.
    """
    return load_tree(nodes.read(data, file), hashlib.sha256(data).hexdigest())


def load_tree(tree: nodes.Tree, sha256: str) -> Model:
    """The model that a file describes, once it is read.

    Raises:
        SchemaError: something is wrong with it.
    """
    if tree.data is None and tree.problems:
        raise SchemaError(tree.problems)
    other = _other_version(tree.data)
    if other is not None:
        raise SchemaError([*tree.problems, other.at(tree.positions)])
    schema = structure(tree.data)
    faults = [] if isinstance(schema, Schema) else schema
    faults = [fault for fault in faults if not lies_in(fault.path, tree.doubtful)]
    problems = [*tree.problems, *(fault.at(tree.positions) for fault in faults)]
    mended = mend(tree.data, faults, tree.doubtful)
    if problems and mended:
        schema = structure(mended.data)
    if isinstance(schema, Schema) and mended:
        loaded = Loaded(schema, tree.positions, sha256)
        found = [fault for fault in check(loaded) if mended.trusts(fault)]
        problems += [fault.at(tree.positions) for fault in found]
        if not problems:
            return Model(loaded, resolve(loaded))
    raise SchemaError(problems)


def load_model(path: Path, file: str) -> Model:
    """The model in the schema file at `path`; `file` is its name in messages and headers.

    Raises:
        SchemaError: the file can't be read, or something is wrong with it.
    """
    if invisible(file) or not file.isprintable():
        todo = "rename it: its name holds characters nobody sees"
        raise _unreadable(shown(file), f"the name {shown(file)}", todo)
    data = _bytes(path)
    if isinstance(data, str):
        raise _unreadable(file, data, "name a schema file that can be read")
    return load_text(data, file)


def load_models(project: Project, chosen: Iterable[Path] = ()) -> list[Model]:
    """The models of the schemas in `chosen`, or of all schemas of `project`, in that order.

    Raises:
        SchemaError: something is wrong with at least one; it carries the problems of all.
        GenerateError: there is no schema.
    """
    models: dict[str, Model] = {}
    problems: list[Problem] = []
    seen: set[str] = set()
    for path in project.schema_files(chosen):
        place = os.path.realpath(path)
        if place in seen:
            continue
        seen.add(place)
        try:
            loaded = load_model(path, project.display(path))
        except SchemaError as error:
            problems += error.problems
            continue
        name = loaded.schema.model
        if name in models:
            positions = loaded.loaded.positions
            found = f"the model {name} again, first in {models[name].file}"
            todo = "give one of them another name"
            problems.append(positions.problem(("model",), "MODEL_TWICE", found, todo))
        else:
            models[name] = loaded
    if problems:
        raise SchemaError(problems)
    return list(models.values())


def _bytes(path: Path) -> bytes | str:
    """What is in a file, up to one byte more than is allowed; or why it can't be read."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            with path.open("rb") as stream:
                return stream.read(nodes.MAX_BYTES + 1)
        return "a folder" if stat.S_ISDIR(mode) else "neither a file nor a folder"
    except OSError as error:
        return error.strerror or str(error)
    except ValueError:
        return "no file name"


def _unreadable(file: str, found: str, todo: str) -> SchemaError:
    return SchemaError([Problem(file, 1, 1, "FILE_READABLE", "$", found, todo)])


def _other_version(data: Any) -> Fault | None:
    """A file of another version is not looked at further: its words may mean something else."""
    version = data.get("statekit") if isinstance(data, dict) else LANGUAGE_VERSION
    if type(version) is not int or version == LANGUAGE_VERSION:
        return None
    todo = f"this tool reads version {LANGUAGE_VERSION}"
    return Fault(("statekit",), "LANGUAGE_VERSION", f"version {version} of the language", todo)
