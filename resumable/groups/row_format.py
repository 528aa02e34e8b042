"""The format of rows of packed documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

import numpy as np

from ..core.arguments import check_int, check_strings
from ..core.block import Indices
from ..errors import InvalidArgument, shorten
from .filling import Numbers

RowLength: TypeAlias = "int | Mapping[str, int]"

SEGMENT_IDS: Final = "segment_ids"
POSITIONS: Final = "positions"
OFFSETS: Final = "offsets"
DOCUMENT_NUMBERS: Final = "document_numbers"
LONGEST: Final = 2**31 - 1  # positions are int32


@final
@dataclass(frozen=True)
class Capacity:
    """The number of tokens of some fields in a row.

    Args:
      length: tokens in a row.
      field: the only field; None for all fields, whose lengths then are equal in each document.
      align: each segment begins at a multiple of this number.
      bos: whether a token is put before each segment, unless empty.
      eos: whether a token is put after each segment, unless empty.
    """

    length: int
    field: str | None = None
    align: int = 1
    bos: bool = False
    eos: bool = False

    @property
    def segment_ids(self) -> str:
        """The name of the column with the numbers of documents."""
        return self._named(SEGMENT_IDS)

    @property
    def positions(self) -> str:
        """The name of the column with the positions of tokens."""
        return self._named(POSITIONS)

    @property
    def offsets(self) -> str:
        """The name of the number of tokens of each document before its part in a row."""
        return self._named(OFFSETS)

    def _named(self, name: str) -> str:
        return name if self.field is None else f"{self.field}_{name}"

    @property
    def added(self) -> int:
        """Number of tokens put around a segment."""
        return self.bos + self.eos

    @property
    def most(self) -> int:
        """Most tokens in a segment."""
        return self.length - self.added

    def places(self, lengths: Indices) -> Indices:
        """Number of places of segments of these lengths, with the added tokens, shape (n,)."""
        return lengths + self.added * (lengths > 0)

    def aligned(self, places: Any) -> Any:
        """``places``, rounded up to the beginning of the next segment."""
        return -(-places // self.align) * self.align


@final
@dataclass(frozen=True)
class RowFormat:
    """The capacities of a row, at least one, and the tokens and values put into the row.

    Args:
      capacities: one for all fields, or one for each.
      pad: stands after and between the documents.
      bos: stands before each document; None for nothing.
      eos: stands after each document; None for nothing.
      max_documents: most documents in a row; None for any number.
      per_document: names of values taken unchanged from each document.
      parts: whether a row has the number of each document, and the offset of the document's part.
    """

    capacities: tuple[Capacity, ...]
    pad: Numbers = 0
    bos: Numbers | None = None
    eos: Numbers | None = None
    max_documents: int | None = None
    per_document: tuple[str, ...] = ()
    parts: bool = False

    @property
    def is_of_columns(self) -> bool:
        """Whether a row has only arrays, each with the same shape in all rows."""
        return not self.per_document and not self.parts

    @property
    def added(self) -> list[str]:
        """The names in rows besides the fields of documents."""
        names = [DOCUMENT_NUMBERS] * self.parts
        for capacity in self.capacities:
            names += [capacity.segment_ids, capacity.positions, *[capacity.offsets] * self.parts]
        return names

    @property
    def fields(self) -> list[str] | None:
        """The fields with separate capacities; None if all fields share one capacity."""
        names = [capacity.field for capacity in self.capacities if capacity.field is not None]
        return names or None

    @property
    def is_plain(self) -> bool:
        """Whether a row is full with a number of tokens, whatever their documents."""
        (first, *others), most = self.capacities, self.max_documents
        return not others and most is None and first.align == 1 and not first.added

    @property
    def most(self) -> Indices:
        """Most tokens of each capacity in a segment, shape (capacities,)."""
        return np.array([capacity.most for capacity in self.capacities], np.int64)

    @property
    def limits(self) -> Indices:
        """The space of a row for the needs of segments, shape (needs,)."""
        lengths = [capacity.length for capacity in self.capacities]
        return np.array([*lengths, *([self.max_documents] if self.max_documents else ())], np.int64)

    def needs(self, lengths: Indices) -> Indices:
        """The needs, shape (n, needs), of segments of ``lengths``, shape (n, capacities)."""
        needed = [
            capacity.aligned(capacity.places(column))
            for capacity, column in zip(self.capacities, lengths.T, strict=True)
        ]
        if self.max_documents:
            needed.append(np.ones(len(lengths), np.int64))
        return np.stack(needed, axis=1)


def row_format(
    length: RowLength,
    *,
    pad: Numbers,
    bos: Numbers | None,
    eos: Numbers | None,
    align: RowLength,
    max_documents: int | None,
    per_document: tuple[str, ...],
    parts: bool,
) -> RowFormat:
    """The format given by the arguments, each already checked alone.

    Raises:
      InvalidArgument: if the arguments do not fit together.
    """
    fields = length if isinstance(length, Mapping) else {None: length}
    for name, value in (("align", align), ("bos", bos), ("eos", eos)):
        others = set(value) - set(fields) if isinstance(value, Mapping) else set()
        if others and isinstance(length, Mapping):
            raise InvalidArgument(
                f"{name} must name fields of length, which are {list(length)}, got {sorted(others)}"
            )
        if others and name == "align":
            raise InvalidArgument(
                f"align must be an integer where length is one, got {shorten(align)}"
            )
    capacities = tuple(
        Capacity(
            tokens,
            field,
            align.get(str(field), 1) if isinstance(align, Mapping) else align,
            bos=_is_for(field, bos),
            eos=_is_for(field, eos),
        )
        for field, tokens in fields.items()
    )
    for capacity in capacities:
        shown = "length" if capacity.field is None else f"length[{capacity.field!r}]"
        if capacity.length % capacity.align:
            raise InvalidArgument(
                f"{shown} must be a multiple of align={capacity.align}, got {capacity.length}"
            )
        if capacity.most < 1:
            raise InvalidArgument(
                f"{shown} must have space for a token between bos and eos, got {capacity.length}"
            )
    form = RowFormat(capacities, pad, bos, eos, max_documents, per_document, parts)
    for argument, names, taken in (
        ("length", form.fields or (), form.added),
        ("per_document", per_document, [*form.added, *(form.fields or ())]),
    ):
        if found := sorted({*names}.intersection(taken)):
            raise InvalidArgument(
                f"{argument} must not have names of what rows have already, got {found}"
            )
    return form


def _is_for(field: str | None, value: Numbers | None) -> bool:
    """Whether ``value`` has a token for the fields of a capacity."""
    if isinstance(value, Mapping) and field is not None:
        return field in value
    return value is not None


def check_align(align: Any) -> RowLength:
    """Return ``align`` with Python integers.

    Raises:
      InvalidType: if ``align`` is neither an integer nor a mapping of names to integers.
      InvalidArgument: if a number is out of range.
    """
    if not isinstance(align, Mapping):
        return check_int("align", align, minimum=1, maximum=LONGEST)
    return {
        name: check_int(f"align[{name!r}]", each, minimum=1, maximum=LONGEST)
        for name, each in align.items()
    }


def check_length(length: Any) -> RowLength:
    """Return ``length`` with Python integers, and names in alphabetical order.

    Raises:
      InvalidType: if ``length`` is neither an integer nor a mapping of names to integers.
      InvalidArgument: if a length is out of range, or the mapping is empty.
    """
    if not isinstance(length, Mapping):
        return check_int("length", length, minimum=1, maximum=LONGEST)
    if not length:
        raise InvalidArgument("length must have one or more fields, got {}")
    check_strings("fields of length", length)
    return {
        name: check_int(f"length[{name!r}]", length[name], minimum=1, maximum=LONGEST)
        for name in sorted(length)
    }
