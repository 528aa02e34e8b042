"""Functions that decode the bytes of a file, as ``decode`` of formats or in a `map`."""

from __future__ import annotations

import io
import json as standard_json
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidType, MalformedItem, MissingDependency
from .example import example as example


def text(data: bytes) -> str:
    r"""The text in ``data``, which must be UTF-8.

    Args:
      data: of a file or a member.

    Raises:
      MalformedItem: if it is not.

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
      MalformedItem: if it is not one JSON value.

    >>> rs.decoders.json(b'{"label": 3}')
    {'label': 3}
    """
    try:
        return standard_json.loads(text(data))
    except RecursionError:
        raise MalformedItem("not JSON: nested too deeply") from None
    except standard_json.JSONDecodeError as error:
        raise MalformedItem(
            f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except MalformedItem:
        raise
    except ValueError as error:  # a number with too many digits
        raise MalformedItem(f"not JSON: {error}") from None


def npy(data: bytes) -> npt.NDArray[Any]:
    """The array in ``data``, which `numpy.save` wrote. Nothing is ever unpickled.

    Args:
      data: of a file or a member.

    Returns:
      an array of its own memory, with the shape, dtype and order that were saved.

    Raises:
      MalformedItem: if it is damaged, holds Python objects, or has fields with names beyond Latin-1.

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
        # The data are measured before an array of that shape is made.
        begin, size = file.tell(), math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or not dtype.itemsize or len(data) - begin != size:
            raise MalformedItem(f"not an array: {len(data) - begin} bytes, shape {shape}, {dtype}")
        found: npt.NDArray[Any] = np.frombuffer(data, dtype, math.prod(shape), begin).copy()
        return found.reshape(shape, order="F" if by_column else "C")
    except MalformedItem:
        raise
    except Exception as error:  # NumPy lets Python parse the header, which raises nearly anything
        raise MalformedItem(f"not an array: {_shown(error)}") from None


def image(data: bytes, mode: str | None = "RGB") -> npt.NDArray[Any]:
    """The pixels of the image in ``data``, in any format that Pillow reads. Needs the extra ``images``.

    Args:
      data: of a file or a member.
      mode: of the pixels, as Pillow names it; None keeps the image's own. To choose one where a
        function of the bytes is asked for, pass ``partial(rs.decoders.image, mode="L")``.

    Returns:
      an array of shape (height, width, channels), or (height, width) for a mode of one channel, and
      of dtype uint8 for the usual modes.

    Raises:
      MalformedItem: if it is no image, is damaged, or has more pixels than Pillow allows.
      InvalidType: if ``mode`` is not a string.
      MissingDependency: if Pillow is not installed.

    >>> rs.decoders.image(open("cat.jpg", "rb").read()).shape  # doctest: +SKIP
    (375, 500, 3)
    """
    if mode is not None and not isinstance(mode, str):
        raise InvalidType(f"mode must be a string or None, got {mode!r}")
    try:
        from PIL import Image
    except ImportError:
        raise MissingDependency(
            "images need Pillow: pip install 'resumable-loader[images]'"
        ) from None
    try:
        with Image.open(io.BytesIO(data)) as opened:
            return np.array(opened if mode in (None, opened.mode) else opened.convert(mode))
    except Exception as error:  # damaged images raise nearly anything
        raise MalformedItem(f"not an image: {_shown(error)}") from None


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:80]}"
