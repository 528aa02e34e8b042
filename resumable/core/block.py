"""Blocks: runs of consecutive items, and how to cut, join and stack blocks.

A block is a run of consecutive items that moves through the pipeline at once:

* a ``list`` of items, or
* *columns*: an array whose rows are the items, or a tuple or dict of columns, whose
  items are tuples or dicts of rows. All columns have the same first axis. A column of a dict may
  also be a list of strings, bytes and None, which `stack` leaves unchanged.
"""

# Columns let a batch of array rows be gathered without a Python object for each item. A
# block never shares memory with the source of its items, so a consumer may write into the block.

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter, countOf, itemgetter
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import MalformedItem

Block: TypeAlias = Any
Indices: TypeAlias = npt.NDArray[np.int64]
NO_INDICES: Final[Indices] = np.empty(0, np.int64)

# Rows of these dtypes become Python numbers, which NumPy turns back into the same dtype;
# rows of any other dtype stay NumPy scalars. So no precision is gained or lost.
PYTHON_NUMBERS = frozenset(np.dtype(t) for t in (np.bool_, np.int64, np.float64, np.complex128))


# NumPy's own functions lose the mask of a masked array; its `tolist` puts None at masked entries.
MASKED: Final = np.ma.MaskedArray
# Beyond this limit a float64 does not hold every integer.
LARGEST_EXACT: Final = 2**53
WIDE_INTEGERS: Final = frozenset(np.dtype(code).num for code in "lLqQ")
# The dtypes to which wide integers and floating-point numbers are stacked together.
WIDE_FLOATS: Final = frozenset(np.dtype(code).num for code in "dgDG")
# The types of most blocks and columns, looked for first.
USUAL: Final = frozenset({list, np.ndarray})
ARRAYS: Final = frozenset({np.ndarray})
# Rows of these kinds of dtypes, in native byte order, are stacked to an array of the same dtype.
KEPT_BY_STACKING: Final = frozenset("biufcmM")
_dtype_number: Final = attrgetter("dtype.num")


def is_columns(block: Block) -> bool:
    """Whether ``block`` is columns rather than a list of items."""
    return not isinstance(block, list)


def is_masked(value: Any) -> bool:
    """Whether ``value`` is a masked array, or a masked entry of an array."""
    return isinstance(value, MASKED)


def block_length(block: Block) -> int:
    """Number of items in ``block``."""
    if type(block) in USUAL or isinstance(block, (list, np.ndarray)):
        return len(block)
    columns = block.values() if isinstance(block, dict) else block
    return block_length(next(iter(columns)))


def block_items(block: Block) -> list[Any]:
    """The items of ``block``, one Python object each."""
    if isinstance(block, list):
        return block
    if isinstance(block, np.ndarray):
        if block.ndim == 1 and block.dtype in PYTHON_NUMBERS and type(block) is not MASKED:
            numbers: list[Any] = block.tolist()
            return numbers
        return list(block)
    if isinstance(block, dict):
        columns = [block_items(column) for column in block.values()]
        return [dict(zip(block, row, strict=True)) for row in zip(*columns, strict=True)]
    rows = zip(*(block_items(column) for column in block), strict=True)
    return [_like(block, row) for row in rows]


def slice_block(block: Block, start: int, stop: int) -> Block:
    """Items ``start`` to ``stop`` of ``block``; columns are views."""
    if isinstance(block, (list, np.ndarray)):
        return block[start:stop]
    if isinstance(block, dict):
        return {key: slice_block(column, start, stop) for key, column in block.items()}
    return _like(block, [slice_block(column, start, stop) for column in block])


def copy_block(block: Block) -> Block:
    """``block`` with separate memory; items of a list are not copied."""
    if isinstance(block, (list, np.ndarray)):
        return block.copy()
    if isinstance(block, dict):
        return {key: copy_block(column) for key, column in block.items()}
    return _like(block, map(copy_block, block))


def take_rows(block: Block, indices: Sequence[int] | Indices) -> Block:
    """The items of ``block`` at ``indices``, of shape (n,); columns are copied."""
    if isinstance(block, np.ndarray):
        return block.take(indices, 0)
    if isinstance(block, list):
        numbers = indices.tolist() if isinstance(indices, np.ndarray) else indices
        return list(map(block.__getitem__, numbers))
    if isinstance(block, dict):
        return {key: take_rows(column, indices) for key, column in block.items()}
    if type(block) is tuple:
        return tuple([take_rows(column, indices) for column in block])
    return _like(block, [take_rows(column, indices) for column in block])


def concatenate(blocks: Sequence[Block]) -> Block:
    """One block with the items of all ``blocks`` in order.

    Columns stay columns where structure, dtype and row shape agree; otherwise the
    result is a list.
    """
    if len(blocks) == 1:
        return blocks[0]
    kinds = {*map(type, blocks)}
    if kinds == ARRAYS and all(map(len, blocks)):
        filled = blocks
    elif kinds == {list}:
        return list(chain.from_iterable(blocks))
    elif kinds <= USUAL:
        filled = [block for block in blocks if len(block)]
    else:
        filled = [block for block in blocks if block_length(block)]
    if not filled:
        return blocks[0] if blocks else []
    first = filled[0]
    if len(filled) == 1:
        return first
    if kinds == ARRAYS:
        # NumPy compares dtypes and shapes faster than Python code can; blocks that differ are
        # refused.
        try:
            return np.concatenate(filled, dtype=first.dtype, casting="no")
        except (TypeError, ValueError):
            pass
    if all(same_columns(first, block) for block in filled[1:]):
        return _join_columns(filled)
    return [item for block in filled for item in block_items(block)]


def ungroup(blocks: Sequence[Block], order: Indices) -> Block:
    """One block of the items of ``blocks``, each item at its place in ``order``.

    Args:
      blocks: one or more.
      order: the place in the result of each item of the joined blocks, shape (n,).
    """
    if len(blocks) == 1:
        return blocks[0]
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return take_rows(concatenate(blocks), places)


def without_rows(block: Block) -> Block:
    """The columns ``block`` (not a list) without rows, with separate memory."""
    if isinstance(block, np.ndarray):
        return np.empty((0, *block.shape[1:]), block.dtype)
    if isinstance(block, dict):
        return {key: without_rows(column) for key, column in block.items()}
    return _like(block, map(without_rows, block))


def same_columns(left: Block, right: Block) -> bool:
    """Whether both have the same structure, dtypes and row shapes, so that both can be joined."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return True
    if isinstance(left, np.ndarray):
        if left.dtype != right.dtype or is_masked(left):
            return False
        return bool(left.shape[1:] == right.shape[1:])
    if isinstance(left, dict):
        # The order of the keys counts, since the items have the same order.
        return list(left) == list(right) and all(same_columns(left[k], right[k]) for k in left)
    return len(left) == len(right) and all(map(same_columns, left, right))


def columns_of(items: Sequence[Any], like: Block) -> Block:
    """``items``, rows of columns like ``like``, as columns again."""
    if isinstance(like, np.ndarray):
        return _rows_as_array(items, like)
    if isinstance(like, dict):
        return {
            key: columns_of(list(map(itemgetter(key), items)), column)
            for key, column in like.items()
        }
    fields = zip(*items, strict=True) if items else [()] * len(like)
    return _like(like, [columns_of(f, column) for f, column in zip(fields, like, strict=True)])


def _rows_as_array(items: Sequence[Any], like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if like.ndim == 1:
        return np.fromiter(items, like.dtype, len(items))
    rows: np.ndarray[Any, Any] = np.empty((len(items), *like.shape[1:]), like.dtype)
    return np.stack(items, out=rows) if items else rows


def stack(items: Sequence[Any]) -> Any:
    """Stack ``items`` along a new first axis: the default ``collate`` of a batch.

    Arrays and numbers become one array, dicts and tuples are stacked field by field.
    Anything else stays a list: strings, bytes, None, lists, objects, dicts and tuples without
    fields, and numbers that no dtype holds exactly together.

    Raises:
      MalformedItem: if arrays differ in shape or are masked, or dicts differ in their keys.
    """
    first = items[0]
    if isinstance(first, (np.ndarray, np.generic)):
        return _stack_arrays(items)
    if isinstance(first, (bool, int, float, complex)):
        return _stack_numbers(items)
    if isinstance(first, dict):
        by_key = _fields_of_plain_dicts(items)
        if by_key is None:
            by_key = _fields_of_dicts(items)
        if by_key:
            return {key: stack(field) for key, field in by_key.items()}
    if isinstance(first, tuple) and first:
        return _like(first, map(stack, _fields_of_tuples(items)))
    return list(items)


def as_batch(block: Block) -> Any:
    """The items of ``block``, a list or columns, as stacked by `stack`.

    Raises:
      MalformedItem: if `stack` refuses the items.
    """
    if isinstance(block, list):
        return stack(block)
    return block if _is_stacked(block) else stack(block_items(block))


def _is_stacked(block: Block) -> bool:
    """Whether ``block`` is columns and equals the result of `stack` for its rows."""
    if isinstance(block, np.ndarray):
        dtype = block.dtype
        return type(block) is np.ndarray and dtype.kind in KEPT_BY_STACKING and dtype.isnative
    if isinstance(block, list):  # a column of strings, bytes and None
        return True
    return all(map(_is_stacked, block.values() if isinstance(block, dict) else block))


# The usual case, items of one type with the same fields, is recognised and taken apart by built-in
# functions. In any other case each item is checked separately.


def _fields_of_plain_dicts(items: Sequence[Any]) -> dict[Any, list[Any]] | None:
    """The values of ``items`` by key; None unless all are plain dicts with the same keys."""
    first, count = items[0], len(items)
    if countOf(map(type, items), dict) != count or countOf(map(len, items), len(first)) != count:
        return None
    try:
        return {key: list(map(itemgetter(key), items)) for key in first}
    except KeyError:
        return None


def _fields_of_dicts(items: Sequence[Any]) -> dict[Any, list[Any]]:
    first = items[0]
    for item in items:
        if not isinstance(item, dict) or item.keys() != first.keys():
            keys = sorted(map(str, item)) if isinstance(item, dict) else type(item).__name__
            raise MalformedItem(
                f"cannot stack dicts with keys {sorted(map(str, first))} and {keys}; "
                "pass a collate function to batch"
            )
    return {key: [item[key] for item in items] for key in first}


def _fields_of_tuples(items: Sequence[Any]) -> list[tuple[Any, ...]]:
    kind, fields = type(items[0]), len(items[0])
    try:
        if countOf(map(type, items), kind) == len(items):
            return list(zip(*items, strict=True))
    except ValueError:  # the tuples differ in length
        pass
    if any(not isinstance(item, tuple) or len(item) != fields for item in items):
        raise MalformedItem(
            f"cannot stack tuples of {fields} fields with items of another length or "
            "type; pass a collate function to batch"
        )
    return list(zip(*items, strict=True))


def _like(model: Any, fields: Iterable[Any]) -> Any:
    """A tuple of ``fields``, or a named tuple if ``model`` is one."""
    make = getattr(type(model), "_make", tuple)
    return make(fields)


def _join_columns(blocks: Sequence[Block]) -> Block:
    first = blocks[0]
    if isinstance(first, np.ndarray):
        # Without a dtype NumPy would turn foreign byte orders into the native one.
        return np.concatenate(blocks, dtype=first.dtype)
    if isinstance(first, list):
        return [*chain.from_iterable(blocks)]
    if isinstance(first, dict):
        return {key: _join_columns([block[key] for block in blocks]) for key in first}
    return _like(first, [_join_columns(columns) for columns in zip(*blocks, strict=True)])


def _stack_arrays(items: Sequence[Any]) -> Any:
    kinds = set(map(type, items))
    if any(issubclass(kind, MASKED) for kind in kinds):
        raise _masked()
    if not all(issubclass(kind, (np.ndarray, np.generic)) for kind in kinds):
        return list(items)
    try:
        stacked = np.stack(items)
    except ValueError:
        _check_shapes(items)
        raise
    if stacked.dtype.num in WIDE_FLOATS and not WIDE_INTEGERS.isdisjoint(map(_dtype_number, items)):
        return stacked if all(map(fits_float, items)) else list(items)
    return stacked


def _check_shapes(items: Sequence[Any]) -> None:
    shape = items[0].shape
    for number, item in enumerate(items):
        if item.shape != shape:
            raise MalformedItem(
                f"cannot stack arrays of shapes {shape} and {item.shape} (item {number} of the "
                "batch); pass a collate function to batch"
            )


def fits_float(item: Any) -> bool:
    """Whether a float64 holds every integer of ``item`` exactly."""
    if _dtype_number(item) not in WIDE_INTEGERS or not item.size:
        return True
    return bool(item.min() >= -LARGEST_EXACT and item.max() <= LARGEST_EXACT)


def _stack_numbers(items: Sequence[Any]) -> Any:
    try:
        stacked = np.asarray(items)
    except (ValueError, OverflowError):  # ragged, or too large for any dtype
        return list(items)
    kind = stacked.dtype.kind
    if stacked.ndim != 1 or kind not in "biufc":
        return list(items)
    if kind in "fc" and not np.maximum.reduce(np.abs(stacked)) < LARGEST_EXACT:
        return _stack_large_numbers(items, stacked)
    # Python integers are int64 on every system and under every NumPy.
    return stacked.astype(np.int64) if stacked.dtype == np.int32 else stacked


def _stack_large_numbers(items: Sequence[Any], stacked: Any) -> Any:
    """``items`` as an array if the array holds every integer exactly, otherwise as a list."""
    kinds = set(map(type, items))
    if any(issubclass(kind, MASKED) for kind in kinds):
        raise _masked()
    whole = tuple(kind for kind in kinds if issubclass(kind, (int, np.integer)))
    if len(whole) == len(kinds):
        fits = min(items) >= 0 and max(items) < 2**64
        return np.array(items, np.uint64) if fits else list(items)
    # Python compares integers with floats exactly.
    exact = not whole or all(
        int(item) == number
        for item, number in zip(items, stacked.tolist(), strict=True)
        if isinstance(item, whole)
    )
    return stacked if exact else list(items)


def _masked() -> MalformedItem:
    return MalformedItem(
        "cannot stack masked arrays with their masks; pass a collate function to batch, such as "
        "numpy.ma.stack"
    )


def joined_ranges(starts: Indices, counts: Indices) -> Indices:
    """The indices ``start``, ``start`` + 1 ... of several ranges, joined, shape (sum of counts,).

    Args:
      starts: first index of each range, shape (n,).
      counts: number of indices in each range, shape (n,).
    """
    ends = np.cumsum(counts)
    offsets: Indices = np.repeat(starts - (ends - counts), counts)
    return offsets + np.arange(len(offsets))
