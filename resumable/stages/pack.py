"""Pack documents into rows of a fixed length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Final, final

import numpy as np

from ..core import (
    ALWAYS,
    ITEMS,
    LISTS,
    PARTS,
    RANK,
    STACKED,
    Block,
    Flow,
    IdentityField,
    IdentityFields,
    Indices,
    Layout,
    Reliance,
    SavedState,
    StageIterator,
    Transform,
    check_choice,
    check_int,
    derived,
)
from ..errors import InvalidArgument, InvalidType, MalformedItem, shorten
from ..groups.concatenating import ConcatenatingIterator
from ..groups.cutting import CutRows
from ..groups.documents import Documents, documents_of
from ..groups.filling import Padding, check_padding
from ..groups.motion import GroupIterator, Groups
from ..groups.packing import best_fit
from ..groups.row_format import RowFormat, RowLength, check_length
from ..groups.rows import Columns, ends_short, rows_of
from ..groups.segments import Segments

WINDOW = 1024
ROW_LENGTH: Final = IdentityField(ALWAYS, shown_as="length")


@dataclass(frozen=True, eq=False, repr=False)
class Packs(Transform[Columns]):
    """A stage that packs documents; `BestFitPack` says what its arguments are."""

    flow = Flow.GROUPED
    relies_on: ClassVar[Reliance] = ITEMS | PARTS | RANK
    tails: ClassVar[tuple[str, ...]]

    row_length: RowLength
    _: KW_ONLY
    window: int = WINDOW
    key: str | None = None
    tail: str = "pad"
    pad: Padding = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "row_length", check_length(self.row_length))
        object.__setattr__(self, "window", check_int("window", self.window, minimum=1))
        object.__setattr__(self, "pad", check_padding(self.pad))
        check_choice("tail", self.tail, self.tails)
        if self.key is not None and not isinstance(self.key, str):
            raise InvalidType(f"key must be a string or None, got {shorten(self.key)}")
        if self.key is not None and self.form.fields:
            raise InvalidArgument(
                f"key must be None where length names the fields, got key={self.key!r}"
            )

    @derived
    def form(self) -> RowFormat:
        """What a row consists of."""
        return RowFormat.of(self.row_length, self.pad if self.is_padded else 0)

    @property
    def is_padded(self) -> bool:
        """Whether padding may be delivered."""
        return True

    @derived
    def block_layout(self) -> Layout:
        return LISTS if self.tail == "short" else STACKED

    def groups(self, epoch: int) -> StageIterator[Block]:
        """The documents, in blocks of ``window``."""
        return Groups(self.upstream, size=self.window).start(epoch)

    def documents(self, block: Block) -> Documents:
        """Those of ``block`` that have tokens."""
        return documents_of(block, self.key, self.form)

    def rows(self, documents: Documents, segments: Segments, rows: Indices) -> Block:
        """The rows that the ``segments`` of documents are put into, by the number of each, shape (segments,)."""
        columns = rows_of(documents, segments, rows, self.form)
        return ends_short(columns, self.form) if self.tail == "short" else columns


@final
@dataclass(frozen=True, eq=False, repr=False)
class BestFitPack(Packs):
    """Rows of ``length`` tokens, each of whole documents, with few places left over.

    The documents of a group of ``window`` are packed by best-fit decreasing: from the longest to the
    shortest, each goes to the fullest row that has space for it (D. S. Johnson, *Near-optimal bin
    packing algorithms*, MIT, 1973).
    A row has its documents in upstream's order. Rows come in the order of their first documents.

    An item is a dict of arrays of shape (length, ...). The tokens have the dtype of the documents, and
    their shape behind the first axis, so that a token may be a number, a bool or an embedding. The
    ``segment_ids``, int32, number the documents of the row from 1, and are 0 for padding. The
    ``positions``, int32, count the tokens of each segment. Every token comes once. Documents without
    tokens leave nothing behind.

    If ``length`` is a dict, such as ``{"inputs": 1024, "targets": 256}``, each of these fields of a document
    has a length of its own, and the row has ``inputs``, ``inputs_segment_ids``, ``inputs_positions`` and so
    on. A document goes into a row only if all its fields fit. It comes the earlier, the larger the share of a
    row is that one of its fields takes, and goes to the row with the least space for that field.

    State: O(1), upstream's from before the group it is inside, the number of that group, and an
    offset. A resume reads and packs that group again.

    Args:
      upstream: stage of documents: arrays of any dtype but objects, lists of numbers, or dicts of these
        with one length. The documents of a group that have tokens must have one dtype, and one shape
        behind the first axis. Lists of integers are int64.
      length: tokens in a row, at least 1, less than 2**31; or a dict with the tokens of each field in a
        row, for documents that are dicts. Other fields are then left out.
      window: documents in a group, at least 1.
      how: ``"best_fit"``, or ``"concatenate"`` for `ConcatenatePack`.
      key: the only field that is packed of documents that are dicts; by default all are. Documents
        that are no dicts are packed as the field ``tokens``.
      tail: ``"pad"`` fills rows up with ``pad``; with ``"short"`` a row ends with its last token.
      pad: the padding, a number, or a dict with the padding of each field. 0 is the zero of any dtype.
      too_long: what becomes of documents with a field of more tokens than a row has: ``"cut"`` makes
        several of one, ``"drop"`` leaves it out, ``"error"`` raises.

    Raises:
      InvalidArgument: if ``length`` or ``window`` is out of its range, or ``how``, ``tail`` or ``too_long`` is
        another word; while iterating, if the dtype cannot hold ``pad``.
      InvalidType: if ``length`` is neither an integer nor a dict of them, ``key`` is no string, or ``pad``
        is neither a number nor a dict of them.
      MalformedItem: while iterating, if an item is no document, or is too long under ``"error"``.

    >>> documents = rs.from_sequence([[1, 2, 3], [4, 5], [6]])
    >>> for row in documents.pack(4):
    ...     print(row["tokens"], row["segment_ids"], row["positions"])
    [1 2 3 6] [1 1 1 2] [0 1 2 0]
    [4 5 0 0] [1 1 0 0] [0 1 0 0]
    """

    identity: ClassVar[IdentityFields] = {
        "row_length": ROW_LENGTH,
        **dict.fromkeys(("window", "key", "tail", "pad", "too_long"), ALWAYS),
    }
    tails: ClassVar[tuple[str, ...]] = ("pad", "short")
    state_cost = SavedState(
        "a group and an offset; a resume reads the group it is inside again", resumes_before=True
    )

    _: KW_ONLY
    too_long: str = "cut"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("too_long", self.too_long, ("cut", "drop", "error"))

    def start(self, epoch: int = 0) -> StageIterator[Columns]:
        return GroupIterator(self, self.groups(epoch), self._rows)

    def _rows(self, block: Block, group: int) -> Block:
        documents = self.documents(block)
        segments = self._fitting(documents)
        if not len(segments.numbers):
            return []
        return self.rows(documents, segments, best_fit(segments.lengths, self.form.lengths))

    def _fitting(self, documents: Documents) -> Segments:
        """``documents``; the ones that are too long are cut, left out or refused."""
        most = self.form.lengths
        too_long = documents.lengths > most
        segments = Segments.whole(documents)
        if not too_long.any():
            return segments
        if self.too_long == "cut":
            return Segments.cut(documents, most)
        if self.too_long == "error":
            place = int(too_long.any(axis=0).argmax())
            field = self.form.capacities[place].field
            raise MalformedItem(
                f"documents to pack must have at most {most[place]} tokens"
                f"{'' if field is None else f' of {field!r}'}, got "
                f"{documents.lengths[:, place].max()}; too_long='cut' or 'drop' takes longer ones"
            )
        return segments.chosen(np.flatnonzero(~too_long.any(axis=1)))


@final
@dataclass(frozen=True, eq=False, repr=False)
class ConcatenatePack(Packs):
    """Rows of ``length`` tokens out of one stream of all documents, cut wherever a row is full.

    A document that is cut goes on in the next row. Items are as in `BestFitPack`. Each part
    of a document in a row is a segment, whose positions begin at 0. If ``length`` is a dict, a row ends
    where one field is full; of the document that does not fit, it has as many tokens of each field as fit.

    State: O(1), upstream's from before the group of documents in which the next row begins, and how
    many of its tokens come before that row, of each field if ``length`` is a dict. A resume reads that group again, and may choose another
    ``window``.

    Args:
      upstream: stage of documents as in `BestFitPack`, with the same fields, dtypes and shapes in an
        epoch.
      length: tokens in a row, at least 1, less than 2**31; or a dict with the tokens of each field in a row.
      window: documents that are read at once, at least 1.
      how: ``"concatenate"``.
      key: the only field that is packed of documents that are dicts; by default all are.
      tail: what becomes of the tokens at the end of an epoch that fill no row: ``"pad"`` fills one up
        with ``pad``, ``"short"`` makes one that is shorter, and ``"drop"`` leaves them out.
      pad: the padding, a number, or a dict with the padding of each field. 0 is the zero of any dtype.
      too_long: only ``"cut"``, as no document is too long.

    Raises:
      InvalidArgument: if ``length`` or ``window`` is out of its range, or ``tail`` is another word; while
        iterating, if the dtype cannot hold ``pad``.
      InvalidType: if ``length`` is neither an integer nor a dict of them, ``key`` is no string, or ``pad``
        is neither a number nor a dict of them.
      MalformedItem: while iterating, if an item is no document.

    >>> documents = rs.from_sequence([[1, 2, 3], [4, 5], [6]])
    >>> for row in documents.pack(4, how="concatenate", tail="short"):
    ...     print(row["tokens"], row["segment_ids"], row["positions"])
    [1 2 3 4] [1 1 1 2] [0 1 2 0]
    [5 6] [1 2] [0 0]
    """

    identity: ClassVar[IdentityFields] = {
        "row_length": ROW_LENGTH,
        **dict.fromkeys(("key", "tail", "pad"), ALWAYS),
    }
    tails: ClassVar[tuple[str, ...]] = ("pad", "short", "drop")
    state_cost = SavedState(
        "an offset; a resume reads the documents that were read with it again", resumes_before=True
    )

    @property
    def is_padded(self) -> bool:
        return self.tail == "pad" or (self.tail == "drop" and isinstance(self.row_length, Mapping))

    def start(self, epoch: int = 0) -> StageIterator[Columns]:
        return ConcatenatingIterator(
            self, self.groups(epoch), self.documents, self.form, self._rows
        )

    def _rows(self, documents: Documents, cut: CutRows, last: bool) -> Block:
        if last and self.tail == "drop":
            return []
        return self.rows(documents, cut.segments, cut.rows)
