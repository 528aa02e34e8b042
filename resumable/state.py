"""State as a value: copying, bytes, and the report of a mismatch.

A state is a nested dict of ints, strings, bytes, floats, bools, None, lists and
string-keyed dicts. Tuples, integers beyond 64 bits, complex numbers, and NumPy arrays and
scalars of bool, integer, float and complex dtypes are carried too, exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import msgpack
import numpy as np

from .arguments import shorten
from .bounds import ALWAYS_WITHIN, ARRAY, BIG_INT, COMPLEX, SCALAR, TUPLE, explain_excess
from .errors import CorruptCheckpoint, StateMismatch, UnencodableState

__all__ = [
    "Identity",
    "State",
    "TakenState",
    "below",
    "compare_fingerprints",
    "dumps",
    "dumps_frozen",
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
MAX_DEPTH: Final = 50
ARRAY_CODE: Final = re.compile(r"[<>|][biufc][1-9][0-9]?")
LARGEST_COUNT: Final = 2**63 - 1

# Making one takes longer than packing a small state. While one is in use it is nobody else's: not
# another thread's, a signal handler's, or that of a value within the value.
SPARE_PACKERS: Final[list[msgpack.Packer]] = []

PLAIN: Final = frozenset({int, float, str, bytes, bool, complex, type(None)})


def dumps(state: State) -> bytes:
    """Serialise a state.

    Raises:
      UnencodableState: if it holds a value without an exact serialised form.
    """
    return dumps_frozen(freeze(state))


def dumps_frozen(state: State) -> bytes:
    """As `dumps`, of a value that `freeze` returned.

    Raises:
      UnencodableState: if it is too large.
    """
    packed = _pack(state)
    # `loads` bounds what it builds; a state that it would refuse is never written.
    if len(packed) > ALWAYS_WITHIN and (excess := explain_excess(packed)):
        raise UnencodableState(
            f"the state is too large: {excess}; carried items should be arrays, or not be carried"
        )
    return MAGIC + packed


def loads(data: bytes | bytearray | memoryview) -> State:
    """The state that `dumps` made ``data`` from; nothing in ``data`` is ever executed.

    Raises:
      CorruptCheckpoint: if ``data`` is anything else.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise CorruptCheckpoint(f"a serialised state is bytes, got {type(data).__name__}")
    view = memoryview(data)
    if (view.format, view.ndim, view.c_contiguous) != ("B", 1, True):
        view = memoryview(view.tobytes())
    mark = bytes(view[: len(MAGIC)])
    if mark != MAGIC:
        raise CorruptCheckpoint(
            f"not a serialised state: it starts with {mark!r} instead of {MAGIC!r}"
        )
    if excess := explain_excess(view[len(MAGIC) :]):
        raise CorruptCheckpoint(f"not a serialised state: {excess}")
    state = _Decoder().unpack(view[len(MAGIC) :])
    if not isinstance(state, dict):
        raise CorruptCheckpoint(f"a state is a dict, got {type(state).__name__}")
    if not _is_state(state, 0):  # the encoding has kinds of values that a state has not
        raise CorruptCheckpoint("not a serialised state: it holds other values")
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
        copied = value.copy()
        for key, item in value.items():
            if type(key) is not str:
                raise _Refused
            if type(item) not in PLAIN:
                copied[key] = _copied(item, depth + 1)
        return copied
    if kind is list:
        return [_copied(item, depth + 1) for item in value]
    if kind is tuple:
        return tuple([_copied(item, depth + 1) for item in value])
    if _is_plain_array(value):
        return np.array(value) if isinstance(value, np.ndarray) else value
    raise _Refused


def _is_state(value: Any, depth: int) -> bool:
    """Whether `_copied` would take ``value``; nothing is copied."""
    kind = type(value)
    if kind in PLAIN:
        return True
    if depth > MAX_DEPTH:
        return False
    if kind is dict:
        return all(type(key) is str for key in value) and all(
            type(item) in PLAIN or _is_state(item, depth + 1) for item in value.values()
        )
    if kind is list or kind is tuple:
        kinds = set(map(type, value))
        return kinds <= PLAIN or all(_is_state(item, depth + 1) for item in value)
    return _is_plain_array(value)


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
    if _is_plain_array(value):
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
        hint = "; use resumable.loads first" if isinstance(state, bytes) else ""
        raise StateMismatch(f"the state must be a dict, got {shorten(state)}{hint}", stage)
    if state.keys() != set(names):
        raise StateMismatch(
            f"the state must have the keys {sorted(names)}, got {sorted(map(str, state))}; "
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
    if type(value) is not int or value > LARGEST_COUNT:
        raise StateMismatch(f"saved {name} must be a 64-bit integer, got {shorten(value)}", stage)
    if value < 0:
        raise StateMismatch(f"saved {name}={shorten(value)} is below 0", stage)
    if maximum is not None and value > maximum:
        raise StateMismatch(f"saved {name}={value} lies beyond {rule or maximum}", stage)
    return value


class Identity(NamedTuple):
    """What identifies a stage, and those before it.

    Attributes:
      name: of the stage.
      version: of the shape of its state.
      fields: value and default of each field that must not change.
      upstreams: of the stages before it.
    """

    name: str
    version: int
    fields: dict[str, tuple[Any, Any]]
    upstreams: list[Identity]


def compare_fingerprints(saved: Any, current: Identity) -> str | None:
    """Why a state with fingerprint ``saved`` does not fit ``current``; None if it does."""
    if not isinstance(saved, str):
        return f"its fingerprint must be a string, got {shorten(saved)}"
    try:
        theirs = json.loads(saved)
    except (ValueError, RecursionError):
        return f"its fingerprint cannot be read: {shorten(saved)}"
    return _compare_nodes(theirs, current, "pipeline")


def _compare_nodes(theirs: Any, ours: Identity, path: str) -> str | None:
    if not (isinstance(theirs, list) and theirs and isinstance(theirs[0], str)):
        return f"{path}: the saved fingerprint is not one of this library's: {shorten(theirs)}"
    # A saved node is [name or name@version, {field: value} unless empty, upstream...].
    name, _, version = theirs[0].partition("@")
    fields = theirs[1] if len(theirs) > 1 and isinstance(theirs[1], dict) else {}
    upstreams = [part for part in theirs[1:] if part is not fields]
    if name != ours.name:
        return (
            f"{path}: the saved pipeline has {name} here, this one has {ours.name}; "
            "was a stage added, removed or moved?"
        )
    if version and not (re.fullmatch("[0-9]{1,9}", version) and int(version) <= ours.version):
        return (
            f"{name} at {path}: saved in version {version[:9]} of its state, this library reads up to "
            f"{ours.version}; was it written by a newer version of the library?"
        )
    for field in sorted(fields.keys() | ours.fields.keys()):
        current, default = ours.fields.get(field, ("nothing", "nothing"))
        saved = fields.get(field, default)
        if saved != current and saved != _as_json(current):
            return (
                f"{name} at {path}: saved {field}={saved}, this pipeline has {field}={current}; "
                f"{_likely_cause(field)}"
            )
    if len(upstreams) != len(ours.upstreams):
        return (
            f"{name} at {path}: saved with {len(upstreams)} upstreams, this pipeline has "
            f"{len(ours.upstreams)}; was an input added or removed?"
        )
    for number, (left, right) in enumerate(zip(upstreams, ours.upstreams, strict=True)):
        if reason := _compare_nodes(left, right, below(path, upstreams, number)):
            return reason
    return None


def below(path: str, upstreams: Sequence[Any], number: int) -> str:
    """The path of upstream ``number`` of the stage at ``path``."""
    return f"{path}.upstream" if len(upstreams) == 1 else f"{path}.upstreams[{number}]"


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _likely_cause(field: str) -> str:
    causes = {
        "seed": "is the seed taken from the clock, the rank or a changed setting?",
        "files": "were files added, removed, changed or listed in another order?",
        "length": "did the data set grow or shrink since the save?",
        "count": "it may change only where no later stage counts, shuffles or filters items",
        "index": "behind a filter, each rank resumes from its own state",
        "batch_size": "it may change only where no later stage counts or shuffles batches",
    }
    return causes.get(field, "was the pipeline changed since the save?")


def _is_plain_array(value: Any) -> bool:
    # A subclass, such as a masked array, holds more than its numbers.
    exact = type(value) in (np.ndarray, np.memmap) or isinstance(value, np.generic)
    return exact and _is_plain_dtype(value.dtype)


@lru_cache(maxsize=64)
def _is_plain_dtype(dtype: np.dtype[Any]) -> bool:
    # Wider floats differ between machines; objects and records could carry pointers.
    return dtype.kind in "biu" or dtype in (
        np.dtype(code).newbyteorder(dtype.byteorder) for code in ("f2", "f4", "f8", "c8", "c16")
    )


def _pack(value: Any) -> bytes:
    try:
        packer = SPARE_PACKERS.pop()
    except IndexError:
        # strict_types sends tuples, NumPy's float64 (a float) and big integers to `_encode`.
        packer = msgpack.Packer(default=_encode, strict_types=True, unicode_errors="surrogatepass")
    packed = packer.pack(value)
    assert packed is not None
    if len(packed) <= ALWAYS_WITHIN:  # its buffer never shrinks
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
    code = ARRAY if isinstance(value, np.ndarray) else SCALAR
    described = [value.dtype.str, list(value.shape), value.tobytes()]
    return msgpack.ExtType(code, _pack(described))


class _Decoder:
    """Decodes one state, within a bound of nesting; `explain_excess` has bounded the rest."""

    def __init__(self) -> None:
        self._depth = 0

    def unpack(self, data: bytes | memoryview) -> Any:
        # Each level of extensions is a level of C calls, which Python does not count.
        if self._depth > MAX_DEPTH:
            raise CorruptCheckpoint("not a serialised state: nested too deeply")
        self._depth += 1
        try:
            return msgpack.unpackb(
                data,
                ext_hook=self._extension,
                object_pairs_hook=_unique,
                strict_map_key=True,
                unicode_errors="surrogatepass",
            )
        except CorruptCheckpoint:
            raise
        # A damaged length may raise anything the decoder knows, up to running out of memory.
        except (
            ArithmeticError,
            ValueError,
            TypeError,
            RecursionError,
            MemoryError,
            msgpack.UnpackException,
        ) as error:
            raise CorruptCheckpoint(
                f"not a serialised state: {error or type(error).__name__}"
            ) from None
        finally:
            self._depth -= 1

    def _extension(self, code: int, data: bytes) -> Any:
        if code == BIG_INT and data:
            return int.from_bytes(data, "big", signed=True)
        if code in (TUPLE, COMPLEX, ARRAY, SCALAR):
            fields = self.unpack(data)
            if isinstance(fields, list):
                if code == TUPLE:
                    return tuple(fields)
                if code == COMPLEX and len(fields) == 2:
                    return complex(*fields)
                if len(fields) == 3 and code in (ARRAY, SCALAR):
                    array = _decode_array(*fields)
                    if code == ARRAY:
                        return array
                    if array.shape == ():
                        return array[()]
        raise CorruptCheckpoint(f"not a serialised state: unknown extension {code}")


def _unique(pairs: list[tuple[Any, Any]]) -> State:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise CorruptCheckpoint("not a serialised state: a key stands twice in one dict")
    return unique


def _decode_array(code: Any, shape: Any, data: Any) -> np.ndarray[Any, Any]:
    whole = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if not (
        whole and isinstance(code, str) and ARRAY_CODE.fullmatch(code) and isinstance(data, bytes)
    ):
        raise CorruptCheckpoint("not a serialised state: malformed array")
    dtype = np.dtype(code)
    if not _is_plain_dtype(dtype):
        raise CorruptCheckpoint(f"not a serialised state: array of dtype {dtype}")
    if dtype.kind == "b" and data.strip(b"\x00\x01"):
        raise CorruptCheckpoint("not a serialised state: a truth value is neither 0 nor 1")
    array: np.ndarray[Any, Any] = np.frombuffer(data, dtype).reshape(shape).copy()
    return array
