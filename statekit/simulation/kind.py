"""Kind: a model as a simulation sees it: what a session holds after each step, and what can go.

Owns the step from a schema to bytes. Which values go together, what may be parked and what is
promised comes from the runtime itself (`release_units`, `promise`); nothing is computed twice for
sessions that are in the same state.

    K1  A session holds its declared bytes, value by value: those of a schema, at its numbers.
    K2  A session is admitted with what a manager promises it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from statekit.byte_sums import merge_bytes
from statekit.declared import session_at_step
from statekit.pressure.promise import promise
from statekit.pressure.release_units import ReleaseUnit, release_units
from statekit.simulation.picture import Picture
from statekit.simulation.shape import TierSize, Vector
from statekit.spec import ModelSpec, Tier

__all__ = ["Kind"]


class Kind:
    """One model in one deployment.

    Args:
        spec: what its schema says.
        devices: the devices of the deployment, in the order of its vectors.
        model_device: what the schema calls `model`.
        tiers: where a replica can park.
        overrides: numbers in place of the schema's own.
    """

    def __init__(
        self,
        spec: ModelSpec,
        devices: tuple[str, ...],
        model_device: str,
        tiers: Mapping[Tier, TierSize],
        overrides: Mapping[str, int] | None = None,
    ) -> None:
        self.spec = spec
        self.devices = devices
        self.tiers = tiers
        self.units = release_units(spec)
        held = session_at_step(spec, None, overrides, model_device=model_device)
        promised = promise(spec, model_device, overrides, tiers)
        self.declared: Mapping[str, int] = promised.by_device
        self.admitted = self.vector(self.declared)
        self.staying = self.vector(promised.staying)
        self.may_be_lost = spec.may_be_lost
        self._values = [
            (one.device, one.declared, _shares(spec, one.value.name, self.units))
            for one in held
            if one.declared is not None and one.device in devices
        ]
        grows = any(declared.growth for _, declared, _ in self._values)
        self._settled = None if grows else Picture(self, 2)
        self._pictures: dict[int, Picture] = {}

    def picture(self, step: int) -> Picture:
        """What a session holds after so many steps; one object for all that hold the same."""
        if step > 1 and self._settled is not None:
            return self._settled
        found = self._pictures.get(step)
        if found is None:
            found = self._pictures[step] = Picture(self, step)
        return found

    def vector(self, nbytes: Mapping[str, int]) -> Vector:
        """Bytes by device in the order of the devices."""
        return tuple([nbytes.get(device, 0) for device in self.devices])

    def split(self, step: int) -> tuple[dict[str, int], list[dict[str, int]]]:
        """Bytes by device after a step: of what stays, and of each unit."""
        rest: dict[str, int] = {}
        units: list[dict[str, int]] = [{} for _ in self.units]
        for device, declared, shares in self._values if step else ():
            nbytes = declared.at_step(step)
            left = nbytes
            for number, share, parts in shares:
                part = nbytes * share // parts
                merge_bytes(units[number], {device: part})
                left -= part
            merge_bytes(rest, {device: left})
        return rest, units


def _shares(
    spec: ModelSpec, name: str, units: tuple[ReleaseUnit, ...]
) -> tuple[tuple[int, int, int], ...]:
    """The units that a value is in, with how many of how many of its members each has."""
    value = spec[name]
    if value.bucket == "attrs":
        return ()
    keys = [re.sub(r"\{.*?\}", "0", key) for key in spec.keys_of(value)]
    counts = [sum(unit.pattern.fullmatch(key) is not None for key in keys) for unit in units]
    return tuple([(number, count, len(keys)) for number, count in enumerate(counts) if count])
