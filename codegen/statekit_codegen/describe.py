"""Describe: the docstrings of a generated class, out of the words of its schema.

Owns what a reader of the generated code is told of each value, and in which order. Everything is
returned as lines for `layout.docstring`.
"""

from __future__ import annotations

from statekit.spec import Index, ModelSpec, Ring, Update, ValueSpec
from statekit_codegen.language import Tolerance, Value
from statekit_codegen.layout import wrap
from statekit_codegen.model import Model

__all__ = [
    "describe_class",
    "describe_family",
    "describe_holder",
    "describe_member",
    "describe_module",
    "describe_reset",
    "describe_value",
]

_CLASS_INDENT, _METHOD_INDENT = 4, 8
_PARAMETER_HANG = 8
_UPDATES: dict[Update, str] = {
    "entries": "by entries; the model replaces them, and writes into no tensor that it has.",
    "in_place": "in place; the model writes into what it has.",
}


def describe_module(model: Model) -> list[str]:
    """The model, and what is held elsewhere."""
    lines = _prose(model.schema.doc, 0)
    if model.schema.outside:
        lines += ["", "Held elsewhere, on purpose:"]
        for name, where in model.schema.outside.items():
            lines += wrap(f"{name}: {where}", 0, lead="    ", hang=8)
    return lines


def describe_class(model: Model) -> list[str]:
    """The model, and the arguments of the class."""
    arguments = {
        "session_id": 'the session to look at; None means "default".',
        "manager": "the manager that holds it.",
    }
    for name, parameter in model.schema.parameters.items():
        bounds = []
        if parameter.minimum is not None:
            bounds.append(f"at least {parameter.minimum}")
        if parameter.maximum is not None:
            bounds.append(f"at most {parameter.maximum}")
        arguments[name] = _sentence(parameter.doc)
        if bounds:
            arguments[name] += f" Must be {' and '.join(bounds)}."
    lines = [*_prose(model.schema.doc, _CLASS_INDENT), "", "Args:"]
    for name, text in arguments.items():
        lines += wrap(f"{name}: {text}", _CLASS_INDENT, lead="    ", hang=_PARAMETER_HANG)
    return lines


def describe_value(model: Model, value: ValueSpec, indent: int, *closing: str) -> list[str]:
    """What a value is, where it lives, what clears it and why; then the `closing` paragraph."""
    words = model.schema.values[value.name]
    lines = [*_prose(words.doc, indent), ""]
    for label, text in _facts(model.spec, value, words):
        lines += wrap(text, indent, lead=f"{label}: ", hang=4)
    if words.decision is None or not words.decision.why:
        lines.append("No decision is recorded.")
    else:
        lines += wrap(words.decision.why, indent, lead="Decision: ", hang=4)
    for paragraph in closing:
        lines += ["", *wrap(paragraph, indent)]
    return lines


def describe_member(value: ValueSpec, labels: tuple[str, ...]) -> str:
    """Which member of its families a carried value is."""
    members = (f"{name} {label}" for name, label in zip(value.families, labels, strict=True))
    return f"One of a family: {', '.join(members)}."


def describe_holder(value: ValueSpec) -> list[str]:
    """The object behind a property."""
    key = f', under the key "{value.key}"' if value.key and value.key != value.name else ""
    return wrap(f"The {value.object} behind `{value.name}`{key}.", _METHOD_INDENT)


def describe_family(spec: ModelSpec, value: ValueSpec) -> str:
    """How many objects a family is, and their keys."""
    axes = []
    for name in value.families:
        members = spec.families[name].members
        axes.append(f"{name} ({', '.join(members)})" if members else name)
    return f"One {value.object} for each {' and '.join(axes)}, under the keys `{value.key}`."


def describe_reset(model: Model, name: str) -> list[str]:
    """When a reset happens, what it clears and what it keeps."""
    doc = model.schema.resets[name].doc
    cleared = model.spec.resets[name]
    kept = [value.name for value in model.spec if value.name not in cleared]
    lines = [*_prose(doc, _METHOD_INDENT), ""]
    if not kept:
        return [*lines, "Clears everything."]
    lines += wrap(f"Clears {', '.join(cleared) or 'nothing'}.", _METHOD_INDENT, hang=4)
    return lines + wrap(f"Keeps {', '.join(kept)}.", _METHOD_INDENT, hang=4)


def _prose(text: str | None, indent: int) -> list[str]:
    return wrap(text or "", indent) or ["No description is recorded."]


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _facts(spec: ModelSpec, value: ValueSpec, words: Value) -> list[tuple[str, str]]:
    """Label and text of each line between the first paragraph and the decision."""
    bucket = value.bucket if value.object is None else f"{value.bucket} ({value.object})"
    facts = [("Bucket", f"{bucket}, operations: {', '.join(value.operations) or 'none'}.")]
    if value.device != "none" or value.size is not None:
        facts.append(_memory(value, words))
    if value.object == "FixedState":
        facts.append(("Update", "in place, at addresses that stay the same."))
    elif value.update != "replaced":
        facts.append(("Update", _UPDATES[value.update]))
    if value.ring is not None:
        facts.append(("Bound", _bound(value.ring)))
    if value.index is not None:
        facts.append(("Keys", _keys(value.index)))
    if value.codec is not None:
        facts.append(("Kept as", f"{value.codec.cast}; readers get the original dtype."))
    if value.lifetime == "request":
        text = "a request; cleared when the last lease on the session ends."
        facts.append(("Lifetime", text))
    if words.tolerance is not None:
        facts.append(("Tolerance", _tolerance(words.tolerance)))
    facts.append(("Cleared by", f"{', '.join(spec.cleared_by(value.name)) or 'nothing'}."))
    return facts


def _memory(value: ValueSpec, words: Value) -> tuple[str, str]:
    place = {"model": "the model's device", "none": "no device"}.get(value.device, value.device)
    size = value.size
    dtype = value.dtype or "unknown dtype"
    if size is None:
        return "Device", f"{place}."
    if size.shape is not None:
        shape = ", ".join(size.shape) + ("," if len(size.shape) == 1 else "")
        return ("Item" if words.item else "Shape"), f"({shape}) {dtype} on {place}."
    first = f"; {size.first} after the first step" if size.first else ""
    return "Elements", f"{size.elements} of {dtype} on {place}{first}."


def _bound(ring: Ring) -> str:
    if ring.nbytes is not None:
        return f"the newest entries that fit in {ring.nbytes} bytes."
    if ring.bound is None:
        return f"none; {_sentence(ring.unbounded)}"
    unit = "items" if ring.axis is None else f"frames along axis {ring.axis}"
    if ring.sink is not None:
        return f"{ring.bound} {unit}: the first {ring.sink}, and the newest."
    return f"the newest {ring.bound} {unit}."


def _keys(index: Index) -> str:
    shape = ", ".join(index.shape) + ("," if len(index.shape) == 1 else "")
    return f"({shape}) {index.dtype}, the nearest by {index.metric}."


def _tolerance(tolerance: Tolerance) -> str:
    parts = {"atol": tolerance.atol, "rtol": tolerance.rtol}
    given = ", ".join(f"{name} {number:g}" for name, number in parts.items() if number)
    return f"{given} in tests; {_sentence(tolerance.why)}"
