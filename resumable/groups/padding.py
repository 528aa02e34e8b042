"""A collate that pads arrays of different lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt

from ..core.arguments import check_choice, check_int
from ..core.block import WIDE_FLOATS, Indices, fits_float, is_masked, stack
from ..errors import InvalidArgument, InvalidType, MalformedItem, shorten

Value: TypeAlias = "complex | Mapping[str, complex]"
Array: TypeAlias = npt.NDArray[Any]


def padded(
    value: Value = 0,
    length: int | None = None,
    multiple_of: int | None = None,
    side: str = "right",
    mask: str | None = None,
) -> Padded:
    """A ``collate`` that pads arrays and lists of numbers to one length.

    For `Pipeline.batch` and `Pipeline.bucket`. Items are arrays of shapes (n, ...) that differ in n
    only, lists of numbers, or dicts or tuples with such fields. They become arrays of shape (items,
    length, ...), in a dtype that holds all numbers. Other fields, such as numbers and strings, are
    stacked as `Pipeline.batch` does.

    Args:
      value: the padding; for dicts also a dict with the value of each field, 0 for fields left out.
      length: of all padded arrays; by default the length of the longest item of the batch.
      multiple_of: the length is rounded up to a multiple of this number, so a model sees fewer
        shapes.
      side: ``"right"`` puts the padding after the items, ``"left"`` before them.
      mask: adds a bool array of shape (items, length) that is True at the places of items: to dicts
        under this name, to others as the last field of a tuple. All padded fields must then have
        one length.

    Returns:
      a callable that takes a list of items; it can be pickled.

    Raises:
      InvalidArgument: if ``length`` or ``multiple_of`` is less than 1, or ``side`` is another word.
      InvalidType: if an argument has the wrong type.
      MalformedItem: when called, if an item is longer than ``length``, if shapes differ beyond the
        first axis, if arrays are masked, if an array has integers that the common dtype does not
        hold exactly, or if ``value`` does not fit the dtype.

    >>> rows = rs.from_sequence([[1, 2, 3], [4]])
    >>> next(iter(rows.batch(2, collate=rs.padded())))
    array([[1, 2, 3],
           [4, 0, 0]])
    """
    if isinstance(value, Mapping):
        values = {name: _check_value(f"value[{name!r}]", one) for name, one in value.items()}
    else:
        values = _check_value("value", value)
    if length is not None:
        length = check_int("length", length, minimum=1)
    if multiple_of is not None:
        multiple_of = check_int("multiple_of", multiple_of, minimum=1)
    if length is not None and multiple_of is not None and length % multiple_of:
        raise InvalidArgument(
            f"length must be a multiple of multiple_of={multiple_of}, got {length}"
        )
    check_choice("side", side, ("right", "left"))
    if mask is not None and not isinstance(mask, str):
        raise InvalidType(f"mask must be a string or None, got {shorten(mask)}")
    return Padded(values, length, multiple_of, side, mask)


def _check_value(name: str, value: Any) -> Any:
    if not isinstance(value, (bool, int, float, complex, np.number, np.bool_)):
        raise InvalidType(f"{name} must be a number, got {shorten(value)}")
    return value


class _Filled(NamedTuple):
    """A padded field.

    Attributes:
      array: shape (items, length, ...).
      lengths: of the items without padding, shape (items,).
    """

    array: Array
    lengths: Indices


@final
@dataclass(frozen=True)
class Padded:
    """The result of `padded`; the fields are the arguments of `padded`."""

    value: Any
    length: int | None
    multiple_of: int | None
    side: str
    mask: str | None

    def __call__(self, items: Sequence[Any]) -> Any:
        first = items[0]
        columns: dict[Any, Sequence[Any]]
        if isinstance(first, Mapping):
            columns = _columns_of_dicts(items)
        elif isinstance(first, tuple):
            columns = _columns_of_tuples(items)
        else:
            columns = {None: items}
        fields = {name: self._field(name, column) for name, column in columns.items()}
        batch = {
            name: field.array if isinstance(field, _Filled) else field
            for name, field in fields.items()
        }
        if self.mask is not None:
            if self.mask in batch:
                raise MalformedItem(f"mask must be no field of the items, got {self.mask!r}")
            batch[self.mask] = self._mask_of(fields)
        if isinstance(first, Mapping):
            return batch
        values = list(batch.values())
        if isinstance(first, tuple):
            plain = self.mask is not None or not hasattr(first, "_make")
            return tuple(values) if plain else type(first)._make(values)  # type: ignore[attr-defined]
        return tuple(values) if self.mask is not None else values[0]

    def rounded(self, length: int) -> int:
        """The length of a batch with the longest item of ``length``."""
        if self.length is not None:
            return self.length
        multiple = self.multiple_of or 1
        return -(-length // multiple) * multiple

    def _field(self, name: Any, column: Sequence[Any]) -> Any:
        """The padded ``column``; stacked instead if not of arrays."""
        arrays = _arrays_of(column)
        if arrays is None:
            return stack(column)
        lengths = np.fromiter(map(len, arrays), np.int64, len(arrays))
        longest = int(lengths.max())
        if self.length is not None and longest > self.length:
            raise MalformedItem(
                f"items to pad must have at most length={self.length}, got {longest} "
                f"(item {int(lengths.argmax())} of the batch)"
            )
        return _Filled(self._filled(name, arrays, lengths, self.rounded(longest)), lengths)

    def _filled(self, name: Any, arrays: list[Array], lengths: Indices, length: int) -> Array:
        # Empty lists have no dtype to contribute.
        kept = [array for array in arrays if array.size] or arrays
        shapes = sorted({array.shape[1:] for array in kept})
        if len(shapes) > 1:
            raise MalformedItem(
                f"items to pad must have one shape behind the first axis, got {shapes}"
            )
        joined = np.concatenate(kept)
        if joined.dtype.num in WIDE_FLOATS and not all(map(fits_float, kept)):
            dtypes = " and ".join(sorted({str(array.dtype) for array in kept}))
            raise MalformedItem(
                f"items to pad must have numbers that one dtype holds exactly, got {dtypes} with "
                "integers beyond 2**53"
            )
        value = self.value.get(name, 0) if isinstance(self.value, Mapping) else self.value
        filling = _filling(value, joined.dtype)
        if filling is None:
            message = f"value must fit {joined.dtype}, got {shorten(value)} to pad with"
            raise MalformedItem(message)
        filled = np.full((len(arrays), length, *shapes[0]), filling)
        filled[self._places(lengths, length)] = joined
        return filled

    def _places(self, lengths: Indices, length: int) -> npt.NDArray[np.bool_]:
        """True at the places of the items, shape (items, length)."""
        places, ends = np.arange(length), lengths[:, None]
        return places < ends if self.side == "right" else places >= length - ends

    def _mask_of(self, fields: Mapping[Any, Any]) -> npt.NDArray[np.bool_]:
        found = [field for field in fields.values() if isinstance(field, _Filled)]
        if not found:
            raise MalformedItem("mask needs a field that is padded, got none")
        if any((field.lengths != found[0].lengths).any() for field in found):
            raise MalformedItem("mask needs fields of one length in each item")
        return self._places(found[0].lengths, found[0].array.shape[1])


def _filling(value: Any, dtype: np.dtype[Any]) -> Array | None:
    """``value`` in this dtype, as an array without axes; None if ``value`` does not fit."""
    given = np.full((), value)
    if given.dtype.kind == "c" and dtype.kind != "c":
        if given.imag:
            return None
        given = given.real
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            filling = given.astype(dtype)
            equal = bool(filling == value) and _is_infinite(filling) == _is_infinite(given)
    except OverflowError:  # an integer that has no dtype
        return None
    both_nan = filling != filling and given != given
    return filling if equal or both_nan else None


def _is_infinite(value: Array) -> bool:
    return value.dtype.kind in "fc" and bool(np.isinf(value))


def _arrays_of(column: Sequence[Any]) -> list[Array] | None:
    """The items as arrays of at least one axis; None if an item is something else."""
    if not all(isinstance(item, (list, np.ndarray)) for item in column):
        return None
    if any(map(is_masked, column)):
        raise MalformedItem(
            "cannot pad masked arrays with their masks; fill them first, as by numpy.ma.filled"
        )
    try:
        arrays = [np.asarray(item) for item in column]
    except ValueError:  # a ragged list
        return None
    return arrays if all(array.ndim and array.dtype.kind in "biufc" for array in arrays) else None


def _columns_of_dicts(items: Sequence[Any]) -> dict[Any, Sequence[Any]]:
    names = items[0].keys()
    for item in items:
        if not isinstance(item, Mapping) or item.keys() != names:
            raise MalformedItem(
                f"items to pad must have the fields {list(names)}, got {shorten(item)}"
            )
    return {name: [item[name] for item in items] for name in names}


def _columns_of_tuples(items: Sequence[Any]) -> dict[Any, Sequence[Any]]:
    count = len(items[0])
    for item in items:
        if not isinstance(item, tuple) or len(item) != count:
            raise MalformedItem(
                f"items to pad must be tuples of {count} fields, got {shorten(item)}"
            )
    return dict(enumerate(map(list, zip(*items, strict=True))))
