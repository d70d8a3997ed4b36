"""The models of this project as a simulation sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from statekit.declared import by_device, session_at_step
from statekit.pressure.promise import promise
from statekit.simulation.kind import Kind
from statekit.simulation.shape import TIERS
from statekit.spec import ModelSpec
from statekit_codegen.load import load_models
from statekit_codegen.project import Project
from tests.simulation.twins import LARGE, LOSABLE, SMALL

ROOT = Path(__file__).parents[2]
DEVICE = "cuda:0"
SPECS = [model.spec for model in load_models(Project.find(ROOT), ())] + [LARGE, SMALL, LOSABLE]


def kind(spec: ModelSpec, *, parking: bool = True) -> Kind:
    """The model with every device that it needs."""
    values = session_at_step(spec, None, model_device=DEVICE)
    devices = dict.fromkeys([DEVICE, "cpu", "disk", *(one.device for one in values)])
    devices.pop("none", None)
    return Kind(spec, tuple(devices), DEVICE, TIERS if parking else {})


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.model)
@pytest.mark.parametrize("parking", [True, False], ids=["parking", "no parking"])
def test_admission_when_a_session_begins_then_is_promised_what_a_manager_promises(
    spec: ModelSpec, parking: bool
) -> None:
    """What is declared, and what of it a session keeps while nobody uses it."""
    found = kind(spec, parking=parking)
    expected = promise(spec, DEVICE, None, TIERS if parking else {})
    assert found.declared == expected.by_device
    assert found.staying == found.vector(expected.staying)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.model)
@pytest.mark.parametrize("step", [1, 2, 3, 50])
def test_bytes_when_a_step_has_ended_then_are_those_that_the_schema_declares(
    spec: ModelSpec, step: int
) -> None:
    """Value by value: units and rest together are the session, and no unit is empty."""
    found = kind(spec)
    whole = by_device(session_at_step(spec, step, model_device=DEVICE))
    assert found.picture(step).whole.held_nbytes == sum(whole.values())
    rest, units = found.split(step)
    for device, nbytes in whole.items():
        held = rest.get(device, 0) + sum(unit.get(device, 0) for unit in units)
        assert held == nbytes
    assert all(nbytes >= 0 for nbytes in rest.values())
    assert len(units) == len(found.units)


def test_simulation_when_torch_cannot_be_imported_then_still_runs() -> None:
    """Whoever plans a service needs no torch for it."""
    script = (
        "import sys; sys.modules['torch'] = None\n"
        "from statekit_codegen.cli import main\n"
        "args = 'simulate --replicas 1 --sessions 5 --mix dreamzero=1'.split()\n"
        "sys.exit(main(args, sys.stdout, sys.stderr))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
