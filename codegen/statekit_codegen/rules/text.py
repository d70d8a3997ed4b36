"""Rules about what a reviewer reads: texts that say something, names that are used."""

from __future__ import annotations

from collections.abc import Iterator

from statekit.expressions import Expression
from statekit_codegen.model import Model, Path
from statekit_codegen.rules.record import Finding, vet_rule

__all__ = [
    "name_unused",
    "open_question",
    "outside_value",
    "reset_doc",
    "text_empty",
    "value_doc",
]


@vet_rule("VALUE_DOC", "Every value says what it is.", since="0.1.0")
def value_doc(model: Model) -> Iterator[Finding]:
    for name, value in model.schema.values.items():
        if not (value.doc or "").strip():
            yield Finding(("values", name, "doc"), "no doc", "say in a sentence what the value is")


@vet_rule("RESET_DOC", "Every reset says when it happens.", since="0.1.0")
def reset_doc(model: Model) -> Iterator[Finding]:
    for name, reset in model.schema.resets.items():
        if not (reset.doc or "").strip():
            yield Finding(("resets", name, "doc"), "no doc", "say in a sentence when it happens")


@vet_rule("OPEN_QUESTION", "No question about a schema is left open.", since="0.1.0")
def open_question(model: Model) -> Iterator[Finding]:
    for path, questions in _questions(model):
        for index, question in enumerate(questions):
            yield Finding(
                (*path, index),
                " ".join(question.split()) or "a blank question",
                "find it out, write the answer into the schema, and remove the question",
            )


@vet_rule("TEXT_EMPTY", "A text that the language asks for is not blank.", since="0.1.0")
def text_empty(model: Model) -> Iterator[Finding]:
    for path, text in _texts(model):
        if not text.strip():
            yield Finding(path, "a blank text", "write what a reviewer needs to know")


@vet_rule(
    "NAME_UNUSED",
    "Every symbol, parameter, family and input is used; constants may serve hand-written code.",
    since="0.1.0",
)
def name_unused(model: Model) -> Iterator[Finding]:
    numbers = {name for text in _expressions(model) for name in Expression.parse(text).names}
    families = {name for value in model.spec for name in value.families}
    sources = {name for value in model.spec if value.rebuild for name in value.rebuild.sources}
    schema = model.schema
    for section, names, used in (
        ("symbols", schema.symbols, numbers),
        ("parameters", schema.parameters, numbers),
        ("families", schema.families, families),
        ("inputs", schema.inputs, sources),
    ):
        for name in names:
            if name not in used:
                yield Finding((section, name), "nothing uses this name", "use it, or remove it")


@vet_rule("OUTSIDE_VALUE", "What is held elsewhere is no value of the session.", since="0.1.0")
def outside_value(model: Model) -> Iterator[Finding]:
    for name in model.schema.outside:
        if name in model.schema.values:
            yield Finding(
                ("outside", name),
                "held elsewhere, and a value of the session as well",
                "keep the one that is true, or rename one",
            )


def _questions(model: Model) -> Iterator[tuple[Path, list[str]]]:
    for name, value in model.schema.values.items():
        yield ("values", name, "questions"), value.questions
    yield ("questions",), model.schema.questions


def _texts(model: Model) -> Iterator[tuple[Path, str]]:
    """Every text that must be there; those that may be left out have rules of their own."""
    schema = model.schema
    yield ("doc",), schema.doc
    for name, text in schema.outside.items():
        yield ("outside", name), text
    for name, parameter in schema.parameters.items():
        yield ("parameters", name, "doc"), parameter.doc
    for name, family in schema.families.items():
        yield ("families", name, "doc"), family.doc
    for name, source in schema.inputs.items():
        yield ("inputs", name, "doc"), source.doc
    for name, value in schema.values.items():
        if value.rebuild is not None:
            yield ("values", name, "rebuild", "cost"), value.rebuild.cost
        if value.pending is not None:
            yield ("values", name, "pending", "why"), value.pending.why
        if value.tolerance is not None:
            yield ("values", name, "tolerance", "why"), value.tolerance.why
        for index, measured in enumerate(value.measured):
            yield ("values", name, "measured", index, "hardware"), measured.hardware


def _expressions(model: Model) -> Iterator[str]:
    """Every size expression of the model."""
    for family in model.spec.families.values():
        if family.count is not None:
            yield family.count
    for value in model.spec:
        if value.size is not None:
            yield from value.size.shape or ()
            yield from filter(None, (value.size.elements, value.size.first))
        if value.ring is not None:
            ring = value.ring
            yield ring.bound or ring.nbytes or ring.growth.items
            yield from filter(None, (ring.sink,))
        if value.index is not None:
            yield from value.index.shape
        if value.pending is not None and value.pending.elements is not None:
            yield value.pending.elements
