"""The switch: one deployment, two kinds of state, chosen by config or environment.

Owns the choice alone. Where it falls on "off", nothing of statekit but this module and the settings
has been imported, and what comes back is the very callable that was passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from statekit.errors import SettingsError
from statekit.settings import SessionStateSettings, resolve_session_state_config

if TYPE_CHECKING:
    from statekit.manager import SessionStateManager

__all__ = ["ManagedStates", "maybe_adapter"]

HandRolled = TypeVar("HandRolled")
Adapter = TypeVar("Adapter")


class ManagedStates(Generic[Adapter]):
    """Gives the adapter of a session; call it for each forward, an adapter is only a view.

    Attributes:
        manager: holds the sessions; for `lease`, `drop_session`, `stats` and all else.
    """

    __slots__ = ("_factory", "manager")

    def __init__(
        self,
        factory: Callable[[str | None, SessionStateManager], Adapter],
        manager: SessionStateManager,
    ) -> None:
        self._factory = factory
        self.manager = manager

    def __call__(self, session_id: str | None = None) -> Adapter:
        """The adapter of this session; None means "default"."""
        return self._factory(session_id, self.manager)


def maybe_adapter(
    hand_rolled_factory: Callable[[str | None], HandRolled],
    adapter_factory: Callable[[str | None, SessionStateManager], Adapter] | str,
    settings: SessionStateSettings | Mapping[str, Any] | bool | None = None,
    *,
    max_sessions: int | None = None,
    make_manager: Callable[[int], SessionStateManager] | None = None,
) -> Callable[[str | None], HandRolled] | ManagedStates[Adapter]:
    """What gives the state of a session: the hand-rolled one, or the adapter of one manager.

    A variable that is set (`OMNI_DIFFUSION_SESSION_STATE_MANAGER`) beats `settings` in both
    directions. The choice is made once, here; a session never changes its kind of state.

    Args:
        hand_rolled_factory: what the pipeline calls today. Switched off, the very same object is
            returned, and neither torch nor the manager has been imported.
        adapter_factory: called as `(session_id, manager)`: a generated class, a subclass of one, or
            `"package.module:Name"`, which is imported only where the switch is on.
        settings: the deploy config's word: a `SessionStateSettings`, a config that is loaded
            already, or just a boolean; None means off.
        max_sessions: how many sessions the manager keeps, where the environment does not say.
        make_manager: makes the manager, given the number of sessions; for budgets and the like.

    Raises:
        SettingsError: the setting cannot be read, or there is no such adapter.
    """
    if isinstance(settings, Mapping):
        settings = SessionStateSettings.from_mapping(settings)
    if isinstance(settings, SessionStateSettings):
        settings = settings.enable_session_state_manager
    on, count = resolve_session_state_config(settings, max_sessions)
    if not on:
        return hand_rolled_factory
    factory = _found(adapter_factory) if isinstance(adapter_factory, str) else adapter_factory
    if make_manager is not None:
        return ManagedStates(factory, make_manager(count))
    from statekit.manager import SessionStateManager

    return ManagedStates(factory, SessionStateManager(count))


def _found(place: str) -> Any:
    """What `package.module:Name` names."""
    module, colon, name = place.partition(":")
    if not colon or not module or not name:
        raise SettingsError("adapter_factory", f"got {place!r}", "write it as package.module:Name")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SettingsError(
            f"adapter_factory {place!r}", str(error), "name a module and a class in it"
        ) from error
    return found
