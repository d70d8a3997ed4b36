"""DraftValue: one value of a draft, field by field, with what has to be asked about it.

Owns which field follows from which fact, and the placeholder where none does. Every placeholder
has its question.
"""

from __future__ import annotations

import attrs

from statekit_codegen.check_names import PLAIN, SNAKE
from statekit_codegen.check_values import DEVICE, NOT_IN_NUMPY
from statekit_codegen.reading.annotations import known_text, union, without_none
from statekit_codegen.reading.facts import UNKNOWN, Attribute, HandRolled, Held
from statekit_codegen.reading.names import is_number_name
from statekit_codegen.scaffold.holder import Holder, is_joined, item_type
from statekit_codegen.scaffold.words import lines_words, seen, series
from statekit_codegen.scaffold.yaml_text import flow, plain_value, scalar
from statekit_codegen.type_grammar import MAX_TYPE_CHARS, TypeExpr, TypeExprError

__all__ = ["DraftField", "DraftValue", "draft_value"]

_NONE = TypeExpr("None")


@attrs.frozen
class DraftField:
    """One key with its value as YAML, and the evidence that stands beside it."""

    key: str
    value: str
    comment: str = ""


@attrs.frozen
class DraftValue:
    """One value: where it was seen, its fields in order, its questions."""

    name: str
    attribute: Attribute
    bucket: str
    fields: tuple[DraftField, ...]
    questions: tuple[str, ...]


def draft_value(name: str, attribute: Attribute, kind: Holder, state: HandRolled) -> DraftValue:
    """What is drafted for one attribute that a session holds."""
    drafting = _Drafting(name, attribute, state)
    return drafting.buffer() if kind == "buffer" else drafting.carried()


class _Drafting:
    """The fields and questions of one value, in the order in which a schema has them."""

    def __init__(self, name: str, attribute: Attribute, state: HandRolled) -> None:
        self.name, self.attribute, self.state = name, attribute, state
        self.fields: list[DraftField] = []
        self.questions: list[str] = []
        self.missing: list[str] = []

    def add(self, key: str, value: str, comment: str = "") -> None:
        """One more field."""
        self.fields.append(DraftField(key, value, comment))

    def ask(self, question: str) -> None:
        """One more question."""
        self.questions.append(question)

    def carried(self) -> DraftValue:
        """A value that the model assigns whole or keeps entries in, and reads back."""
        attribute = self.attribute
        self._doc()
        type_, default = self._type_and_default()
        self.add("type", scalar(known_text(type_)), self._type_comment())
        self.add("default", default)
        self._size(type_)
        self._device(type_)
        self._update()
        if attribute.bound is not None:
            text = f"The newest {attribute.bound.text} are kept (line {attribute.bound.site.line})"
            self.ask(f"{text}, but entries are replaced too: is it a LatentBuffer all the same?")
        if attribute.joined is not None:
            lines = lines_words(sorted({e.site.line for e in attribute.events if _joins(e.held)}))
            self.ask(
                f"Something is joined to it in {lines}, along an axis counted from the end: "
                "which one is that from 0, for a LatentBuffer?"
            )
        self._unknown_type(type_)
        self._kept(type_)
        return self._done("attrs", [], f"{seen(attribute)}.")

    def buffer(self) -> DraftValue:
        """A value to which items are appended."""
        attribute = self.attribute
        joined = is_joined(attribute)
        item = without_none(attribute.type) if joined else item_type(attribute)
        self._doc()
        self.add("object", "LatentBuffer", self._appends_comment())
        if not _parses(known_text(item)):
            item = UNKNOWN
        if item == UNKNOWN:
            self.ask("What is appended? No line says; torch.Tensor is a placeholder.")
            item = TypeExpr("torch.Tensor")
        self.add("item", scalar(known_text(item)))
        self._size(item, axis=attribute.joined if joined else None)
        self._device(item)
        self._ring(joined)
        if attribute.steps:
            self.add("on_commit", f"[{', '.join(attribute.steps)}]", self._appends_comment())
        if joined:
            self.add("view", flow([("concat", str(attribute.joined))]))
            if attribute.default is not None and attribute.default.default is not None:
                source = attribute.default.source
                self.ask(f"It starts as {source}; a joined LatentBuffer gives None while empty.")
        elif attribute.default is not None and attribute.default.default != []:
            self.ask(
                f"It starts as {attribute.default.source}; a LatentBuffer gives [] while empty."
            )
        if attribute.type.optional and not joined:
            self.ask("It can be None by its type: does a reader tell None from an empty list?")
        self._kept(item)
        return self._done("StateObject", ["accumulate"], f"{seen(attribute)}.")

    # -- fields ------------------------------------------------------------------------------

    def _doc(self) -> None:
        if self.attribute.doc:
            text = self.attribute.doc
            text = text if text.endswith((".", "!", "?")) else f"{text}."
            self.add("doc", scalar(text[:1].upper() + text[1:]))

    def _type_and_default(self) -> tuple[TypeExpr, str]:
        """The type of a carried value and its default, which fit each other."""
        attribute = self.attribute
        type_ = attribute.type
        written = known_text(type_)
        if len(written) > MAX_TYPE_CHARS or not _parses(written):
            self.ask(f"Its type is too long or deep for a schema: {written[:60]}...")
            type_ = UNKNOWN
        start = attribute.default
        if start is None:
            if attribute.parameter is None and not type_.optional:
                self.ask("No line gives it a first value: what is read before one is assigned?")
            elif not type_.optional:
                self.ask("The constructor requires it: what is read before one is assigned?")
            return union([type_, _NONE]), "null"
        text = plain_value(start.default) if start.is_literal else None
        if text is not None and TypeExpr.parse(known_text(type_)).accepts(start.default):
            return type_, text
        if start.default is not None:
            line = (attribute.default_site or attribute.site).line
            self.ask(f"It starts as {start.source} (line {line}), which no default can say.")
        return union([type_, _NONE]), "null"

    def _size(self, type_: TypeExpr, axis: int | None = None) -> None:
        if not _parsed(type_).holds_memory:
            return
        attribute, missing = self.attribute, []
        dtype = attribute.dtype
        if dtype in NOT_IN_NUMPY and _parsed(type_).mentions("np.ndarray"):
            dtype = None
        if dtype is None:
            missing.append("dtype")
        else:
            self.add("dtype", dtype)
        shape = attribute.shape
        if shape is not None and axis is not None and axis >= len(shape):
            shape = None
        if shape is not None and all(int(extent) > 0 for extent in shape):
            self.add("shape", f"[{', '.join(shape)}]")
        else:
            missing.append("shape")
        self.missing = missing

    def _device(self, type_: TypeExpr) -> None:
        """The device; and one question for all that nothing says about the bytes."""
        if not _parsed(type_).holds_memory:
            self.add("device", "none")
            return
        device = self.attribute.device
        if device is None and not _parsed(type_).mentions("torch.Tensor"):
            device = "cpu"
        known = device is not None and DEVICE.fullmatch(device) is not None
        self.add("device", device if known and device is not None else "model")
        parts = [*self.missing, *([] if known else ["device"])]
        if not parts:
            return
        odd = self.attribute.odd_device or device
        hints = [f"made with ({self.attribute.odd_shape})"] if self.attribute.odd_shape else []
        hints += [f"device {odd} is written"] if odd and not known else []
        said = f"{series(hints)}, no line says more" if hints else "no line says"
        placeholder = "" if known else "; model is a placeholder"
        self.ask(f"Which {series(parts)}? {said[:1].upper()}{said[1:]}{placeholder}.")

    def _update(self) -> None:
        attribute = self.attribute
        writes, entries = attribute.lines("write"), attribute.lines("entry", "append", "trim")
        if writes or without_none(attribute.type).mentions("torch.Generator"):
            how = sorted({event.how for event in attribute.of_kind("write")})
            comment = f"{lines_words(writes)}: {', '.join(how)}" if writes else "a draw changes it"
            self.add("update", "in_place", comment)
        elif entries:
            self.add("update", "entries", lines_words(entries))

    def _ring(self, joined: bool) -> None:
        bound = self.attribute.bound
        number = None if bound is None else bound.number
        named = (
            bound is not None
            and bound.name is not None
            and is_number_name(bound.name, SNAKE if bound.parameter else PLAIN)
        )
        usable = number is not None and number >= 1
        if bound is not None and (usable or (bound.parameter and named and number is None)):
            pairs = [("bound", scalar(bound.name or "") if named else str(number))]
            if joined:
                pairs.append(("axis", str(self.attribute.joined)))
                if bound.axis not in (None, self.attribute.joined):
                    self.ask(
                        f"Line {bound.site.line} cuts axis {bound.axis}, but it is joined along "
                        f"axis {self.attribute.joined}: which one is counted?"
                    )
            self.add("ring", flow(pairs), f"line {bound.site.line}")
            return
        if bound is not None:
            self.ask(
                f"How many stay? Line {bound.site.line} keeps {bound.text}, "
                "which is no number that the file gives."
            )
            reason = f"not known yet, line {bound.site.line} keeps {bound.text}"
        else:
            reason = "no line of the class ends its growth"
            ends = [c.method for c in self.state.clearings if self.attribute.name in c.cleared]
            if ends:
                names = " or ".join(dict.fromkeys(f"{name}()" for name in ends))
                reason = f"kept until {names}; no line ends its growth before"
            self.ask("What ends its growth, and how many items does each step append?")
        self.add("ring", flow([("unbounded", scalar(reason, inside=True))]))

    # -- questions ---------------------------------------------------------------------------

    def _unknown_type(self, type_: TypeExpr) -> None:
        unknown = without_none(type_)
        attribute = self.attribute
        if not unknown.mentions("?") and unknown != UNKNOWN:
            return
        said = f"the annotation {attribute.annotation}" if attribute.annotation else "no line"
        verb = "does not say" if attribute.annotation else "says"
        self.ask(f"Which type? {said[:1].upper() + said[1:]} {verb}; None is a placeholder.")

    def _kept(self, type_: TypeExpr) -> None:
        """What to ask of every value whose bytes count."""
        attribute, parsed = self.attribute, _parsed(type_)
        passed = [e for e in attribute.of_kind("read") if e.how.startswith("passed to ")]
        changing = not attribute.of_kind("write") and (parsed.holds_memory or parsed.mentions("?"))
        if passed and changing:
            first = passed[0]
            self.ask(
                f"Line {first.site.line} has it {first.how}: "
                "does that replace entries, or write into tensors?"
            )
        elif changing and parsed.holds_memory:
            self.ask("Does code outside this file write into it?")
        if parsed.holds_memory:
            self.ask("May it be dropped, and what would rebuild it?")
        kinds = without_none(type_)
        if kinds.head == "dict" and parsed.holds_memory:
            key = known_text(kinds.arguments[0]).replace("None", "something")
            self.ask(f"It is keyed by {key}: is each key a member of a family?")

    def _type_comment(self) -> str:
        attribute = self.attribute
        if attribute.table:
            return f"the session's entry of {attribute.table}"
        return (attribute.annotation or "") if attribute.type.mentions("?") else ""

    def _appends_comment(self) -> str:
        attribute = self.attribute
        lines = sorted(
            {e.site.line for e in attribute.events if e.kind == "append" or _joins(e.held)}
        )
        return lines_words(lines) if lines else ""

    def _done(self, bucket: str, operations: list[str], why: str) -> DraftValue:
        self.add("decision.operations", f"[{', '.join(operations)}]")
        self.add("decision.why", scalar(why))
        return DraftValue(
            self.name, self.attribute, bucket, tuple(self.fields), tuple(self.questions)
        )


def _joins(held: Held | None) -> bool:
    return held is not None and (held.joined is not None or held.appended is not None)


def _parses(text: str) -> bool:
    try:
        TypeExpr.parse(text)
    except TypeExprError:
        return False
    return True


def _parsed(type_: TypeExpr) -> TypeExpr:
    """The type as the loader will read it."""
    return TypeExpr.parse(known_text(type_)) if type_ != UNKNOWN else UNKNOWN
