"""Names that a schema may not use, compared with the code that uses them."""

from __future__ import annotations

import pytest

from statekit.adapter import StateAdapter
from statekit.errors import SchemaError
from statekit_codegen.check_names import ADAPTER_MEMBERS
from statekit_codegen.load import load_text
from statekit_codegen.model import json_path
from statekit_codegen.module_names import RESERVED_NAMES
from tests.codegen.rule_cases import BASE


def test_adapter_members_when_compared_with_the_class_then_they_are_its_public_ones() -> None:
    """The list that spares the generator torch is that of the runtime's own class."""
    members = {name for name in dir(StateAdapter) if not name.startswith("_")}
    declared = {name for name in StateAdapter.__annotations__ if not name.startswith("_")}
    assert members | declared == set(ADAPTER_MEMBERS)


@pytest.mark.parametrize("name", sorted({*RESERVED_NAMES, *ADAPTER_MEMBERS}))
def test_name_when_generated_code_uses_it_then_no_value_or_parameter_has_it(name: str) -> None:
    """A value or a parameter of such a name would shadow what the module's code means."""
    for old in ("  frames:", "  window:"):
        with pytest.raises(SchemaError) as caught:
            load_text(BASE.replace(old, f"  {name}:", 1).encode(), "toy.yaml")
        rules = {problem.rule for problem in caught.value.problems}
        assert rules & {"NAME_RESERVED", "NAME_CLASH", "NAME_FORM"}


def test_json_path_when_a_key_is_no_name_then_it_is_quoted_and_short() -> None:
    """Hostile keys cannot break a message's line, and long ones do not fill the screen."""
    assert json_path(("values", "frames", "shape", 0)) == "$.values.frames.shape[0]"
    assert json_path(("values", "a b\n\x1b[31m")) == "$.values['a b\\n\\x1b[31m']"
    assert json_path(()) == "$"
    long = json_path(("x" * 5_000, "-" * 5_000))
    assert len(long) < 150
