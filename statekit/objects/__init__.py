"""The kinds of StateObject, one module each."""

from statekit.objects.codec import Cast as Cast
from statekit.objects.codec import Codec as Codec
from statekit.objects.encode_once import EncodeOnce as EncodeOnce
from statekit.objects.engine_handle import EngineHandle as EngineHandle
from statekit.objects.engine_handle import EngineOwned as EngineOwned
from statekit.objects.engine_handle import EngineStages as EngineStages
from statekit.objects.entry import Hit as Hit
from statekit.objects.fixed_state import FixedState as FixedState
from statekit.objects.held_value import HeldValue as HeldValue
from statekit.objects.latent_buffer import LatentBuffer as LatentBuffer
from statekit.objects.retrieval_store import RetrievalStore as RetrievalStore
from statekit.objects.windowed_kv import WindowedKV as WindowedKV

__all__ = [
    "Cast",
    "Codec",
    "EncodeOnce",
    "EngineHandle",
    "EngineOwned",
    "EngineStages",
    "FixedState",
    "HeldValue",
    "Hit",
    "LatentBuffer",
    "RetrievalStore",
    "WindowedKV",
]
