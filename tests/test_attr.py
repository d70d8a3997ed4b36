"""SessionAttr: defaults, coercion, deletion; on a plain class and on an adapter."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

from statekit.adapter import StateAdapter
from statekit.attr import SessionAttr
from statekit.manager import SessionStateManager
from statekit.spec import ModelSpec


class Plain:
    """A class of the user's own, with nothing of statekit but the descriptors."""

    label = SessionAttr[str](default="none")
    count = SessionAttr[int](default=7, coerce=int)
    items = SessionAttr[list[int]](default=[])
    table = SessionAttr[dict[str, int]](default={}, coerce=dict)
    names = SessionAttr[set[str]](default=set())


class Adapter(StateAdapter):
    """The same values on an adapter."""

    SPEC = ModelSpec(model="toy")
    label = SessionAttr[str](default="none")
    count = SessionAttr[int](default=7, coerce=int)
    items = SessionAttr[list[int]](default=[])
    table = SessionAttr[dict[str, int]](default={}, coerce=dict)
    names = SessionAttr[set[str]](default=set())


@pytest.fixture(params=["plain", "adapter"])
def owner(request: pytest.FixtureRequest) -> Any:
    """An instance of each class, with nothing assigned."""
    return Plain() if request.param == "plain" else Adapter("s", SessionStateManager())


def test_read_when_nothing_assigned_then_default_and_nothing_stored(owner: Any) -> None:
    """Reads fall back to the default and leave the instance's dict as it is."""
    assert (owner.label, owner.count) == ("none", 7)
    assert vars(owner) == {}


def test_write_when_not_coerced_then_the_very_object_is_read(owner: Any) -> None:
    """What was assigned is what is read, None included."""
    value = object()
    owner.label = value
    assert owner.label is value
    owner.label = None
    assert owner.label is None
    assert vars(owner) == {"label": None}


def test_write_when_coerced_then_result_is_stored(owner: Any) -> None:
    """coerce sees every value; what it returns is what is stored and read."""
    owner.count = "12"
    assert owner.count == 12
    owner.count = True
    assert type(owner.count) is int
    assert vars(owner) == {"count": 1}


def test_write_when_coerce_raises_then_old_value_stays(owner: Any) -> None:
    """A value that coerce refuses changes nothing."""
    owner.count = 3
    with pytest.raises(ValueError, match="many"):
        owner.count = "many"
    assert owner.count == 3


def test_in_place_operator_when_coerced_then_reads_and_writes_once(owner: Any) -> None:
    """`x += 1` from the default stores default + 1."""
    owner.count += 1
    assert owner.count == 8


@pytest.mark.parametrize("name", ["label", "count"])
def test_delete_when_assigned_then_default_again_and_when_absent_then_error(
    owner: Any, name: str
) -> None:
    """del brings the default back; a second del is an AttributeError, as for any attribute."""
    default = getattr(owner, name)
    setattr(owner, name, 5)
    delattr(owner, name)
    assert getattr(owner, name) == default
    with pytest.raises(AttributeError, match=name):
        delattr(owner, name)


@pytest.mark.parametrize(("name", "kind"), [("items", list), ("table", dict), ("names", set)])
def test_mutable_default_when_read_then_each_owner_has_its_own_and_keeps_it(
    owner: Any, name: str, kind: type
) -> None:
    """An empty container is made per owner on the first read and is the same one afterwards."""
    first = getattr(owner, name)
    assert type(first) is kind
    assert first is getattr(owner, name) is vars(owner)[name]
    assert getattr(Plain(), name) is not first
    assert getattr(type(owner), name).default is not first


@pytest.mark.parametrize("cls", [Plain, Adapter])
def test_descriptor_when_read_on_the_class_then_itself(cls: Any) -> None:
    """On the class the descriptor is there to be asked for its default and coercion."""
    assert isinstance(cls.label, SessionAttr)
    assert isinstance(cls.count, SessionAttr)
    assert (cls.label.default, cls.label.coerce, cls.label.name) == ("none", None, "label")
    assert (cls.count.default, cls.count.coerce, cls.count.name) == (7, int, "count")


@pytest.mark.parametrize(
    "default", [[1], {"a": 1}, {1}, deque(), bytearray(), np.zeros(2)], ids=repr
)
@pytest.mark.parametrize("coerce", [None, list])
def test_default_when_mutable_and_no_empty_container_then_refused(
    default: Any, coerce: Any
) -> None:
    """A default that sessions would share is an error where the class is written."""
    with pytest.raises(ValueError, match="default must be empty or immutable"):
        SessionAttr(default=default, coerce=coerce)


def test_subclass_when_it_overrides_a_value_then_its_default_counts() -> None:
    """A subclass may give a coerced value another default and coercion; its base keeps its own."""

    class Child(Adapter):
        count = SessionAttr[int](default=1, coerce=round)

    manager = SessionStateManager()
    child: Any = Child("child", manager)
    assert child.count == 1
    child.count = 2.6
    assert child.count == 3
    assert Adapter("base", manager).count == 7


def test_class_with_two_adapter_bases_when_read_then_defaults_of_both() -> None:
    """Coerced values of every base class have their defaults, by method resolution order."""

    class Other(StateAdapter):
        SPEC = ModelSpec(model="other")
        count = SessionAttr[int](default=1, coerce=int)
        more = SessionAttr[int](default=2, coerce=int)

    class Both(Adapter, Other):
        pass

    class Mixed(Plain, Other):
        pass

    manager = SessionStateManager()
    assert (Both("s", manager).count, Both("s", manager).more) == (7, 2)
    assert (Mixed("s", manager).count, Mixed("s", manager).more) == (7, 2)
