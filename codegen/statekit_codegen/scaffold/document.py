"""Document: a draft schema as text, in the style of a schema that a person wrote."""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Iterator

from statekit_codegen.check_names import CAPS, MAX_NAME_CHARS
from statekit_codegen.module_names import RESERVED_NAMES
from statekit_codegen.reading.facts import NOTHING, Attribute, HandRolled
from statekit_codegen.reading.names import is_number_name, snake
from statekit_codegen.scaffold.holder import (
    bound_parameters,
    holders,
    names_of,
    session_values,
)
from statekit_codegen.scaffold.resets import DraftReset, draft_resets
from statekit_codegen.scaffold.unset import read_and_never_set
from statekit_codegen.scaffold.value import DraftValue, draft_value
from statekit_codegen.scaffold.words import series
from statekit_codegen.scaffold.yaml_text import WIDTH, entry, scalar, visible

__all__ = ["class_name", "draft", "model_name"]

_STEM = re.compile(r"^(hand_rolled_)?(.+?)(_session)?(_states?)?$")


def draft(state: HandRolled, model: str | None = None) -> str:
    """The text of a schema for a class; `model` is its name there."""
    return "\n".join(_lines(state, model or model_name(state.name))) + "\n"


def model_name(name: str) -> str:
    """The name of the model whose state a class is: `dreamzero` of `HandRolledDreamzeroState`."""
    found = _STEM.match(snake(name.rpartition(".")[2]))
    model = found[2] if found else snake(name)
    return f"{model}_model" if keyword.iskeyword(model) else model


def class_name(name: str) -> str:
    """The name of the generated class."""
    words = re.sub(r"[^A-Za-z0-9]", "", name.rpartition(".")[2])
    words = words.removeprefix("HandRolled") or words
    words = words[:1].upper() + words[1:]
    if not CAPS.fullmatch(words) or words in RESERVED_NAMES:
        words = f"Model{words}State"
    return words[:MAX_NAME_CHARS]


def _lines(state: HandRolled, model: str) -> Iterator[str]:
    names = session_values(state)
    kinds = holders(state)
    values = [
        draft_value(name, state.attributes[attribute], kinds[attribute], state)
        for attribute, name in names.items()
    ]
    resets = draft_resets(state, names)
    yield f"# Drafted by `statekit scaffold` from {visible(state.file)}:{state.name}"
    yield "# Lines are those of that file. What it does not say is asked under `questions`: answer,"
    yield "# mend the value, remove the question. `statekit vet` lists those that are left."
    yield "statekit: 1"
    yield f"model: {scalar(model)}"
    yield f"class: {scalar(class_name(state.name))}"
    yield from entry(
        "doc", scalar(state.doc or f"What {state.name} keeps between forward() calls."), 0
    )
    yield from _questions(list(_asked(state, values)), 0)
    yield from _outside(state)
    yield from _numbers(state)
    yield ""
    yield "values:"
    if not values:
        yield "  {}"
    for bucket, words in (
        ("attrs", "carried: the model assigns them and reads them back"),
        ("StateObject", "accumulated"),
    ):
        chosen = [value for value in values if value.bucket == bucket]
        if chosen:
            yield _rule(words)
            for index, value in enumerate(chosen):
                if index:
                    yield ""
                yield from _value(value)
            if bucket == "attrs" and len(chosen) < len(values):
                yield ""
    yield from _resets(resets, list(names.values()))
    yield from _left(state)


def _rule(words: str) -> str:
    return f"  # -- {words} ".ljust(WIDTH, "-")


def _value(value: DraftValue) -> Iterator[str]:
    attribute = value.attribute
    renamed = f", {attribute.name}" if attribute.name != value.name else ""
    yield f"  {scalar(value.name)}:  # line {attribute.site.line}{visible(renamed)}"
    yield f"    bucket: {value.bucket}"
    inside = False
    for field in value.fields:
        key, indent = field.key, 4
        if key.startswith("decision."):
            if not inside:
                yield "    decision:"
            inside, key, indent = True, key.partition(".")[2], 6
        yield from entry(key, field.value, indent, field.comment, fold=key in ("doc", "why"))
    yield from _questions(list(value.questions), 4)


def _questions(questions: list[str], indent: int) -> Iterator[str]:
    if not questions:
        return
    pad = " " * indent
    yield f"{pad}questions:"
    for question in questions:
        text = scalar(question)
        line = f"{pad}  - {text}"
        if len(line) <= WIDTH:
            yield line
        else:
            first, *rest = entry("", text, indent + 4)
            yield f"{pad}  - {first.strip().removeprefix(': ')}"
            yield from rest


def _asked(state: HandRolled, values: list[DraftValue]) -> Iterator[str]:
    """What is asked about the class as a whole."""
    for base in state.unread:
        yield f"The base class {base} is in another file: which values does it keep?"
    for spot in state.blind:
        yield f"Line {spot.site.line} sets what no line names ({spot.source}): which values?"
    for name, line in read_and_never_set(state).items():
        yield f"{name} is read in line {line} and set nowhere: does code elsewhere set it?"
    kinds = holders(state)
    for name, kind in kinds.items():
        attribute = state.attributes[name]
        if kind == "foreign":
            source = attribute.default.source if attribute.default else "?"
            yield (
                f"{name} is made by {source} in line {attribute.site.line}: if it holds state, "
                "which values does that make?"
            )
    for name in bound_parameters(state):
        if type(state.parameters[name].default) is not int:
            yield f"The constructor requires {name}: what is a usual number? 1 is a placeholder."
    for clearing in state.clearings:
        if clearing.sometimes:
            yield (
                f"{clearing.label} clears {series(clearing.sometimes)} only under a condition "
                f"(line {clearing.site.line}): does a reset of the session?"
            )
        for name in clearing.others:
            event = clearing.events[name]
            source = event.held.source if event.held is not None else event.how
            if name in state.attributes and event.kind == "set":
                yield (
                    f"{clearing.label} sets {name} to {source} (line {event.site.line}): "
                    "is that as it starts, so that the reset clears it?"
                )
    cursors = [v.name for v in values if _is_cursor(v.attribute)]
    buffers = [v.name for v in values if v.bucket == "StateObject"]
    if cursors and buffers:
        yield (
            f"Which values belong together, so that one without the others is wrong? Counters: "
            f"{', '.join(cursors)}; buffers: {', '.join(buffers)}. Name them under `atomic`."
        )


def _is_cursor(attribute: Attribute) -> bool:
    return attribute.type.head == "int"


def _outside(state: HandRolled) -> Iterator[str]:
    lines = []
    names = names_of(state)
    for name, kind in holders(state).items():
        attribute = state.attributes[name]
        line = attribute.site.line
        if kind == "given":
            lines += _outside_entry(
                names[name],
                f"given to the constructor in line {line}, and changed by no line since",
            )
        elif kind == "foreign":
            source = attribute.default.source if attribute.default else "a call"
            lines += _outside_entry(names[name], f"an object that line {line} makes with {source}")
    if lines:
        yield ""
        yield "# Kept by the class, but by no session: say where each is, or make it a value."
        yield "outside:"
        yield from lines


def _outside_entry(name: str, text: str) -> list[str]:
    return entry(scalar(name), scalar(text), 2)


def _numbers(state: HandRolled) -> Iterator[str]:
    used = [constant for constant in state.constants.values() if is_number_name(constant.name)]
    if used:
        yield ""
        yield "constants:"
        for constant in used:
            yield f"  {scalar(constant.name)}: {constant.value}  # line {constant.site.line}"
    parameters = bound_parameters(state)
    if parameters:
        yield ""
        yield "parameters:"
        for name in parameters:
            parameter = state.parameters[name]
            default = parameter.default if type(parameter.default) is int else 1
            yield f"  {scalar(name)}:  # line {parameter.site.line}"
            yield "    type: int"
            yield f"    default: {default if parameter.default is not NOTHING else 1}"
            yield "    minimum: 1"
            yield from entry("doc", scalar(f"How many are kept; {name} of the constructor."), 4)


def _resets(resets: list[DraftReset], values: list[str]) -> Iterator[str]:
    if not resets:
        return
    yield ""
    yield "resets:"
    for reset in resets:
        yield f"  {scalar(reset.name)}:  # {visible(reset.evidence)}"
        if reset.doc:
            yield from entry("doc", scalar(reset.doc), 4)
        kept = [value for value in values if value not in reset.values]
        if reset.everything:
            yield "    clears: all"
        elif len(kept) < len(reset.values):
            yield from _listed("keeps", kept)
        else:
            yield from _listed("clears", list(reset.values))


def _left(state: HandRolled) -> Iterator[str]:
    """The methods that carry behaviour: for the subclass."""
    resets = {clearing.method for clearing in state.clearings}
    left = {m.name: m.site.line for m in state.methods if m.name not in resets}
    if left:
        methods = ", ".join(f"{name} (line {line})" for name, line in left.items())
        text = f"Left for the subclass, which `statekit scaffold --subclass` drafts: {methods}."
        yield ""
        yield from textwrap.wrap(
            visible(text),
            WIDTH,
            initial_indent="# ",
            subsequent_indent="# ",
            break_on_hyphens=False,
        )


def _listed(key: str, names: list[str]) -> Iterator[str]:
    names = [scalar(name) for name in names]
    line = f"    {key}: [{', '.join(names)}]"
    if len(line) <= WIDTH:
        yield line
        return
    yield f"    {key}:"
    for name in names:
        yield f"      - {name}"
