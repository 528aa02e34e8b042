"""Arrow arrays as NumPy arrays for numbers, and as Python values otherwise."""

# The conversion of a value depends on the value and on the type of its column, never on its
# neighbours: so a row is the same however it is read. pyarrow itself turns integers among nulls
# into floats.

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ...core.block import block_items

ArrowArray: TypeAlias = Any
"""A `pyarrow.Array`, or a `pyarrow.ChunkedArray` with too many bytes for a single array."""

Column: TypeAlias = "npt.NDArray[Any] | ArrowArray"
"""The values of a column: an array of shape (rows, ...), or an Arrow array of this length."""


def as_column(array: ArrowArray) -> Column:
    """``array`` as NumPy if all values are numbers, of shape (rows,) or (rows, size)."""
    import pyarrow as pa

    array = _plain(array)
    kind = array.type
    if array.null_count or isinstance(array, pa.ChunkedArray):
        return array
    if _is_number(kind):
        return _numbers(array)
    if pa.types.is_fixed_size_list(kind) and kind.list_size:
        inner = as_column(array.flatten())
        if isinstance(inner, np.ndarray) and inner.ndim == 1:
            return inner.reshape(len(array), kind.list_size)
    return array


def python_values(array: ArrowArray) -> list[Any]:
    """The values of ``array``; a null is None.

    Raises:
      ValueError: if Python has no such value.
    """
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in python_values(chunk)]
    array = _plain(array)
    if not array.null_count:
        return _values_without_null(array)
    values = iter(python_values(array.drop_null()))
    valid: list[bool] = array.is_valid().to_pylist()
    return [next(values) if is_valid else None for is_valid in valid]


def stackable(schema: Any) -> frozenset[str]:
    """The columns of ``schema`` with numbers, the same count in each row, or text; nulls allowed.

    Any values of such a column can be stacked into a batch.
    """
    return frozenset(field.name for field in schema if _is_stackable(field.type))


def check_readable(schema: Any, columns: Sequence[str] | None, *, empty_structs: bool) -> None:
    """Check that pyarrow can convert the values of ``columns``.

    Args:
      schema: of the table.
      columns: names of columns; None for all.
      empty_structs: whether pyarrow can convert structs without fields.

    Raises:
      ValueError: if a column cannot be converted, with its name.
    """
    for field in schema:
        kind = _unreadable(field.type, empty_structs)
        if kind is not None and (columns is None or field.name in columns):
            raise ValueError(
                f"column {field.name!r}: pyarrow gives no values of the type {kind}; choose columns without it"
            )


def _unreadable(kind: Any, empty_structs: bool) -> Any:
    """A type within ``kind`` with values that pyarrow cannot convert, or None."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return _unreadable(kind.storage_type, empty_structs)
    if pa.types.is_dictionary(kind):
        return _unreadable(kind.value_type, empty_structs)
    if kind.id in (pa.lib.Type_INTERVAL_MONTHS, pa.lib.Type_INTERVAL_DAY_TIME):
        return kind
    if pa.types.is_struct(kind) and not kind.num_fields and not empty_structs:
        return kind
    inner = (_unreadable(kind.field(place).type, empty_structs) for place in range(kind.num_fields))
    return next((found for found in inner if found is not None), None)


def _is_stackable(kind: Any) -> bool:
    import pyarrow as pa

    kind = _plain_type(kind)
    if pa.types.is_fixed_size_list(kind):
        return bool(kind.list_size) and _is_number(_plain_type(kind.value_type))
    return _is_number(kind) or is_text(kind)


def _plain_type(kind: Any) -> Any:
    """The type of an array of type ``kind`` after `_plain`."""
    import pyarrow as pa

    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return _without_views(kind)


def is_text(kind: Any) -> bool:
    """Whether the values of an array of type ``kind`` are strings, bytes or None."""
    import pyarrow as pa

    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
    )


def _plain(array: ArrowArray) -> ArrowArray:
    """``array`` without types that describe only the storage or the meaning of its values."""
    import pyarrow as pa

    while not isinstance(array, pa.ChunkedArray):
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(array.type):
            import pyarrow.compute as pc

            array = pc.run_end_decode(array)
        elif (kind := _without_views(array.type)) != array.type:
            array = array.cast(kind)  # pyarrow cannot select rows of views
        else:
            break
    return array


def _without_views(kind: Any) -> Any:
    """The type ``kind`` with text and bytes in one buffer instead of views of several."""
    import pyarrow as pa

    types = pa.types
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_list(kind) or types.is_large_list(kind):
        make = pa.list_ if types.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_without_views(kind.value_type)))
    if types.is_fixed_size_list(kind):
        field = kind.value_field.with_type(_without_views(kind.value_type))
        return pa.list_(field, kind.list_size)
    if types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    return kind


def _values_without_null(array: ArrowArray) -> list[Any]:
    import pyarrow as pa

    kind, types = array.type, pa.types
    if _is_number(kind):
        return block_items(_numbers(array))
    if types.is_list(kind) or types.is_large_list(kind):
        return _lists(array.values, np.asarray(array.offsets))
    if types.is_fixed_size_list(kind):
        return _lists(array.flatten(), np.arange(len(array) + 1) * kind.list_size)
    if types.is_struct(kind):
        names = [field.name for field in kind]
        fields = [python_values(field) for field in array.flatten()]
        if not fields:
            return [{} for _ in range(len(array))]
        return [dict(zip(names, row, strict=True)) for row in zip(*fields, strict=True)]
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return _lists(array.flatten(), np.append(0, np.cumsum(array.sizes)))
    if types.is_map(kind):
        ends = array.offsets.to_pylist()
        inner = [each.slice(ends[0], ends[-1] - ends[0]) for each in (array.keys, array.items)]
        pairs = list(zip(*map(python_values, inner), strict=True))
        return [pairs[start - ends[0] : stop - ends[0]] for start, stop in pairwise(ends)]
    if types.is_union(kind):
        return _of_union(array)
    values: list[Any] = array.to_pylist()
    return values


def _of_union(array: ArrowArray) -> list[Any]:
    """The values of an array of a union, each of the type by its code."""
    import pyarrow as pa

    # The attributes `type_codes` and `offsets` ignore the start of a slice.
    rows = slice(array.offset, array.offset + len(array))
    codes = np.frombuffer(array.buffers()[1], np.int8)[rows]
    places: npt.NDArray[Any] = np.arange(len(array))
    if array.type.mode == "dense":
        places = np.frombuffer(array.buffers()[2], np.int32)[rows]
    values = [None] * len(array)
    for number, code in enumerate(array.type.type_codes):
        chosen = np.flatnonzero(codes == code)
        inner = _plain(array.field(number)).take(pa.array(places[chosen]))
        for row, value in zip(chosen.tolist(), python_values(inner), strict=True):
            values[row] = value
    return values


def _lists(inner: ArrowArray, ends: npt.NDArray[Any]) -> list[Any]:
    """The parts of ``inner`` between ``ends``, shape (rows + 1,); numbers become arrays."""
    first, cuts = int(ends[0]), ends.tolist()
    inner = inner.slice(first, cuts[-1] - first)
    column = as_column(inner)
    if isinstance(column, np.ndarray):
        return [column[start - first : stop - first].copy() for start, stop in pairwise(cuts)]
    if not _is_number(_plain(inner).type):
        values = python_values(inner)
        return [values[start - first : stop - first] for start, stop in pairwise(cuts)]
    # A list of numbers with a null is no array; other lists of the column are.
    lists = []
    for start, stop in pairwise(cuts):
        part = inner.slice(start - first, stop - start)
        column = as_column(part)
        lists.append(column.copy() if isinstance(column, np.ndarray) else python_values(part))
    return lists


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_duration(kind)
        or types.is_time(kind)
    )


def _numbers(array: ArrowArray) -> npt.NDArray[Any]:
    """The values of ``array``, numbers or times without nulls, shape (rows,)."""
    import pyarrow as pa

    if pa.types.is_time(array.type):  # since midnight
        width = pa.int32() if pa.types.is_time32(array.type) else pa.int64()
        since: npt.NDArray[Any] = array.view(width).to_numpy()
        return since.astype(f"m8[{array.type.unit}]")
    numbers: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return numbers


def joined_chunks(chunks: ArrowArray) -> ArrowArray:
    """A column as a single array, unless too large for a single array."""
    import pyarrow as pa

    if chunks.num_chunks == 1:
        return chunks.chunk(0)
    try:
        return chunks.combine_chunks()
    except pa.ArrowInvalid:
        return chunks
