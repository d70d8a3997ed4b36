"""Nearness: which keys are nearest to a query, best first.

Owns the metrics and the order; holds nothing. Computed in float32, or in float64 where float32 has
not all numbers of the keys' or the query's type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import torch

from statekit.errors import PayloadError
from statekit.spec import Metric

__all__ = ["METRICS", "Found", "ScoreFunction", "best"]

ScoreFunction = Callable[[torch.Tensor, Any], torch.Tensor]
"""Scores [N] of keys [N, ...] for a query; the higher, the nearer."""


@attrs.frozen
class Found:
    """One of the keys that were compared: its index, and how near it is."""

    index: int
    score: float


def best(
    keys: Sequence[torch.Tensor],
    query: Any,
    count: int,
    metric: Metric,
    score: ScoreFunction | None,
) -> list[Found]:
    """The `count` nearest keys, the nearest first; of equally near ones the last comes first.

    A score that is no number (NaN) is farther than all others.

    Args:
        metric: `euclidean` (minus the distance), `cosine` (0 where either is all zeros) or `dot`,
            each over all elements of a key; asked where there is no `score`.
        score: what says how near, in place of the metric.

    Raises:
        PayloadError: the query is not like the keys, or `score` does not return one for each key.
    """
    if not keys or not count:
        return []
    stacked = torch.stack(list(keys))
    if score is None:
        found = METRICS[metric](*_comparable(stacked, query))
    else:
        found = score(stacked, query)
        if not isinstance(found, torch.Tensor) or tuple(found.shape) != (len(keys),):
            what = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
            todo = f"return one score for each key, a tensor of shape ({len(keys)},)"
            raise PayloadError("RetrievalStore.nearest, score", f"it returned {what}", todo)
    scores = found.detach().cpu()
    ranks = scores.double().nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    newest_first = ranks.flip(0).argsort(descending=True, stable=True)[:count]
    order = [len(keys) - 1 - index for index in newest_first.tolist()]
    return [Found(index, float(scores[index])) for index in order]


def _comparable(keys: torch.Tensor, query: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys [N, D] and the query [D], of one dtype, on the keys' device."""
    shape = tuple(keys.shape[1:])
    if not isinstance(query, torch.Tensor) or tuple(query.shape) != shape:
        found = tuple(query.shape) if isinstance(query, torch.Tensor) else type(query).__name__
        todo = f"pass a tensor of shape {shape} as the keys have, or a score function"
        raise PayloadError("RetrievalStore.nearest", f"the query is {found}", todo)
    dtype = torch.float64 if _is_wide(keys.dtype) or _is_wide(query.dtype) else torch.float32
    flat = keys.detach().reshape(len(keys), -1).to(dtype)
    return flat, query.detach().reshape(-1).to(keys.device, dtype)


def _is_wide(dtype: torch.dtype) -> bool:
    """Whether float32 lacks some of its numbers."""
    return dtype.itemsize > (4 if dtype.is_floating_point else 2)


def _euclidean(keys: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return -(keys - query).square().sum(1).sqrt()


def _dot(keys: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return (keys * query).sum(1)


def _cosine(keys: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    lengths = keys.norm(dim=1) * query.norm()
    return torch.where(lengths > 0, _dot(keys, query) / lengths, torch.zeros_like(lengths))


METRICS: dict[Metric, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "euclidean": _euclidean,
    "cosine": _cosine,
    "dot": _dot,
}
