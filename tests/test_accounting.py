"""Bytes per device, to the byte: `statekit.accounting`."""

from __future__ import annotations

import array
import ctypes
import functools
import gc
import io
import logging
import mmap
import sys
import threading
import time
import types
import weakref
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import attrs
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode

from statekit.accounting import SeenStorages, device_bytes, merge_bytes

POINTER = np.dtype(object).itemsize


def u8(nbytes: int) -> torch.Tensor:
    return torch.zeros(nbytes, dtype=torch.uint8)


def cpu(value: object, seen: SeenStorages | None = None) -> int:
    """The bytes of `value`, which must all be on the CPU."""
    found = device_bytes(value, seen)
    assert set(found) <= {"cpu"}
    return found.get("cpu", 0)


def both_orders(first: object, second: object) -> tuple[int, int]:
    return cpu([first, second]), cpu([second, first])


# --- storages, not elements -------------------------------------------------------------------


def test_tensor_counts_its_storage() -> None:
    """A tensor counts the bytes of its storage under its device."""
    assert device_bytes(torch.zeros(3, 5, dtype=torch.float64)) == {"cpu": 120}


def test_slice_counts_the_whole_storage_even_when_it_is_empty() -> None:
    """A slice keeps all of its storage alive, so all of it counts, for a slice of nothing too."""
    whole = u8(1000)
    assert cpu(whole[3:5]) == 1000
    assert cpu(whole[:0]) == 1000


@pytest.mark.parametrize(
    "alias",
    [
        lambda t: t[100:],
        lambda t: t.view(torch.float32),
        lambda t: t.view(10, 100).T,
        lambda t: t[:1].expand(10_000),
        lambda t: t.detach(),
        lambda t: t.numpy(),
        lambda t: t.numpy()[::-3],
        lambda t: torch.from_numpy(t.numpy()[5:]),
        lambda t: np.from_dlpack(t),
        lambda t: t.untyped_storage(),
        lambda t: t.as_subclass(torch.nn.Parameter),
        lambda t: torch.ops.aten._lazy_clone(t),
    ],
)
def test_aliases_of_a_tensor_count_once(alias: Callable[[torch.Tensor], object]) -> None:
    """Whatever shares a tensor's memory adds nothing to it, in either order."""
    tensor = u8(1000)
    assert both_orders(tensor, alias(tensor)) == (1000, 1000)


@pytest.mark.parametrize(
    "alias",
    [
        lambda a: a[3:],
        lambda a: a[::-2],
        lambda a: a[::-1][5:].reshape(5, -1),
        lambda a: a.view(np.float32)[1:][1:],
        lambda a: a[:0],
        lambda a: np.broadcast_to(a, (50, 1000)),
        lambda a: np.lib.stride_tricks.as_strided(a, (10,), (7,)),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 7),
        lambda a: torch.from_numpy(a),
        lambda a: torch.from_numpy(a[3:900]),
        lambda a: torch.from_numpy(a[3:900]).numpy()[4:],
        lambda a: memoryview(a)[8:],
        lambda a: np.asarray(memoryview(a)),
        lambda a: a.view(np.recarray),
        lambda a: a.reshape(10, 100)[3, 4, ...],
    ],
)
def test_aliases_of_an_array_count_once(alias: Callable[[Any], object]) -> None:
    """Whatever shares an array's memory adds nothing to it, in either order."""
    arr = np.zeros(1000, np.uint8)
    assert both_orders(arr, alias(arr)) == (1000, 1000)


@pytest.mark.parametrize("make", [bytes, bytearray, lambda n: array.array("B", bytes(n))])
@pytest.mark.parametrize(
    "alias",
    [
        memoryview,
        lambda b: memoryview(b)[10:20],
        lambda b: np.frombuffer(b, np.uint8),
        lambda b: np.frombuffer(b, np.uint16, offset=10)[::-1],
        lambda b: torch.from_numpy(np.frombuffer(bytearray(0) or b, np.uint8, 50, 5)),
    ],
)
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_aliases_of_a_buffer_count_once(
    make: Callable[[int], Any], alias: Callable[[Any], object]
) -> None:
    """Bytes, bytearray and array.array count their length once with all that views them."""
    buffer = make(1000)
    assert cpu(buffer) == 1000
    assert both_orders(buffer, alias(buffer)) == (1000, 1000)


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[3:][:5],
        lambda a: memoryview(a)[1:],
        lambda a: np.broadcast_to(a, (9, 1000)),
        lambda a: np.lib.stride_tricks.as_strided(a, (10,), (7,)),
    ],
)
def test_view_alone_counts_its_whole_owner(view: Callable[[Any], object]) -> None:
    """A view whose owner is held by nobody else counts all that it keeps alive."""
    assert cpu(view(np.zeros(1000, np.uint8))) == 1000


def test_tensor_over_part_of_an_array_counts_the_part_when_alone() -> None:
    """The array behind a tensor is out of sight: the slice counts, the rest with the array."""
    arr = np.zeros(1000, np.uint8)
    tensor = torch.from_numpy(arr[100:300])
    seen = SeenStorages()
    assert cpu(tensor, seen) == 200
    assert cpu(arr, seen) == 800
    assert cpu([arr[5:], tensor[1:]], seen) == 0


def test_frombuffer_over_part_of_a_bytearray() -> None:
    """A tensor made from the middle of a bytearray shares its bytes."""
    data = bytearray(100)
    tensor = torch.frombuffer(data, dtype=torch.uint8, offset=10, count=20)
    assert cpu(tensor) == 20
    assert both_orders(data, tensor) == (100, 100)


def test_two_empty_tensors_are_not_one_and_count_nothing() -> None:
    """Empty storages have no address; what hangs on each of them is still found."""
    first, second = torch.empty(0), torch.empty(0)
    first.note, second.note = u8(7), u8(8)
    assert cpu([torch.empty(0), torch.empty(3, 0), np.empty(0), b"", bytearray()]) == 0
    assert cpu([first, second]) == 15


def test_storage_that_is_resized_counts_its_present_size() -> None:
    """A storage freed by resize_(0) counts nothing, one that grew counts what it has now."""
    tensor = u8(64)
    assert cpu(tensor) == 64
    tensor.untyped_storage().resize_(0)
    assert device_bytes(tensor) == {}
    tensor.untyped_storage().resize_(200)
    assert cpu(tensor) == 200


def test_scalars_of_numpy_and_zero_dimensional_arrays() -> None:
    """A 0-d array or tensor holds its item; a numpy number holds nothing of note."""
    assert cpu(np.array(1.5)) == 8
    assert cpu(torch.tensor(1.5)) == 4
    assert cpu([np.float32(1), np.bool_(True), np.str_("abc"), np.datetime64("2020-01-01")]) == 0


def test_copy_on_write_storage_is_not_copied_by_counting() -> None:
    """Two lazy clones share one memory, and counting leaves it so."""
    if not hasattr(torch._C, "_data_address"):
        pytest.skip("this torch shows no address without a copy")
    tensor = u8(4096)
    clone = torch.ops.aten._lazy_clone(tensor)
    assert cpu([tensor, clone, clone.untyped_storage()]) == 4096
    assert torch._C._is_cow_tensor(clone)
    clone[0] = 1
    assert cpu([tensor, clone]) == 8192


# --- other tensors ----------------------------------------------------------------------------


def test_meta_and_fake_tensors_hold_nothing() -> None:
    """What has no memory counts nothing, whatever device it claims."""
    with FakeTensorMode() as mode:
        fakes = [torch.zeros(1000), torch.zeros(1000, device="cuda:0")]
        fakes.append(mode.from_tensor(torch.zeros(9)))
    meta = torch.zeros(1000, device="meta")
    assert device_bytes([*fakes, meta, meta[3:], meta.untyped_storage()]) == {}
    indices, values = meta[:10].to(torch.int64).view(2, 5), meta[:5]
    assert (
        device_bytes(torch.sparse_coo_tensor(indices, values, (9, 9), check_invariants=False)) == {}
    )


def test_sparse_coo_counts_indices_and_values() -> None:
    """A COO tensor counts the storages of its indices and of its values, shared ones once."""
    indices, values = torch.tensor([[0, 1, 5], [2, 0, 3]]), torch.ones(3)
    sparse = torch.sparse_coo_tensor(indices, values, (10, 10), check_invariants=True)
    assert cpu(sparse) == 2 * 3 * 8 + 3 * 4
    assert cpu([values, sparse, indices, sparse.detach()]) == 60


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
def test_compressed_sparse_counts_pointers_indices_and_values(layout: str) -> None:
    """Compressed layouts count pointers, indices and values, shared ones once."""
    block = () if layout in ("csr", "csc") else (2, 2)
    pointers, indices, values = torch.tensor([0, 1, 2]), torch.tensor([0, 1]), torch.ones(2, *block)
    sparse = torch.sparse_compressed_tensor(
        pointers,
        indices,
        values,
        layout=getattr(torch, f"sparse_{layout}"),
        check_invariants=True,
    )
    expected = 3 * 8 + 2 * 8 + values.numel() * 4
    assert cpu(sparse) == expected
    assert cpu([values, sparse, indices, pointers, sparse.detach()]) == expected


def test_nested_jagged_counts_values_and_offsets() -> None:
    """A jagged tensor counts its values and its offsets, the values once with their owner."""
    values, offsets = torch.zeros(5, 2), torch.tensor([0, 2, 5])
    nested = torch.nested.nested_tensor_from_jagged(values, offsets)
    assert cpu(nested) == 40 + 24
    assert cpu([nested, values, offsets]) == 64


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_strided_counts_its_buffer() -> None:
    """A strided nested tensor counts its one buffer."""
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.strided)
    assert cpu(nested) == 20


class Pair(torch.Tensor):
    """A wrapper around two tensors, which claims a size of its own."""

    left: torch.Tensor
    right: torch.Tensor

    @staticmethod
    def __new__(cls, left: torch.Tensor, right: torch.Tensor) -> Pair:
        self = torch.Tensor._make_wrapper_subclass(cls, (1000,), dtype=torch.float32)
        self.left, self.right = left, right
        return self

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["left", "right"], None

    @classmethod
    def __torch_function__(cls, *_: object, **__: object) -> NoReturn:
        raise AssertionError("asked a subclass")

    @classmethod
    def __torch_dispatch__(cls, *_: object, **__: object) -> NoReturn:
        raise AssertionError("ran an operation")


class Opaque(Pair):
    """A wrapper without `__tensor_flatten__`, its parts are plain attributes."""

    __tensor_flatten__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("cls", [Pair, Opaque])
def test_wrapper_counts_its_inner_tensors_only(cls: type[Pair]) -> None:
    """A wrapper subclass has no memory itself; its inner tensors count, aliases once."""
    left = u8(30)
    assert cpu(cls(left, u8(12))) == 42
    assert cpu([cls(left, left), left]) == 30


def test_gradients_and_attributes_of_tensors_count() -> None:
    """`.grad` of leaves, retained gradients, and Python attributes are held by their tensor."""
    leaf = torch.zeros(4, requires_grad=True)
    inner = leaf * 2
    inner.retain_grad()
    outer = inner.sum()
    outer.backward()
    outer.note = u8(100)
    assert cpu(leaf) == 16 + 16
    assert cpu(inner) == 16 + 16
    assert cpu(outer) == 4 + 100
    parameter = torch.nn.Parameter(torch.zeros(4))
    parameter.grad = torch.zeros(4)
    assert cpu(parameter) == 32


def test_gradients_in_a_circle_end() -> None:
    """Two tensors that are each other's gradient are counted once each."""
    first, second = torch.zeros(3), torch.zeros(3)
    first.grad, second.grad = second, first
    assert cpu(first) == 24


class Slotted(torch.Tensor):
    __slots__ = ("note",)


def test_subclass_of_tensor_with_slots() -> None:
    """What a tensor subclass keeps in a slot counts."""
    tensor = u8(10).as_subclass(Slotted)
    tensor.note = u8(5)
    assert cpu(tensor) == 15


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_held_as_such_count() -> None:
    """A storage without a tensor counts, typed or not, once with its tensors."""
    tensor = torch.zeros(4)
    assert cpu(tensor.untyped_storage()) == 16
    assert cpu([tensor.storage(), tensor]) == 16


def test_opaque_layout_counts_its_elements_once() -> None:
    """An mkldnn tensor shows no address; its elements count, once for the same object."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("no mkldnn here")
    tensor = torch.zeros(5, 5).to_mkldnn()
    assert cpu([tensor, tensor]) == 100


@pytest.mark.gpu
def test_device_tensors_count_under_their_device() -> None:
    """Device memory is kept apart from host memory, aliases once, pinned memory is host memory."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    tensor = torch.zeros(1000, dtype=torch.uint8, device="cuda:0")
    value = [tensor, tensor[5:], tensor.untyped_storage(), u8(10), u8(20).pin_memory()]
    assert device_bytes(value) == {"cuda:0": 1000, "cpu": 30}


# --- arrays and buffers -----------------------------------------------------------------------


def test_object_array_counts_pointers_and_elements() -> None:
    """An array of objects counts its pointers and what they point to, views likewise."""
    arr = np.empty((2, 2), object)
    arr[0, 0] = arr[0, 1] = u8(50)
    arr[1, 0] = [np.zeros(9, np.uint8), arr]
    assert cpu(arr) == 4 * POINTER + 59
    assert cpu(arr[1:, 1:]) == 4 * POINTER + 59
    scalar = np.empty((), object)
    scalar[()] = u8(3)
    assert cpu(scalar) == POINTER + 3


def test_structured_array_counts_its_records_and_their_objects() -> None:
    """Records count as memory; fields of objects are followed, nested and repeated ones too."""
    plain = np.zeros(4, [("a", "i4"), ("b", "f8", (3,))])
    assert cpu(plain) == cpu(plain["b"]) == 4 * 28
    dtype = np.dtype([("a", "i4"), ("o", object, (2,)), ("n", [("k", object)])])
    arr = np.zeros(2, dtype)
    arr["o"][1, 1] = u8(10)
    arr["n"]["k"][0] = u8(20)
    assert cpu(arr) == cpu(arr["n"]["k"]) == 2 * dtype.itemsize + 30


def test_record_of_an_array_is_a_view_of_it() -> None:
    """A single record keeps its array alive; one made alone counts its own bytes."""
    arr = np.zeros(10, [("a", "f8")])
    assert cpu(arr[3]) == 80
    assert both_orders(arr, arr[3]) == (80, 80)
    assert cpu(np.void(b"x" * 100)) == 100


def test_masked_array_counts_data_and_mask() -> None:
    """A masked array holds its data and its mask."""
    masked = np.ma.MaskedArray(np.zeros(10), mask=np.zeros(10, bool))
    assert cpu(masked) == cpu(masked[2:]) == 90
    assert cpu(np.ma.MaskedArray(np.zeros(10))) == 80


class Wild(np.ndarray):
    """Overrides whatever a counter might be tempted to read."""

    base = nbytes = shape = strides = size = ctypes = property(  # type: ignore[assignment]
        lambda self: pytest.fail("evaluated a property")
    )
    note: object


def test_array_subclass_is_counted_by_its_memory() -> None:
    """Names that a subclass of ndarray redefines are not read; its attributes are followed."""
    owner = np.zeros(100, np.uint8)
    wild = owner.view(Wild)
    wild.note = u8(5)
    assert both_orders(wild, owner) == (105, 105)


def test_memory_map_counts_its_mapped_length(tmp_path: Path) -> None:
    """A memory map counts the length that is mapped, once with its arrays, closed ones nothing."""
    mapped = np.memmap(tmp_path / "a.bin", np.uint8, "w+", offset=64, shape=(5000,))
    assert cpu(mapped) == cpu(mapped[10:20]) == 5064
    anonymous = mmap.mmap(-1, 8192)
    assert both_orders(anonymous, memoryview(anonymous)[5:]) == (8192, 8192)
    anonymous.close()
    assert cpu(anonymous) == 0


def test_other_buffers_count() -> None:
    """ctypes memory and the bytes of a stream count, once with what views them."""
    chars = (ctypes.c_uint16 * 50)()
    assert both_orders(chars, np.ctypeslib.as_array(chars)) == (100, 100)
    data = bytes(range(200))
    stream = io.BytesIO(data)
    assert both_orders(stream, data) == (200, 200)
    assert both_orders(stream, stream.getbuffer()[3:]) == (200, 200)
    stream = io.BytesIO()
    assert cpu(stream) == 0
    stream.close()
    assert cpu(stream) == 0


def test_released_memoryview_counts_nothing() -> None:
    """A released view holds nothing and is no error."""
    view = memoryview(bytearray(10))
    view.release()
    assert cpu(view) == 0


def test_counting_never_blocks_a_resize() -> None:
    """A bytearray can be resized while a record of having counted it is alive."""
    data, numbers, seen = bytearray(10), array.array("d", [1.0]), SeenStorages()
    assert cpu([data, numbers], seen) == 18
    data.extend(b"more")
    numbers.append(2.0)
    assert cpu([data, numbers]) == 14 + 16


def test_array_over_foreign_memory_counts_its_span() -> None:
    """An array over memory that no known object owns counts the range from first to last byte."""
    arr = np.from_dlpack(u8(100))
    assert cpu(arr[10:50:3]) == 100  # its owner is the array that spans all
    assert cpu(np.from_dlpack(u8(100)[10:50:3])) == 40
    memory = ctypes.create_string_buffer(1000)

    class Foreign:
        __array_interface__ = {  # noqa: RUF012
            "version": 3,
            "typestr": "<u2",
            "shape": (5, 10),
            "strides": (40, -4),
            "data": (ctypes.addressof(memory) + 100, False),
        }

    assert cpu(np.asarray(Foreign())) == 4 * 40 + 9 * 4 + 2
    assert both_orders(memory, np.asarray(Foreign())) == (1000, 1000)


# --- what is walked ---------------------------------------------------------------------------

Point = namedtuple("Point", "x y")


@dataclass
class Data:
    x: object
    y: object = None


@dataclass(frozen=True, eq=False)
class FrozenData:
    __slots__ = ("x",)
    x: object


@attrs.define(eq=False)
class Defined:
    x: object
    unset: object = attrs.field(init=False)


class SlotsBase:
    __slots__ = ("x",)

    def __init__(self, x: object) -> None:
        self.x = x


class SlotsAndDict(SlotsBase):
    __slots__ = ("__dict__", "__weakref__", "unset")


def with_attribute(obj: Any, value: object) -> Any:
    obj.extra = value
    return obj


@pytest.mark.parametrize(
    "hold",
    [
        lambda t: [t],
        lambda t: (1, t),
        lambda t: {"k": t},
        lambda t: {t: 1},
        lambda t: {(1, t): None},
        lambda t: {t},
        lambda t: frozenset({t}),
        lambda t: deque([t], maxlen=4),
        lambda t: OrderedDict(k=t),
        lambda t: defaultdict(list, k=t),
        lambda t: UserDict(k=t),
        lambda t: types.MappingProxyType({"k": t}),
        lambda t: {"k": t}.values(),
        lambda t: iter([t]),
        lambda t: Point(t, 1),
        Data,
        FrozenData,
        Defined,
        SlotsBase,
        SlotsAndDict,
        lambda t: with_attribute(SlotsAndDict(None), t),
        lambda t: types.SimpleNamespace(k=t),
        lambda t: functools.partial(print, t),
        lambda t: ValueError("lost", t),
        lambda t: weakref.WeakKeyDictionary({t: 1}) and {"k": t},
    ],
)
def test_every_way_to_hold_counts(hold: Callable[[torch.Tensor], object]) -> None:
    """Containers, keys, instances and iterators count what they hold, also at a second depth."""
    tensor = u8(100)
    assert cpu(hold(tensor)) == 100
    assert cpu([hold(tensor), {"again": [hold(tensor)]}, tensor]) == 100


def test_module_of_torch_counts_parameters_and_buffers() -> None:
    """A torch module is an object with tensors: a session that holds one holds its bytes."""
    assert cpu(torch.nn.BatchNorm1d(10)) == 4 * 40 + 8


@pytest.mark.parametrize(
    "value",
    [
        None,
        0,
        2**4000,
        1.5,
        True,
        "x" * 1000,
        range(10**9),
        np,
        torch.Tensor,
        Pair,
        cpu,
        len,
        threading.Lock(),
        threading.RLock(),
        threading.Condition(),
        torch.float32,
        torch.device("cpu"),
        torch.Size([3]),
        logging.getLogger("x"),
        Ellipsis,
        object(),
    ],
)
def test_what_is_no_data_counts_nothing(value: object) -> None:
    """Numbers, strings, modules, classes, functions, locks and loggers count nothing."""
    assert device_bytes(value) == {}
    assert device_bytes([value, {"k": value}]) == {}


def test_functions_methods_and_generators_are_not_walked() -> None:
    """Code is not looked into, though it refers to data."""
    tensor = u8(100)

    def closure() -> Iterator[torch.Tensor]:
        yield tensor

    value = [closure, closure(), [tensor].append, SlotsBase(tensor).__init__, functools.cache(cpu)]
    assert cpu(value) == 0


def test_weak_references_are_not_held() -> None:
    """A weak reference, proxy or weak value keeps nothing alive and counts nothing."""
    holder = with_attribute(SlotsAndDict(u8(100)), u8(10))
    table: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary(k=holder)
    assert cpu([weakref.ref(holder), weakref.proxy(holder), table]) == 0
    assert cpu(holder) == 110


class Hostile:
    """Answers to every name, wrongly, and has properties that must not run."""

    def __init__(self, held: object) -> None:
        object.__setattr__(self, "held", held)

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(name)

    def __getattribute__(self, name: str) -> NoReturn:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> NoReturn:
        raise RuntimeError("compared")

    def __hash__(self) -> NoReturn:
        raise RuntimeError("hashed")

    def __len__(self) -> NoReturn:
        raise RuntimeError("len")

    def __bool__(self) -> NoReturn:
        raise RuntimeError("bool")

    @property
    def latest(self) -> NoReturn:
        raise RuntimeError("evaluated a property")


class HostileList(list[object]):
    def __iter__(self) -> NoReturn:
        raise RuntimeError("iterated")


def test_code_of_the_objects_does_not_run() -> None:
    """Properties, attribute hooks, comparisons and iterators of what is counted do not run."""
    assert cpu(Hostile(u8(100))) == 100
    assert cpu([Hostile(HostileList([u8(7)])), HostileList([u8(6)])]) == 13


class Answers:
    """Looks like a handle on the instance, is none on the class."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __getattr__(self, name: str) -> Any:
        return lambda *_: {"cpu": 10**9}


def test_cycles_end() -> None:
    """A value that contains itself is counted once."""
    loop: list[Any] = [u8(5)]
    loop.append({"self": loop, "node": Data(loop)})
    arr = np.empty(1, object)
    arr[0] = loop
    loop.append(arr)
    tensor = u8(3)
    tensor.me = [tensor, loop]
    assert cpu(tensor) == 8 + POINTER


def test_long_chain_is_no_recursion() -> None:
    """A linked list of 200,000 nodes is counted."""
    head: Any = u8(5)
    for _ in range(200_000):
        head = SlotsBase(head)
    assert cpu(head) == 5
    while isinstance(head, SlotsBase):  # or freeing it would recurse
        head = head.x


# --- objects that count for themselves --------------------------------------------------------


class Handle:
    """On another component's storage: reports a number of its own, per device."""

    def __init__(self, payload: object) -> None:
        self.payload = payload
        self.asked = 0

    def nbytes_by_device(self, seen: SeenStorages) -> dict[str, int]:
        self.asked += 1
        return merge_bytes({"pool:0": 1000, "idle": 0}, device_bytes(self.payload, seen))


class Manager:
    """Counts for all its sessions, and is no part of any."""

    def __init__(self, held: object) -> None:
        self.held = held

    def nbytes_by_device(self) -> dict[str, int]:
        raise AssertionError("asked")


class OptedOut(Handle):
    nbytes_by_device = None  # type: ignore[assignment]


def test_object_with_the_method_is_asked_once() -> None:
    """`nbytes_by_device(seen)` of the class answers for the object, once, with the same `seen`."""
    payload = u8(50)
    handle = Handle(payload)
    assert device_bytes([payload, handle, [handle]]) == {"cpu": 50, "pool:0": 1000}
    assert handle.asked == 1
    assert device_bytes(handle) == {"cpu": 50, "pool:0": 1000}


def test_method_is_looked_up_on_the_class() -> None:
    """An instance that answers to any name is walked, not asked; so is a class that opts out."""
    assert cpu(Answers(u8(20))) == 20
    assert cpu(OptedOut(u8(20))) == 20
    assert cpu(Handle) == 0


def test_object_whose_method_takes_no_record_is_passed_over() -> None:
    """A manager that a value refers to counts for itself and is neither asked nor walked."""
    assert cpu([Manager(u8(20)), u8(3)]) == 3


def test_error_of_an_asked_object_is_not_swallowed() -> None:
    """What a handle raises reaches the caller: a wrong total would be worse."""

    class Broken:
        def nbytes_by_device(self, seen: SeenStorages) -> NoReturn:
            raise RuntimeError("handle is gone")

    with pytest.raises(RuntimeError, match="handle is gone"):
        device_bytes([Broken()])


# --- the record -------------------------------------------------------------------------------


def test_record_keeps_what_it_met_alive() -> None:
    """While a record lives, no address that it knows can be given to another storage."""
    seen = SeenStorages()
    tensor = u8(100_000)
    gone = weakref.ref(tensor.untyped_storage())
    assert cpu(tensor, seen) == 100_000
    del tensor
    gc.collect()
    assert gone() is not None
    for _ in range(5):
        assert cpu(u8(100_000), seen) == 100_000
    del seen
    gc.collect()
    assert gone() is None


def test_record_keeps_a_storage_that_its_tensor_gave_up() -> None:
    """A tensor that gets other data in the middle of a count does not free what was counted."""
    seen, tensor = SeenStorages(), u8(1000)
    gone = weakref.ref(tensor.untyped_storage())
    assert cpu(tensor, seen) == 1000
    tensor.data = u8(10)
    gc.collect()
    assert gone() is not None


def test_second_count_with_the_same_record_finds_nothing_new() -> None:
    """What a record has met does not count again, and a fresh record counts it anew."""
    value, seen = [u8(10), {"k": np.zeros(2)}], SeenStorages()
    assert cpu(value, seen) == 26
    assert device_bytes(value, seen) == {}
    assert cpu([value, u8(4)], seen) == 4
    assert cpu(value) == 26


def test_visit_answers_true_once() -> None:
    """A handle without an address is counted by identity."""
    seen, handle = SeenStorages(), object()
    assert [seen.visit(handle), seen.visit(handle), seen.visit(object())] == [True, False, True]


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.tuples(st.sampled_from(["cpu", "cuda:0"]), st.integers(1, 60), st.integers(0, 20)),
        max_size=40,
    )
)
def test_cover_agrees_with_a_set_of_addresses(ranges: list[tuple[str, int, int]]) -> None:
    """Covering ranges in any order returns exactly the bytes not covered before."""
    seen = SeenStorages()
    model: set[tuple[str, int]] = set()
    for device, start, nbytes in ranges:
        new = {(device, address) for address in range(start, start + nbytes)} - model
        assert seen.cover(device, start, nbytes, None) == len(new)
        model |= new
    for edges in seen._edges.values():
        assert edges == sorted(set(edges))
        assert len(edges) % 2 == 0


def test_merge_bytes_adds_in_place_and_returns() -> None:
    """`merge_bytes` adds device by device into the first mapping."""
    into = {"cpu": 1}
    other: Mapping[str, int] = types.MappingProxyType({"cpu": 2, "cuda:0": 3})
    assert merge_bytes(into, other) is into
    assert into == {"cpu": 3, "cuda:0": 3}


# --- any graph, error 0 -----------------------------------------------------------------------


class Node:
    """A value of a random graph: the bytes it holds itself, as (storage, offset), and its edges."""

    def __init__(self, value: Any, own: set[tuple[int, int]], edges: list[Node]) -> None:
        self.value, self.own, self.edges = value, own, edges

    def held(self) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        met: set[int] = set()
        todo = [self]
        while todo:
            node = todo.pop()
            if id(node) not in met:
                met.add(id(node))
                found |= node.own
                todo += node.edges
        return found


class Graph:
    """Grows storages of known sizes, aliases of them, and containers around those."""

    def __init__(self, draw: Callable[[int], int]) -> None:
        self.draw = draw  # draw(n): 0 <= drawn < n
        self.storages = 0
        self.nodes: list[Node] = []

    def storage(self, nbytes: int) -> set[tuple[int, int]]:
        self.storages += 1
        return {(self.storages, offset) for offset in range(nbytes)}

    def pick(self) -> Node:
        return self.nodes[self.draw(len(self.nodes))]

    def add_owner(self) -> None:
        nbytes = 2 + self.draw(40)  # there is only one bytes object of each length 0 and 1
        value: Any = [
            np.zeros(nbytes, np.uint8),
            u8(nbytes),
            bytes(nbytes),
            bytearray(nbytes),
            array.array("B", bytes(nbytes)),
        ][self.draw(5)]
        self.nodes.append(Node(value, self.storage(nbytes), []))

    def add_alias(self) -> None:
        """A view of an owner or of another alias; most hold all, `from_numpy` only its slice."""
        node = self.pick()
        value, own, kind = node.value, node.own, self.draw(4)
        if isinstance(value, bytes | bytearray | array.array | memoryview):
            if kind % 2 or not len(value):
                value = memoryview(value)[1:]
            else:
                value = np.frombuffer(value, np.uint8)
        elif isinstance(value, torch.Tensor):
            if kind == 0:
                value = value[self.draw(3) :]
            elif kind == 1:
                value = value[::2]
            else:
                value = value.numpy()
        elif isinstance(value, np.ndarray) and value.dtype == np.uint8:
            if kind == 0:
                value = value[:: -1 - self.draw(2)]
            elif kind == 1:
                value = value[self.draw(12) :]
            elif value.strides[0] > 0 and value.flags.writeable and value.size:
                start = self.draw(value.size)
                value = value[start : start + 1 + self.draw(value.size)]
                own = self.spanned_by(value, own)
                value = torch.from_numpy(value)
        else:
            return
        self.nodes.append(Node(value, own, []))

    def spanned_by(self, arr: Any, own: set[tuple[int, int]]) -> set[tuple[int, int]]:
        """Of the bytes `own` of one storage, those between the first and last byte of `arr`."""
        root = arr
        while isinstance(root.base, np.ndarray):
            root = root.base
        base: Any = root.base
        if isinstance(base, torch.Tensor):
            origin = base.untyped_storage().data_ptr()
        elif base is None:
            origin = root.ctypes.data
        else:
            origin = np.frombuffer(memoryview(base).obj, np.uint8).ctypes.data  # type: ignore[arg-type]
        first = arr.ctypes.data - origin + min(offset for _, offset in own)
        last = first + (arr.size - 1) * arr.strides[0]
        return {(storage, offset) for storage, offset in own if first <= offset <= last}

    def add_container(self) -> None:
        children = [self.pick() for _ in range(self.draw(4))]
        values = [child.value for child in children]
        own: set[tuple[int, int]] = set()
        kind = self.draw(10)
        value: Any
        if kind == 0:
            value = values
        elif kind == 1:
            value = tuple(values)
        elif kind == 2:
            value = dict(enumerate(values))
        elif kind == 3:
            value = {Defined(v): k for k, v in enumerate(values)}
        elif kind == 4:
            value = deque(values)
        elif kind == 5:
            value = {SlotsBase(v) for v in values}
        elif kind == 6:
            value = Data(values, frozenset(Defined(v) for v in values))
        elif kind == 7:
            value = types.SimpleNamespace(**{f"a{k}": v for k, v in enumerate(values)})
        elif kind == 8:
            value = SlotsAndDict(values)
        else:
            value = np.empty(len(values), object)
            for k, v in enumerate(values):
                value[k] = v
            own = self.storage(len(values) * POINTER)
        self.nodes.append(Node(value, own, children))

    def add_edge(self) -> None:
        """From any container to any node: cycles."""
        node, child = self.pick(), self.pick()
        value = node.value
        if isinstance(value, list | deque):
            value.append(child.value)
        elif isinstance(value, dict):
            value[len(value)] = child.value
        elif isinstance(value, set):
            value.add(SlotsBase(child.value))
        elif isinstance(value, types.SimpleNamespace | SlotsAndDict | torch.Tensor):
            setattr(value, f"a{self.draw(1000)}_{id(child)}", child.value)
        elif isinstance(value, np.ndarray) and value.dtype == object and value.size:
            value.fill(child.value)
            node.edges[:] = []
        else:
            return
        node.edges.append(child)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    random = draw(st.randoms(use_true_random=False))
    graph = Graph(random.randrange)
    graph.add_owner()
    steps = [graph.add_owner, graph.add_alias, graph.add_alias, graph.add_container, graph.add_edge]
    for step in draw(st.lists(st.sampled_from(range(5)), min_size=1, max_size=40)):
        steps[step]()
    return graph


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(), st.randoms(use_true_random=False))
def test_any_graph_is_counted_to_the_byte(graph: Graph, random: Any) -> None:
    """However storages are aliased, wrapped and tied in circles, in any order, the error is 0."""
    everything = set().union(*(node.held() for node in graph.nodes))
    for node in graph.nodes:
        assert cpu(node.value) == len(node.held())
    nodes = list(graph.nodes)
    for _ in range(3):
        random.shuffle(nodes)
        assert cpu([node.value for node in nodes]) == len(everything)
        seen, met = SeenStorages(), set[tuple[int, int]]()
        for node in nodes:
            new = node.held() - met
            assert cpu(node.value, seen) == len(new)
            met |= new


# --- while others write -----------------------------------------------------------------------


def test_counting_while_another_thread_changes_the_containers() -> None:
    """Neither thread fails, what stays is always counted, and never more than there ever was."""
    stays, comes = u8(1000), [u8(10) for _ in range(8)]
    lists: list[Any] = [stays]
    dicts: dict[Any, Any] = {"stays": stays}
    queue: deque[Any] = deque(maxlen=5)
    sets: set[Any] = set()
    namespace = types.SimpleNamespace()
    data = bytearray()
    value = {"l": lists, "d": dicts, "q": queue, "s": sets, "n": namespace, "b": data}
    stop = threading.Event()
    failures: list[BaseException] = []

    def change() -> None:
        step = 0
        try:
            while not stop.is_set():
                step += 1
                item = comes[step % 8]
                lists.append(item)
                dicts[step % 50] = item
                dicts.pop((step * 7) % 50, None)
                queue.append([item])
                sets.add(item)
                setattr(namespace, f"a{step % 30}", item)
                data.extend(b"12345")
                if step % 13 == 0:
                    del lists[1:]
                    sets.clear()
                    vars(namespace).clear()
                    del data[:]
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=change)
    thread.start()
    try:
        counts = 0
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            counts += 1
            assert 1000 <= cpu(value) <= 1000 + 80 + 13 * 5
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert not failures
    assert counts > 10
