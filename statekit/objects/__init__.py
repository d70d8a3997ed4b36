"""The kinds of StateObject, one module each."""

from statekit.objects.encode_once import EncodeOnce as EncodeOnce
from statekit.objects.latent_buffer import LatentBuffer as LatentBuffer

__all__ = ["EncodeOnce", "LatentBuffer"]
