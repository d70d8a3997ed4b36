"""Variant: models with the numbers of one of their named deployments.

Owns the choice: a model that has no such variant keeps its own numbers, and one that is in none of
the models is an error.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from statekit.errors import GenerateError
from statekit_codegen.fault import closest, listed
from statekit_codegen.model import Model

__all__ = ["in_variant", "require_variant"]


def in_variant(model: Model, name: str | None) -> Model:
    """`model` with the numbers of its variant `name`; as it is where it has none of that name."""
    if name is None or name not in model.spec.variants:
        return model
    symbols = {**model.spec.symbols, **model.spec.variants[name]}
    return attrs.evolve(model, spec=attrs.evolve(model.spec, symbols=symbols), variant=name)


def require_variant(models: Iterable[Model], name: str | None) -> None:
    """Refuse a variant that is in none of `models`.

    Raises:
        GenerateError: with the variants that there are.
    """
    known = sorted({one for model in models for one in model.spec.variants})
    if name is not None and name not in known:
        todo = f"{closest(name, known)}variants here: {listed(known)}"
        raise GenerateError("--variant", f"no schema has a variant {name!r}", todo)
