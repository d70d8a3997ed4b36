"""Camera frames for the demo: three views cut and panned from pictures that scikit-image ships."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from skimage import data

__all__ = ["stitched_frames"]

Frame = npt.NDArray[np.uint8]


def stitched_frames(height: int, width: int) -> Iterator[Frame]:
    """Endless frames (height, width, 3): a wrist camera above a left and a right one."""
    half_h, half_w = height // 2, width // 2
    wrist = _pan(_picture("coffee"), half_h, width, period=97)
    left = _pan(_picture("astronaut"), half_h, half_w, period=71)
    right = _pan(_picture("chelsea"), half_h, half_w, period=83)
    for top, bottom_left, bottom_right in zip(wrist, left, right, strict=True):
        yield np.vstack([top, np.hstack([bottom_left, bottom_right])])


def _picture(name: str) -> Frame:
    picture: Frame = getattr(data, name)()  # in scikit-image's wheel, nothing is downloaded
    return picture


def _pan(picture: Frame, height: int, width: int, *, period: int) -> Iterator[Frame]:
    """Windows (height, width, 3) that wander over `picture` and are back after `period` frames."""
    zoom = max(1, min(picture.shape[0] * 3 // (4 * height), picture.shape[1] * 3 // (4 * width)))
    room_y = picture.shape[0] - height * zoom
    room_x = picture.shape[1] - width * zoom
    if min(room_y, room_x) < 0:
        raise ValueError(f"a view of {height}x{width} does not fit into {picture.shape[:2]}")
    step = 0
    while True:
        angle = 2 * math.pi * step / period
        y = round(room_y * (1 + math.sin(angle)) / 2)
        x = round(room_x * (1 + math.cos(2 * angle)) / 2)
        window = picture[y : y + height * zoom, x : x + width * zoom]
        yield np.ascontiguousarray(window[::zoom, ::zoom])
        step += 1
