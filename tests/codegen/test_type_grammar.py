"""TypeExpr: what the grammar of types takes, how it is written, and what it refuses."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statekit_codegen.type_grammar import MAX_TYPE_CHARS, TypeExpr, TypeExprError


@pytest.mark.parametrize(
    ("text", "canonical", "rendered"),
    [
        ("int", "int", "int"),
        (" torch.Tensor|None ", "torch.Tensor | None", "torch.Tensor | None"),
        ("None | torch.Tensor", "torch.Tensor | None", "torch.Tensor | None"),
        ("Optional[int]", "int | None", "int | None"),
        ("Optional[int | None] | int", "int | None", "int | None"),
        ("None | None", "None", "None"),
        ("np.ndarray", "np.ndarray", "npt.NDArray[np.uint8]"),
        (
            "list[torch.Tensor | None] | None",
            "list[torch.Tensor | None] | None",
            "list[torch.Tensor | None] | None",
        ),
        ("tuple[int,...]", "tuple[int, ...]", "tuple[int, ...]"),
        ("tuple[int, str]", "tuple[int, str]", "tuple[int, str]"),
        ("tuple[int]", "tuple[int]", "tuple[int]"),
        ("dict[str,np.ndarray]", "dict[str, np.ndarray]", "dict[str, npt.NDArray[np.uint8]]"),
        ("deque[set[bytes]]", "deque[set[bytes]]", "deque[set[bytes]]"),
        ("torch.Generator", "torch.Generator", "torch.Generator"),
    ],
)
def test_type_when_parsed_then_it_is_written_in_one_way(
    text: str, canonical: str, rendered: str
) -> None:
    """A type has one canonical text, which parses to the same type, and one annotation."""
    parsed = TypeExpr.parse(text)
    assert (parsed.text, parsed.render("uint8")) == (canonical, rendered)
    assert TypeExpr.parse(canonical) == parsed


def test_array_when_rendered_then_the_dtype_is_numpys_name_for_it() -> None:
    """An array without a dtype is one of Any; bool is `bool_` in every numpy."""
    array = TypeExpr.parse("np.ndarray")
    assert array.render() == "npt.NDArray[Any]"
    assert array.render("bool") == "npt.NDArray[np.bool_]"


@pytest.mark.parametrize(
    ("text", "optional", "memory"),
    [
        ("int", False, False),
        ("int | None", True, False),
        ("list[int | None]", False, False),
        ("dict[str, tuple[torch.Tensor, ...]] | None", True, True),
        ("bytes", False, True),
        ("np.ndarray", False, True),
        ("torch.Generator", False, False),
        ("None", True, False),
    ],
)
def test_type_when_asked_then_it_knows_none_and_memory(
    text: str, optional: bool, memory: bool
) -> None:
    """None counts at the top only, memory at any depth."""
    parsed = TypeExpr.parse(text)
    assert (parsed.optional, parsed.holds_memory) == (optional, memory)


@pytest.mark.parametrize(
    ("text", "default", "accepted"),
    [
        ("int", 0, True),
        ("int", True, False),
        ("int", 0.0, False),
        ("int", None, False),
        ("int | None", None, True),
        ("bool", False, True),
        ("bool", 0, False),
        ("float", 0, False),
        ("float", 0.5, True),
        ("str", "", True),
        ("bytes", "", False),
        ("list[int]", [], True),
        ("list[int]", [1], False),
        ("list[int]", {}, False),
        ("dict[str, int]", {}, True),
        ("dict[str, int]", {"a": 1}, False),
        ("set[int]", [], False),
        ("torch.Tensor | None", 0, False),
    ],
)
def test_default_when_compared_with_the_type_then_only_its_values_are_accepted(
    text: str, default: Any, accepted: bool
) -> None:
    """A default is a value of the very type; a container is empty and of the same kind."""
    assert TypeExpr.parse(text).accepts(default) is accepted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Tensor", "write torch.Tensor"),
        ("ndarray", "write np.ndarray"),
        ("List[int]", "write list"),
        ("Union[int, str]", "write A | B"),
        ("torch.Tensro", "did you mean torch.Tensor?"),
        ("list", "write list[...]"),
        ("np.ndarray[int]", "write np.ndarray; say what arrays and tensors hold with dtype"),
        ("torch.float32", "unknown type 'torch.float32'"),
        ("list[int, str]", "list with 2 types; give it 1"),
        ("dict[str]", "dict with 1 types; give it 2"),
        ("tuple[int, ..., str]", "'...' is no type"),
        ("list[...]", "'...' is no type"),
        ("a.b.c", "'a.b.c' is no type"),
        ("int or str", "'int or str' is no type"),
        ("int if None else str", "is no type"),
        ("", "not a type"),
        ("list[", "not a type"),
        ("tuple[()]", "not a type"),
        ("'int'", "not a type"),
        ("1if 2", "not a type"),
        ("int | (str | int)", "not a type"),
        ("int\n", "not a type"),
        ("__import__('os')", "not a type"),
        ("\u0456nt", "not a type"),
        ("list[" * 9 + "int" + "]" * 9, "nesting deeper than 8"),
        ("list[" * 60 + "]" * 60, "characters"),
        ("int | " * MAX_TYPE_CHARS, "characters; use at most 200"),
    ],
)
def test_type_when_outside_the_grammar_then_the_error_says_what_to_write(
    text: str, words: str
) -> None:
    """Everything else is refused, with the thing that was probably meant."""
    with pytest.raises(TypeExprError) as caught:
        TypeExpr.parse(text)
    assert words in str(caught.value)


TYPES = st.recursive(
    st.sampled_from(["int", "None", "str", "torch.Tensor", "np.ndarray", "bytes"]),
    lambda inner: st.one_of(
        st.builds("list[{}]".format, inner),
        st.builds("tuple[{}, ...]".format, inner),
        st.builds("dict[{}, {}]".format, inner, inner),
        st.builds("{} | {}".format, inner, inner),
        st.builds("Optional[{}]".format, inner),
    ),
    max_leaves=5,
)


@given(TYPES)
def test_type_when_written_and_parsed_again_then_it_is_the_same(text: str) -> None:
    """The canonical text is a fixed point, and the annotation is Python."""
    try:
        parsed = TypeExpr.parse(text)
    except TypeExprError as error:
        assert "nesting" in error.found or "characters" in error.found  # noqa: PT017
        return
    assert TypeExpr.parse(parsed.text) == parsed
    ast.parse(parsed.render("float32"), mode="eval")


@given(st.text(st.sampled_from("int[],| .None0123'\"()listupeTorch\n\\#"), max_size=40) | st.text())
def test_type_when_the_text_is_random_then_it_parses_or_is_refused(text: str) -> None:
    """No text raises another error or a warning."""
    try:
        rendered = TypeExpr.parse(text).render()
    except TypeExprError:
        return
    ast.parse(rendered, mode="eval")
