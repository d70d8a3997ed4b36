"""The runtime stands alone: it imports with nothing of the generator at hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in ROOT.glob("statekit/**/*.py")
)
RAY = [module for module in MODULES if module.partition("statekit.ray")[1]]
"""What needs Ray, which needs PyYAML and click."""
WITH_PYTEST = [f"statekit.testing.{name}" for name in ("drawing", "machine", "plugin", "rules")]
WITHOUT_TORCH = ["statekit", "statekit.declared", "statekit.errors", "statekit.expressions"]
WITHOUT_TORCH += ["statekit.evolution", "statekit.snapshot_file.head", "statekit.spec"]

_SCRIPT = """
import importlib, importlib.abc, sys
blocked = set(sys.argv[1].split(","))
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ImportError(f"{name} is blocked", name=name)
sys.meta_path.insert(0, Finder())
for module in sys.argv[2:]:
    try:
        importlib.import_module(module)
    except ImportError as error:
        sys.exit(f"{module}: {error}")
"""
_GENERATOR = ["cattrs", "click", "jinja2", "rich", "statekit_codegen", "tomli", "yaml"]


def _import(modules: list[str], blocked: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _SCRIPT, ",".join(blocked), *modules],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_runtime_when_the_generator_cannot_be_imported_then_every_module_still_can() -> None:
    """No module of statekit needs PyYAML, Jinja2, click or the generator to be imported."""
    assert "statekit.adapters.generated.dreamzero" in MODULES
    done = _import([module for module in MODULES if module not in RAY], _GENERATOR)
    assert (done.returncode, done.stderr) == (0, "")


def test_runtime_when_no_extra_is_installed_then_every_module_can_be_imported() -> None:
    """Ray is needed by statekit.ray alone, pytest and Hypothesis by a part of statekit.testing."""
    own = [module for module in MODULES if module not in {*RAY, *WITH_PYTEST}]
    done = _import(own, [*_GENERATOR, "hypothesis", "prometheus_client", "pytest", "ray"])
    assert (done.returncode, done.stderr) == (0, "")


def test_specs_when_torch_cannot_be_imported_then_can_still_be_read() -> None:
    """Tools that only read specs load neither torch nor numpy."""
    done = _import(WITHOUT_TORCH, [*_GENERATOR, "torch", "numpy"])
    assert (done.returncode, done.stderr) == (0, "")


def test_simulation_when_torch_cannot_be_imported_then_admits_all_the_same() -> None:
    """A simulation computes what a manager promises, on a machine without torch."""
    done = _import(["statekit.pressure.promise", "statekit.simulation.run"], ["torch"])
    assert (done.returncode, done.stderr) == (0, "")


def test_generator_when_torch_cannot_be_imported_then_still_runs() -> None:
    """A machine that only generates needs neither torch nor numpy."""
    done = _import(["statekit_codegen.cli"], ["torch", "numpy"])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("missing", ["click", "yaml", "jinja2", "cattrs", "rich"])
def test_console_script_when_the_extra_is_missing_then_says_which_and_exits_2(missing: str) -> None:
    """Without the generator's dependencies the command names one, and how to get them."""
    script = _SCRIPT + "\nfrom statekit_codegen.__main__ import run\nrun()"
    done = subprocess.run(
        [sys.executable, "-c", script, missing],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"statekit: {missing} is not installed; the command line needs the extra 'codegen': "
        "pip install 'statekit[codegen]'\n"
    )
