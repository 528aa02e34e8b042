"""The tokens of a group of documents, by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..core.block import Block, Indices, block_items, is_masked
from ..core.orders import MOST_ITEMS
from ..core.stage import Stage
from ..errors import MalformedItem, StateMismatch, shorten
from .row_format import RowFormat

Tokens: TypeAlias = npt.NDArray[Any]
"""Of shape (length, ...)."""

DOCUMENTS = "documents to pack"
PLAIN = "tokens"
"""The field of documents that are no dicts."""


class Documents(NamedTuple):
    """Documents with at least one token.

    Attributes:
      fields: the arrays of each document, shape (its length, ...), by field. The arrays of a field
        have one dtype, and one shape after the first axis.
      lengths: of the documents, shape (documents, capacities), int64; a column for each field with
        a separate capacity in rows, or one column for all fields.
      before: number of tokens of each document in earlier rows, shape (documents, capacities).
      numbers: of the documents, shape (documents,), ascending.
      values: the ``per_document`` values of each document, by name.
    """

    fields: dict[str, list[Tokens]]
    lengths: Indices
    before: Indices
    numbers: Indices
    values: dict[str, list[Any]]

    def numbered_from(self, first: int, stage: Stage[Any]) -> Documents:
        """The same documents, after ``first`` other documents of the epoch.

        Raises:
          StateMismatch: if ``first`` is more than a source can have.
        """
        if first > MOST_ITEMS:
            raise StateMismatch(
                f"saved number of documents must be at most 2**62, got {first}", stage
            )
        return self._replace(numbers=self.numbers + first)

    def chosen(self, numbers: Sequence[int]) -> Documents:
        """The documents with these numbers, in this order."""
        fields, values = (
            {name: [found[number] for number in numbers] for name, found in columns.items()}
            for columns in (self.fields, self.values)
        )
        places = list(numbers)
        return Documents(
            fields, self.lengths[places], self.before[places], self.numbers[places], values
        )


def documents_of(block: Block, key: str | None, form: RowFormat) -> Documents:
    """The items of ``block`` as documents, numbered from 0, without empty documents.

    Args:
      block: items are arrays or lists of numbers, or dicts of arrays or lists.
      key: the only wanted field of dicts; None for all.
      form: of the rows; where fields share a capacity, the fields of a document must have one
        length.

    Raises:
      MalformedItem: if an item is something else.
    """
    items = block_items(block)
    if form.fields is not None:
        fields = {
            name: with_equal_empty_ones(
                _tokens_of(_field_of(items, name, form.fields, some=True), _field(name))
            )
            for name in form.fields
        }
        lengths = np.stack([_lengths_of(found) for found in fields.values()], axis=1)
    else:
        fields = _fields_of_one_length(items, key, form)
        lengths = _common_lengths(fields)[:, None]
    values = {
        name: _field_of(items, name, list(form.per_document), some=True)
        for name in form.per_document
    }
    documents = Documents(fields, lengths, np.zeros_like(lengths), np.arange(len(items)), values)
    are_filled = lengths.any(axis=1)
    return documents if are_filled.all() else documents.chosen(np.flatnonzero(are_filled).tolist())


def _fields_of_one_length(
    items: list[Any], key: str | None, form: RowFormat
) -> dict[str, list[Tokens]]:
    if items and isinstance(items[0], Mapping):
        names = list(items[0]) if key is None else [key]
        packed = [name for name in names if name not in form.per_document]
        _check_names(packed, form)
        some = key is not None
        return {
            name: _tokens_of(_field_of(items, name, names, some=some), _field(name))
            for name in packed
        }
    if key is not None and items:
        raise MalformedItem(f"key={key!r} needs items that are dicts, got {shorten(items[0])}")
    return {PLAIN: _tokens_of(items)}


def _field_of(items: list[Any], name: str, names: list[str], *, some: bool) -> list[Any]:
    for item in items:
        if not isinstance(item, Mapping) or (name not in item if some else item.keys() != {*names}):
            raise MalformedItem(
                f"documents to pack must be dicts with the fields {names}, got {shorten(item)}"
            )
    return [item[name] for item in items]


def _check_names(names: list[str], form: RowFormat) -> None:
    if not names or not set(form.added).isdisjoint(names):
        raise MalformedItem(
            f"documents to pack must have fields other than {' and '.join(form.added)}, which "
            f"pack adds, got {names}"
        )


def _tokens_of(documents: list[Any], called: str = DOCUMENTS) -> list[Tokens]:
    found = [each if type(each) is np.ndarray else _as_tokens(each, called) for each in documents]
    if any(tokens.ndim != 1 for tokens in found):
        _check_shapes(found, documents, called)
    # An array without tokens has no dtype to speak of: `np.array([])` is float64.
    dtypes = {tokens.dtype for tokens in found if len(tokens)}
    if any(dtype.hasobject for dtype in dtypes):
        raise _no_document(next(each for each in found if each.dtype.hasobject), called)
    if not all(dtype.isnative for dtype in dtypes):
        found = [tokens.astype(tokens.dtype.newbyteorder("="), copy=False) for tokens in found]
        dtypes = {tokens.dtype for tokens in found if len(tokens)}
    if len(dtypes) > 1:
        names = " and ".join(sorted(map(str, dtypes)))
        raise MalformedItem(f"{called} must be of one dtype, got {names}")
    return found


def with_equal_empty_ones(found: list[Tokens]) -> list[Tokens]:
    """``found``, with arrays without tokens given the dtype and shape of the other arrays."""
    if all(map(len, found)):
        return found
    like = next((tokens for tokens in found if len(tokens)), found[0])
    return [tokens if len(tokens) else like[:0] for tokens in found]


def _as_tokens(document: Any, called: str) -> Tokens:
    """``document``, no plain array, as an array: Python integers are int64 on every system."""
    if isinstance(document, np.ndarray) and not is_masked(document):
        return document
    try:
        tokens = np.asarray(document)
    except (ValueError, OverflowError):  # ragged
        raise _no_document(document, called) from None
    if is_masked(document) or tokens.dtype.kind not in "biufc":
        raise _no_document(document, called)
    # A list without numbers may be the only value of a field in a group.
    return tokens.astype(np.int64) if tokens.dtype.kind == "i" or not tokens.size else tokens


def _check_shapes(found: list[Tokens], documents: list[Any], called: str) -> None:
    for tokens, document in zip(found, documents, strict=True):
        if not tokens.ndim:
            raise _no_document(document, called)
    shapes = {tokens.shape[1:] for tokens in found if len(tokens)}
    if len(shapes) > 1:
        names = " and ".join(map(str, sorted(shapes)))
        raise MalformedItem(f"{called} must have one shape behind the first axis, got {names}")


def _no_document(value: Any, called: str) -> MalformedItem:
    return MalformedItem(f"{called} must be arrays or lists of numbers, got {shorten(value)}")


def _field(name: str) -> str:
    return f"field {name!r} of {DOCUMENTS}"


def _lengths_of(documents: list[Tokens]) -> Indices:
    return np.fromiter(map(len, documents), np.int64, len(documents))


def _common_lengths(fields: Mapping[str, list[Tokens]]) -> Indices:
    lengths = None
    for name, documents in fields.items():
        found = _lengths_of(documents)
        if lengths is None:
            first, lengths = name, found
        elif (found != lengths).any():
            place = int(np.flatnonzero(found != lengths)[0])
            raise MalformedItem(
                f"fields of a document to pack must have one length, got {lengths[place]} for "
                f"{first!r} and {found[place]} for {name!r}"
            )
    assert lengths is not None
    return lengths
