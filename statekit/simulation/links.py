"""Links: how long bytes are on their way, in whole microseconds of virtual time.

Owns the queues. Each direction of each link takes one transfer after the other, in the order in
which they are asked for, at a bandwidth that is stated. What a decision costs is not here: it
takes no virtual time.
"""

from __future__ import annotations

import attrs

__all__ = ["LINKS", "Bandwidths", "Links"]

LINKS = ("to host", "from host", "to disk", "from disk", "network")
"""Between an accelerator and host memory, between memory and a disk, and between replicas."""

_SECOND_US = 1_000_000


@attrs.frozen
class Bandwidths:
    """Bytes in a second, of one direction each."""

    host: int = 20_000_000_000
    disk: int = 3_000_000_000
    network: int = 10_000_000_000

    def of(self, link: str) -> int:
        """The bandwidth of one of `LINKS`."""
        if link == "network":
            return self.network
        return self.host if link.endswith("host") else self.disk


class Links:
    """The links of one replica, and when each of them is free again."""

    __slots__ = ("_free_at", "_rates", "moved")

    def __init__(self, bandwidths: Bandwidths, moved: dict[str, int]) -> None:
        self._rates = {link: bandwidths.of(link) for link in LINKS}
        self._free_at = dict.fromkeys(LINKS, 0)
        self.moved = moved

    def take(self, link: str, nbytes: int, from_us: int) -> int:
        """When so many bytes have arrived, if they may leave at `from_us`."""
        begun_us = max(from_us, self._free_at[link])
        done_us = begun_us + -(-nbytes * _SECOND_US // self._rates[link])
        self._free_at[link] = done_us
        self.moved[link] += nbytes
        return done_us
