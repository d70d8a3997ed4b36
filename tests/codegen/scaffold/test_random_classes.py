"""Random classes, written from facts: reading gives these back, and the draft agrees with them."""

from __future__ import annotations

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from statekit_codegen.reading.annotations import known_text
from statekit_codegen.scaffold.document import draft
from statekit_codegen.scaffold.subclass import subclass
from tests.codegen.scaffold.sources import HEAD, audited, drafted, read

_LITERALS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
)
_TYPES = (
    "int", "float", "bool", "str", "torch.Tensor", "np.ndarray", "torch.Tensor | None",
    "int | None", "list[torch.Tensor]", "list[torch.Tensor | None] | None",
    "dict[int, torch.Tensor]", "tuple[torch.Tensor, torch.Tensor] | None", "set[int]", "deque[int]",
)  # fmt: skip
_NAMES = st.sampled_from(
    ("a", "b", "count", "step", "_cache", "kvCache", "frames", "yes", "no", "on", "null", "list",
     "import_", "session", "x1", "X", "latents", "a_object", "_frames_object", "reset_state", "max",
     "__class", "NUM_", "keep", "fork", "é", "_1")
)  # fmt: skip
_BOUNDS = {"4": 4, "LIMIT": 8, "_N": 5, "self.NUM": 7, "State.NUM": 7, "self._k": 9, "self.mk": 3}
"""How a bound may be written, and what it is: a constant, or an argument of the constructor."""


@attrs.frozen
class Fact:
    """One attribute: how it is written, and what should be read."""

    name: str
    kind: str
    type: str = ""
    start: object = None
    bound: str = "4"

    def start_line(self) -> str:
        """The line of the constructor."""
        if self.kind == "ring":
            return f"self.{self.name} = deque(maxlen={self.bound})"
        if self.kind == "cut":
            return f"self.{self.name}: list[Tensor] = []"
        if self.kind == "joined":
            return f"self.{self.name}: Tensor | None = None"
        if self.kind == "typed":
            return f"self.{self.name}: {self.type} = unknown()"
        return f"self.{self.name} = {self.start!r}"

    def push_lines(self) -> list[str]:
        """The lines of a step."""
        name = self.name
        return {
            "ring": [f"self.{name}.append(frame)"],
            "cut": [f"self.{name}.append(frame)", f"del self.{name}[:-{self.bound}]"],
            "joined": [f"self.{name} = torch.cat([self.{name}, frame], dim=1)[:, -{self.bound}:]"],
        }.get(self.kind, [])

    def clear_line(self) -> str:
        """The line of a reset."""
        return f"self.{self.name}.clear()" if self.kind == "ring" else self.start_line()


@st.composite
def facts(draw: st.DrawFn) -> list[Fact]:
    """A few attributes with different names."""
    names = draw(st.lists(_NAMES, min_size=1, max_size=8, unique=True))
    made = []
    for name in names:
        kind = draw(st.sampled_from(["plain", "plain", "typed", "ring", "cut", "joined"]))
        made.append(
            Fact(
                name,
                kind,
                draw(st.sampled_from(_TYPES)),
                draw(_LITERALS),
                draw(st.sampled_from(sorted(_BOUNDS))),
            )
        )
    return made


def written(made: list[Fact], cleared: list[str]) -> str:
    """The source of a class with these attributes, whose reset clears some of them."""
    lines = [HEAD, "_N = 5", "", "class State:", "    NUM = 7", ""]
    lines += ["    def __init__(self, _k: int = 9, maxKeep=3):"]
    lines += ["        self._k = _k", "        self.mk = maxKeep"]
    lines += [f"        {fact.start_line()}" for fact in made]
    lines += ["", "    def push(self, frame: Tensor):", "        pass"]
    lines += [f"        {line}" for fact in made for line in fact.push_lines()]
    lines += ["", "    def reset(self):", "        pass"]
    lines += [f"        {fact.clear_line()}" for fact in made if fact.name in cleared]
    return "\n".join(lines) + "\n"


@settings(max_examples=25)
@given(made=facts(), data=st.data())
def test_class_when_written_from_facts_then_reading_gives_them_back(
    made: list[Fact], data: st.DataObject
) -> None:
    """Names, types, defaults, bounds and resets come back as they were written."""
    cleared = [fact.name for fact in made if data.draw(st.booleans())]
    state = read(written(made, cleared))
    assert list(state.attributes) == ["_k", "mk", *(fact.name for fact in made)]
    for fact in made:
        attribute = state.attributes[fact.name]
        if fact.kind == "plain":
            assert attribute.default is not None
            assert attribute.default.default == fact.start
            assert type(attribute.default.default) is type(fact.start)
        elif fact.kind == "typed":
            assert known_text(attribute.type) == fact.type
        else:
            assert attribute.bound is not None
            assert attribute.bound.number == _BOUNDS[fact.bound]
    found = [name for clearing in state.clearings for name in clearing.cleared]
    assert sorted(found) == sorted(cleared)


@settings(max_examples=25)
@given(made=facts(), data=st.data())
def test_class_when_drafted_then_the_draft_loads_and_the_audit_finds_nothing(
    made: list[Fact], data: st.DataObject
) -> None:
    """Whatever the class, its draft loads, says what the class says, and its subclass compiles."""
    cleared = [fact.name for fact in made if data.draw(st.booleans())]
    state = read(written(made, cleared))
    text = draft(state)
    assert len(drafted(state).schema.values) == len(made)
    assert audited(state, text).differences == ()
    compile(subclass(state, "app.model"), "drafted.py", "exec")


@settings(max_examples=25)
@given(made=facts(), data=st.data())
def test_class_when_one_start_changes_then_the_audit_tells_it_alone(
    made: list[Fact], data: st.DataObject
) -> None:
    """Another default than the drafted one is one difference, at the changed line."""
    plain = [fact for fact in made if fact.kind == "plain" and type(fact.start) is int]
    plain = [fact for fact in plain if abs(fact.start) < 2**60]  # type: ignore[arg-type]
    if not plain:
        return
    moved = data.draw(st.sampled_from(plain))
    schema = draft(read(written(made, [])))
    changed = [attrs.evolve(f, start=f.start + 1) if f is moved else f for f in made]  # type: ignore[operator]
    state = read(written(changed, []))
    (one,) = audited(state, schema).differences
    assert (one.rule, one.name) == ("DEFAULT_DIFFERS", moved.name)
    assert one.place.line == state.attributes[moved.name].site.line
