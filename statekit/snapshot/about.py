"""About: what stands in a snapshot beside its values.

Owns the words for it, and their check: in a file that anybody may have written nothing is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from statekit.errors import DamagedSnapshotError
from statekit.evolution import fingerprint, record_of

if TYPE_CHECKING:
    from statekit.session import SessionState

__all__ = ["TAKE_ANOTHER", "About", "Saved"]

TAKE_ANOTHER = "restore from another snapshot"
Numbers = dict[str, int]


@attrs.frozen
class Saved:
    """The schema of a model that a session was saved under: its record, and that one's digest."""

    fingerprint: str
    record: Any


@attrs.frozen
class About:
    """What a snapshot says of its session.

    Attributes:
        session_id: under which it was saved.
        models: the schemas that it had adopted, by model, unchecked.
        parameters: the sizes that its objects were built with, by model.
        overrides: the numbers that it began with in place of the spec's.
        attrs: names of the carried values that are in the snapshot.
        objects: keys of the objects.
    """

    session_id: str
    models: Mapping[str, Saved]
    parameters: Mapping[str, Numbers]
    overrides: Numbers
    attrs: tuple[str, ...]
    objects: tuple[str, ...]

    @classmethod
    def of(cls, session: SessionState, carried: Iterable[str], objects: Iterable[str]) -> About:
        """What is to be said of `session`, of which these are saved."""
        records = {spec.model: record_of(spec) for spec in session.adopted.specs}
        return cls(
            session.session_id,
            {model: Saved(fingerprint(record), record) for model, record in records.items()},
            session.parameters,
            {} if session.record is None else dict(session.record.overrides),
            tuple(sorted(carried)),
            tuple(sorted(objects)),
        )

    def numbers_of(self, model: str) -> Numbers:
        """What the session of `model` was built with, in place of the schema's numbers."""
        return {**self.overrides, **self.parameters.get(model, {})}

    def to_plain(self) -> dict[str, Any]:
        """The same as JSON has it; `read` takes it."""
        return {
            "session_id": self.session_id,
            "models": [{"model": name, **attrs.asdict(one)} for name, one in self.models.items()],
            "parameters": dict(self.parameters),
            "overrides": self.overrides,
            "holds": {"attrs": list(self.attrs), "objects": list(self.objects)},
        }

    @classmethod
    def read(cls, data: Mapping[str, Any], file: str) -> About:
        """What a file says.

        Raises:
            DamagedSnapshotError: it is not what a session is described by.
        """
        reader = _Reader(file)
        session_id = data.get("session_id")
        if not isinstance(session_id, str) or not session_id:
            raise reader.wrong("it names no session")
        holds = reader.mapping(data.get("holds"), "what it holds")
        models: dict[str, Saved] = {}
        for one in reader.list_of(data.get("models"), dict, "its models"):
            model, digest = one.get("model"), one.get("fingerprint")
            if not isinstance(model, str) or not isinstance(digest, str):
                raise reader.wrong("its models are none")
            models[model] = Saved(digest, one.get("record"))
        parameters = reader.mapping(data.get("parameters"), "its parameters")
        return cls(
            session_id,
            models,
            {model: reader.numbers(one, "its parameters") for model, one in parameters.items()},
            reader.numbers(data.get("overrides"), "its overrides"),
            tuple(reader.list_of(holds.get("attrs"), str, "what it holds")),
            tuple(reader.list_of(holds.get("objects"), str, "what it holds")),
        )


class _Reader:
    """Takes parts of what a file says, and refuses what they are not."""

    def __init__(self, file: str) -> None:
        self._file = file

    def wrong(self, found: str) -> DamagedSnapshotError:
        return DamagedSnapshotError(self._file, found, TAKE_ANOTHER)

    def mapping(self, found: Any, what: str) -> dict[str, Any]:
        if isinstance(found, dict) and all(isinstance(key, str) for key in found):
            return found
        raise self.wrong(f"{what} is no mapping of names")

    def numbers(self, found: Any, what: str) -> Numbers:
        if all(type(number) is int for number in self.mapping(found, what).values()):
            return dict(found)
        raise self.wrong(f"{what} are no numbers by name")

    def list_of(self, found: Any, kind: type, what: str) -> list[Any]:
        if isinstance(found, list) and all(isinstance(one, kind) for one in found):
            return found
        raise self.wrong(f"{what} is no list of such")
