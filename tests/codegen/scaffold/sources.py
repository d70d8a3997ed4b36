"""Sources of state classes for the tests of reading, scaffold and audit, and how to read them."""

from __future__ import annotations

import textwrap
from pathlib import Path

from statekit.errors import Problem
from statekit_codegen.audit.comparison import audit
from statekit_codegen.audit.difference import Report
from statekit_codegen.load import load_text
from statekit_codegen.model import Model
from statekit_codegen.reading.facts import Attribute, HandRolled
from statekit_codegen.reading.reader import read_source
from statekit_codegen.reading.source import Target
from statekit_codegen.rules import vet
from statekit_codegen.scaffold.document import draft

__all__ = [
    "CASES", "HEAD", "ROOT", "attribute", "audited", "drafted", "findings", "in_class", "read",
]  # fmt: skip

ROOT = Path(__file__).parents[3]
CASES = sorted(path for path in (Path(__file__).parent / "cases").iterdir() if path.is_dir())

HEAD = """\
from __future__ import annotations

import collections
import copy
import dataclasses
from collections import OrderedDict, defaultdict, deque
from typing import Any, ClassVar, Dict, List, Literal, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt
import torch
import torch as th
from torch import Tensor

LIMIT = 8
KV = Tuple[Tensor, Tensor]
"""


def read(source: str, name: str = "State", file: str = "state.py") -> HandRolled:
    """The facts of a class in `source`."""
    return read_source(source.encode(), Target(Path(file), name), file)


def in_class(body: str, *, after: str = "", head: str = "class State:") -> str:
    """A file with a class `State` of this body, and what follows it."""
    inner = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return f"{HEAD}\n\n{head}\n{inner}\n\n\n{textwrap.dedent(after)}"


def attribute(body: str, name: str, *, after: str = "", head: str = "class State:") -> Attribute:
    """One attribute of a class of this body."""
    return read(in_class(body, after=after, head=head)).attributes[name]


def drafted(state: HandRolled) -> Model:
    """The model that the draft of a class loads as."""
    return load_text(draft(state).encode(), "schemas/draft.yaml")


def audited(state: HandRolled, schema: str, **options: object) -> Report:
    """What an audit of a class against the text of a schema finds."""
    model = load_text(schema.encode(), "schemas/toy.yaml")
    return audit(state, model, **options)  # type: ignore[arg-type]


def findings(model: Model, rule: str) -> list[Problem]:
    """What breaks one rule of `vet`."""
    return [problem for problem in vet(model) if problem.rule == rule]
