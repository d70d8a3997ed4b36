"""Slots: where an adapter keeps each of its values, and how a test gets at it.

Owns the difference between a carried value, an object with a property of its own, an object of a
family by label, and a numbered family; each has the plain value that it is compared with.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
import torch

from statekit.adapter import StateAdapter
from statekit.spec import ModelSpec, ValueSpec
from statekit.testing.payloads import Payloads
from statekit.testing.plain import Once, Plain, Ring, Store, Value, Window, copied

__all__ = ["AttrSlot", "FamilySlot", "ObjectSlot", "Slot", "slots_of"]

_LISTS = ("LatentBuffer", "RetrievalStore")
_COERCE: dict[str, Any] = {"int": int, "float": float, "bool": bool, "str": str}


class Slot:
    """One place of a session.

    Attributes:
        label: its name, with the labels of its families.
        value: what the schema says.
    """

    def __init__(self, label: str, value: ValueSpec, payloads: Payloads) -> None:
        self.label, self.value, self.payloads = label, value, payloads

    def __repr__(self) -> str:
        return self.label

    def plain(self) -> Plain:
        """A new plain value of the same kind."""
        return _plain(self.value, self.payloads)

    def payload(self, seed: int) -> Any:
        """Something to store: the whole value, or one item of a buffer."""
        extent = 1 + seed % 3
        return self.payloads.make(self.value, seed, extent=extent)

    def whole(self, seed: int) -> Any:
        """Something to assign, as large as the bound at most; None now and then."""
        raise NotImplementedError

    def assign(self, adapter: StateAdapter, payload: Any) -> None:
        """Assign the whole value."""
        raise NotImplementedError

    def read(self, adapter: StateAdapter, *, staged: bool = True) -> Any:
        """What a reader gets, in the words of the plain value."""
        raise NotImplementedError

    def for_hand(self, payload: Any) -> Any:
        """What is assigned to the attribute of a hand-rolled object for this payload."""
        return payload

    def to_write_into(self, adapter: StateAdapter) -> Any:
        """What a model gets when it reads the value, to change it where it is."""
        return self.read(adapter)


class AttrSlot(Slot):
    """A carried value."""

    def __init__(self, value: ValueSpec, payloads: Payloads, cls: type[StateAdapter]) -> None:
        super().__init__(value.name, value, payloads)
        self._attr = cls._session_attrs[value.name]

    def plain(self) -> Plain:
        """As a value with the schema's default, which a None is not."""
        try:
            default = ast.literal_eval(self.value.default)
        except (ValueError, SyntaxError):
            default = self._attr.default  # a name, or nothing
        coerce = _COERCE.get(self.value.coerce or "", self._attr.coerce)
        return _Carried(default, coerce)

    def whole(self, seed: int) -> Any:
        """Anything of its type."""
        return self.payload(seed)

    def assign(self, adapter: StateAdapter, payload: Any) -> None:
        """An attribute is assigned."""
        setattr(adapter, self.value.name, payload)

    def read(self, adapter: StateAdapter, *, staged: bool = True) -> Any:
        """An attribute is read."""
        return getattr(adapter, self.value.name)


class ObjectSlot(Slot):
    """An object that the manager can act on.

    Attributes:
        is_joined: whether the property hands out a buffer's items joined to one. A spec does not
            say so; the annotation does.
    """

    def __init__(
        self,
        label: str,
        value: ValueSpec,
        payloads: Payloads,
        labels: tuple[str, ...],
        cls: type[StateAdapter],
    ) -> None:
        super().__init__(label, value, payloads)
        self._labels = labels
        getter = getattr(getattr(cls, value.name, None), "fget", None)
        annotation = str(getattr(getter, "__annotations__", {}).get("return", "list"))
        self.is_joined = value.object == "LatentBuffer" and not annotation.startswith("list")

    @property
    def has_property(self) -> bool:
        """Whether the value is read and assigned as an attribute."""
        return not self.value.families

    def object(self, adapter: StateAdapter) -> Any:
        """The object, made where there is none."""
        if self.has_property:
            return getattr(adapter, f"{self.value.name}_object")
        return getattr(adapter, self.value.name)(*self._labels)

    def whole(self, seed: int) -> Any:
        """A payload, or items within the bound; None where that clears."""
        if seed % 7 == 6:
            return [] if self.value.object in _LISTS else None
        ring = self.value.ring
        if (
            self.value.object in _LISTS
            and not self.is_joined
            and (ring is None or ring.axis is None)
        ):
            bound = 3 if ring is None or ring.bound is None else self.payloads.number(ring.bound)
            count = 1 + seed % min(bound, 3)
            return [self.payload(seed + number) for number in range(count)]
        bounded = ring is not None and ring.bound is not None
        most = self.payloads.number(ring.bound or "1") if ring is not None and bounded else 3
        payload = self.payloads.make(self.value, seed, extent=1 + seed % min(most, 3))
        return [payload] if self.value.object in _LISTS else payload

    def assign(self, adapter: StateAdapter, payload: Any) -> None:
        """Assign the property; where there is none, replace what the object holds."""
        if self.has_property:
            setattr(adapter, self.value.name, self.for_hand(payload))
        elif self.value.object in (*_LISTS, "WindowedKV") and payload is not None:
            self.object(adapter).replace(payload)
        elif payload is None and self.value.object == "FixedState":
            self.object(adapter).allocate()
        elif payload is None:
            self.object(adapter).clear()
        else:
            self.object(adapter).commit(payload)

    def read(self, adapter: StateAdapter, *, staged: bool = True) -> Any:
        """The object's view."""
        return self.object(adapter).view(include_staged=staged)

    def shown(self, adapter: StateAdapter) -> Any:
        """What the property hands out."""
        return getattr(adapter, self.value.name)

    def to_write_into(self, adapter: StateAdapter) -> Any:
        """What the property hands out, unless that is joined: a copy, which nobody writes into."""
        plain = self.is_joined or not self.has_property
        return self.read(adapter) if plain else self.shown(adapter)

    def joined(self, plain: Plain, like: Any) -> Any:
        """What the property should hand out, where it hands out `like`."""
        held = plain.read()
        if not self.is_joined:
            return held
        axis = self.value.ring.axis if self.value.ring is not None else None
        if not held:
            return None
        if axis is None:
            return like  # joined along an axis that the spec does not name
        if len(held) == 1:
            return held[0]
        if isinstance(held[0], np.ndarray):
            return np.concatenate(held, axis)
        return torch.cat(held, axis)

    def for_hand(self, payload: Any) -> Any:
        """One item, where the property hands out all of them joined."""
        if self.is_joined:
            return payload[0] if payload else None
        return payload


class FamilySlot(Slot):
    """A numbered family: stored together or not at all."""

    def __init__(
        self, label: str, value: ValueSpec, payloads: Payloads, labels: tuple[str, ...]
    ) -> None:
        super().__init__(label, value, payloads)
        self._labels = labels

    def plain(self) -> Plain:
        """A list of members, all of them or none."""
        return _Members(self.value, self.payloads)

    def whole(self, seed: int) -> Any:
        """A payload for each of one to three members."""
        members = [self.payloads.make(self.value, seed + one, extent=1) for one in range(3)]
        return members[: 1 + seed % 3]

    def assign(self, adapter: StateAdapter, payload: Any) -> None:
        """Replace all members."""
        kind = self.value.object
        wrapped = [[one] for one in payload] if kind == "RetrievalStore" else payload
        self._family(adapter).replace(wrapped)

    def read(self, adapter: StateAdapter, *, staged: bool = True) -> Any:
        """The members' values."""
        return self._family(adapter).view()

    def _family(self, adapter: StateAdapter) -> Any:
        return getattr(adapter, self.value.name)(*self._labels)


class _Carried(Plain):
    def __init__(self, default: Any, coerce: Any) -> None:
        self._default, self._coerce = default, coerce
        super().__init__()

    def empty(self) -> Any:
        kind = type(self._default)
        return kind() if kind in (list, dict, set) else self._default

    def assign(self, payload: Any) -> None:
        """None is a value, too."""
        self.held = self.assigned(payload if self._coerce is None else self._coerce(payload))

    def assigned(self, payload: Any) -> Any:
        return copied(payload)


class _Members(Plain):
    def __init__(self, value: ValueSpec, payloads: Payloads) -> None:
        self._value, self._payloads = value, payloads
        super().__init__()

    def assigned(self, payload: Any) -> Any:
        members = []
        for one in payload:
            member = _plain(self._value, self._payloads)
            member.append(one)
            members.append(member.read())
        return members


def _plain(value: ValueSpec, payloads: Payloads) -> Plain:
    ring = value.ring
    bound = None if ring is None or ring.bound is None else payloads.number(ring.bound)
    if value.object == "LatentBuffer":
        return Ring(bound, None if ring is None else ring.axis)
    if value.object == "WindowedKV" and ring is not None:
        sink = 0 if ring.sink is None else payloads.number(ring.sink)
        return Window(bound, ring.axis or 0, sink)
    if value.object == "RetrievalStore":
        nbytes = None if ring is None or ring.nbytes is None else payloads.number(ring.nbytes)
        dtype = None if value.codec is None else getattr(torch, value.codec.cast)
        return Store(bound, nbytes, None if dtype is None else lambda one: one.to(dtype))
    return Once() if value.object == "EncodeOnce" else Value()


def slots_of(cls: type[StateAdapter], payloads: Payloads) -> Iterator[Slot]:
    """The slots of all values that a machine without accelerators can hold."""
    spec: ModelSpec = cls.SPEC
    for value in spec:
        if "move" in value.on_commit and value.device not in ("cpu", "model"):
            continue  # its payloads would have to go to a device that may not be here
        if value.bucket == "attrs":
            if not value.families:
                yield AttrSlot(value, payloads, cls)
            continue
        for labels in _labels(spec.families, value):
            text = f"{value.name}({', '.join(labels)})" if labels else value.name
            if any(spec.families[one].count is not None for one in value.families):
                yield FamilySlot(text, value, payloads, labels)
            else:
                yield ObjectSlot(text, value, payloads, labels, cls)


def _labels(families: Mapping[str, Any], value: ValueSpec) -> Iterator[tuple[str, ...]]:
    named = [tuple(families[one].members) for one in value.families if families[one].members]
    yield from product(*named)
