"""Sources and functions with tensors in their own state."""

# The core has no tensors. So in a state with tensors, such as `torch.get_rng_state()`, arrays
# replace the tensors: arrays of the same numbers or, for dtypes missing in NumPy, of integers with
# the same bits.

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import torch

import resumable as rs
from resumable.core.foreign_protocol import protocol_of
from resumable.errors import shorten
from resumable.sources.iterable_kinds import copy_to_read

__all__ = ["with_tensors"]

DTYPE, ARRAY = "torch.Tensor", "array"
DICTS: Final = (dict, OrderedDict)
IN_NUMPY: Final = frozenset(
    getattr(torch, name)
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
    if hasattr(torch, name)
)
BITS: Final = {1: torch.uint8, 2: torch.int16}
"""Integer dtypes for floats missing in NumPy, by number of bytes."""


def with_tensors(stateful: Any) -> Any:
    """Let the state of ``stateful`` hold tensors, for `from_iterable`, `map` and similar methods.

    Each tensor comes back on the CPU with the same dtype, shape and bits. Allowed are dense tensors
    of bools, integers, floats (also bfloat16 and floats of 8 bits) or complex numbers. An
    ``OrderedDict``, as from a `torch.nn.Module`, comes back as a dict.

    Args:
      stateful: an iterable, an iterator or a function, with ``get_state/set_state``,
        ``state_dict/load_state_dict`` or ``getstate/setstate``.

    Raises:
      InvalidType: if ``stateful`` has none of these methods.
      UnencodableState: when a state is taken and a tensor has another dtype, is sparse or
        quantized, has no data, is a parameter, or is part of a computation of gradients.
    """
    if hasattr(stateful, "__next__"):
        return _Iterator(stateful)
    if not hasattr(stateful, "__iter__"):
        return _Function(stateful)
    return _CalledIterable(stateful) if callable(stateful) else _Iterable(stateful)


class WithTensors:
    """An object with a state; arrays replace the tensors."""

    def __init__(self, stateful: Any) -> None:
        protocol = protocol_of(stateful)
        if protocol is None or isinstance(stateful, type):
            raise rs.InvalidType(
                "stateful must have get_state and set_state, or state_dict and load_state_dict, got "
                f"{shorten(stateful)}; of a function that makes an iterator, wrap what it returns"
            )
        self._stateful = stateful
        self._protocol = protocol

    def get_state(self) -> Any:
        """The state of the object, with arrays."""
        return _replaced(self._protocol.read(self._stateful), _array_of)

    def set_state(self, state: Any) -> None:
        """Move the object to a state returned by `get_state`."""
        self._protocol.write(self._stateful, _replaced(state, _tensor_of))

    def __copy__(self) -> WithTensors:
        return type(self)(copy_to_read(self._stateful))


class _Iterable(WithTensors):
    def __iter__(self) -> Iterator[Any]:
        return iter(self._stateful)


class _Iterator(_Iterable):
    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._stateful)


class _Function(WithTensors):
    def __call__(self, *args: Any) -> Any:
        return self._stateful(*args)


class _CalledIterable(_Iterable, _Function):
    """An iterable that is also a function, such as a `torch.nn.Sequential`."""


def _replaced(value: Any, replace: Callable[[Any], Any]) -> Any:
    """A copy of ``value`` with each part replaced by the result of ``replace``, unless None."""
    found = replace(value)
    if found is not None:
        return found
    if type(value) in DICTS:
        return {key: _replaced(part, replace) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_replaced(part, replace) for part in value])
    return value


def _array_of(value: Any) -> dict[str, Any] | None:
    if type(value) in DICTS and DTYPE in value:
        raise rs.UnencodableState(f"a state with tensors must not have the key {DTYPE!r} itself")
    if type(value) is not torch.Tensor:
        return None  # the core refuses a subclass, such as a parameter
    if value.layout is not torch.strided or value.is_quantized or value.is_meta:
        raise rs.UnencodableState(f"a tensor in a state must be dense, got {shorten(value)}")
    if value.requires_grad:
        raise rs.UnencodableState(
            f"a tensor in a state must not require gradients, got {shorten(value)}; detach it"
        )
    bits = _bits_of(value.dtype)
    if bits is None:
        raise rs.UnencodableState(
            f"a tensor of dtype {value.dtype} in a state has no exact serialised form"
        )
    array = value.cpu().resolve_conj().resolve_neg().contiguous().view(bits).numpy()
    return {DTYPE: str(value.dtype).removeprefix("torch."), ARRAY: array}


def _tensor_of(value: Any) -> torch.Tensor | None:
    if type(value) is not dict or value.keys() != {DTYPE, ARRAY}:
        return None
    name, array = value[DTYPE], value[ARRAY]
    dtype: Any = getattr(torch, name, None) if isinstance(name, str) else None
    bits = _bits_of(dtype) if isinstance(dtype, torch.dtype) else None
    if bits is not None and isinstance(array, np.ndarray):
        native = np.array(array, array.dtype.newbyteorder("="))
        if native.dtype == torch.empty(0, dtype=bits).numpy().dtype:
            return torch.from_numpy(native).view(dtype)
    raise rs.StateMismatch(
        f"a saved tensor must be an array of {shorten(name)}, got {shorten(array)}"
    )


def _bits_of(dtype: torch.dtype) -> torch.dtype | None:
    """The dtype of the array for a tensor of ``dtype``; None if impossible."""
    if dtype in IN_NUMPY:
        return dtype
    return BITS.get(dtype.itemsize) if dtype.is_floating_point else None
