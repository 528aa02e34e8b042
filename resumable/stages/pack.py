"""Pack documents into rows of a fixed length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, final

import numpy as np

from ..core import (
    ALWAYS,
    ITEMS,
    LISTS,
    PARTS,
    RANK,
    SEED,
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
    block_items,
    check_bool,
    check_choice,
    check_int,
    check_seed,
    derived,
)
from ..errors import InvalidArgument, InvalidType, MalformedItem, shorten
from ..groups.concatenating import ConcatenatingIterator
from ..groups.cutting import CutRows
from ..groups.documents import Documents, documents_of
from ..groups.filling import Numbers, check_numbers
from ..groups.motion import GroupIterator, Groups
from ..groups.packing import best_fit
from ..groups.per_document import add_values, check_per_document
from ..groups.row_format import RowFormat, RowLength, check_align, check_length, row_format
from ..groups.rows import Columns, ends_short, rows_of
from ..groups.segments import Segments
from ..order.permutation import permutation
from ..order.random_bits import derive

WINDOW = 1024
ROW_LENGTH: Final = IdentityField(ALWAYS, shown_as="length")
ROW_FIELDS: Final = ("align", "bos", "eos", "max_documents", "per_document", "parts")


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
    pad: Numbers = 0
    align: RowLength = 1
    bos: Numbers | None = None
    eos: Numbers | None = None
    max_documents: int | None = None
    per_document: Sequence[str] = ()
    parts: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "row_length", check_length(self.row_length))
        object.__setattr__(self, "window", check_int("window", self.window, minimum=1))
        object.__setattr__(self, "per_document", check_per_document(self.per_document))
        check_bool("parts", self.parts)
        object.__setattr__(self, "pad", check_numbers("pad", self.pad, self.per_document))
        object.__setattr__(self, "align", check_align(self.align))
        for name in ("bos", "eos"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, check_numbers(name, value))
        if self.max_documents is not None:
            most = check_int("max_documents", self.max_documents, minimum=1)
            object.__setattr__(self, "max_documents", most)
        check_choice("tail", self.tail, self.tails)
        if self.key is not None and not isinstance(self.key, str):
            raise InvalidType(f"key must be a string or None, got {shorten(self.key)}")
        if self.key in self.per_document:
            raise InvalidArgument(f"per_document must not have the key, got {self.key!r}")
        if self.form.fields and self.key is not None:
            raise InvalidArgument(
                f"key must be None where length names the fields, got key={self.key!r}"
            )

    @derived
    def form(self) -> RowFormat:
        """What a row consists of."""
        return row_format(
            self.row_length,
            pad=self.pad,
            bos=self.bos,
            eos=self.eos,
            align=self.align,
            max_documents=self.max_documents,
            per_document=tuple(self.per_document),
            parts=self.parts,
        )

    @derived
    def block_layout(self) -> Layout:
        return STACKED if self.tail != "short" and self.form.is_of_columns else LISTS

    def groups(self, epoch: int) -> StageIterator[Block]:
        """The documents, in blocks of ``window``."""
        return Groups(self.upstream, size=self.window).start(epoch)

    def documents(self, block: Block) -> Documents:
        """Those of ``block`` that have tokens."""
        return documents_of(block, self.key, self.form)

    def made(
        self, documents: Documents, segments: Segments, rows: Indices, form: RowFormat
    ) -> Block:
        """The rows that the ``segments`` of documents are put into, by the number of each, shape (segments,)."""
        columns: Block = rows_of(documents, segments, rows, form)
        if self.tail == "short":
            columns = ends_short(columns, form)
        if form.is_of_columns:
            return columns
        made: list[dict[str, Any]] = block_items(columns)
        add_values(made, documents, segments, rows, form)
        return made


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
      align: each document begins at a multiple of it, of which ``length`` is one too; or a dict with that of
        some fields if ``length`` is a dict. The places between have ``pad``, and 0 as segment id.
      bos: token that is put before each document, and before each part of one that is cut; or a dict with
        that of each field. If ``length`` is a dict, fields that it does not name get none. The places
        belong to the segment; where a document has no tokens of a field, none is put there.
      eos: the same, behind each document or part.
      max_documents: most documents in a row.
      per_document: names of fields that belong to a document rather than to its tokens, such as an id, a
        label or an image. A row has a list with the value of each of its documents, in their order. If there is
        ``max_documents``, numbers, and arrays of one shape, become an array of shape (max_documents, ...), filled
        up with ``pad``, which is 0 for those that a dict does not name; other values, and those for
        which it has None, stay a list, filled up with None.
      parts: add ``document_numbers``, the number of each document of a row among those of the epoch, from 0, and
        ``offsets``, how many of its tokens come before its part in this row (``inputs_offsets`` and so on if
        ``length`` is a dict). They are lists, or int64 arrays filled up with -1, as numbers in ``per_document`` are.
      pad: the padding, a number, or a dict with the padding of each field. 0 is the zero of any dtype.
      too_long: what becomes of documents with a field of more tokens than a row has: ``"cut"`` makes
        several of one, ``"drop"`` leaves it out, ``"error"`` raises.
      shuffle_rows: seed, in [0, 2**64), of the order in which the rows of a group come, another one in each
        epoch; None for that of their first documents.

    Raises:
      InvalidArgument: if a number is out of its range, ``length`` is no multiple of ``align``, has no space for
        a token between ``bos`` and ``eos``, or has other fields than these, or ``how``, ``tail`` or
        ``too_long`` is another word; while iterating, if the dtype cannot hold ``pad``, ``bos`` or ``eos``.
      InvalidType: if ``length`` is neither an integer nor a dict of them, ``key`` is no string, or ``pad``,
        ``bos``, ``eos`` or ``align`` is neither a number nor a dict of them.
      MalformedItem: while iterating, if an item is no document, or is too long under ``"error"``, or arrays in
        ``per_document`` differ in shape where there is ``max_documents``.

    >>> documents = rs.from_sequence([[1, 2, 3], [4, 5], [6]])
    >>> for row in documents.pack(4):
    ...     print(row["tokens"], row["segment_ids"], row["positions"])
    [1 2 3 6] [1 1 1 2] [0 1 2 0]
    [4 5 0 0] [1 1 0 0] [0 1 0 0]
    """

    identity: ClassVar[IdentityFields] = {
        "row_length": ROW_LENGTH,
        **dict.fromkeys(("window", "key", "tail", "pad", "too_long", *ROW_FIELDS), ALWAYS),
        "shuffle_rows": SEED,
    }
    tails: ClassVar[tuple[str, ...]] = ("pad", "short")
    state_cost = SavedState(
        "a group and an offset; a resume reads the group it is inside again", resumes_before=True
    )

    _: KW_ONLY
    too_long: str = "cut"
    shuffle_rows: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("too_long", self.too_long, ("cut", "drop", "error"))
        if self.shuffle_rows is not None:
            object.__setattr__(self, "shuffle_rows", check_seed("shuffle_rows", self.shuffle_rows))

    def start(self, epoch: int = 0) -> StageIterator[Columns]:
        return GroupIterator(self, self.groups(epoch), partial(self._rows, epoch))

    def _rows(self, epoch: int, block: Block, group: int) -> Block:
        documents, form = self.documents(block), self.form
        if self.parts:
            documents = documents.numbered_from(group * self.window, self)
        segments = self._fitting(documents)
        if not len(segments.numbers):
            return []
        rows = best_fit(form.needs(segments.lengths), form.limits)
        if self.shuffle_rows is not None:
            count = int(rows.max()) + 1
            rows = permutation(count, derive(self.shuffle_rows, epoch), group)(rows)
        return self.made(documents, segments, rows, form)

    def _fitting(self, documents: Documents) -> Segments:
        """``documents``; the ones that are too long are cut, left out or refused."""
        most = self.form.most
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
        with ``pad``, ``"short"`` makes one that is shorter, and ``"drop"`` leaves them out. With
        ``"short"``, no row has padding behind its last token.
      align: as in `BestFitPack`; a part that goes on in the next row begins that row.
      bos: as in `BestFitPack`. A row in which no further token fits with it and ``eos`` ends there.
      eos: as in `BestFitPack`.
      max_documents: most documents, and parts of them, in a row.
      per_document: as in `BestFitPack`; of a document that is cut, each row that has a part of it.
      parts: as in `BestFitPack`. The state then also has how many documents come before the group.
      pad: the padding, a number, or a dict with the padding of each field. 0 is the zero of any dtype.
      too_long: only ``"cut"``, as no document is too long.
      shuffle_rows: only None, as rows have the order of the stream.

    Raises:
      InvalidArgument: as in `BestFitPack`; while iterating, if the dtype cannot hold ``pad``, ``bos`` or ``eos``.
      InvalidType: if ``length`` is neither an integer nor a dict of them, ``key`` is no string, or ``pad``,
        ``bos``, ``eos`` or ``align`` is neither a number nor a dict of them.
      MalformedItem: while iterating, if an item is no document.

    >>> documents = rs.from_sequence([[1, 2, 3], [4, 5], [6]])
    >>> for row in documents.pack(4, how="concatenate", tail="short"):
    ...     print(row["tokens"], row["segment_ids"], row["positions"])
    [1 2 3 4] [1 1 1 2] [0 1 2 0]
    [5 6] [1 2] [0 0]
    """

    identity: ClassVar[IdentityFields] = {
        "row_length": ROW_LENGTH,
        **dict.fromkeys(("key", "tail", "pad", *ROW_FIELDS), ALWAYS),
    }
    tails: ClassVar[tuple[str, ...]] = ("pad", "short", "drop")
    state_cost = SavedState(
        "an offset; a resume reads the documents that were read with it again", resumes_before=True
    )

    def start(self, epoch: int = 0) -> StageIterator[Columns]:
        form = self.form
        if form.is_plain and self.tail != "pad":
            form = replace(form, pad=0)  # which is never put in, so it may be anything
        return ConcatenatingIterator(
            self, self.groups(epoch), self.documents, form, partial(self._rows, form)
        )

    def _rows(self, form: RowFormat, documents: Documents, cut: CutRows, last: bool) -> Block:
        if last and self.tail == "drop":
            return []
        return self.made(documents, cut.segments, cut.rows, form)
