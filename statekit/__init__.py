"""statekit: session state of autoregressive-diffusion world models, declared and managed.

Names are imported on first use, so that tools which only read specs do not load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from statekit._version import __version__ as __version__

if TYPE_CHECKING:
    from statekit.accounting import SeenStorages as SeenStorages
    from statekit.accounting import device_bytes as device_bytes
    from statekit.accounting import merge_bytes as merge_bytes
    from statekit.adapter import StateAdapter as StateAdapter
    from statekit.adapters.cosmos3 import Cosmos3StateAdapter as Cosmos3StateAdapter
    from statekit.adapters.dreamzero import DreamZeroStateAdapter as DreamZeroStateAdapter
    from statekit.attr import SessionAttr as SessionAttr
    from statekit.errors import SessionAdmissionError as SessionAdmissionError
    from statekit.errors import SessionExistsError as SessionExistsError
    from statekit.errors import SessionStateLostError as SessionStateLostError
    from statekit.errors import StatekitError as StatekitError
    from statekit.handover import hand_over as hand_over
    from statekit.lease import Lease as Lease
    from statekit.manager import DEFAULT_MAX_SESSIONS as DEFAULT_MAX_SESSIONS
    from statekit.manager import SessionStateManager as SessionStateManager
    from statekit.objects.encode_once import EncodeOnce as EncodeOnce
    from statekit.objects.engine_handle import EngineHandle as EngineHandle
    from statekit.objects.fixed_state import FixedState as FixedState
    from statekit.objects.held_value import HeldValue as HeldValue
    from statekit.objects.latent_buffer import LatentBuffer as LatentBuffer
    from statekit.objects.retrieval_store import RetrievalStore as RetrievalStore
    from statekit.objects.windowed_kv import WindowedKV as WindowedKV
    from statekit.session import SessionState as SessionState
    from statekit.settings import SessionStateSettings as SessionStateSettings
    from statekit.settings import resolve_session_state_config as resolve_session_state_config
    from statekit.snapshot.saving import restore_session as restore_session
    from statekit.snapshot.saving import save_session as save_session
    from statekit.snapshot.saving import session_bytes as session_bytes
    from statekit.spec import ModelSpec as ModelSpec
    from statekit.spec import ValueSpec as ValueSpec
    from statekit.state_object import StateObject as StateObject
    from statekit.switch import maybe_adapter as maybe_adapter

_PLACES = {
    "Cosmos3StateAdapter": "adapters.cosmos3",
    "DEFAULT_MAX_SESSIONS": "manager",
    "DreamZeroStateAdapter": "adapters.dreamzero",
    "EncodeOnce": "objects.encode_once",
    "EngineHandle": "objects.engine_handle",
    "FixedState": "objects.fixed_state",
    "HeldValue": "objects.held_value",
    "LatentBuffer": "objects.latent_buffer",
    "Lease": "lease",
    "ModelSpec": "spec",
    "RetrievalStore": "objects.retrieval_store",
    "SeenStorages": "accounting",
    "SessionAdmissionError": "errors",
    "SessionAttr": "attr",
    "SessionExistsError": "errors",
    "SessionState": "session",
    "SessionStateLostError": "errors",
    "SessionStateManager": "manager",
    "SessionStateSettings": "settings",
    "StateAdapter": "adapter",
    "StateObject": "state_object",
    "StatekitError": "errors",
    "ValueSpec": "spec",
    "WindowedKV": "objects.windowed_kv",
    "device_bytes": "accounting",
    "hand_over": "handover",
    "maybe_adapter": "switch",
    "merge_bytes": "accounting",
    "resolve_session_state_config": "settings",
    "restore_session": "snapshot.saving",
    "save_session": "snapshot.saving",
    "session_bytes": "snapshot.saving",
}

__all__ = sorted([*_PLACES, "__version__"])


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'statekit' has no attribute {name!r}")
    value = getattr(import_module(f"statekit.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
