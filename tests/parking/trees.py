"""Trees of values for tests: made at random, and compared bit for bit with what came back.

The comparison knows nothing of images: it walks both trees side by side and compares what a reader
can ask of each object, which objects are one, and which memory is shared.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

TENSOR_DTYPES = [
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.int8,
    torch.uint8,
    torch.int64,
    torch.bool,
    torch.complex64,
    torch.complex128,
]
ARRAY_DTYPES: list[Any] = [
    "<f4",
    ">i2",
    "?",
    "<c16",
    "<U3",
    "S5",
    "<M8[ns]",
    [("a", "<i2"), ("b", "<f8", (2,))],
    {"names": ["x", "y"], "formats": ["<i4", "u1"], "offsets": [8, 0], "itemsize": 16},
]


def address(view: torch.Tensor | np.ndarray[Any, Any]) -> int:
    """Where the first element lies."""
    if isinstance(view, torch.Tensor):
        start = view.untyped_storage().data_ptr()
        return start + view.storage_offset() * view.element_size()
    return int(view.__array_interface__["data"][0])


def raw(tensor: torch.Tensor) -> list[int]:
    """The bytes of the elements, without the lazy conjugate and negative bits."""
    tensor = tensor.detach()
    if tensor.is_conj():
        tensor = tensor.conj()
    if tensor.is_neg():
        tensor = torch._neg_view(tensor)
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1))
    return flat.view(torch.uint8).tolist() if tensor.numel() else []


def assert_same(before: Any, after: Any) -> None:
    """Fail unless `after` is `before` bit for bit, in other memory."""
    pairs: dict[int, tuple[Any, Any]] = {}
    todo = [(before, after)]
    views: list[tuple[Any, Any]] = []
    while todo:
        old, new = todo.pop()
        assert type(old) is type(new)
        if id(old) in pairs:
            if isinstance(old, torch.Tensor | np.ndarray | list | dict | set | deque):
                assert pairs[id(old)][1] is new
            continue
        pairs[id(old)] = (old, new)
        if isinstance(old, torch.Tensor):
            _assert_same_tensor(old, new)
            views.append((old, new))
        elif isinstance(old, np.ndarray):
            _assert_same_array(old, new)
            views.append((old, new))
        elif isinstance(old, torch.Size):
            assert old == new
        elif isinstance(old, list | tuple | deque):
            assert len(old) == len(new)
            assert getattr(old, "maxlen", None) == getattr(new, "maxlen", None)
            todo += zip(old, new, strict=True)
        elif isinstance(old, dict):
            assert len(old) == len(new)
            todo += zip(old, new, strict=True)
            todo += zip(old.values(), new.values(), strict=True)
        elif isinstance(old, set | frozenset):
            assert old == new
        elif isinstance(old, float | complex | np.generic):
            assert np.asarray(old).tobytes() == np.asarray(new).tobytes()
        else:
            assert old == new
    identities = [id(new) for old, new in pairs.values() if isinstance(old, list | torch.Tensor)]
    assert len(identities) == len(set(identities)), "two objects came back as one"
    _assert_same_sharing([(old, new) for old, new in views if _nbytes(old)])


def _nbytes(view: Any) -> int:
    return int(view.nbytes)


def _assert_same_tensor(old: torch.Tensor, new: torch.Tensor) -> None:
    for ask in (
        lambda t: t.dtype,
        lambda t: t.shape,
        lambda t: t.stride(),
        lambda t: t.storage_offset(),
        lambda t: t.untyped_storage().nbytes(),
        lambda t: t.device,
        lambda t: t.requires_grad,
        lambda t: t.is_conj(),
        lambda t: t.is_neg(),
        lambda t: t.is_inference(),
        lambda t: t.is_leaf,
        raw,
    ):
        assert ask(old) == ask(new)


def _assert_same_array(old: Any, new: Any) -> None:
    for ask in (
        lambda a: a.dtype,
        lambda a: a.shape,
        lambda a: a.strides,
        lambda a: a.flags.writeable,
        lambda a: a.view(f"V{a.itemsize}").tobytes(),  # a record's padding too
    ):
        assert ask(old) == ask(new)


def _span(view: Any) -> tuple[int, int]:
    first = last = address(view)
    array = isinstance(view, np.ndarray)
    size = view.itemsize if array else view.element_size()
    steps = view.strides if array else [step * size for step in view.stride()]
    for length, step in zip(view.shape, steps, strict=True):
        first += min(0, (length - 1) * step)
        last += max(0, (length - 1) * step)
    return first, last + size


def _assert_same_sharing(views: list[tuple[Any, Any]]) -> None:
    """Views that overlap lie at the same distance again; others do not overlap now either."""
    for i, (old_a, new_a) in enumerate(views):
        for old_b, new_b in views[:i]:
            a, b, c, d = _span(old_a), _span(old_b), _span(new_a), _span(new_b)
            if max(a[0], b[0]) < min(a[1], b[1]):
                assert address(old_a) - address(old_b) == address(new_a) - address(new_b)
            else:
                assert max(c[0], d[0]) >= min(c[1], d[1])
        old_start, old_end = _span(old_a)
        new_start, new_end = _span(new_a)
        assert max(old_start, new_start) >= min(old_end, new_end), "still the original's memory"


@st.composite
def trees(draw: st.DrawFn) -> Any:
    """A tree over a few pieces of memory that its tensors and arrays share in all ways."""
    memory = [
        torch.tensor(list(draw(st.binary(min_size=128, max_size=128))), dtype=torch.uint8)
        for _ in range(draw(st.integers(1, 3)))
    ]
    made: list[Any] = []
    for _ in range(draw(st.integers(1, 12))):
        made.append(draw(_objects(memory, made)))
    root = [*made, draw(st.sampled_from(made))]
    if draw(st.booleans()):
        root.append(root)
    return root


@st.composite
def _objects(draw: st.DrawFn, memory: list[torch.Tensor], made: list[Any]) -> Any:
    kind = draw(st.sampled_from(["tensor", "tensor", "array", "array", "plain", "container"]))
    if kind == "tensor":
        return draw(_tensors(draw(st.sampled_from(memory))))
    if kind == "array":
        return draw(_arrays(draw(st.sampled_from(memory))))
    if kind == "plain" or not made:
        return draw(_PLAIN)
    parts = draw(st.lists(st.sampled_from(made), max_size=4))
    container = draw(st.sampled_from([list, tuple, dict, OrderedDict, deque]))
    if container in (dict, OrderedDict):
        keys = draw(st.lists(_KEYS, min_size=len(parts), max_size=len(parts), unique=True))
        return container(zip(keys, parts, strict=True))
    return container(parts)


@st.composite
def _tensors(draw: st.DrawFn, memory: torch.Tensor) -> torch.Tensor:
    dtype = draw(st.sampled_from(TENSOR_DTYPES))
    skipped = draw(st.sampled_from([0, 0, 16, 48]))
    if skipped and draw(st.booleans()):  # a storage of its own over a part of the memory
        memory = torch.from_numpy(memory.numpy()[skipped:])
    flat = torch.empty(0, dtype=dtype).set_(memory.untyped_storage())
    shape = draw(st.sampled_from([(), (0,), (3,), (2, 3), (1, 0, 2), (2, 1, 2)]))
    strides = draw(st.tuples(*[st.integers(0, 1) for _ in shape]))
    offset = draw(st.integers(0, flat.numel() - 4))
    tensor = flat.as_strided(shape, strides, offset)
    with torch.inference_mode(draw(st.sampled_from([False, False, True]))):
        if torch.is_inference_mode_enabled():
            return torch.empty(0, dtype=dtype).set_(memory.untyped_storage(), 0, (2,), (1,))
    if dtype.is_complex and draw(st.booleans()):
        return tensor.conj().imag if draw(st.booleans()) else tensor.conj()
    if dtype.is_floating_point and draw(st.booleans()):
        return draw(st.sampled_from([torch.nn.Parameter, torch.Tensor.requires_grad_]))(tensor)
    return tensor


@st.composite
def _arrays(draw: st.DrawFn, memory: torch.Tensor) -> Any:
    dtype = np.dtype(draw(st.sampled_from(ARRAY_DTYPES)))
    if draw(st.booleans()):
        array = np.ones((2, 3), dtype, order=draw(st.sampled_from(["C", "F"])))
    else:
        buffer = memory.numpy()[draw(st.integers(0, 8)) :]
        array = np.ndarray((128 - 8) // dtype.itemsize // 2, dtype, buffer=buffer)
    array = array[tuple(slice(None, None, draw(st.sampled_from([1, -1, 2]))) for _ in array.shape)]
    if draw(st.booleans()):
        array.flags.writeable = False
    return array


_KEYS = st.one_of(
    st.text(max_size=3), st.integers(), st.binary(max_size=3), st.tuples(st.integers(), st.none())
)
_PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(st.characters(), max_size=5),
    st.binary(max_size=9),
    st.sampled_from([torch.Size([2, 3]), torch.bfloat16, torch.device("cuda:1")]),
    st.sampled_from([np.float32(-0.0), np.int64(3), np.datetime64("2020-01-01"), np.bool_(True)]),
    st.frozensets(st.integers(), max_size=3),
    st.sets(st.text(max_size=2), max_size=3),
)
