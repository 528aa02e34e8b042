"""A digest of any item, equal in every process for items that are the same."""

# What `testing.comparing.same` says of two items, for items that are in two processes. Nothing
# that differs between processes goes in: no address, no order of a set, no identity.

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np

__all__ = ["DIGEST_BYTES", "item_digest"]

DIGEST_BYTES: Final = 16

_Feed = Callable[[bytes], None]


def item_digest(item: Any) -> bytes:
    """16 bytes that tell ``item`` from any other: by value, type, dtype and shape, bit for bit.

    Sets count as equal whatever their order, dicts only in the same order. What has no value
    known here is taken for its attributes, or for what `pickle` would take from it.
    """
    hasher = hashlib.blake2b(digest_size=DIGEST_BYTES)
    _feed(hasher.update, item, ())
    return hasher.digest()


def _feed(update: _Feed, value: Any, outer: tuple[int, ...]) -> None:
    """Put in ``value``, which stands within the objects whose ids are ``outer``."""
    kind = type(value)
    if kind in _PLAIN:
        _put(update, kind.__name__, _PLAIN[kind](value))
    elif isinstance(value, (np.ndarray, np.generic)):
        _feed_array(update, value, outer)
    elif id(value) in outer:
        _put(update, "cycle", b"%d" % outer.index(id(value)))
    elif kind in (list, tuple, dict, set, frozenset):
        _feed_items(update, value, (*outer, id(value)))
    else:
        _feed_object(update, value, (*outer, id(value)))


def _put(update: _Feed, tag: str, content: bytes) -> None:
    update(b"%s %d " % (tag.encode(), len(content)))
    update(content)


def _feed_array(update: _Feed, value: Any, outer: tuple[int, ...]) -> None:
    _put(update, type(value).__name__, f"{value.dtype.descr} {value.shape}".encode())
    if value.dtype.hasobject:
        _feed(update, value.tolist(), outer)
    else:
        update(value.tobytes())


def _feed_items(update: _Feed, value: Any, outer: tuple[int, ...]) -> None:
    _put(update, type(value).__name__, b"%d" % len(value))
    if isinstance(value, (set, frozenset)):
        for digest in sorted(map(item_digest, value)):
            update(digest)
        return
    inner = [part for pair in value.items() for part in pair] if type(value) is dict else value
    for part in inner:
        _feed(update, part, outer)


def _feed_object(update: _Feed, value: Any, outer: tuple[int, ...]) -> None:
    kind = type(value)
    _put(update, "object", f"{kind.__module__}.{kind.__qualname__}".encode())
    if callable(value) and hasattr(value, "__qualname__"):
        _put(update, "name", f"{value.__module__}.{value.__qualname__}".encode())
    elif (array := _as_array(value)) is not None:
        _feed_array(update, array, outer)
    elif isinstance(value, (list, tuple, dict, set, frozenset, str, bytes, int, float)):
        base = next(base for base in kind.__mro__ if base.__module__ == "builtins")
        _feed(update, base(value), outer)
        _feed(update, getattr(value, "__dict__", {}), outer)
    elif getattr(value, "__dict__", None):
        attributes = vars(value)
        _feed(update, {name: attributes[name] for name in sorted(attributes)}, outer)
    else:
        _feed_reduced(update, value, outer)


def _as_array(value: Any) -> np.ndarray[Any, Any] | None:
    """The values of a tensor, or of an image."""
    if not (hasattr(value, "__array__") or hasattr(value, "__array_interface__")):
        return None
    try:
        return np.asarray(value)
    except Exception:  # of a dtype that NumPy lacks, or not in memory
        return None


def _feed_reduced(update: _Feed, value: Any, outer: tuple[int, ...]) -> None:
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:
        _put(update, "text", re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value)).encode())
        return
    if isinstance(reduced, str):
        _put(update, "name", reduced.encode())
        return
    _, arguments, *rest = reduced
    # Of how it is made anew only the values count; the type was told.
    _feed(update, [part for part in arguments if not isinstance(part, type)], outer)
    for part in rest:
        _feed(update, list(part) if hasattr(part, "__next__") else part, outer)


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
