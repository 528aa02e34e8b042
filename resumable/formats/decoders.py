"""Functions that decode the bytes of a file, as ``decode`` of formats or in a `map`."""

from __future__ import annotations

import io
import json as standard_json
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidArgument, MalformedItem
from . import packages
from .example import example as example
from .pixels import PixelRequest


def text(data: bytes) -> str:
    r"""The text in ``data``, which must be UTF-8.

    Args:
      data: of a file or a member.

    Raises:
      MalformedItem: if ``data`` are not UTF-8.

    >>> rs.decoders.text(b"caf\xc3\xa9")
    'café'
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedItem(f"not UTF-8: {error.reason} at byte {error.start + 1}") from None


def json(data: bytes) -> Any:
    """The value of the JSON in ``data``, encoded in UTF-8.

    Args:
      data: of a file or a member.

    Raises:
      MalformedItem: if ``data`` are not one JSON value.

    >>> rs.decoders.json(b'{"label": 3}')
    {'label': 3}
    """
    content = text(data)
    try:
        return standard_json.loads(content)
    except RecursionError:
        raise MalformedItem("not JSON: nested too deeply") from None
    except standard_json.JSONDecodeError as error:
        raise MalformedItem(
            f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except ValueError as error:  # a number with too many digits
        raise MalformedItem(f"not JSON: {error}") from None


def npy(data: bytes) -> npt.NDArray[Any]:
    """The array in ``data`` written by `numpy.save`. Nothing is ever unpickled.

    Args:
      data: of a file or a member.

    Returns:
      an array in separate memory, with the saved shape, dtype and order.

    Raises:
      MalformedItem: if ``data`` are damaged, hold Python objects, or have field names beyond
        Latin-1.

    >>> import io
    >>> file = io.BytesIO()
    >>> np.save(file, np.arange(3))
    >>> rs.decoders.npy(file.getvalue())
    array([0, 1, 2])
    """
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, by_column, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise MalformedItem(f"not an array: version {version} of the format is not supported")
        if dtype.hasobject:
            raise MalformedItem("not an array of numbers: it holds Python objects")
        # The data are measured before an array of this shape is made.
        begin, size = file.tell(), math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or not dtype.itemsize or len(data) - begin != size:
            raise MalformedItem(f"not an array: {len(data) - begin} bytes, shape {shape}, {dtype}")
        found: npt.NDArray[Any] = np.frombuffer(data, dtype, math.prod(shape), begin).copy()
        return found.reshape(shape, order="F" if by_column else "C")
    except MalformedItem:
        raise
    except Exception as error:  # NumPy lets Python parse the header, which raises nearly anything
        raise MalformedItem(f"not an array: {_shown(error)}") from None


def image(
    data: bytes,
    mode: str | None = "RGB",
    *,
    dtype: str | None = None,
    drop_alpha: bool = False,
    apply_exif_orientation: bool = True,
    frame: int | None = None,
) -> npt.NDArray[Any]:
    """The pixels of the image in ``data``, in any format of Pillow. Needs the extra ``images``.

    By default the pixels are RGB in 8 bits. An image with transparent pixels, more than 8 bits a
    channel, or several frames is refused, unless arguments say how to treat it. To pass arguments
    where a function of the bytes is expected, pass ``partial(rs.decoders.image, mode="L")``.

    Args:
      data: of a file or a member.
      mode: of the pixels, by Pillow's name: ``"L"`` is gray, ``"A"`` after ``"L"`` or ``"RGB"``
        adds alpha. None keeps the image's own mode and depth; a palette image gives indices.
      dtype: ``"uint8"`` or ``"uint16"``, for the modes L, LA, RGB and RGBA. Of 16 bits, the first
        takes the upper 8; to 8 bits, the second adds as many, so that white is 65,535. By default 8
        bits stay so and 16 are refused.
      drop_alpha: whether a mode without alpha takes the colours of transparent pixels as they are.
      apply_exif_orientation: whether to turn and mirror the image by its EXIF data. Unreadable EXIF
        data are ignored. TIFF files are always turned.
      frame: number of the frame to take from a file of several, for example an animation or a TIFF
        of pages. None refuses a file of several frames, but takes the first picture in a JPEG file
        of a phone.

    Returns:
      an array of shape (height, width, channels), or (height, width) for a mode of one channel, of
      dtype uint8 or as ``dtype`` says. With other modes, or with None, also bool (mode ``"1"``),
      int32 (``"I"``), float32 (``"F"``), or uint16 if the image has 16 bits.

    Raises:
      MalformedItem: if ``data`` are no image, are damaged, have more pixels than Pillow allows, or
        hold more than the arguments ask for. Pillow reads all bits of colours in 16 bits only from
        PNG files; it cuts JPEG 2000 and AVIF to 8 bits silently.
      InvalidArgument: if Pillow does not have ``mode``, ``dtype`` is another word or does not go
        with ``mode``, or ``frame`` is negative.
      InvalidType: if an argument has the wrong type.
      MissingDependency: if Pillow is not installed.

    >>> rs.decoders.image(open("cat.jpg", "rb").read()).shape  # doctest: +SKIP
    (375, 500, 3)
    """
    request = PixelRequest(mode, dtype, drop_alpha, apply_exif_orientation, frame)
    request.check()
    modes = packages.imported("PIL.ImageMode", "images need Pillow", "images")
    try:
        modes.getmode(mode or "RGB")
    except KeyError:
        raise InvalidArgument(f"mode must be one that Pillow has, or None, got {mode!r}") from None
    try:
        return request.decode(data)
    except MalformedItem:
        raise
    except Exception as error:  # damaged images raise nearly anything
        raise MalformedItem(f"not an image: {_shown(error)}") from None


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:80]}"
