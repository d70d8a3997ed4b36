"""The pytest plugin: what its fixtures give, and that it costs nothing where nobody asks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
import torch

from statekit.manager import SessionStateManager
from statekit.spec import Park
from statekit.testing import FakeDevice, FrozenClock
from tests.testing.toys import Toy

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]

SCHEMA_CLASS = """
import pytest
import torch
from statekit.testing import assert_equivalent, record, state_machine
from tests.testing.toys import HandRolled, Toy, run, toy

TestToy = state_machine(Toy, HandRolled, resets={"window": "reset"}).TestCase


def test_equivalent():
    recorder = record(HandRolled())
    run(recorder)
    print(assert_equivalent(HandRolled, toy(), recorder.trace))


def test_not_equivalent():
    class Wrong(Toy):
        def newest(self):
            newest = super().newest()
            return None if newest is None else newest.neg()

    recorder = record(HandRolled())
    run(recorder)
    assert_equivalent(HandRolled, toy(Wrong), recorder.trace)


def test_idle_sessions(statekit_manager, statekit_clock):
    with statekit_manager.lease("s", begin=Toy.SPEC):
        pass
    assert statekit_manager.stats()["sessions"] == 1


@pytest.mark.statekit_manager(max_sessions=2, idle_timeout_s=60)
def test_settings(statekit_manager, statekit_clock):
    assert statekit_manager.max_sessions == 2
    with statekit_manager.lease("s", begin=Toy.SPEC):
        pass
    statekit_clock.advance(59)
    assert statekit_manager.expire() == ()
    statekit_clock.advance(2)
    assert statekit_manager.expire() == ("s",)


def test_leak(statekit_manager):
    lease = statekit_manager.lease("s", begin=Toy.SPEC)
    lease.begin()
    pytest.lease = lease


def test_faults(statekit_manager, statekit_faults):
    state = Toy("s", statekit_manager)

    def forward():
        with state.step():
            state.push(torch.ones(4, 8))
            state.count += 1

    assert statekit_faults.everywhere(forward, state) > 5
    assert state.count == 1
"""


def test_plugin_when_used_in_a_repository_then_passes_and_fails_as_it_should(
    pytester: pytest.Pytester,
) -> None:
    """A user's repository: state machine, equivalence, fixtures; a leak and a difference fail."""
    pytester.makepyfile(SCHEMA_CLASS)
    root = str(Path(__file__).parents[2])
    arguments = ["-p", "no:cacheprovider", "--strict-markers", "-W", "error"]
    pytester.syspathinsert(root)
    result = pytester.runpytest_subprocess(*arguments)
    result.assert_outcomes(passed=6, failed=1, errors=1)
    result.stdout.fnmatch_lines([
        "E*EquivalenceError: not equivalent at step 1, call 12 (newest())",
        "E*hand-rolled *0x*",
        "E*adapter *0x*",
    ])  # fmt: skip
    result.stdout.fnmatch_lines(["*1 leases were left open; end each, or use a `with` block*"])


def test_plugin_when_loaded_then_imports_neither_torch_nor_the_runtime() -> None:
    """A test run that asks for no fixture of statekit does not pay for statekit."""
    code = (
        "import sys, pytest; before = set(sys.modules); import statekit.testing.plugin\n"
        "new = set(sys.modules) - before\n"
        "assert not any(name.partition('.')[0] in ('torch', 'numpy', 'attrs', 'attr', 'hypothesis')"
        " for name in new), new\n"
        "print(sorted(name for name in new if name.startswith('statekit')))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    own = ["statekit", "statekit._version", "statekit.testing", "statekit.testing.plugin"]
    assert done.stdout.strip() == repr(own)


@pytest.mark.parametrize("missing", ["pytest", "hypothesis"])
def test_kit_when_an_extra_is_missing_then_the_rest_is_there(missing: str) -> None:
    """Traces, comparisons and faults need neither pytest nor Hypothesis."""
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "import statekit.testing as kit\n"
        "kit.record; kit.assert_equivalent; kit.Trace; kit.Faults; kit.FakeDevice; kit.park_now\n"
    )
    if missing == "hypothesis":
        code += "try:\n    kit.state_machine\nexcept ImportError as error:\n    print(error)\n"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert missing == "pytest" or "hypothesis" in done.stdout


def test_runtime_when_imported_then_without_the_kit() -> None:
    """A server that serves loads nothing of the testing kit."""
    root = Path(__file__).parents[2]
    for path in (root / "statekit").rglob("*.py"):
        if "testing" not in path.parts:
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"^\s*(from|import) statekit\.testing", text, re.M), path


def test_clock_when_advanced_then_stands_there() -> None:
    """Time passes when it is told to, and never backwards."""
    clock = FrozenClock(5)
    assert (clock(), clock.now, clock.advance(2.5), clock()) == (5, 5, 7.5, 7.5)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1)


def test_fake_device_when_on_then_torch_memory_counts_as_the_accelerator_s() -> None:
    """Budgets of `cuda:0` work on a machine without one: over it, values go to host memory."""
    park = attrs.evolve(Toy.SPEC["cache"], park=Park(("host",)))
    values = [park if one.name == "cache" else one for one in Toy.SPEC]
    spec = attrs.evolve(Toy.SPEC, values=tuple(values), symbols={"H": 4, "W": 8})
    with FakeDevice() as device:
        manager = device.manager(8192)
        with manager.lease("s", begin=spec):
            state = Toy("s", manager)
            state.cache = [torch.ones(1000), None]
            state.remember(torch.ones(2, 4))  # history is declared to lie in host memory
            assert manager.nbytes_by_device() == {"cuda:0": 4032, "cpu": 32}
        with manager.lease("other", begin=spec):
            other = Toy("other", manager)
            other.cache = [torch.ones(1500), None]
        stats = manager.stats()
        assert stats["nbytes:cuda:0"] <= 8192
        assert stats["parked_nbytes:host"] > 0
        assert len(device.engine.copies) == 1
        assert state.cache[0].equal(torch.ones(1000))
        manager.close()
    manager = SessionStateManager()
    state = Toy("s", manager)
    state.cache = [torch.ones(1000), None]
    assert manager.nbytes_by_device() == {"cpu": 4000}
