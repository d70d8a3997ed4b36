"""Measuring: what sessions really hold, step by step, and which declarations that contradicts.

    registry    the managers of the process
    recorder    looks at sessions after each step; visitor: at one; standing_in: for what it hooks
    looking     all that a session holds at one moment; facts: one value of it; part: one tensor
    log         the steps of one session, in bounded memory; curve: one number
    crowd       what all sessions hold together
    thinning    which session need not be told of
    recording   what was measured, as data; hardware: on what
    numbers     which numbers the schema's symbols have in a run
    findings    what a recording says against the declarations; against: for one value, by
                comparison; misshapen: for its shape
    child       a process that was told by its environment to record itself

Off by default, and then nothing but `registry` is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING
from weakref import ref

from statekit.measure.registry import listen, managers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from statekit.manager import SessionStateManager
    from statekit.measure.finding import Finding
    from statekit.measure.recorder import Recorder
    from statekit.measure.recording import Recording
    from statekit.spec import ModelSpec

__all__ = ["Measurement", "record"]


class Measurement:
    """A run that is being measured, or was."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @property
    def recording(self) -> Recording:
        """What has been measured until now."""
        return self._recorder.recording()

    def findings(
        self, specs: Iterable[ModelSpec] = (), numbers: Mapping[str, int] | None = None
    ) -> list[Finding]:
        """What the run says against the declarations.

        Args:
            specs: to compare with, in place of those that the adapters brought.
            numbers: for symbols, constants or parameters, in place of what the run shows.
        """
        from statekit.measure.findings import findings

        return findings(self.recording, specs, numbers)

    def save(self, file: Path | str) -> None:
        """Write what was measured to a file, for `statekit measure --from`.

        Raises:
            OSError: it cannot be written.
        """
        self.recording.save(file)


def record(manager: SessionStateManager | None = None) -> AbstractContextManager[Measurement]:
    """Measure the sessions of `manager`, or of all managers of the process, in a `with` block.

    Sessions that live already are measured from their next step on.
    """
    return _recorded(None if manager is None else ref(manager))


@contextmanager
def _recorded(named: ref[SessionStateManager] | None) -> Iterator[Measurement]:
    from statekit.measure.recorder import Recorder

    recorder = Recorder()
    with ExitStack() as undo:
        undo.callback(recorder.close)
        if named is None:
            undo.callback(listen(recorder.attend))
        recorder.attend_all(managers() if named is None else (named(),))
        yield Measurement(recorder)
