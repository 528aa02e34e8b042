"""A digest of any item, equal in every process for equal items."""

# Digests compare as `comparing.same` does, for items in two processes. Nothing that
# differs between processes goes in: no address, no order of a set, no identity.
#
# A container is digested from the digests of the parts, so a repeated container is digested once.
# The digests of the parts of a cycle depend on where the cycle was entered. An item with too many
# parts in cycles is digested again as `pickle` would write the item: every object once, and then by
# number.

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

import numpy as np

DIGEST_BYTES: Final = 16
MOST_VISITS: Final = 100_000
"""Parts of one item to visit before objects are replaced by numbers."""


def item_digest(item: Any) -> bytes:
    """16 bytes that differ for items of another value, type, dtype or shape, bit for bit.

    The order of a set does not matter, the order of a dict does. An object of an unknown class
    counts by the parts that `pickle` would take, or by attributes.
    """
    if type(item) in _PLAIN:
        return _plain(item)
    try:
        return _Digester(by_number=False).digest(item)
    except _TooManyVisits:
        return _Digester(by_number=True).digest(item)


class _TooManyVisits(Exception):
    """The item is a graph with many cycles."""


class _Digester:
    """Digests the parts of one item."""

    def __init__(self, *, by_number: bool) -> None:
        self._by_number = by_number
        self._visits = 0
        # By id, with the object: keeping the object keeps the id from being reused.
        self._known: dict[int, tuple[Any, bytes]] = {}
        # The containers around a part, by id, with their depth.
        self._inside: dict[int, int] = {}
        # The least depth reached by the cycles so far.
        self._outermost = 0

    def digest(self, value: Any) -> bytes:
        kind = type(value)
        if kind in _PLAIN:
            return _plain(value)
        if isinstance(value, (np.ndarray, np.generic)):
            return self._of_array(value)
        identity = id(value)
        if identity in self._known:
            return self._known[identity][1]
        self._visits += 1
        if self._by_number:
            self._known[identity] = value, _hashed("seen", b"%d" % self._visits)
        elif self._visits > MOST_VISITS:
            raise _TooManyVisits
        depth = self._inside.get(identity)
        if depth is not None:
            self._outermost = min(self._outermost, depth)
            return _hashed("cycle", b"%d" % (len(self._inside) - depth))
        return self._of_container(value)

    def _of_container(self, value: Any) -> bytes:
        depth = len(self._inside)
        outer, self._outermost = self._outermost, depth
        self._inside[id(value)] = depth
        found = self._of_parts(value)
        del self._inside[id(value)]
        if self._outermost >= depth and not self._by_number:
            self._known[id(value)] = value, found
        self._outermost = min(outer, self._outermost)
        return found

    def _of_parts(self, value: Any) -> bytes:
        kind = type(value)
        if kind in (list, tuple):
            return _hashed(kind.__name__, *map(self.digest, value))
        if kind is dict:
            pairs = (part for pair in value.items() for part in pair)
            return _hashed("dict", *map(self.digest, pairs))
        if kind in (set, frozenset):
            return _hashed(kind.__name__, *sorted(map(item_digest, value)))
        if kind is memoryview:
            return _hashed("memoryview", f"{value.format} {value.shape}".encode(), value.tobytes())
        if isinstance(value, _NAMED):
            return _hashed("name", f"{value.__module__}.{value.__qualname__}".encode())
        name = f"{kind.__module__}.{kind.__qualname__}".encode()
        array = as_array(value)
        parts = _parts(value) if array is None else [array]
        return _hashed("object", name, *map(self.digest, parts))

    def _of_array(self, value: Any) -> bytes:
        shape = f"{type(value).__name__} {value.dtype!r} {value.shape}".encode()
        if value.dtype.hasobject:
            return _hashed("array", shape, self.digest(value.tolist()))
        return _hashed("array", shape, array_bytes(value))


def array_bytes(array: Any) -> bytes:
    """The values of an array or of a NumPy scalar, without gaps in memory."""
    dtype = array.dtype
    if dtype.names is not None:
        return b"".join(array_bytes(array[name]) for name in dtype.names)
    if dtype.kind == "f" and dtype.itemsize > 8:  # an extended precision, padded
        return _halves(array)
    if dtype.kind == "c" and dtype.itemsize > 16:
        return _halves(array.real) + _halves(array.imag)
    return bytes(array.tobytes())


def _halves(array: Any) -> bytes:
    """Numbers of extended precision, each as the sum of two doubles."""
    with np.errstate(all="ignore"):
        upper = np.asarray(array).astype(np.float64)
        lower = (array - upper).astype(np.float64)
    return bytes(upper.tobytes() + lower.tobytes())


def _plain(value: Any) -> bytes:
    return _hashed(type(value).__name__, _PLAIN[type(value)](value))


def _hashed(tag: str, *parts: bytes) -> bytes:
    hasher = hashlib.blake2b(tag.encode(), digest_size=DIGEST_BYTES)
    for part in parts:
        hasher.update(b" %d " % len(part))
        hasher.update(part)
    return hasher.digest()


def as_array(value: Any) -> np.ndarray[Any, Any] | None:
    """The values of a tensor, or of an image, in its shape."""
    # Asked of the type: an object may make up any attribute.
    if not (hasattr(type(value), "__array__") or hasattr(type(value), "__array_interface__")):
        return None
    try:
        return np.asarray(value)
    except Exception:  # a dtype that NumPy lacks, or not in memory
        return None


def _parts(value: Any) -> list[Any]:
    """The parts of an object: the parts taken by `pickle`, else attributes or text."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:
        if attributes := getattr(value, "__dict__", None):
            return [attributes]
        return [re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))]
    if isinstance(reduced, str):
        return [reduced]
    return [list(part) if hasattr(part, "__next__") else part for part in reduced]


_NAMED: Final = (type, FunctionType, BuiltinFunctionType)

_PLAIN: Final[dict[type, Callable[[Any], bytes]]] = {
    type(None): lambda value: b"",
    bool: lambda value: b"%d" % value,
    int: lambda value: hex(value).encode(),
    float: lambda value: struct.pack("<d", value),
    complex: lambda value: struct.pack("<dd", value.real, value.imag),
    str: lambda value: value.encode("utf-8", "surrogatepass"),
    bytes: lambda value: value,
    bytearray: bytes,
}
