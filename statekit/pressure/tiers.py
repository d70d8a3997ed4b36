"""Which tiers a manager has: host memory beside an accelerator, files where a folder is named."""

from __future__ import annotations

from pathlib import Path

from statekit.parking.tier import Tier

__all__ = ["open_tiers"]


def open_tiers(model_device: str, folder: Path | None) -> dict[str, Tier]:
    """The tiers by name; none is loaded that there is no use for.

    Raises:
        ParkError: `folder` cannot be made or used.
    """
    tiers: dict[str, Tier] = {}
    if model_device.partition(":")[0] == "cuda":
        from statekit.parking.host import HostTier

        tiers["host"] = HostTier()
    if folder is not None:
        from statekit.parking.disk import DiskTier

        tiers["disk"] = DiskTier(folder)
    return tiers
