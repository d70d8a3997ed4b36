"""The two judges of a schema, the loader and the JSON Schema, and where they may differ."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from statekit.errors import SchemaError
from statekit_codegen.json_schema import json_schema
from statekit_codegen.load import load_text

__all__ = ["NOT_SAID", "OF_DATA", "VALUES", "refused", "rules_against", "validator"]

_BYTES = "it is about the bytes of a file, and JSON Schema sees what they say"
_YAML = "it is about how YAML is written, and JSON Schema sees what a reader made of it"
_ELSEWHERE = "it compares with what another part of the file says"
NOT_SAID = {
    "FILE_EMPTY": _BYTES,
    "FILE_ENCODING": _BYTES,
    "FILE_READABLE": _BYTES,
    "FILE_SIZE": _BYTES,
    "KEY_DUPLICATE": _YAML,
    "KEY_TEXT": _YAML,
    "YAML_ALIAS": _YAML,
    "YAML_DOCUMENTS": _YAML,
    "YAML_LIMIT": _YAML,
    "YAML_MERGE": _YAML,
    "YAML_SURPRISE": _YAML,
    "YAML_SYNTAX": _YAML,
    "YAML_TAG": _YAML,
    "AXIS_RANGE": _ELSEWHERE,
    "EXPRESSION_NAME": _ELSEWHERE,
    "EXPRESSION_VALUE": _ELSEWHERE,
    "FAMILY_FIT": _ELSEWHERE,
    "KEY_CLASH": _ELSEWHERE,
    "KEY_TEMPLATE": _ELSEWHERE,
    "NAME_CLASH": _ELSEWHERE,
    "PARAMETER_BOUNDS": _ELSEWHERE,
    "REFERENCE_UNKNOWN": _ELSEWHERE,
    "RING_BOUND": _ELSEWHERE,
    "MODEL_TWICE": "it is about several files",
    "DEFAULT_FIT": "0 and 0.0 are one number in JSON, and types nest",
    "EXPRESSION_GRAMMAR": "brackets nest, which no pattern can follow",
    "TYPE_GRAMMAR": "brackets nest, which no pattern can follow",
    "TYPE_FIT": "types nest, which no pattern can follow",
}
"""Rules of which the JSON Schema refuses some bad cases at most, each with the reason."""

OF_DATA = frozenset(rule for rule, why in NOT_SAID.items() if why not in (_BYTES, _YAML))
"""Those of them that are about what the text says, and not about how it is written."""


@cache
def validator() -> Draft202012Validator:
    """A validator of the language's JSON Schema."""
    return Draft202012Validator(json_schema())


def refused(data: Any) -> list[str]:
    """What the JSON Schema says against `data`."""
    return [f"{error.json_path}: {error.message}" for error in validator().iter_errors(data)]


def rules_against(text: bytes) -> set[str]:
    """The rules by which the loader refuses a file."""
    try:
        load_text(text, "toy.yaml")
    except SchemaError as error:
        return {problem.rule for problem in error.problems}
    return set()


VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 300, 2**63, 1.5, "", " ", "a", "A", "_", "class", "self"),
    *("int", "int | None", "None | int", "int | int", "list[int]", "Optional[str]", "list [ int ]"),
    *("dict[str, list[torch.Tensor | None]]", "torch . Tensor", "np.ndarray", "tuple[int, ...]"),
    *(
        "bytes",
        "str",
        "float",
        "bool",
        "H",
        " H\n",
        "H / 8",
        "-(-H)",
        "max(H, 2) + 1",
        "00",
        "H*(2",
    ),
    *(
        "cpu",
        "cuda:1",
        "cuda:01",
        "attrs",
        "StateObject",
        "LatentBuffer",
        "EncodeOnce",
        "HeldValue",
        "FixedState",
        "WindowedKV",
        "RetrievalStore",
        "request",
        "cosine",
    ),
    *(
        "bfloat16",
        "kv{branch}",
        "{branch}",
        "2024-02-29",
        "2026-02-29",
        "replicated",
        "list",
        "all",
    ),
    *([], {}, [1], ["a", "a"], [["a"]], {"a": 1}, {"concat": 0}, {"bound": 1}, {"unbounded": "x"}),
    *(
        {"nbytes": 1},
        {"bound": 2, "axis": 0, "sink": 1},
        {"cast": "float16"},
        {"atol": 1, "why": "x"},
    ),
    *(
        {"shape": [1], "dtype": "float32"},
        {"first": 1, "then": 2},
        {"over": "tp"},
        {"rank": 0},
        {"clears": "all"},
        {"keeps": []},
    ),
]
"""What may stand somewhere in a schema, and mostly does not belong there."""
