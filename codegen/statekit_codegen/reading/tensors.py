"""Tensors: what the factories and methods of torch and numpy say about dtype, shape and device."""

from __future__ import annotations

import ast
from typing import Any

import attrs

from statekit.declared import DTYPE_NBYTES
from statekit_codegen.reading.facts import NOTHING, UNKNOWN, Held
from statekit_codegen.reading.module import ModuleNames
from statekit_codegen.type_grammar import TypeExpr

__all__ = [
    "ARRAY_FACTORIES",
    "JOINS",
    "LIKE",
    "TENSOR",
    "TENSOR_FACTORIES",
    "factory",
    "tensor_method",
]

TENSOR = TypeExpr("torch.Tensor")
_ARRAY = TypeExpr("np.ndarray")
_SHAPED = ("zeros", "ones", "empty", "rand", "randn", "full")
_UNSHAPED = ("tensor", "as_tensor", "arange", "linspace", "eye", "from_numpy", "randint", "asarray")
TENSOR_FACTORIES = frozenset(f"torch.{name}" for name in (*_SHAPED, *_UNSHAPED, "rfft"))
ARRAY_FACTORIES = frozenset(
    f"numpy.{name}" for name in (*_SHAPED, "array", "asarray", "ascontiguousarray", "arange", "eye")
)
LIKE = frozenset(f"torch.{name}_like" for name in ("zeros", "ones", "empty", "rand", "randn"))
JOINS = frozenset(
    [
        *(f"torch.{name}" for name in ("cat", "concat", "concatenate", "stack", "hstack")),
        *(f"numpy.{name}" for name in ("concatenate", "stack", "append")),
    ]
)
_DTYPES = {"half": "float16", "float": "float32", "double": "float64", "long": "int64"}
_DTYPES |= {"int": "int32", "short": "int16", "bool_": "bool"}
_CASTS = {"half": "float16", "float": "float32", "double": "float64", "bfloat16": "bfloat16"}
_CASTS |= {"long": "int64", "byte": "uint8"}
_KEEP = ("detach", "cpu", "cuda", "to", "type", "contiguous", "clone", "copy", "pin_memory")
_OF_TENSORS = frozenset(
    ["detach", "cpu", "cuda", "contiguous", "pin_memory", "unsqueeze", "permute", *_CASTS]
)
_SAME_KIND = frozenset(
    [
        *("transpose", "reshape", "view", "squeeze", "flatten", "mean", "sum", "expand"),
        *("repeat", "unsqueeze", "permute", "astype", "roll", "narrow", "flip"),
    ]
)


def factory(node: ast.Call, name: str, module: ModuleNames) -> Held:
    """What `torch.zeros(1, 16, dtype=...)` and the like make."""
    library, _, kind = name.rpartition(".")
    arguments = {keyword.arg: keyword.value for keyword in node.keywords}
    of_torch = library == "torch"
    made = Held("", TENSOR if of_torch else _ARRAY, device=None if of_torch else "cpu")
    dtype = arguments.get("dtype")
    if dtype is None and not of_torch and kind in _SHAPED and len(node.args) > (kind == "full") + 1:
        dtype = node.args[-1]
    if dtype is not None:
        made = attrs.evolve(made, dtype=dtype_of(dtype, module))
    if kind in _SHAPED:
        made = _shaped(made, node, arguments.get("size", arguments.get("shape")), kind, module)
    if "device" in arguments:
        made = placed(made, arguments["device"], module)
    return made


def _shaped(
    made: Held, node: ast.Call, size: ast.expr | None, kind: str, module: ModuleNames
) -> Held:
    extents = [size] if size is not None else list(node.args)
    if kind == "full" or made.type == _ARRAY:
        extents = extents[:1]
    if len(extents) == 1 and isinstance(extents[0], (ast.Tuple, ast.List)):
        extents = list(extents[0].elts)
    texts = [_extent(extent, module) for extent in extents]
    if texts and all(text is not None for text in texts):
        return attrs.evolve(made, shape=tuple(text for text in texts if text is not None))
    return attrs.evolve(made, odd_shape=", ".join(ast.unparse(extent) for extent in extents)[:60])


def _extent(node: ast.expr, module: ModuleNames) -> str | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return str(node.value)
    number = module.number(node.id) if isinstance(node, ast.Name) else None
    return None if number is None else str(number)


def dtype_of(node: ast.expr, module: ModuleNames) -> str | None:
    """The element type that an expression names; None where it can't be told."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        name = node.value
    else:
        name = (module.full_name(node) or "").rpartition(".")[2]
        if not (module.full_name(node) or "").startswith(("torch.", "numpy.")):
            return None
    name = _DTYPES.get(name, name)
    return name if name in DTYPE_NBYTES else None


def placed(made: Held, device: ast.expr, module: ModuleNames) -> Held:
    """`made` on the device that an expression names."""
    if isinstance(device, ast.Call) and module.full_name(device.func) == "torch.device":
        device = device.args[0] if device.args else device
    named = device.value if isinstance(device, ast.Constant) else None
    if isinstance(named, str):
        return attrs.evolve(made, device="cpu" if named == "cpu:0" else named, odd_device=None)
    return attrs.evolve(made, device=None, odd_device=ast.unparse(device)[:60])


def tensor_method(node: ast.Call, method: str, base: Held, module: ModuleNames) -> Held:
    """What a method gives: of a tensor, or of what only tensors can."""
    is_tensor = base.type.head in ("torch.Tensor", "np.ndarray") or method in _OF_TENSORS
    if not is_tensor:
        return _of_container(method, base) or Held("")
    if base.type.head not in ("torch.Tensor", "np.ndarray"):
        base = attrs.evolve(base, type=TENSOR)
    if method == "numpy":
        return attrs.evolve(base, type=_ARRAY, device="cpu", default=NOTHING)
    if method in _CASTS:
        return attrs.evolve(base, dtype=_CASTS[method], default=NOTHING)
    if method in _KEEP:
        return _kept(node, method, base, module)
    if method in _SAME_KIND:
        return attrs.evolve(base, shape=None, of=None, default=NOTHING, parameter=None)
    if method in ("item", "tolist", "size", "dim", "numel", "any", "all"):
        return Held("")
    # `self.x.mul(2)` gives a tensor; what else a method of a tensor gives, nobody knows.
    return Held("", base.type if method.endswith("_") else UNKNOWN)


def _kept(node: ast.Call, method: str, base: Held, module: ModuleNames) -> Held:
    base = attrs.evolve(base, default=NOTHING)
    if method == "cpu":
        return _with_step(attrs.evolve(base, device="cpu", odd_device=None), "move")
    if method == "cuda":
        return attrs.evolve(base, device="cuda", odd_device=None)
    if method == "detach":
        return _with_step(base, "detach")
    if method == "to":
        return _moved(node, base, module)
    return base


def _moved(node: ast.Call, base: Held, module: ModuleNames) -> Held:
    for place in [*node.args, *(k.value for k in node.keywords if k.arg in ("device", "dtype"))]:
        dtype = dtype_of(place, module)
        if dtype is not None:
            base = attrs.evolve(base, dtype=dtype)
        elif not (isinstance(place, ast.Constant) and isinstance(place.value, bool)):
            base = placed(base, place, module)
            if base.device is not None:
                base = _with_step(base, "move")
    return base


def _with_step(base: Held, step: Any) -> Held:
    return base if step in base.steps else attrs.evolve(base, steps=(*base.steps, step))


def _of_container(method: str, base: Held) -> Held | None:
    arguments = base.type.arguments
    if method == "copy":
        return attrs.evolve(base, default=NOTHING)
    if method in ("get", "pop", "popleft", "setdefault") and arguments:
        return Held("", arguments[-1])
    if method in ("values", "keys") and base.type.head == "dict":
        return Held("", TypeExpr("list", (arguments[method == "values"],)))
    return None
