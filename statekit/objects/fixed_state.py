"""FixedState: tensors of fixed size, overwritten in place at addresses that stay the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch

from statekit.errors import NotAllocatedError, PayloadError
from statekit.objects.parkable import Memo, ParkableObject
from statekit.on_commit import KEEP_AS_IS, OnCommit

__all__ = ["FixedState"]

Payload = TypeVar("Payload", bound="torch.Tensor | Mapping[str, torch.Tensor]")
Shape = Sequence[int]

_ONE = ""  # the name of the part where the payload is one tensor


class FixedState(ParkableObject[Payload, "Payload | None"]):
    """One tensor, or several by name, such as the recurrent state of a layer.

    A commit copies into the buffers, so that whoever holds them (a CUDA graph, a kernel's argument
    list) reads the new values at the old addresses: those last from the allocation until the
    object is reset, evicted, or parked (what is brought back lies elsewhere, so its holder must
    ask for the view again). The buffers are contiguous and belong to no autograd graph; a payload
    is made so when it is staged, hence the staged view has the strides of the committed one.
    """

    def __init__(self) -> None:
        self._allocated = False
        self._on_commit = KEEP_AS_IS
        self._staged: dict[str, torch.Tensor] | None = None

    def allocate(
        self,
        *,
        shape: Shape | Mapping[str, Shape] | None = None,
        dtype: torch.dtype | Mapping[str, torch.dtype] | None = None,
        device: torch.device | str = "cpu",
        zero: bool = True,
        on_commit: OnCommit = KEEP_AS_IS,
    ) -> FixedState[Payload]:
        """Make the buffers and return the object.

        Args:
            shape: of the tensor, or by name of each of several; None leaves shape, dtype and
                device to the first payload that is committed, and nothing is held until then.
            dtype: of all tensors, or by name.
            device: where the buffers lie.
            zero: fill them with zeros; without it, whoever reads first must have written.
            on_commit: what happens to a payload when it is staged.

        Raises:
            TypeError: `dtype` is missing beside a shape, or one of them is of another type.
            ValueError: an extent is negative, or `dtype` names other parts than `shape`.
        """
        buffers = None
        if shape is not None:
            shapes = shape if isinstance(shape, Mapping) else {_ONE: shape}
            dtypes = dtype if isinstance(dtype, Mapping) else dict.fromkeys(shapes, dtype)
            if dtypes.keys() != shapes.keys():
                raise ValueError(f"shape names {sorted(shapes)}, dtype names {sorted(dtypes)}")
            for name, extents in shapes.items():
                _require_shape(extents, dtypes[name])
            buffers = {
                name: _new_buffer(extents, dtypes[name], device, zero)
                for name, extents in shapes.items()
            }
        elif dtype is not None:
            raise TypeError("dtype needs a shape; without one, the first payload gives both")
        self.reset()
        self._allocated, self._held, self._on_commit = True, buffers, on_commit
        return self

    def allocate_like(
        self, payload: Payload, *, zero: bool = True, on_commit: OnCommit = KEEP_AS_IS
    ) -> FixedState[Payload]:
        """Make buffers that `payload` fits into, without its content, and return the object.

        Raises:
            PayloadError: `payload` is neither a dense tensor nor a mapping of names to such.
        """
        parts = _parts(payload)
        buffers = {name: _buffer_like(part, zero) for name, part in parts.items()}
        self.reset()
        self._allocated, self._held, self._on_commit = True, buffers, on_commit
        return self

    def stage(self, payload: Payload) -> None:
        """Hold `payload`, in place of one staged before.

        What is contiguous is held as it is, without a copy, so its owner must leave it alone until
        the commit. What shares memory with the buffers is copied, since the commit overwrites it.

        Raises:
            NotAllocatedError: the object is not allocated.
            PayloadError: names, shape, dtype or device are not those of the buffers.
        """
        self.stage_beside(payload, self.buffers("stage"))

    def stage_beside(self, payload: Payload, buffers: Iterable[torch.Tensor]) -> None:
        """Stage `payload`, with a copy of what shares memory with any of `buffers`.

        Raises: as `stage`.
        """
        own = self._require("stage")
        parts = _parts(self._on_commit.apply(_payload(_parts(payload))))
        _check(parts, own)
        self._staged = {name: _at_rest(part, buffers) for name, part in parts.items()}

    def stage_again(self, staged: dict[str, torch.Tensor] | None) -> None:
        """Have staged what `staged()` was before."""
        self._staged = staged

    def buffers(self, operation: str = "buffers") -> list[torch.Tensor]:
        """The buffers, in a new list; none before the first payload gives sizes.

        Raises:
            NotAllocatedError: the object is not allocated.
        """
        return list((self._require(operation) or {}).values())

    def _promote(self) -> None:
        before = self._require("commit")
        staged = self._staged
        if staged is None:
            return
        _check(staged, before)  # again: its owner may have changed it; below, nothing can fail
        if before is None:
            buffers = {name: _buffer_like(part, zero=False) for name, part in staged.items()}
        else:
            # A new dict: who is copying the buffers away sees by it that they have changed.
            buffers = dict(before)
        with torch.no_grad():
            for name, part in staged.items():
                buffers[name].copy_(part)
        self._held, self._staged = buffers, None

    def discard(self) -> None:
        """Drop the staged payload; the buffers stay as they are."""
        self._staged = None

    def view(self, *, include_staged: bool = True) -> Payload | None:
        """The buffers themselves, or the staged tensors; None before the first payload gives sizes.

        A tensor where the payload is one, else a new dict of the tensors by name.

        Raises:
            NotAllocatedError: the object is not allocated.
        """
        buffers = self._require("view")
        parts: Any = self._staged if include_staged and self._staged is not None else buffers
        if parts is None:
            return None
        return _payload(dict(parts))  # type: ignore[no-any-return]

    def items(self) -> list[Any]:
        """The buffers and the staged tensors, as payloads; nothing of what is parked."""
        return [_payload(parts) for parts in (self.committed(), self._staged) if parts]

    def take_over(self, memo: Memo) -> None:
        """See `Capturable`; the buffers stay where they are if what is taken over fits."""
        fields, saved = memo
        own = self._held
        if isinstance(own, dict) and saved is not None and _kinds(own) == _kinds(saved):
            fields = {**fields, "_held": dict(own)}
        self.roll_back((fields, saved))

    def _picture(self) -> Any:
        """Copies of the buffers: every commit writes into them, and kernels do."""
        held = self._held
        return None if held is None else {name: _copy_of(part) for name, part in held.items()}

    def _as_pictured(self, picture: Any) -> Any:
        if picture is None:
            return self._held
        buffers = dict(self._held)
        with torch.inference_mode(False), torch.no_grad():
            for name, saved in picture.items():
                buffers[name].copy_(saved)
        return buffers

    def _copied(self, held: Any, picture: Any) -> Any:
        return picture and {name: _copy_of(saved) for name, saved in picture.items()}

    def _require(self, operation: str) -> dict[str, torch.Tensor] | None:
        """The buffers; every use comes through here, so parked ones are back before it."""
        if not self._allocated:
            raise NotAllocatedError("FixedState", operation)
        buffers: dict[str, torch.Tensor] | None = self._come_back()
        return buffers


def _payload(parts: dict[str, torch.Tensor]) -> Any:
    """The tensor where the payload is one, else the tensors by name."""
    return parts.get(_ONE, parts)


def _check(parts: Mapping[str, torch.Tensor], buffers: Mapping[str, torch.Tensor] | None) -> None:
    """Refuse what cannot be copied into the buffers as it is."""
    if buffers is None:
        return
    if parts.keys() != buffers.keys():
        found, wanted = (
            "one tensor" if _ONE in names else f"parts {sorted(names)}"
            for names in (parts, buffers)
        )
        raise PayloadError("FixedState", found, f"pass {wanted}, as allocated")
    for name, buffer in buffers.items():
        found, wanted = _kind(parts[name]), _kind(buffer)
        if found != wanted:
            where = f"FixedState, part {name!r}" if name else "FixedState"
            raise PayloadError(where, found, f"pass {wanted}, as allocated")


def _copy_of(part: torch.Tensor) -> torch.Tensor:
    copy = _buffer_like(part, zero=False)
    with torch.inference_mode(False), torch.no_grad():
        return copy.copy_(part)


def _kinds(buffers: Mapping[str, torch.Tensor]) -> dict[str, str]:
    return {name: _kind(part) for name, part in buffers.items()}


def _parts(payload: Any) -> dict[str, torch.Tensor]:
    """The tensors of a payload by name."""
    parts = dict(payload) if isinstance(payload, Mapping) else {_ONE: payload}
    for part in parts.values():
        if not isinstance(part, torch.Tensor) or part.layout is not torch.strided:
            found = "None" if part is None else f"a {type(part).__name__}"
            if isinstance(part, torch.Tensor):
                found = f"a tensor of layout {part.layout}"
            raise PayloadError("FixedState", found, "pass a dense tensor, or a mapping of such")
    if not parts or (isinstance(payload, Mapping) and _ONE in parts):
        found = "a part without a name" if parts else "an empty mapping"
        raise PayloadError("FixedState", found, "name each part")
    return parts


def _kind(tensor: torch.Tensor) -> str:
    """All in which a payload must agree with its buffer, for the message too."""
    return f"shape {tuple(tensor.shape)} {tensor.dtype} on {tensor.device}"


def _at_rest(part: torch.Tensor, buffers: Iterable[torch.Tensor]) -> torch.Tensor:
    """`part` as the commit will leave it: out of any graph, contiguous, not over the buffers."""
    part = part.detach() if part.requires_grad else part
    part = part.resolve_conj().resolve_neg().contiguous()
    return part.clone() if any(_share_memory(part, buffer) for buffer in buffers) else part


def _share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the storages overlap, which may be two objects over one memory."""
    if one.device != other.device:
        return False
    (start, end), (other_start, other_end) = _range(one), _range(other)
    return start < other_end and other_start < end


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    start = storage.data_ptr()
    return start, start + storage.nbytes()


def _require_shape(extents: Any, dtype: Any) -> None:
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype must be a torch.dtype, got {dtype!r}")
    if not isinstance(extents, Sequence) or isinstance(extents, str):
        raise TypeError(f"shape must be a sequence of whole numbers, got {extents!r}")
    for extent in extents:
        if not isinstance(extent, int) or isinstance(extent, bool):
            raise TypeError(f"shape must be a sequence of whole numbers, got {extents!r}")
        if extent < 0:
            raise ValueError(f"an extent cannot be negative, got {extents!r}")


def _new_buffer(
    extents: Shape, dtype: torch.dtype | None, device: torch.device | str, zero: bool
) -> torch.Tensor:
    """A buffer that may be written in place anywhere.

    One made in inference mode may be written in that mode alone, and whoever allocates lazily may
    happen to be in it.
    """
    with torch.inference_mode(False):
        make = torch.zeros if zero else torch.empty
        return make(tuple(extents), dtype=dtype, device=device)


def _buffer_like(part: torch.Tensor, zero: bool) -> torch.Tensor:
    return _new_buffer(part.shape, part.dtype, part.device, zero)
