"""Exchange: every rank's bytes on every rank, within a time.

Owns the collectives. Not here: what the bytes mean, and what follows from an exchange that failed
(`statekit.distributed.council`).

    X1  One collective where every payload fits into the buffer that the ranks share in size; two
        where one does not. The buffer grows on all ranks then, and does not shrink.
    X2  `gather` returns or raises at the latest `timeout_s` and a second after it was called.
    X3  After an exchange that failed, its buffers stay: a backend may write into them still.

Thread rule: one thread at a time, as with all collectives of a group.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["Exchange", "ExchangeError"]

_HEAD_NBYTES = 8
_SMALLEST_NBYTES = 1024
_SLICE_S = 0.25
"""How often a rank that waits asks whether another one has given up."""


class ExchangeError(Exception):
    """An exchange did not come about; never leaves this package."""


class Exchange:
    """The collectives of one process group.

    Args:
        group: the process group; None is the default one.
        timeout_s: how long an exchange may take.
    """

    def __init__(self, group: dist.ProcessGroup | None, timeout_s: float) -> None:
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        self.timeout_s = timeout_s
        self.collectives = 0
        self.given_up: Callable[[], bool] = lambda: False
        self._group = group
        self._device = _device_of(group)
        self._polls = self._device.type != "cpu"  # a timed wait would end such a group for good
        self._room = _SMALLEST_NBYTES
        self._send, self._receive = self._buffers()
        self._stuck: list[Any] = []

    def gather(self, payload: bytes) -> list[bytes]:
        """The payloads of all ranks, by rank.

        Raises:
            ExchangeError: a rank did not answer in time, or is gone.
        """
        deadline = time.monotonic() + self.timeout_s
        lengths = self._all_gather(payload, deadline)
        most = max(lengths)
        if most > self._room:
            while self._room < most:
                self._room *= 2
            self._send, self._receive = self._buffers()
            lengths = self._all_gather(payload, deadline)
        return [
            one[_HEAD_NBYTES : _HEAD_NBYTES + length].cpu().numpy().tobytes()
            for one, length in zip(self._receive, lengths, strict=True)
        ]

    def _buffers(self) -> tuple[torch.Tensor, list[torch.Tensor]]:
        with torch.inference_mode(False):  # a buffer outlives the mode that it was made in
            whole = torch.empty(
                (self.size + 1, _HEAD_NBYTES + self._room), dtype=torch.uint8, device=self._device
            )
        return whole[-1], list(whole[:-1])

    def _all_gather(self, payload: bytes, deadline: float) -> list[int]:
        """Send as much as fits; the lengths of all payloads."""
        fits = len(payload) if len(payload) <= self._room else 0
        message = bytearray(len(payload).to_bytes(_HEAD_NBYTES, "little") + payload[:fits])
        self._send[: len(message)] = torch.frombuffer(message, dtype=torch.uint8)
        self.collectives += 1
        try:
            work = dist.all_gather(self._receive, self._send, group=self._group, async_op=True)
        except (RuntimeError, ValueError) as error:
            raise ExchangeError(_first_line(error)) from error
        try:
            self._wait(work, deadline)
        except BaseException:
            self._stuck.append((work, self._send, self._receive))
            raise
        heads = (one[:_HEAD_NBYTES].cpu().numpy().tobytes() for one in self._receive)
        return [int.from_bytes(head, "little") for head in heads]

    def _wait(self, work: Any, deadline: float) -> None:
        pause_s = 2e-5
        slice_ends = time.monotonic() + _SLICE_S
        while True:
            now = time.monotonic()
            left = deadline - now
            if not self._polls:
                if _ended(work, max(0.001, min(left, _SLICE_S))):
                    return
            elif work.is_completed():
                work.wait()
                return
            elif now < slice_ends and left > 0:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, 0.001)
                continue
            if left <= 0:
                raise ExchangeError(f"no answer within {self.timeout_s:g} s")
            slice_ends = now + _SLICE_S
            if self.given_up():
                raise ExchangeError("another rank has given up")


def _ended(work: Any, wait_s: float) -> bool:
    """Wait a while; whether the exchange has ended by then. Raises: ExchangeError."""
    try:
        work.wait(timedelta(seconds=wait_s))
    except RuntimeError as error:
        if not work.is_completed():
            return False
        try:
            work.wait()  # it may have ended between the two
        except RuntimeError:
            raise ExchangeError(_first_line(error)) from error
    return True


def _device_of(group: dist.ProcessGroup | None) -> torch.device:
    """Where a backend wants its tensors."""
    backend = str(dist.get_backend(group)).lower()
    if "cpu:" in backend:
        return torch.device("cpu")
    kinds = dist.Backend.backend_capability.get(backend, ["cpu"])
    if "cpu" in kinds:
        return torch.device("cpu")
    return torch.device(kinds[0], getattr(torch, kinds[0]).current_device())


def _first_line(error: BaseException) -> str:
    """What a backend says, without its source lines and its guesses."""
    text = str(error).strip().split("\n")[0]
    text = re.sub(r"^\[\S+:[0-9]+\] ", "", text).split(". This is typically")[0]
    return text[:200] or type(error).__name__
