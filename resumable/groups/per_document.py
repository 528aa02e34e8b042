"""The values of a row for its documents, one after another, rather than for tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.block import Indices, stack
from ..errors import InvalidArgument, InvalidType, MalformedItem, shorten
from .documents import Documents
from .filling import filling
from .row_format import DOCUMENT_NUMBERS, RowFormat
from .segments import Segments

NONE_THERE = -1
"""Stands for the number and the offset of a document beyond the last document of a row."""


def add_values(
    rows: Sequence[dict[str, Any]],
    documents: Documents,
    segments: Segments,
    numbers: Indices,
    form: RowFormat,
) -> None:
    """Put the values of the documents of each row into the row.

    Args:
      rows: changed in place.
      documents: the documents with the values.
      segments: of the documents, in the order of the rows.
      numbers: the row of each segment, shape (segments,).
      form: of the rows.
    """
    placed, begins = segments.by_row(numbers, len(rows))
    bounds = begins.tolist()
    owners = placed.numbers.tolist()
    columns = {
        name: [documents.values[name][owner] for owner in owners] for name in form.per_document
    }
    parts: dict[str, list[int]] = {}
    if form.parts:
        parts[DOCUMENT_NUMBERS] = documents.numbers[placed.numbers].tolist()
        offsets = documents.before[placed.numbers] + placed.begins
        for capacity, column in zip(form.capacities, offsets.T, strict=True):
            parts[capacity.offsets] = column.tolist()
    for row, begin, end in zip(rows, bounds, bounds[1:], strict=False):
        for name, values in columns.items():
            row[name] = _of_row(name, values[begin:end], form)
        for name, found in parts.items():
            row[name] = _filled(found[begin:end], form.max_documents)


def _of_row(name: str, values: list[Any], form: RowFormat) -> Any:
    """``values``; as an array of ``max_documents`` if given and the values fit."""
    most, pad = form.max_documents, form.pad
    if most is None:
        return values
    number = pad.get(name, 0) if isinstance(pad, Mapping) else pad
    stacked = values if number is None else _stacked(name, values)
    if number is None or not isinstance(stacked, np.ndarray):
        return values + [None] * (most - len(values))
    shape, dtype = (most, *stacked.shape[1:]), stacked.dtype
    filled = np.full(shape, filling("pad", number, name, dtype), dtype)
    filled[: len(values)] = stacked
    return filled


def _stacked(name: str, values: list[Any]) -> Any:
    """An array, if ``values`` are numbers or arrays of one shape; else ``values``."""
    if not all(
        isinstance(value, (bool, int, float, complex, np.number, np.bool_, np.ndarray))
        for value in values
    ):
        return values
    shapes = {np.shape(value) for value in values}
    if len(shapes) > 1:
        raise MalformedItem(
            f"{name!r} must have one shape in the documents of a row where there is max_documents, got "
            f"{' and '.join(map(str, sorted(shapes)))}; pad={{{name!r}: None}} keeps them as a list"
        )
    return stack(values)


def _filled(numbers: list[int], most: int | None) -> Any:
    if most is None:
        return numbers
    filled = np.full(most, NONE_THERE, np.int64)
    filled[: len(numbers)] = numbers
    return filled


def check_per_document(names: Any) -> tuple[str, ...]:
    """Return ``names`` as a tuple.

    Raises:
      InvalidType: if ``names`` is not a list of strings.
      InvalidArgument: if a name comes twice.
    """
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidType(f"per_document must be a list of names, got {shorten(names)}")
    for name in names:
        if not isinstance(name, str):
            raise InvalidType(f"per_document must have strings, got {shorten(name)}")
    if len(set(names)) < len(names):
        raise InvalidArgument(f"per_document must have each name once, got {shorten(list(names))}")
    return tuple(names)
