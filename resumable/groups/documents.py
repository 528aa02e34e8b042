"""The tokens of a group of documents, by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..core.block import Block, Indices, block_items, is_masked
from ..errors import MalformedItem, shorten

Tokens: TypeAlias = npt.NDArray[Any]
"""Of shape (length, ...)."""

PLAIN = "tokens"
"""The field of documents that are no dicts."""
SEGMENT_IDS = "segment_ids"
POSITIONS = "positions"


class Documents(NamedTuple):
    """Documents with at least one token.

    Attributes:
      fields: the arrays of each document, shape (its length, ...), under the name of the field. Those of a
        field have one dtype, and one shape behind the first axis.
      lengths: of the documents, shape (documents,), int64.
    """

    fields: dict[str, list[Tokens]]
    lengths: Indices

    def cut(self, length: int) -> Documents:
        """The same tokens, with several documents for each of more than ``length`` tokens."""
        counts = -(-self.lengths // length)
        lengths = np.full(counts.sum(), length, np.int64)
        lengths[np.cumsum(counts) - 1] = self.lengths - (counts - 1) * length
        fields = {
            name: [
                document[start : start + length]
                for document in documents
                for start in range(0, len(document), length)
            ]
            for name, documents in self.fields.items()
        }
        return Documents(fields, lengths)

    def section(self, start: int, stop: int, every: int | None = None) -> Documents:
        """The tokens from ``start`` to ``stop`` of all documents joined.

        A section that begins or ends within a document has a part of it.

        Args:
          start: a number of tokens.
          stop: not before it, and not behind the last token.
          every: documents are also cut after each ``every`` tokens from ``start`` on.
        """
        ends = np.cumsum(self.lengths)
        inner = ends[(ends > start) & (ends < stop)]
        begins = np.sort(np.append(np.arange(start, stop, every or max(stop, 1)), inner))
        begins = begins[np.diff(begins, prepend=-1) > 0]
        numbers = np.searchsorted(ends, begins, "right")
        offsets = begins - (ends - self.lengths)[numbers]
        lengths = np.diff(begins, append=stop)
        places = list(
            zip(numbers.tolist(), offsets.tolist(), (offsets + lengths).tolist(), strict=True)
        )
        fields = {
            name: [documents[number][first:last] for number, first, last in places]
            for name, documents in self.fields.items()
        }
        return Documents(fields, lengths)

    def chosen(self, numbers: Sequence[int]) -> Documents:
        """Those with these numbers, in this order."""
        chosen = {
            name: [documents[number] for number in numbers]
            for name, documents in self.fields.items()
        }
        return Documents(chosen, self.lengths[list(numbers)])


def documents_of(block: Block, key: str | None) -> Documents:
    """The documents that are the items of ``block``, without those that have no token.

    Args:
      block: its items are arrays or lists of numbers, or dicts of such with one length.
      key: the only field of dicts that is wanted; None for all.

    Raises:
      MalformedItem: if an item is something else.
    """
    items = block_items(block)
    if items and isinstance(items[0], Mapping):
        names = list(items[0]) if key is None else [key]
        _check_names(names)
        fields = {name: _tokens_of(_field_of(items, name, names, key)) for name in names}
    elif key is not None and items:
        raise MalformedItem(f"key={key!r} needs items that are dicts, got {shorten(items[0])}")
    else:
        fields = {PLAIN: _tokens_of(items)}
    lengths = _common_lengths(fields)
    if len(lengths) and not lengths.all():
        filled = np.flatnonzero(lengths).tolist()
        return Documents(fields, lengths).chosen(filled)
    return Documents(fields, lengths)


def _field_of(items: list[Any], name: str, names: list[str], key: str | None) -> list[Any]:
    for item in items:
        if not isinstance(item, Mapping) or (name not in item if key else item.keys() != {*names}):
            raise MalformedItem(
                f"documents to pack must be dicts with the fields {names}, got {shorten(item)}"
            )
    return [item[name] for item in items]


def _check_names(names: list[str]) -> None:
    taken = {SEGMENT_IDS, POSITIONS}.intersection(names)
    if taken or not names:
        raise MalformedItem(
            f"documents to pack must have fields other than {SEGMENT_IDS} and {POSITIONS}, which "
            f"pack adds, got {names}"
        )


def _tokens_of(documents: list[Any]) -> list[Tokens]:
    found = [each if type(each) is np.ndarray else _as_tokens(each) for each in documents]
    if any(tokens.ndim != 1 for tokens in found):
        _check_shapes(found, documents)
    # Where there is no token there is no dtype to speak of: `np.array([])` is float64.
    dtypes = {tokens.dtype for tokens in found if len(tokens)}
    if any(dtype.hasobject for dtype in dtypes):
        raise _no_document(next(each for each in found if each.dtype.hasobject))
    if not all(dtype.isnative for dtype in dtypes):
        found = [tokens.astype(tokens.dtype.newbyteorder("="), copy=False) for tokens in found]
        dtypes = {tokens.dtype for tokens in found if len(tokens)}
    if len(dtypes) > 1:
        names = " and ".join(sorted(map(str, dtypes)))
        raise MalformedItem(f"documents to pack must be of one dtype, got {names}")
    return found


def _as_tokens(document: Any) -> Tokens:
    """What is no plain array as one: Python integers are int64 on every system."""
    if isinstance(document, np.ndarray) and not is_masked(document):
        return document
    try:
        tokens = np.asarray(document)
    except (ValueError, OverflowError):  # ragged
        raise _no_document(document) from None
    if is_masked(document) or tokens.dtype.kind not in "biufc":
        raise _no_document(document)
    return tokens.astype(np.int64) if tokens.dtype.kind == "i" else tokens


def _check_shapes(found: list[Tokens], documents: list[Any]) -> None:
    for tokens, document in zip(found, documents, strict=True):
        if not tokens.ndim:
            raise _no_document(document)
    shapes = {tokens.shape[1:] for tokens in found if len(tokens)}
    if len(shapes) > 1:
        names = " and ".join(map(str, sorted(shapes)))
        raise MalformedItem(
            f"documents to pack must have one shape behind the first axis, got {names}"
        )


def _no_document(value: Any) -> MalformedItem:
    return MalformedItem(
        f"documents to pack must be arrays or lists of numbers, got {shorten(value)}"
    )


def _common_lengths(fields: Mapping[str, list[Tokens]]) -> Indices:
    lengths = None
    for name, documents in fields.items():
        found = np.fromiter(map(len, documents), np.int64, len(documents))
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
