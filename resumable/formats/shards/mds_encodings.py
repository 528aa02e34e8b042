"""The encodings of the columns of MDS, by name."""

from __future__ import annotations

import math
import pickle
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import MalformedItem
from .. import decoders
from .decoding import array_of, check_reaches, opened_image, raw_image

Decode = Callable[[bytes], Any]


class Encoding(NamedTuple):
    """How the values of a column are encoded.

    Attributes:
      size: bytes of a value; None if sizes differ.
      decode: makes a value of the bytes.
      is_pickle: whether decoding may run any code.
    """

    size: int | None
    decode: Decode
    is_pickle: bool = False


DTYPES: Final[Mapping[int, str]] = {
    8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32",
    34: "float32", 64: "uint64", 65: "int64", 66: "float64",
}  # fmt: skip


def encoding_of(text: str) -> Encoding | None:
    """The encoding with the name ``text`` in an index; None for an unknown name."""
    name, colon, arguments = text.partition(":")
    if name == "ndarray":
        return _of_arrays(arguments)
    return None if colon else ENCODINGS.get(name)


def _of_arrays(arguments: str) -> Encoding | None:
    """The encoding of arrays; ``arguments`` may fix the dtype, or dtype and shape."""
    name, _, axes = arguments.partition(":")
    if name and name not in DTYPES.values():
        return None
    dtype = np.dtype(name).newbyteorder("<") if name else None
    if not axes:
        return Encoding(None, partial(_array, dtype))
    if dtype is None or not all(axis.isascii() and axis.isdigit() for axis in axes.split(",")):
        return None
    shape = tuple(int(axis[:20]) for axis in axes.split(","))
    size = math.prod(shape) * dtype.itemsize
    if not 0 < size < 1 << 32:
        return None
    return Encoding(size, partial(array_of, dtype, shape))


def _array(dtype: np.dtype[Any] | None, data: bytes) -> npt.NDArray[Any]:
    """The array in ``data``, with its shape, and without ``dtype`` also its dtype, at the start."""
    place = 0
    if dtype is None:
        if data[0] not in DTYPES:
            raise MalformedItem(
                f"the code of its dtype must be one of {list(DTYPES)}, got {data[0]}"
            )
        dtype, place = np.dtype(DTYPES[data[0]]).newbyteorder("<"), 1
    axes, width = data[place] >> 2, 1 << (data[place] & 3)
    begin = place + 1 + axes * width
    check_reaches(begin, data, "the shape ends at byte")
    shape = np.frombuffer(data, f"<u{width}", axes, place + 1).tolist()
    return array_of(dtype, tuple(shape), data[begin:])


def _scalar(dtype: np.dtype[Any], data: bytes) -> Any:
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)[0]


def _integer(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _images(data: bytes) -> list[Any]:
    found = _parts(opened_image, data, 0)
    if not found:
        raise MalformedItem("a list of images must have at least one, got none")
    return found


def _parts(decode: Decode, data: bytes, place: int = 4) -> list[Any]:
    """Values; the count of values is at ``place``, followed by their sizes.

    The first four bytes of a list mean nothing.
    """
    (count,) = struct.unpack_from("<I", data, place)
    begin = place + 4 + 4 * count
    check_reaches(begin, data, f"the sizes of {count} values end at")
    found: list[Any] = []
    for size in np.frombuffer(data, "<u4", count, place + 4).tolist():
        if begin + size > len(data):
            raise MalformedItem(f"value {len(found)} ends at byte {begin + size} of {len(data)}")
        found.append(decode(data[begin : begin + size]))
        begin += size
    return found


def _text_of(kind: Callable[[str], Any], data: bytes) -> Any:
    return kind(decoders.text(data))


ENCODINGS: Final[Mapping[str, Encoding]] = {
    "bytes": Encoding(None, bytes),
    "str": Encoding(None, decoders.text),
    "int": Encoding(8, _integer),
    **{
        name: Encoding(np.dtype(name).itemsize, partial(_scalar, np.dtype(name)))
        for name in DTYPES.values()
    },
    "str_int": Encoding(None, partial(_text_of, int)),
    "str_float": Encoding(None, partial(_text_of, float)),
    "str_decimal": Encoding(None, partial(_text_of, Decimal)),
    "pil": Encoding(None, raw_image),
    "jpeg": Encoding(None, opened_image),
    "png": Encoding(None, opened_image),
    "jpeg_array": Encoding(None, _images),
    "jpegarray": Encoding(None, _images),
    "list[pil]": Encoding(None, partial(_parts, raw_image)),
    "list[jpeg]": Encoding(None, partial(_parts, opened_image)),
    "list[png]": Encoding(None, partial(_parts, opened_image)),
    "json": Encoding(None, decoders.json),
    "pkl": Encoding(None, pickle.loads, is_pickle=True),
}
