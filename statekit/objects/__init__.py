"""The kinds of StateObject, one module each."""

from statekit.objects.encode_once import EncodeOnce as EncodeOnce
from statekit.objects.engine_handle import EngineHandle as EngineHandle
from statekit.objects.engine_handle import EngineOwned as EngineOwned
from statekit.objects.engine_handle import EngineStages as EngineStages
from statekit.objects.fixed_state import FixedState as FixedState
from statekit.objects.held_value import HeldValue as HeldValue
from statekit.objects.latent_buffer import LatentBuffer as LatentBuffer

__all__ = [
    "EncodeOnce",
    "EngineHandle",
    "EngineOwned",
    "EngineStages",
    "FixedState",
    "HeldValue",
    "LatentBuffer",
]
