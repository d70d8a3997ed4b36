"""Session: every value of one session with its declared bytes, for the commands that show them.

Owns what a command line adds to `statekit.declared`: numbers in place of the schema's own are
within their bounds, and an error names its place in the schema.
"""

from __future__ import annotations

from collections.abc import Mapping

from statekit.declared import ONE_RANK, Ranks, ValueBytes, declared_bytes, session_at_step
from statekit.errors import ExpressionError, GenerateError
from statekit.spec import ModelSpec, ValueSpec

__all__ = ["chosen_numbers", "declared_session"]


def chosen_numbers(spec: ModelSpec, file: str, given: Mapping[str, int]) -> dict[str, int]:
    """Those of the numbers `given` that the schema has; the others are another schema's.

    Raises:
        GenerateError: a parameter is out of its bounds.
    """
    known = spec.environment()
    chosen = {name: number for name, number in given.items() if name in known}
    for name, parameter in spec.parameters.items():
        number = chosen.get(name, parameter.default)
        least, most = parameter.minimum, parameter.maximum
        if (least is not None and number < least) or (most is not None and number > most):
            bounds = f"at least {least}" if most is None else f"at most {most}"
            if least is not None and most is not None:
                bounds = f"from {least} to {most}"
            raise GenerateError(f"{file}: {name}", f"{number} is out of bounds", f"use {bounds}")
    return chosen


def declared_session(
    spec: ModelSpec,
    file: str,
    numbers: Mapping[str, int],
    step: int | None,
    *,
    model_device: str = "model",
    ranks: Ranks = ONE_RANK,
) -> tuple[ValueBytes, ...]:
    """Every value of one session, as `statekit.declared.session_at_step` has them.

    Raises:
        GenerateError: a size has no value under the numbers.
    """
    try:
        return session_at_step(spec, step, numbers, model_device=model_device, ranks=ranks)
    except ExpressionError as error:
        name = next((value.name for value in spec if not _has_size(spec, value, numbers)), "values")
        raise GenerateError(f"{file}: {name}", error.found, error.todo) from error


def _has_size(spec: ModelSpec, value: ValueSpec, numbers: Mapping[str, int]) -> bool:
    try:
        declared_bytes(spec, value, numbers)
    except ExpressionError:
        return False
    return True
