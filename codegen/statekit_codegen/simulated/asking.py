"""Asking: from what a command line says to a report, and a report into files.

Owns which models fit, what a report says of how it was made, and the word on how far it is. Imports
numpy: not for the command line's own start.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs

from statekit.errors import BudgetTooSmallError, GenerateError
from statekit.simulation.kind import Kind
from statekit.simulation.run import POLICIES, Deployment, PolicyName, between_us, simulate
from statekit.simulation.workload import Workload
from statekit.spec import ModelSpec
from statekit_codegen.simulated.page import table
from statekit_codegen.simulated.report import Report, Run, to_json
from statekit_codegen.simulated.svg import over, sessions

__all__ = ["Asked", "fitting", "require_room", "run", "write"]


@attrs.frozen
class Asked:
    """What is asked for.

    Attributes:
        parts: sessions of each model, in proportion.
        count: how many sessions come.
        usual: budgets that a command need not name.
    """

    deployment: Deployment
    parts: Mapping[str, int]
    count: int
    seed: int
    loads: tuple[float, ...]
    policies: tuple[PolicyName, ...]
    usual: Mapping[str, int]


def fitting(deployment: Deployment, specs: Mapping[str, ModelSpec]) -> dict[str, int]:
    """One part of every model of which a session fits; a word about the others."""
    able = {name: _over(deployment, spec) is None for name, spec in specs.items()}
    if not all(able.values()) and any(able.values()):
        names = ", ".join(name for name, fits in able.items() if not fits)
        print(f"statekit simulate: left out, one session is too large: {names}", file=sys.stderr)
    return dict.fromkeys([name for name, fits in able.items() if fits] or specs, 1)


def require_room(deployment: Deployment, specs: Sequence[ModelSpec]) -> None:
    """Refuse budgets that cannot hold one session, and models that hold nothing to share them for.

    Raises:
        BudgetTooSmallError: with the figure.
        GenerateError: no model declares bytes on the model's device.
    """
    for spec in specs:
        over = _over(deployment, spec)
        if over is not None:
            device, nbytes = over
            raise BudgetTooSmallError(device, spec.model, nbytes, deployment.budgets[device])
    device = deployment.model_device
    if not any(_declared(deployment, spec).get(device) for spec in specs):
        found = f"no model declares bytes on {device}, which load is measured on"
        raise GenerateError("--load", found, "name a model that holds something there")


def _over(deployment: Deployment, spec: ModelSpec) -> tuple[str, int] | None:
    """The first device whose budget is too small for one session, and what it declares there."""
    for device, nbytes in sorted(_declared(deployment, spec).items()):
        if nbytes > deployment.budgets.get(device, nbytes):
            return device, nbytes
    return None


def _declared(deployment: Deployment, spec: ModelSpec) -> Mapping[str, int]:
    return Kind(spec, (), deployment.model_device, {}).declared


def run(asked: Asked, specs: Sequence[ModelSpec]) -> Report:
    """Each policy at each load; `specs` are the models in the order of the parts."""
    deployment = asked.deployment
    workload = Workload(asked.count, tuple(asked.parts.values()), 1.0, asked.seed)
    runs = []
    for load in asked.loads:
        spacing = between_us(deployment, specs, workload, load)
        workload = attrs.evolve(workload, between_us=spacing)
        for policy in asked.policies:
            tell = _progress(f"load {load:g}, {policy}", asked.count)
            runs.append(Run(load, simulate(policy, deployment, specs, workload, tell)))
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    rates = deployment.bandwidths
    return Report(
        command=_command(asked),
        replicas=deployment.replicas,
        sessions=asked.count,
        seed=asked.seed,
        parts=dict(asked.parts),
        declared={spec.model: dict(_declared(deployment, spec)) for spec in specs},
        budgets=dict(deployment.budgets),
        model_device=deployment.model_device,
        max_sessions=deployment.max_sessions,
        drains=deployment.drains,
        steps=workload.steps,
        step_us=workload.step_us,
        pause_chance=workload.pause_chance,
        pause_us=workload.pause_us,
        bandwidths={"host": rates.host, "disk": rates.disk, "network": rates.network},
        runs=tuple(runs),
    )


def _command(asked: Asked) -> str:
    """How to make the report again, with everything that is not the default."""
    deployment = asked.deployment
    words = ["statekit simulate", f"--replicas {deployment.replicas}", f"--sessions {asked.count}"]
    words += [f"--seed {asked.seed}"] if asked.seed else []
    words.append("--mix " + ",".join(f"{name}={count}" for name, count in asked.parts.items()))
    words.append("--load " + ",".join(f"{load:g}" for load in asked.loads))
    words += [] if asked.policies == POLICIES else [f"--policy {','.join(asked.policies)}"]
    words += [
        f"--budget {device}={nbytes}"
        for device, nbytes in deployment.budgets.items()
        if asked.usual.get(device) != nbytes
    ]
    words += [f"--drains {deployment.drains}"] if deployment.drains else []
    return " ".join(words)


def _progress(title: str, sessions: int) -> Callable[[int], None] | None:
    """What tells a person how far it is; nothing in a pipe."""
    if not sys.stderr.isatty():
        return None

    def tell(arrived: int) -> None:
        said = f"{title}: {arrived:,} of {sessions:,} sessions"
        print(f"\r\x1b[K{said}", end="", file=sys.stderr, flush=True)

    return tell


def write(report: Report, folder: Path) -> None:
    """The report and its drawings.

    Raises:
        GenerateError: a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (
            ("report.json", to_json(report) + "\n"),
            ("table.md", table(report)),
            ("sessions.svg", sessions(report)),
            ("over.svg", over(report)),
        ):
            (folder / name).write_bytes(text.encode())
    except OSError as error:
        found = f"cannot be written: {error.strerror or error}"
        raise GenerateError(f"--out {folder}", found, "name a folder that you may write") from None
