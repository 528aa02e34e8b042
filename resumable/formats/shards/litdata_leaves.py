"""Decode the leaves of the items of LitData, by the names of their serializers."""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InvalidArgument, MalformedItem, MissingDependency
from .. import decoders
from .decoding import array_of, check_reaches, pickle_refused, pillow, raw_image
from .index_json import IndexPart
from .litdata_json import nested_value

Array = npt.NDArray[Any]
Finish = Callable[[Array], Any]


JPEGS: Final = ("JPEG", "MPO")


class Leaf(NamedTuple):
    """The encoding of a leaf, a value in each item.

    Attributes:
      name: of the serializer.
      decode: makes the value of the bytes.
    """

    name: str
    decode: Callable[[bytes], Any]


NUMPY_DTYPES: Final = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128", "bool",
)  # fmt: skip
TORCH_DTYPES: Final = (
    "float32", "float32", "float64", "float64", "complex64", "complex64", "complex128", "complex128", "float16",
    "float16", "", "uint8", "int8", "int16", "int16", "int32", "int32", "int64", "int64", "bool", "uint16",
)  # fmt: skip
"""The dtypes by their numbers in LitData; empty for bfloat16, which LitData cannot write."""


def leaves_of(config: IndexPart, as_torch: bool, allow_pickle: bool) -> list[Leaf]:
    """The leaves described by a ``config``, at least one.

    Raises:
      MalformedItem: if ``config`` describes no leaf.
      InvalidArgument: if a leaf is not supported.
      MissingDependency: if ``as_torch`` is true and torch is not installed.
    """
    formats = config.texts("data_format")
    if not formats:
        raise config.refused("data_format must name at least one serializer, got []")
    finish = array_or_tensor(as_torch)
    return [Leaf(name, _decoder(config, name, finish, allow_pickle)) for name in formats]


def number_dtype(config: IndexPart) -> np.dtype[Any]:
    """The dtype of tokens described by a ``config``.

    Raises:
      MalformedItem: if ``config`` describes no array of tokens.
    """
    formats = config.texts("data_format")
    kind = formats[0].partition(":")[0] if len(formats) == 1 else ""
    if kind not in HEADLESS:
        raise config.refused(f"data_format must be that of one array of tokens, got {formats}")
    return _numbered_dtype(config, formats[0])


def array_or_tensor(as_torch: bool) -> Finish:
    """The last step of decoding a tensor: returns the array, or a tensor of torch.

    Raises:
      MissingDependency: if torch is not installed.
    """
    if not as_torch:
        return lambda array: array
    try:
        import torch
    except ImportError as error:
        raise MissingDependency(
            f"tensors='torch' needs PyTorch: pip install torch; 'numpy' gives arrays ({error})"
        ) from error
    finish: Finish = torch.from_numpy
    return finish


def _decoder(
    config: IndexPart, name: str, finish: Finish, allow_pickle: bool
) -> Callable[[bytes], Any]:
    kind = name.partition(":")[0]
    if kind in PLAIN:
        return PLAIN[kind]
    if kind in HEADLESS:
        dtype = _numbered_dtype(config, name)
        made = array_or_tensor(as_torch=False) if kind == "no_header_numpy" else finish
        return lambda data: made(np.frombuffer(data, dtype).copy())
    if kind == "numpy":
        return partial(_array_of, "<", NUMPY_DTYPES)
    if kind == "tensor":
        return lambda data: finish(_array_of(">", TORCH_DTYPES, data))
    if kind in ("jpeg", "image"):
        return lambda data: finish(_pixels(data))
    if kind == "jpeg_array":
        return lambda data: [finish(_pixels(part)) for part in _images(data)]
    if kind == "pickle":
        return pickle.loads if allow_pickle else partial(_refuse_pickle, config.file)
    raise InvalidArgument(
        f"{config.file}: items hold values of the serializer {name!r}, which are not read; those of "
        f"these are: {', '.join(sorted(READ))}"
    )


def _numbered_dtype(config: IndexPart, name: str) -> np.dtype[Any]:
    """The dtype after the colon of a ``name``."""
    kind, _, number = name.partition(":")
    dtypes = HEADLESS[kind]
    if not (number.isascii() and number.isdigit()) or not _dtype_name(dtypes, int(number[:9])):
        raise config.refused(f"data_format must end with the number of a dtype, got {name!r}")
    return np.dtype(dtypes[int(number)])


def _dtype_name(dtypes: tuple[str, ...], number: int) -> str:
    return dtypes[number] if number < len(dtypes) else ""


def _refuse_pickle(file: str, data: bytes) -> None:
    raise pickle_refused(f"{file}: items hold what was pickled")


def _array_of(order: str, dtypes: tuple[str, ...], data: bytes) -> Array:
    """An array; numbers in the byte ``order`` before the values give dtype and shape."""
    number, axes = struct.unpack_from(f"{order}II", data)
    name = _dtype_name(dtypes, number)
    if not name:
        raise MalformedItem(f"dtype number {number} is none that is read")
    begin = 8 + 4 * axes
    check_reaches(begin, data, "the shape ends at byte")
    shape = struct.unpack_from(f"{order}{axes}I", data, 8)
    return array_of(np.dtype(name), shape, data[begin:])


def _pixels(data: bytes) -> Array:
    """The pixels of the image in ``data``: shape (3, height, width), uint8, turned by its Exif data."""
    image = pillow()
    from PIL import ImageOps

    with image.open(io.BytesIO(data)) as opened:
        # Like LitData, turn only JPEGs.
        turned = ImageOps.exif_transpose(opened) if opened.format in JPEGS else opened
        found: Array = np.array(turned.convert("RGB")).transpose(2, 0, 1).copy()
    return found


def _images(data: bytes) -> list[bytes]:
    """The images in ``data``, which begin with the count and the sizes of the images."""
    (count,) = struct.unpack_from("<I", data)
    begin = 4 + 4 * count
    if not count or len(data) < begin:
        raise MalformedItem(
            f"it has {len(data)} bytes, and the sizes of {count} images end at {begin}"
        )
    ends = begin + np.frombuffer(data, "<u4", count, 4).astype(np.int64).cumsum()
    if ends[-1] != len(data):
        raise MalformedItem(f"its images end at byte {ends[-1]} of {len(data)}")
    starts = [begin, *ends[:-1].tolist()]
    return [data[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]


def _boolean(data: bytes) -> bool:
    if len(data) != 1:
        raise MalformedItem(f"a bool must have one byte, got {len(data)}")
    return data != b"\0"


def _number(layout: str, data: bytes) -> Any:
    return struct.unpack(layout, data)[0]


PLAIN: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "str": decoders.text,
    "text": decoders.text,
    "bool": _boolean,
    "int": partial(_number, "<q"),
    "float": partial(_number, "<d"),
    "bytes": bytes,
    "file": bytes,
    "pil": raw_image,
    "json": nested_value,
}
HEADLESS: Final = {"no_header_numpy": NUMPY_DTYPES, "no_header_tensor": TORCH_DTYPES}
READ: Final = [*PLAIN, *HEADLESS, "numpy", "tensor", "jpeg", "image", "jpeg_array", "pickle"]
