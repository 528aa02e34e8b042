"""State as a value: copying, bytes, and the report of a mismatch.

A state is a nested dict of ints, strings, bytes, floats, bools, None, lists and
string-keyed dicts. Tuples, integers beyond 64 bits, complex numbers, and NumPy arrays and
scalars of bool, integer, float and complex dtypes are carried too, exactly.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias

import msgpack
import numpy as np

from .arguments import shorten
from .errors import CorruptCheckpoint, StateMismatch, UnencodableState

__all__ = [
    "State",
    "TakenState",
    "compare_fingerprints",
    "dumps",
    "freeze",
    "loads",
    "settled",
    "unpack",
    "unpack_count",
]

State: TypeAlias = dict[str, Any]
TakenState: TypeAlias = "State | Exception"
"""A state taken ahead of need, or the error that taking it raised."""

# The first bytes of every serialised state: a name and the version of this format.
MAGIC: Final = b"RSM\x01"
MAX_DEPTH: Final = 200

BIG_INT, TUPLE, ARRAY, SCALAR, COMPLEX = 1, 2, 3, 4, 5
PLAIN: Final = frozenset({int, float, str, bytes, bool, complex, type(None)})


def dumps(state: State) -> bytes:
    """Serialise a state.

    Raises:
      UnencodableState: if it holds a value without an exact serialised form.
    """
    return MAGIC + _pack(freeze(state))


def loads(data: bytes) -> State:
    """The state that `dumps` made ``data`` from; nothing in ``data`` is ever executed.

    Raises:
      CorruptCheckpoint: if ``data`` is anything else.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise CorruptCheckpoint(f"a serialised state is bytes, got {type(data).__name__}")
    data = bytes(data)
    if not data.startswith(MAGIC):
        raise CorruptCheckpoint(
            f"not a serialised state: it starts with {data[:4]!r} instead of {MAGIC!r}"
        )
    state = _unpack(data[len(MAGIC) :])
    if not isinstance(state, dict):
        raise CorruptCheckpoint(f"a state is a dict, got {type(state).__name__}")
    return state


def freeze(value: Any, where: str = "state") -> Any:
    """A deep copy of ``value`` that shares nothing with it.

    Args:
      value: anything a state may hold.
      where: what to call it in an error.

    Raises:
      UnencodableState: naming the place of the first value that has no exact serialised form.
    """
    try:
        return _copied(value, 0)
    except _Refused:
        _refuse(value, where, 0)
        raise


class _Refused(Exception):
    """A value has no exact serialised form; where it stands is found afterwards."""


def _copied(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in PLAIN:
        return value
    if depth > MAX_DEPTH:
        raise _Refused
    if kind is dict:
        copied = {}
        for key, item in value.items():
            if type(key) is not str:
                raise _Refused
            copied[key] = item if type(item) in PLAIN else _copied(item, depth + 1)
        return copied
    if kind is list:
        return [_copied(item, depth + 1) for item in value]
    if kind is tuple:
        return tuple([_copied(item, depth + 1) for item in value])
    if isinstance(value, (np.ndarray, np.generic)) and _is_plain_dtype(value.dtype):
        return np.array(value) if isinstance(value, np.ndarray) else value
    raise _Refused


def _refuse(value: Any, where: str, depth: int) -> None:
    """Raise the error of the first value in ``value`` that `_copied` refuses."""
    kind = type(value)
    if depth > MAX_DEPTH:
        raise UnencodableState(f"{where} is nested deeper than {MAX_DEPTH} levels")
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise UnencodableState(
                    f"{where} has the key {shorten(key)}; keys of a state must be strings"
                )
            _refuse(item, f"{where}[{key!r}]", depth + 1)
        return
    if kind in (list, tuple):
        for number, item in enumerate(value):
            _refuse(item, f"{where}[{number}]", depth + 1)
        return
    if kind in PLAIN:
        return
    if isinstance(value, (np.ndarray, np.generic)) and _is_plain_dtype(value.dtype):
        return
    described = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, (np.ndarray, np.generic)):
        described += f" of dtype {value.dtype}"
    raise UnencodableState(f"{where} holds a {described}, which has no exact serialised form")


def settled(taken: TakenState) -> State:
    """A copy of a state taken ahead; raises the error if there was one."""
    if isinstance(taken, Exception):
        raise taken
    copied: State = freeze(taken)
    return copied


def unpack(stage: object, state: Any, *names: str) -> tuple[Any, ...]:
    """The values of ``names`` in ``state``, which must have exactly these keys.

    Raises:
      StateMismatch: if ``state`` is not such a dict, naming ``stage``.
    """
    if not isinstance(state, dict):
        raise StateMismatch(f"its state must be a dict, got {shorten(state)}", stage)
    if state.keys() != set(names):
        raise StateMismatch(
            f"its state must have the keys {sorted(names)}, got {sorted(map(str, state))}; "
            "was it saved by another stage?",
            stage,
        )
    return tuple(state[name] for name in names)


def unpack_count(
    stage: object, name: str, value: Any, maximum: float | None = None, rule: str = ""
) -> int:
    """``value`` if it is an int from 0 to ``maximum``, as a saved position must be.

    Raises:
      StateMismatch: naming ``stage``, ``name``, ``value`` and ``rule``.
    """
    if type(value) is not int:
        raise StateMismatch(f"saved {name} must be an integer, got {shorten(value)}", stage)
    if value < 0:
        raise StateMismatch(f"saved {name}={value} is below 0", stage)
    if maximum is not None and value > maximum:
        raise StateMismatch(f"saved {name}={value} lies beyond {rule or maximum}", stage)
    return value


def compare_fingerprints(saved: Any, current: str) -> str | None:
    """Why a state with fingerprint ``saved`` does not fit ``current``; None if it does."""
    if saved == current:
        return None
    if not isinstance(saved, str):
        return f"its fingerprint must be a string, got {shorten(saved)}"
    try:
        theirs = json.loads(saved)
    except (ValueError, RecursionError):
        return f"its fingerprint cannot be read: {shorten(saved)}"
    return _compare_nodes(theirs, json.loads(current), "pipeline")


def _compare_nodes(theirs: Any, ours: Any, path: str) -> str | None:
    if not (isinstance(theirs, list) and theirs and isinstance(theirs[0], str)):
        return f"{path}: the saved fingerprint is not one of this library's: {shorten(theirs)}"
    name, fields, upstreams = _node_parts(theirs)
    our_name, our_fields, our_upstreams = _node_parts(ours)
    if name != our_name:
        return (
            f"{path}: the saved pipeline has {name} here, this one has {our_name}; "
            "was a stage added, removed or moved?"
        )
    for field in sorted(fields.keys() | our_fields.keys()):
        saved, current = fields.get(field, "the default"), our_fields.get(field, "the default")
        if saved != current:
            return (
                f"{name} at {path}: saved {field}={saved}, this pipeline has {field}={current}; "
                f"{_likely_cause(field)}"
            )
    if len(upstreams) != len(our_upstreams):
        return (
            f"{name} at {path}: saved with {len(upstreams)} upstreams, this pipeline has "
            f"{len(our_upstreams)}; was an input added or removed?"
        )
    for number, (left, right) in enumerate(zip(upstreams, our_upstreams, strict=True)):
        below = f"{path}.upstream" if len(upstreams) == 1 else f"{path}.upstreams[{number}]"
        if reason := _compare_nodes(left, right, below):
            return reason
    return None


def _node_parts(node: list[Any]) -> tuple[str, dict[str, Any], list[Any]]:
    """Name, fields and upstreams of ``[name, {field: value}, upstream...]``; no fields, no dict."""
    if len(node) > 1 and isinstance(node[1], dict):
        return node[0], node[1], node[2:]
    return node[0], {}, node[1:]


def _likely_cause(field: str) -> str:
    causes = {
        "seed": "is the seed taken from the clock, the rank or a changed setting?",
        "version": "was the state written by a newer version of the library?",
        "files": "were files added, removed, changed or listed in another order?",
        "length": "did the data set grow or shrink since the save?",
        "count": "the number of shards may change only above stages that shuffle or count items",
        "batch_size": "it may change only where no later stage counts or shuffles batches",
    }
    return causes.get(field, "was the pipeline changed since the save?")


def _is_plain_dtype(dtype: np.dtype[Any]) -> bool:
    # Wider floats differ between machines; objects and records could carry pointers.
    return dtype.kind in "biu" or dtype in (
        np.dtype(code).newbyteorder(dtype.byteorder) for code in ("f2", "f4", "f8", "c8", "c16")
    )


def _pack(value: Any) -> bytes:
    # strict_types sends tuples, NumPy's float64 (a float) and big integers to `_encode`.
    packed = msgpack.packb(
        value, default=_encode, strict_types=True, unicode_errors="surrogatepass"
    )
    assert packed is not None
    return packed


def _encode(value: Any) -> msgpack.ExtType:
    if type(value) is tuple:
        return msgpack.ExtType(TUPLE, _pack(list(value)))
    if type(value) is int:
        size = value.bit_length() // 8 + 1
        return msgpack.ExtType(BIG_INT, value.to_bytes(size, "big", signed=True))
    if type(value) is complex:
        return msgpack.ExtType(COMPLEX, _pack([value.real, value.imag]))
    code = ARRAY if isinstance(value, np.ndarray) else SCALAR
    described = [value.dtype.str, list(value.shape), value.tobytes()]
    return msgpack.ExtType(code, _pack(described))


def _unpack(data: bytes) -> Any:
    try:
        return msgpack.unpackb(
            data,
            ext_hook=_decode,
            object_pairs_hook=_unique_keys,
            strict_map_key=True,
            unicode_errors="surrogatepass",
        )
    except CorruptCheckpoint:
        raise
    # A damaged length may raise anything the decoder knows, up to running out of memory.
    except (ValueError, TypeError, RecursionError, MemoryError, msgpack.UnpackException) as error:
        raise CorruptCheckpoint(
            f"not a serialised state: {error or type(error).__name__}"
        ) from None


def _decode(code: int, data: bytes) -> Any:
    if code == BIG_INT:
        return int.from_bytes(data, "big", signed=True)
    if code in (TUPLE, COMPLEX, ARRAY, SCALAR):
        fields = _unpack(data)
        if isinstance(fields, list):
            if code == TUPLE:
                return tuple(fields)
            if code == COMPLEX and len(fields) == 2:
                return complex(*fields)
            if len(fields) == 3:
                array = _decode_array(*fields)
                return array if code == ARRAY else array[()]
    raise CorruptCheckpoint(f"not a serialised state: unknown extension {code}")


def _decode_array(code: Any, shape: Any, data: Any) -> np.ndarray[Any, Any]:
    if not (isinstance(code, str) and len(code) <= 4 and isinstance(data, bytes)):
        raise CorruptCheckpoint("not a serialised state: malformed array")
    dtype = np.dtype(code)
    if not _is_plain_dtype(dtype):
        raise CorruptCheckpoint(f"not a serialised state: array of dtype {dtype}")
    array: np.ndarray[Any, Any] = np.frombuffer(data, dtype).reshape(shape).copy()
    return array


def _unique_keys(pairs: list[tuple[Any, Any]]) -> State:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise CorruptCheckpoint("not a serialised state: a key stands twice in one dict")
    return unique
