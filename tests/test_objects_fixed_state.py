"""FixedState: overwritten in place, at addresses that stay."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from statekit.accounting import SeenStorages
from statekit.errors import NotAllocatedError, PayloadError
from statekit.objects import FixedState
from statekit.objects.parkable import Away
from statekit.on_commit import OnCommit
from tests.equivalence.bits import assert_same_bits


def filled(start: int = 0) -> torch.Tensor:
    return torch.arange(start, start + 6, dtype=torch.float32).reshape(2, 3)


def fixed(**more: Any) -> FixedState[torch.Tensor]:
    return FixedState[torch.Tensor]().allocate(shape=(2, 3), dtype=torch.float32, **more)


def addresses(obj: FixedState[Any]) -> dict[str, int]:
    view = obj.view(include_staged=False)
    parts = view if isinstance(view, dict) else {"": view}
    return {name: part.data_ptr() for name, part in parts.items()}


def test_allocate_when_sized_then_zeros_that_count() -> None:
    """The buffer exists from the start, holds zeros, and its bytes are counted."""
    obj = fixed()
    assert_same_bits(obj.view(), torch.zeros(2, 3))
    assert (obj.resident, obj.nbytes_by_device()) == (True, {"cpu": 24})
    assert obj.staged_nbytes_by_device() == {}


def test_allocate_when_not_zeroed_then_first_commit_writes_all() -> None:
    """Without zeroing, a buffer of that size is made and the first commit fills it."""
    obj = fixed(zero=False)
    assert obj.nbytes == 24
    obj.append(filled())
    assert_same_bits(obj.view(), filled())


def test_commit_when_repeated_then_addresses_stay_and_old_views_follow() -> None:
    """Whoever holds the buffer reads each commit's bits at the same address."""
    obj = fixed()
    held = obj.view(include_staged=False)
    before = addresses(obj)
    for step in range(4):
        obj.stage(filled(10 * step))
        assert_same_bits(held, filled(10 * (step - 1)) if step else torch.zeros(2, 3))
        assert_same_bits(obj.view(), filled(10 * step))
        obj.commit()
        assert_same_bits(held, filled(10 * step))
        assert obj.view() is held
    assert addresses(obj) == before


def test_parts_when_allocated_by_name_then_each_keeps_its_address() -> None:
    """Several tensors live under names, with dtypes of their own, and are committed together."""
    obj = FixedState[dict[str, torch.Tensor]]().allocate(
        shape={"kv": (2, 2), "z": (2,)}, dtype={"kv": torch.bfloat16, "z": torch.float64}
    )
    before = addresses(obj)
    payload = {"z": torch.full((2,), 0.1, dtype=torch.float64), "kv": torch.ones(2, 2).bfloat16()}
    obj.append(payload)
    assert_same_bits(obj.view(), {name: payload[name] for name in ("kv", "z")})
    assert addresses(obj) == before
    assert obj.nbytes_by_device() == {"cpu": 4 * 2 + 2 * 8}


def test_parts_when_view_is_changed_then_object_is_not() -> None:
    """The dict that a reader gets is its own."""
    obj = FixedState[dict[str, torch.Tensor]]().allocate(shape={"a": (1,)}, dtype=torch.float32)
    view = obj.view()
    assert view is not None
    view.clear()
    assert_same_bits(obj.view(), {"a": torch.zeros(1)})


def test_allocate_when_without_shape_then_first_payload_gives_it() -> None:
    """Sizes that are known only with the first payload come from it, and stay from then on."""
    obj = FixedState[torch.Tensor]().allocate()
    assert (obj.resident, obj.view(), obj.nbytes) == (True, None, 0)
    obj.append(filled())
    before = addresses(obj)
    obj.append(filled(50))
    assert addresses(obj) == before
    assert_same_bits(obj.view(), filled(50))
    with pytest.raises(PayloadError, match=r"shape \(3, 2\).*pass shape \(2, 3\)"):
        obj.append(filled().t())


def test_allocate_like_when_called_then_same_sizes_and_no_content() -> None:
    """allocate_like makes zeros of the payload's shape, dtype and layout of parts."""
    obj = FixedState[dict[str, torch.Tensor]]().allocate_like({"a": filled(), "b": filled().int()})
    assert_same_bits(
        obj.view(), {"a": torch.zeros(2, 3), "b": torch.zeros(2, 3, dtype=torch.int32)}
    )


def test_first_commit_when_payload_is_kept_by_model_then_object_has_its_own_memory() -> None:
    """Also the commit that makes the buffer copies: the model may write into its tensor again."""
    obj = FixedState[torch.Tensor]().allocate()
    payload = filled()
    obj.append(payload)
    payload.zero_()
    assert_same_bits(obj.view(), filled())


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(lambda buffer: buffer.flip(0), id="flipped"),
        pytest.param(lambda buffer: buffer.t(), id="transposed"),
        pytest.param(lambda buffer: buffer.view(-1)[:1].expand(9).view(3, 3), id="expanded"),
        pytest.param(lambda buffer: torch.from_numpy(buffer.numpy()[::1]).t(), id="via_numpy"),
        pytest.param(lambda buffer: buffer, id="itself"),
    ],
)
def test_commit_when_payload_is_a_view_of_the_buffer_then_values_are_those_staged(
    payload: Any,
) -> None:
    """A payload over the buffer's own memory commits the values that it had when it was staged."""
    obj = FixedState[torch.Tensor]().allocate(shape=(3, 3), dtype=torch.float32)
    obj.append(torch.arange(9.0).reshape(3, 3))
    buffer = obj.view()
    assert buffer is not None
    want = payload(buffer).clone(memory_format=torch.contiguous_format)
    obj.stage(payload(buffer))
    assert_same_bits(obj.view(), want)
    obj.commit()
    assert_same_bits(obj.view(), want)
    assert obj.view() is buffer


def test_commit_when_parts_are_swapped_then_both_arrive() -> None:
    """Parts that are views of each other's buffers are exchanged, not overwritten in turn."""
    obj = FixedState[dict[str, torch.Tensor]]().allocate(
        shape={"a": (2,), "b": (2,)}, dtype=torch.float32
    )
    obj.append({"a": torch.ones(2), "b": torch.zeros(2)})
    view = obj.view()
    assert view is not None
    obj.append({"a": view["b"], "b": view["a"]})
    assert_same_bits(obj.view(), {"a": torch.zeros(2), "b": torch.ones(2)})


def test_discard_when_payload_viewed_the_buffer_then_committed_bits_stay() -> None:
    """S1: discard leaves the committed bits, whatever was staged over them."""
    obj = fixed()
    obj.append(filled())
    view = obj.view()
    assert view is not None
    obj.stage(view.flip(1))
    obj.discard()
    assert_same_bits(obj.view(), filled())


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        (torch.zeros(2, 4), r"shape \(2, 4\) torch.float32 on cpu"),
        (torch.zeros(2, 3, dtype=torch.float64), r"torch.float64"),
        (torch.zeros(2, 3, device="meta"), r"on meta"),
        (torch.zeros(2, 3).to_sparse(), r"layout torch.sparse_coo"),
        ([0.0], r"a list"),
        ({"a": torch.zeros(2, 3)}, r"parts \['a'\]; pass one tensor"),
        ({}, r"an empty mapping"),
        ({"": torch.zeros(2, 3)}, r"a part without a name"),
    ],
)
@pytest.mark.parametrize("operation", ["stage", "append", "commit"])
def test_write_when_payload_does_not_fit_then_nothing_has_changed(
    payload: Any, found: str, operation: str
) -> None:
    """S3: names, shape, dtype and device are checked before anything is written."""
    obj = fixed()
    obj.append(filled())
    obj.stage(filled(10))
    with pytest.raises(PayloadError, match=found):
        getattr(obj, operation)(payload)
    assert_same_bits(obj.view(include_staged=False), filled())
    assert_same_bits(obj.view(), filled(10))


def test_parts_when_one_does_not_fit_then_no_part_is_written() -> None:
    """A payload of several parts is taken whole or not at all."""
    obj = FixedState[dict[str, torch.Tensor]]().allocate(
        shape={"a": (2,), "b": (2,)}, dtype=torch.float32
    )
    with pytest.raises(PayloadError, match="part 'b'"):
        obj.append({"a": torch.ones(2), "b": torch.ones(3)})
    with pytest.raises(PayloadError, match=r"parts \['a'\]; pass parts \['a', 'b'\]"):
        obj.append({"a": torch.ones(2)})
    assert_same_bits(obj.view(), {"a": torch.zeros(2), "b": torch.zeros(2)})


def test_commit_when_staged_tensor_was_resized_by_its_owner_then_refused() -> None:
    """What changed its size after it was staged is refused; the committed bits stay."""
    obj = fixed()
    payload = filled(10)
    obj.stage(payload)
    payload.resize_(1)
    with pytest.raises(PayloadError, match=r"shape \(1,\)"):
        obj.commit()
    assert_same_bits(obj.view(include_staged=False), torch.zeros(2, 3))


def test_first_commit_when_memory_runs_out_then_nothing_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of several buffers that a first commit makes, all are made before one is written."""
    obj = FixedState[dict[str, torch.Tensor]]().allocate()
    obj.stage({"a": filled(), "b": filled(10)})
    made: list[torch.Tensor] = []
    empty = torch.empty

    def runs_out(*args: Any, **more: Any) -> torch.Tensor:
        if made:
            raise torch.OutOfMemoryError("out of memory")
        made.append(empty(*args, **more))
        return made[0]

    monkeypatch.setattr(torch, "empty", runs_out)
    with pytest.raises(torch.OutOfMemoryError):
        obj.commit()
    monkeypatch.undo()
    assert (obj.view(include_staged=False), obj.nbytes) == (None, 0)
    obj.commit()
    assert_same_bits(obj.view(), {"a": filled(), "b": filled(10)})


def test_view_when_payload_is_not_contiguous_then_same_strides_before_and_after() -> None:
    """S2: kernels that read the staged view see the layout that the commit leaves."""
    obj = fixed()
    obj.stage(torch.arange(6.0).reshape(3, 2).t())
    before = obj.view()
    obj.commit()
    assert_same_bits(obj.view(), before, strides=True)


def test_view_when_payload_is_conjugated_then_bits_are_resolved() -> None:
    """S2: a lazily conjugated payload is shown as the commit stores it."""
    obj = FixedState[torch.Tensor]().allocate(shape=(2,), dtype=torch.complex64)
    obj.stage(torch.tensor([1 + 2j, 3 - 4j]).conj())
    staged = obj.view()
    assert staged is not None
    assert not staged.is_conj()
    obj.commit()
    assert_same_bits(torch.view_as_real(obj.view()), torch.tensor([[1.0, -2.0], [3.0, 4.0]]))


def test_commit_when_payload_has_a_graph_then_buffer_has_none() -> None:
    """A payload that needs a gradient is copied without its graph."""
    obj = fixed()
    obj.stage(filled().requires_grad_() * 2)
    staged = obj.view()
    assert staged is not None
    assert not staged.requires_grad
    obj.commit()
    view = obj.view()
    assert view is not None
    assert not view.requires_grad
    assert_same_bits(view, filled() * 2)


def test_commit_when_owner_asks_for_a_gradient_later_then_buffer_has_no_graph() -> None:
    """A payload that starts to need a gradient after it was staged is copied without it too."""
    obj = fixed()
    payload = filled()
    obj.stage(payload)
    payload.requires_grad_()
    obj.commit()
    view = obj.view()
    assert view is not None
    assert not view.requires_grad


def test_commit_when_modes_alternate_then_written_in_both() -> None:
    """A buffer made and written in inference mode is written outside of it too, and back."""
    with torch.inference_mode():
        obj = FixedState[torch.Tensor]().allocate()
        obj.append(filled())
        inside = filled(10)
    before = addresses(obj)
    obj.append(inside)
    obj.append(filled(20))
    with torch.inference_mode():
        obj.append(filled(30))
    assert addresses(obj) == before
    assert_same_bits(obj.view(), filled(30))


def test_on_commit_when_moved_then_device_is_checked_afterwards() -> None:
    """The schema's steps are taken before the payload is checked against the buffer."""
    obj = fixed(on_commit=OnCommit(device="meta"))
    with pytest.raises(PayloadError, match="on meta"):
        obj.stage(filled())


def test_evict_when_staged_then_bytes_of_the_buffer_and_payload_stays() -> None:
    """S1, S4: the buffer goes, what is staged stays, and the object is unallocated."""
    obj = fixed()
    obj.stage(filled())
    assert obj.evict() == 24
    assert (obj.resident, obj.nbytes, obj.staged_nbytes_by_device()) == (False, 0, {"cpu": 24})
    with pytest.raises(NotAllocatedError):
        obj.commit()
    assert obj.evict() == 0


def test_reset_when_allocated_anew_then_zeros_again() -> None:
    """Nothing of the old state survives a reset."""
    obj = fixed()
    obj.append(filled())
    obj.stage(filled(10))
    obj.reset()
    assert (obj.resident, obj.nbytes, obj.staged_nbytes_by_device()) == (False, 0, {})
    obj.allocate(shape=(2, 3), dtype=torch.float32)
    assert_same_bits(obj.view(), torch.zeros(2, 3))


def test_allocate_when_refused_then_object_is_as_before() -> None:
    """A mistaken size is named, and what the object holds stays."""
    obj = fixed()
    obj.append(filled())
    with pytest.raises(TypeError, match="got None"):
        obj.allocate(shape=(2, 3))
    with pytest.raises(TypeError, match="needs a shape"):
        obj.allocate(dtype=torch.float32)
    with pytest.raises(TypeError, match="whole numbers, got \\(2, '3'\\)"):
        obj.allocate(shape=(2, "3"), dtype=torch.float32)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="whole numbers, got 3"):
        obj.allocate(shape=3, dtype=torch.float32)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="negative, got \\(-1,\\)"):
        obj.allocate(shape=(-1,), dtype=torch.float32)
    with pytest.raises(ValueError, match=r"shape names \['a'\], dtype names \['b'\]"):
        obj.allocate(shape={"a": (1,)}, dtype={"b": torch.float32})
    assert_same_bits(obj.view(), filled())


def test_bytes_when_payload_is_staged_then_told_apart_from_the_buffer() -> None:
    """Staged and committed bytes are counted once each, by storage."""
    obj = fixed()
    obj.stage(filled())
    seen = SeenStorages()
    assert obj.nbytes_by_device(seen) == {"cpu": 24}
    assert obj.staged_nbytes_by_device(seen) == {"cpu": 24}
    assert obj.nbytes_by_device(seen) == obj.staged_nbytes_by_device(seen) == {}


class AwayOnPaper:
    """A parked copy as the object sees it: brings back what was put away, or is told to let go."""

    def __init__(self, obj: FixedState[Any]) -> None:
        self.obj, self.let_go_calls = obj, 0
        self.copy = {name: part.clone() for name, part in (obj.park_payload() or {}).items()}
        assert obj.put_away(obj.park_payload(), Away(self, "state"))

    def bring_back(self) -> None:
        self.obj.put_back(self.copy, self)

    def let_go(self, key: str) -> None:
        assert key == "state"
        self.let_go_calls += 1


@pytest.mark.parametrize("operation", ["view", "stage", "commit", "append"])
def test_parked_when_used_then_buffers_are_back_before_it(operation: str) -> None:
    """Parked buffers hold nothing, and whatever uses the object finds the old values and sizes."""
    obj = fixed()
    obj.append(filled())
    away = AwayOnPaper(obj)
    assert (obj.resident, obj.nbytes, obj.committed()) == (True, 0, None)
    getattr(obj, operation)(*([filled(10)] if operation in ("stage", "append") else []))
    assert obj.nbytes == 24
    assert obj.view(include_staged=False) is away.copy[""]
    want = filled(10) if operation in ("stage", "append") else filled()
    assert_same_bits(obj.view(), want)


@pytest.mark.parametrize("operation", ["reset", "evict", "allocate"])
def test_parked_when_given_up_then_copy_is_let_go_once(operation: str) -> None:
    """A parked copy that nobody can ask for any more is not kept."""
    obj = fixed()
    away = AwayOnPaper(obj)
    assert getattr(obj, operation)() in (None, 0, obj)
    obj.reset()
    assert away.let_go_calls == 1


def test_park_payload_when_committed_meanwhile_then_another_object() -> None:
    """Who copies the buffers notices a commit in between; beside staged data there are none."""
    obj = fixed()
    before = obj.park_payload()
    assert obj.park_payload() is before
    obj.append(filled())
    assert obj.park_payload() is not before
    obj.stage(filled(10))
    assert obj.park_payload() is None
