"""statekit.testing: prove that an adapter does what the hand-rolled class did, bit for bit.

    recorder, trace     a run of the hand-rolled class, as data;  copies, fields: how it is copied
    equivalence         the same run on both;  side_by_side, replay, comparison, elements, sharing,
                        report, shown, verdict: how it is compared and told
    machine, rules      any run, from the schema;  drawing, payloads, slots, writes, plain: of what
    plugin              fixtures: clock, faults, fake_device;  held, parking: what tests ask for

Nothing in statekit outside this package imports it. Names are imported on first use, so that the
pytest plugin costs a test run nothing that does not use it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statekit.errors import EquivalenceError as EquivalenceError
    from statekit.testing.clock import FrozenClock as FrozenClock
    from statekit.testing.comparison import Comparison as Comparison
    from statekit.testing.comparison import Difference as Difference
    from statekit.testing.comparison import assert_same_bits as assert_same_bits
    from statekit.testing.comparison import compare as compare
    from statekit.testing.elements import to_bytes as to_bytes
    from statekit.testing.equivalence import assert_equivalent as assert_equivalent
    from statekit.testing.fake_device import FakeDevice as FakeDevice
    from statekit.testing.faults import FaultError as FaultError
    from statekit.testing.faults import Faults as Faults
    from statekit.testing.held import Held as Held
    from statekit.testing.held import assert_unchanged as assert_unchanged
    from statekit.testing.held import holding as holding
    from statekit.testing.held import unchanged as unchanged
    from statekit.testing.machine import StateMachine as StateMachine
    from statekit.testing.machine import state_machine as state_machine
    from statekit.testing.parking import park_everything as park_everything
    from statekit.testing.parking import park_now as park_now
    from statekit.testing.recorder import Recorder as Recorder
    from statekit.testing.recorder import record as record
    from statekit.testing.trace import Call as Call
    from statekit.testing.trace import Trace as Trace
    from statekit.testing.verdict import Equivalence as Equivalence

_PLACES = {
    "Call": "testing.trace",
    "Comparison": "testing.comparison",
    "Difference": "testing.comparison",
    "Equivalence": "testing.verdict",
    "EquivalenceError": "errors",
    "FakeDevice": "testing.fake_device",
    "FaultError": "testing.faults",
    "Faults": "testing.faults",
    "FrozenClock": "testing.clock",
    "Held": "testing.held",
    "Recorder": "testing.recorder",
    "Trace": "testing.trace",
    "StateMachine": "testing.machine",
    "assert_equivalent": "testing.equivalence",
    "assert_same_bits": "testing.comparison",
    "assert_unchanged": "testing.held",
    "compare": "testing.comparison",
    "holding": "testing.held",
    "park_everything": "testing.parking",
    "park_now": "testing.parking",
    "record": "testing.recorder",
    "state_machine": "testing.machine",
    "to_bytes": "testing.elements",
    "unchanged": "testing.held",
}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'statekit.testing' has no attribute {name!r}")
    value = getattr(import_module(f"statekit.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
