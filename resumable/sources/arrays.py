"""Rows of NumPy arrays with a common first axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from ..core.arguments import check_type
from ..core.block import (
    PYTHON_NUMBERS,
    Block,
    Indices,
    block_length,
    is_masked,
    take_rows,
)
from ..core.computed_once import computed_once
from ..core.identity import IdentityFields
from ..core.indexed import Indexed
from ..core.layout import ColumnsLike, Layout
from ..core.lookup import LookedUp
from ..errors import InvalidArgument, InvalidType
from .identity import DATA_IDENTITY, LENGTH, check_identity


@final
@dataclass(frozen=True, eq=False, repr=False)
class FromArrays(LookedUp[Any]):
    """The rows of an array, or of a tuple or dict of arrays with a common first axis.

    Items have the structure of ``arrays``: a row, a tuple of rows or a dict of rows. Blocks are
    columns, copied from the arrays by one `numpy.take` each. A row of one-dimensional bool, int64,
    float64 or complex128 data is a Python number; a row of one-dimensional data of another dtype is
    a NumPy scalar.

    State: O(1), the position. Random access; a resume reads nothing.

    Args:
      arrays: shapes (n, ...), any dtypes; `numpy.memmap` stays on disk.
      data_identity: identifies the data beyond the length: a version, a digest or a list of file
        names. The value must be the same at save and resume.

    Raises:
      InvalidArgument: if the first axes differ, an array has no axis, or no array is given.
      InvalidType: if a value is not an array, or is masked; or if ``data_identity`` is neither a
        string nor a list of strings.

    >>> list(rs.from_arrays({"x": np.array([1, 2]), "y": np.array([True, False])}))
    [{'x': 1, 'y': True}, {'x': 2, 'y': False}]
    """

    identity: ClassVar[IdentityFields] = {
        "length": replace(LENGTH, shown_as="len(arrays)"),
        "data_identity": DATA_IDENTITY,
    }
    state_cost = "the position"

    arrays: Any
    _: KW_ONLY
    data_identity: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_identity", check_identity(self.data_identity))
        arrays = self.arrays
        if isinstance(arrays, Mapping):
            arrays = {key: _column(f"arrays[{key!r}]", value) for key, value in arrays.items()}
        elif isinstance(arrays, tuple):
            columns = [_column(f"arrays[{i}]", value) for i, value in enumerate(arrays)]
            arrays = getattr(type(arrays), "_make", tuple)(columns)
        else:
            arrays = _column("arrays", arrays)
        if not isinstance(arrays, np.ndarray):
            _check_lengths(arrays)
        object.__setattr__(self, "arrays", arrays)

    @property
    def length(self) -> int:
        return block_length(self.arrays)

    @computed_once
    def block_layout(self) -> Layout:
        return ColumnsLike(self.arrays)

    def indexed(self, epoch: int = 0) -> Indexed[Any]:
        arrays = self.arrays
        return Indexed(
            self._gather, rows_lookup(arrays), gather_range=rows_between(arrays), every_epoch=True
        )

    def _gather(self, indices: Indices) -> Block:
        return take_rows(self.arrays, indices)

    def __repr__(self) -> str:
        return f"FromArrays({_described(self.arrays)})"


def rows_lookup(arrays: Any) -> Callable[[int], Any]:
    """A function that returns an item by index: a row of ``arrays``, or a tuple or dict of rows."""
    if isinstance(arrays, np.ndarray):
        return row_lookup(arrays)
    if isinstance(arrays, dict):
        named = [(key, row_lookup(column)) for key, column in arrays.items()]
        return lambda index: {key: row(index) for key, row in named}
    rows, make = list(map(row_lookup, arrays)), getattr(type(arrays), "_make", tuple)
    return lambda index: make([row(index) for row in rows])


def rows_between(arrays: Any) -> Callable[[int, int], Block]:
    """A function that returns the rows of ``arrays`` from a start to a stop, as a copied block."""
    if isinstance(arrays, np.ndarray):
        return lambda start, stop: arrays[start:stop].copy()
    if isinstance(arrays, dict):
        return lambda start, stop: {key: rows[start:stop].copy() for key, rows in arrays.items()}
    make = getattr(type(arrays), "_make", tuple)
    return lambda start, stop: make([rows[start:stop].copy() for rows in arrays])


def row_lookup(column: np.ndarray[Any, Any]) -> Callable[[int], Any]:
    """A function that returns a copy of a row of ``column``, shape (n, ...), by index."""
    if column.ndim > 1 or column.dtype.kind == "V":  # indexing would return a view
        return lambda index: column[index].copy()
    return column.item if column.dtype in PYTHON_NUMBERS else column.__getitem__


def _column(name: str, value: Any) -> np.ndarray[Any, Any]:
    check_type(name, value, np.ndarray, "a NumPy array, or a tuple or dict of them")
    check_no_mask(name, value)
    if value.ndim == 0:
        raise InvalidArgument(f"{name} must have a first axis, got shape ()")
    return np.asarray(value)


def check_no_mask(name: str, value: Any) -> None:
    """Refuse a masked array, whose rows would come without the mask.

    Raises:
      InvalidType: if ``value`` is masked; the message says how to keep the mask.
    """
    if is_masked(value):
        raise InvalidType(
            f"{name} must not be masked, got a masked array of shape {value.shape}; pass "
            "from_arrays the dict {'data': a.data, 'mask': numpy.ma.getmaskarray(a)}"
        )


def _check_lengths(arrays: Any) -> None:
    named = list(arrays.items() if isinstance(arrays, dict) else enumerate(arrays))
    if not named:
        raise InvalidArgument("arrays must hold at least one array, got none")
    first_name, first = named[0]
    for name, array in named:
        if len(array) != len(first):
            raise InvalidArgument(
                f"arrays must have the same first axis, got {len(first)} for {first_name!r} "
                f"and {len(array)} for {name!r}"
            )


def _described(arrays: Any) -> str:
    if isinstance(arrays, dict):
        return ", ".join(f"{key}: {_described(array)}" for key, array in arrays.items())
    if isinstance(arrays, tuple):
        return ", ".join(map(_described, arrays))
    return f"{arrays.dtype}{list(arrays.shape)}"
