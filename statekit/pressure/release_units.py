"""Release units: which objects of a session are given up together.

Owns what follows from a `ModelSpec` for releasing and parking: values of one atomic group that can
be released go together, branch by branch of their families, because half of them is worth nothing;
a value that can only be parked is a unit of its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import product

import attrs

from statekit.spec import ModelSpec, Tier, ValueSpec

__all__ = ["ReleaseUnit", "release_units", "unit_of"]


@attrs.frozen
class ReleaseUnit:
    """Objects that are given up together.

    Attributes:
        label: what messages call the unit, such as `und_kv+freqs_gen[positive]`.
        pattern: matches the session keys of its objects.
        sources: labels of the units that it is rebuilt from; inputs are not among them.
        needs: other values that it is rebuilt from, which are never given up: whether each is in
            `attrs`, and what matches its keys.
        rebuildable: whether the schema lets it be released: it can be rebuilt from values, or from
            inputs that are kept.
        cost_ms: what a rebuild takes, as far as the schema knows.
        tiers: where it may be parked.
    """

    label: str
    pattern: re.Pattern[str]
    sources: tuple[str, ...] = ()
    needs: tuple[tuple[bool, re.Pattern[str]], ...] = ()
    rebuildable: bool = False
    cost_ms: float = 0.0
    tiers: tuple[Tier, ...] = ()

    def may_go(self, tiers: Collection[str]) -> bool:
        """Whether it can be rebuilt, or parked in one of these tiers."""
        return self.rebuildable or any(tier in tiers for tier in self.tiers)


_known: dict[int, tuple[ModelSpec, tuple[ReleaseUnit, ...]]] = {}


def release_units(spec: ModelSpec) -> tuple[ReleaseUnit, ...]:
    """The units of `spec`, each object key in one at most, in the schema's order."""
    found = _known.get(id(spec))
    if found is None:
        found = _known[id(spec)] = (spec, _find_units(spec))  # holds the spec: its id stays its own
    return found[1]


def unit_of(spec: ModelSpec, value: ValueSpec) -> ReleaseUnit | None:
    """The unit that `value` is given up with; None where it never is.

    Its members are in one unit, or in units that differ in the family's member alone.
    """
    if value.bucket == "attrs":
        return None
    key = re.sub(r"\{.*?\}", "0", spec.keys_of(value)[0])
    return next((unit for unit in release_units(spec) if unit.pattern.fullmatch(key)), None)


def _find_units(spec: ModelSpec) -> tuple[ReleaseUnit, ...]:
    groups = {name: members for members in spec.atomic.values() for name in members}
    done: set[str] = set()
    found: list[tuple[tuple[ValueSpec, ...], dict[str, str]]] = []
    for value in spec:
        if value.name in done or not _may_go(value):
            continue
        together = [value]
        if _releasable(value):
            mates = (spec[name] for name in groups.get(value.name, ()))
            together += [mate for mate in mates if mate is not value and _releasable(mate)]
        done.update(one.name for one in together)
        axes = [
            [(name, label, text) for label, text in spec.families[name].members.items()]
            for name in _shared_axes(spec, together)
        ]
        found += [
            (tuple(together), {name: text for name, _, text in chosen}) for chosen in product(*axes)
        ]
    labels: dict[str, list[str]] = {}
    for members, texts in found:
        label = _label(spec, members, texts)
        for one in members:
            labels.setdefault(one.name, []).append(label)
    return tuple(_unit(spec, members, texts, labels) for members, texts in found)


def _may_go(value: ValueSpec) -> bool:
    return value.bucket == "StateObject" and (_releasable(value) or value.park is not None)


def _releasable(value: ValueSpec) -> bool:
    return "release" in value.operations and value.rebuild is not None


def _shared_axes(spec: ModelSpec, together: list[ValueSpec]) -> list[str]:
    """The families with named members that all of the values have."""
    return [
        name
        for name in together[0].families
        if spec.families[name].members and all(name in one.families for one in together)
    ]


def _label(spec: ModelSpec, together: tuple[ValueSpec, ...], texts: Mapping[str, str]) -> str:
    names = "+".join(one.name for one in together)
    chosen = [
        label
        for name, text in texts.items()
        for label, member in spec.families[name].members.items()
        if member == text
    ]
    return f"{names}[{','.join(chosen)}]" if chosen else names


def _unit(
    spec: ModelSpec,
    together: tuple[ValueSpec, ...],
    texts: Mapping[str, str],
    labels: Mapping[str, list[str]],
) -> ReleaseUnit:
    patterns = []
    for one in together:
        key = one.key or one.name
        for name, text in texts.items():
            key = key.replace(f"{{{name}}}", text)
        patterns.append(spec.key_pattern(attrs.evolve(one, key=key)).pattern)
    inside = {one.name for one in together}
    sources = [name for one in together if one.rebuild for name in one.rebuild.sources]
    outside = [name for name in sources if name not in inside]
    kept = all(spec.inputs[name] for name in outside if name in spec.inputs)
    own = _label(spec, together, texts)
    suffix = own[own.index("[") :] if "[" in own else ""
    from_units: list[str] = []
    for name in outside:
        same = [label for label in labels.get(name, ()) if suffix and label.endswith(suffix)]
        from_units += same or labels.get(name, ())
    needs = [spec[name] for name in outside if name not in labels and name not in spec.inputs]
    tiers = [one.park.tiers for one in together if one.park is not None]
    return ReleaseUnit(
        label=own,
        pattern=re.compile("|".join(patterns)),
        sources=tuple(dict.fromkeys(from_units)),
        needs=tuple((one.bucket == "attrs", spec.key_pattern(one)) for one in needs),
        rebuildable=kept and all(_releasable(one) for one in together),
        cost_ms=sum(one.rebuild.cost_ms or 0.0 for one in together if one.rebuild),
        tiers=tiers[0] if len(tiers) == len(together) and len(set(tiers)) == 1 else (),
    )
