"""The rules of `statekit vet`: opinions on schemas that load and check.

Owns the table of rules and their run. An id is never used again for another rule; a rule finds
each fault once. What makes a schema unusable is no opinion: see `load.LOAD_RULES` and
`check.CHECKS`.
"""

from __future__ import annotations

from statekit.errors import Problem
from statekit_codegen.model import Model
from statekit_codegen.rules import decision, kind, memory, operation, rebuild, reset, text

__all__ = ["RULES", "vet"]

RULES = (
    decision.decision_missing,
    decision.decision_operations,
    decision.decision_why,
    decision.bucket_state_object,
    decision.bucket_attrs,
    decision.attrs_on_commit,
    operation.operation_accumulate,
    operation.operation_source,
    operation.park_tiers,
    operation.park_host,
    operation.on_commit_move,
    operation.on_commit_tensor,
    operation.update_once,
    operation.update_type,
    kind.store_bound,
    kind.store_entry,
    kind.codec_smaller,
    kind.lifetime_operations,
    reset.value_never_cleared,
    reset.reset_empty,
    reset.atomic_torn,
    reset.atomic_members,
    reset.atomic_release,
    kind.atomic_lifetime,
    rebuild.rebuild_unknown,
    rebuild.rebuild_cycle,
    rebuild.rebuild_kept,
    memory.bytes_unknown,
    memory.device_none,
    memory.measured_bytes,
    memory.sharding_dim,
    memory.ring_reason,
    memory.growth_rate,
    memory.parameter_minimum,
    text.value_doc,
    text.reset_doc,
    text.text_empty,
    text.open_question,
    text.name_unused,
    text.outside_value,
)
"""Every rule, by subject; `docs/rules.md` lists them in this order."""


def vet(model: Model) -> list[Problem]:
    """What breaks a rule in `model`, sorted by place."""
    problem = model.loaded.positions.problem
    return sorted(
        problem(finding.path, rule.id, finding.found, finding.todo)
        for rule in RULES
        for finding in rule.find(model)
    )
