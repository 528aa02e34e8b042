"""A state as bytes, and bytes as a state again, even if somebody has changed the bytes."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import msgpack
import numpy as np

from ..errors import CorruptCheckpoint, UnencodableState
from ..errors.foreign_states import looks_like
from .bounds import ALWAYS_WITHIN, ARRAY, BIG_INT, COMPLEX, SCALAR, TUPLE, explain_excess
from .value import MAX_DEPTH, PLAIN, TUPLE_LEVELS, State, freeze, is_key, is_plain_dtype

# The first bytes of every serialised state: a name and the version of this format.
MAGIC: Final = b"RSM\x01"
ONLY_STRINGS: Final = frozenset({str})
# Numbers; texts and bytes of a width, perhaps 0 in a scalar; times in a unit.
ARRAY_CODE: Final = re.compile(
    r"[<>|]([biufc][1-9][0-9]?|[US][0-9]{1,9}|[mM]8(\[([1-9][0-9]{0,8})?[A-Za-z]{1,2}\])?)"
)

# Making a packer takes longer than packing a small state, so packers are kept. A packer in use is
# not in this list: another thread, a signal handler and a nested value take other packers.
SPARE_PACKERS: Final[list[msgpack.Packer]] = []


def dumps(state: State) -> bytes:
    """Serialise a state.

    Args:
      state: returned by `get_state`.

    Raises:
      UnencodableState: if ``state`` holds a value without an exact serialised form.

    >>> state = iter(rs.range(3)).get_state()
    >>> rs.loads(rs.dumps(state)) == state
    True
    """
    return dumps_frozen(freeze(state))


def dumps_frozen(state: State) -> bytes:
    """As `dumps`, for a value returned by `freeze`.

    Raises:
      UnencodableState: if ``state`` is too large.
    """
    packed = _pack(state)
    # `loads` limits the memory of a state; a state beyond the limit is never written.
    if len(packed) > ALWAYS_WITHIN and (excess := explain_excess(packed)):
        raise UnencodableState(
            f"the state is too large: {excess}; carried items should be arrays, or not be carried"
        )
    return MAGIC + packed


def loads(data: bytes | bytearray | memoryview) -> State:
    """The state serialised as ``data`` by `dumps`. Nothing in ``data`` is ever executed.

    Args:
      data: bytes, or another object with the buffer interface, such as a memoryview.

    Raises:
      CorruptCheckpoint: if ``data`` is anything else than the result of `dumps`.

    >>> rs.loads(rs.dumps({"position": 3}))
    {'position': 3}
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise CorruptCheckpoint(
            f"a serialised state is bytes, got {type(data).__name__}{looks_like(data)}"
        )
    view = memoryview(data)
    if (view.format, view.ndim, view.c_contiguous) != ("B", 1, True):
        view = memoryview(view.tobytes())
    mark = bytes(view[: len(MAGIC)])
    if mark != MAGIC:
        raise _corrupt(f"it starts with {mark!r} instead of {MAGIC!r}{looks_like(view)}")
    if excess := explain_excess(view[len(MAGIC) :]):
        raise _corrupt(excess)
    state = _decoded(view[len(MAGIC) :])
    if not isinstance(state, dict):
        raise CorruptCheckpoint(f"a state is a dict, got {type(state).__name__}")
    return state


def _corrupt(why: str) -> CorruptCheckpoint:
    return CorruptCheckpoint(f"not a serialised state: {why}")


def _pack(value: Any) -> bytes:
    try:
        packer = SPARE_PACKERS.pop()
    except IndexError:
        # strict_types sends tuples, NumPy's float64 (a float) and big integers to `_encode`.
        packer = msgpack.Packer(default=_encode, strict_types=True, unicode_errors="surrogatepass")
    packed = packer.pack(value)
    assert packed is not None
    if len(packed) <= ALWAYS_WITHIN:  # the buffer of a packer never shrinks
        SPARE_PACKERS.append(packer)
    return packed


def _encode(value: Any) -> msgpack.ExtType:
    if type(value) is tuple:
        return msgpack.ExtType(TUPLE, _pack(list(value)))
    if type(value) is int:
        size = value.bit_length() // 8 + 1
        return msgpack.ExtType(BIG_INT, value.to_bytes(size, "big", signed=True))
    if type(value) is complex:
        return msgpack.ExtType(COMPLEX, _pack([value.real, value.imag]))
    code, data = ARRAY if isinstance(value, np.ndarray) else SCALAR, value.tobytes()
    if not value.dtype.itemsize:  # NumPy returns one character for an empty text
        data = b""
    return msgpack.ExtType(code, _pack([value.dtype.str, list(value.shape), data]))


class _Extension(NamedTuple):
    """A value without a form in msgpack, not decoded yet."""

    code: int
    data: bytes


def _decoded(data: bytes | memoryview) -> Any:
    try:
        return _settled(_unpacked(data))
    except CorruptCheckpoint:
        raise
    # A damaged length may cause any error of the decoder, even running out of memory.
    except (ArithmeticError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise _corrupt(str(error) or type(error).__name__) from None


def _unpacked(data: bytes | memoryview) -> Any:
    return msgpack.unpackb(
        data,
        ext_hook=_extension,
        object_pairs_hook=_unique,
        strict_map_key=False,  # `_unique` looks at the keys
        unicode_errors="surrogatepass",
    )


def _extension(code: int, data: bytes) -> Any:
    if code == BIG_INT and data:
        return int.from_bytes(data, "big", signed=True)
    return _Extension(code, data)


def _settled(unpacked: Any) -> Any:
    """``unpacked``, with the values of extensions filled in."""
    # No function here calls itself, and no decoder runs inside another. Each decoder takes 50 kB of
    # stack, and hostile bytes would choose the number of decoders.
    whole = [unpacked]
    waiting: list[tuple[Any, int]] = [(whole, 0)]  # a list or dict, and the depth of its values
    tuples: list[tuple[Any, Any]] = []  # holder and key of each tuple; inner tuples later
    while waiting:
        holder, depth = waiting.pop()
        for key, value in holder.items() if type(holder) is dict else enumerate(holder):
            kind = type(value)
            if kind in PLAIN:
                continue
            if kind is _Extension and value.code != TUPLE:
                holder[key] = _complex_or_array(value)
                continue
            if depth > MAX_DEPTH:
                raise _corrupt("nested too deeply")
            if kind is _Extension:
                items = _fields(value)
                if PLAIN.issuperset(map(type, items)):
                    holder[key] = tuple(items)
                    continue
                holder[key] = items
                tuples.append((holder, key))
                waiting.append((items, depth + TUPLE_LEVELS))
            elif kind is dict or kind is list:
                # Most hold plain values only, and a list of all containers would take much memory.
                if not PLAIN.issuperset(map(type, value.values() if kind is dict else value)):
                    waiting.append((value, depth + 1))
            else:
                raise _corrupt(f"it holds a {kind.__name__}")
    for holder, key in reversed(tuples):
        holder[key] = tuple(holder[key])
    return whole[0]


def _fields(extension: _Extension) -> list[Any]:
    fields = _unpacked(extension.data)
    if not isinstance(fields, list):
        raise _corrupt("malformed extension")
    return fields


def _complex_or_array(extension: _Extension) -> Any:
    code = extension.code
    if code == COMPLEX:
        real, imaginary = _fields(extension)
        if type(real) is type(imaginary) is float:
            return complex(real, imaginary)
    if code in (ARRAY, SCALAR):
        dtype, shape, data = _described_array(*_fields(extension))
        if code == SCALAR and shape == [] and dtype.kind in "US":
            return _decode_text(dtype, data)
        array = _decode_array(dtype, shape, data)
        if code == ARRAY:
            return array
        if array.shape == ():
            return array[()]
    raise _corrupt(f"unknown extension {code}")


def _unique(pairs: list[tuple[Any, Any]]) -> State:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise _corrupt("a key stands twice in one dict")
    if not ONLY_STRINGS.issuperset(map(type, unique)) and not all(map(is_key, unique)):
        raise _corrupt("a key is neither a string nor an integer")
    return unique


def _described_array(code: Any, shape: Any, data: Any) -> tuple[np.dtype[Any], list[int], bytes]:
    """The dtype, the shape and the bytes of an array, each in a form that `_encode` writes."""
    whole = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not (
        whole and isinstance(code, str) and ARRAY_CODE.fullmatch(code) and isinstance(data, bytes)
    ):
        raise _corrupt("malformed array")
    dtype = np.dtype(code)
    if not is_plain_dtype(dtype):
        raise _corrupt(f"array of dtype {dtype}")
    if dtype.kind == "b" and data.strip(b"\x00\x01"):
        raise _corrupt("a truth value is neither 0 nor 1")
    return dtype, shape, data


def _decode_array(dtype: np.dtype[Any], shape: list[int], data: bytes) -> np.ndarray[Any, Any]:
    if dtype.kind == "U":
        _characters(dtype, data)
    array: np.ndarray[Any, Any] = np.frombuffer(data, dtype).reshape(shape).copy()
    return array


def _decode_text(dtype: np.dtype[Any], data: bytes) -> np.str_ | np.bytes_:
    """A scalar with all its characters; an array would lose zeros at the end."""
    if len(data) != dtype.itemsize:
        raise _corrupt("a text of another width")
    text: np.str_ | np.bytes_
    text = np.bytes_(data) if dtype.kind == "S" else np.str_(_characters(dtype, data))
    return text


def _characters(dtype: np.dtype[Any], data: bytes) -> str:
    """All characters in ``data``; raises `ValueError` for bytes of no character."""
    return data.decode("utf-32-le" if dtype.str[0] == "<" else "utf-32-be", "surrogatepass")
