"""Decode values that the formats of several writers share, and raise errors with their place."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from ...errors import InvalidArgument, MalformedItem, MissingDependency
from ..packages import imported

HEAD: Final = struct.Struct("<III")
"""Width, height, and bytes of the mode's name."""

PIXEL_BYTES: Final[Mapping[str, int]] = {
    "L": 1, "P": 1, "LA": 2, "La": 2, "PA": 2, "I;16": 2, "I;16L": 2, "I;16B": 2, "I;16N": 2, "RGB": 3,
    "YCbCr": 3, "LAB": 3, "HSV": 3, "RGBA": 4, "RGBa": 4, "RGBX": 4, "CMYK": 4, "I": 4, "F": 4,
}  # fmt: skip
"""Bytes of a pixel by mode, except mode ``1`` with one bit a pixel."""


def pillow() -> Any:
    """The module of images.

    Raises:
      MissingDependency: if Pillow is not installed.
    """
    return imported("PIL.Image", "images need Pillow", "images")


def opened_image(data: bytes) -> Any:
    """The image in ``data``, a file of any format; the pixels are decoded at the first use."""
    return pillow().open(io.BytesIO(data))


def raw_image(data: bytes) -> Any:
    """The image with the size, mode and raw pixels in ``data``."""
    image = pillow()
    width, height, length = HEAD.unpack_from(data)
    begin = HEAD.size + length
    mode = data[HEAD.size : begin].decode("ascii")
    row = (width + 7) // 8 if mode == "1" else width * PIXEL_BYTES.get(mode, 0)
    # Pillow makes the image before it looks at the pixels.
    if not row or not height or begin + row * height != len(data):
        raise MalformedItem(
            f"an image of {width} by {height} pixels of mode {mode!r} has not {len(data) - begin} bytes"
        )
    return image.frombytes(mode, (width, height), data[begin:])


def array_of(dtype: np.dtype[Any], shape: tuple[int, ...], data: bytes) -> npt.NDArray[Any]:
    """The array of the values in ``data``, with this ``shape``, in native byte order.

    Raises:
      MalformedItem: if ``data`` have another size.
    """
    if math.prod(shape) * dtype.itemsize != len(data):
        raise MalformedItem(f"an array of shape {shape} and {dtype} has not {len(data)} bytes")
    found: npt.NDArray[Any] = np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))
    return found.reshape(shape)


def check_reaches(end: int, data: bytes, part: str) -> None:
    """Check that ``data`` have ``end`` bytes; ``part`` says in words what ends there.

    Raises:
      MalformedItem: if ``data`` are shorter.
    """
    if len(data) < end:
        raise MalformedItem(f"it has {len(data)} bytes, and {part} {end}")


def pickle_refused(what: str) -> InvalidArgument:
    """The error for pickled values; ``what`` is pickled, in words with the file."""
    return InvalidArgument(
        f"{what}, and to read it runs whatever code its writer put there; if you trust the files, "
        "say allow_pickle=True"
    )


def raise_where(error: Exception, where: str) -> NoReturn:
    """Raise the ``error`` of a decoder, with the place of the damage in words.

    The words are made only after an error: making them costs more than most values.

    Raises:
      MalformedItem: if the data cannot be decoded.
      MissingDependency: if a package to decode the data is not installed.
      InvalidArgument: if decoding the data is not allowed.
    """
    if isinstance(error, (InvalidArgument, MissingDependency)):
        raise error
    if isinstance(error, MalformedItem):
        raise MalformedItem(f"{where}: {error}") from error
    # Decoders of numbers, text and images raise nearly anything.
    raise MalformedItem(f"{where}: {type(error).__name__}: {error}") from error
