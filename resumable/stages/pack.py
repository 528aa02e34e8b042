"""Pack documents into rows of a fixed length."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, final

import numpy as np

from ..core import (
    ALWAYS,
    SEED,
    Block,
    IdentityFields,
    Indexed,
    Indices,
    SavedState,
    Stage,
    StageIterator,
    block_items,
    by_index,
    check_seed,
)
from ..core.arguments import check_choice, check_field
from ..core.block import concatenate
from ..core.lookup import check_no_threads
from ..core.stage import as_stage
from ..errors import InvalidArgument, MalformedItem
from ..groups.concatenating import ConcatenatingIterator
from ..groups.cutting import CutRows
from ..groups.documents import Documents
from ..groups.motion import GroupIterator
from ..groups.packing import best_fit
from ..groups.planned import Plan, PlannedIterator, lengths_of
from ..groups.row_format import RowFormat
from ..groups.rows import Columns
from ..groups.segments import Segments
from ..order.permutation import permutation
from ..order.random_bits import derive
from .packs import ROW_FIELDS, ROW_LENGTH, WINDOW, Packs


@final
@dataclass(frozen=True, eq=False, repr=False)
class BestFitPack(Packs):
    """Rows of ``length`` tokens, each of whole documents, with few places left over.

    The documents of each ``window`` are packed by best-fit decreasing: from the longest to the
    shortest, each goes to the fullest row with space for it (D. S. Johnson, *Near-optimal bin
    packing algorithms*, MIT, 1973). A row has its documents in upstream's order. Rows come in the
    order of their first documents.

    An item is a dict of arrays of shape (length, ...). The tokens have the dtype of the documents,
    and their shape after the first axis, so a token may be a number, a bool or an embedding. The
    ``segment_ids``, int32, number the documents of the row from 1, and are 0 for padding. The
    ``positions``, int32, count the tokens of each segment. Every token comes once. Documents
    without tokens are left out.

    If ``length`` is a dict, such as ``{"inputs": 1024, "targets": 256}``, each of these fields of a
    document has a separate length, and the row has ``inputs``, ``inputs_segment_ids``,
    ``inputs_positions`` and so on. A document goes into a row only if all its fields fit. Documents
    are packed in descending order of the largest share of a row that one of their fields takes.
    Each goes to the row whose free space has the proportions most similar to the document's.

    State: O(1), upstream's from before the current group, the number of the group, and an offset. A
    resume reads and packs the group again.

    Args:
      upstream: stage of documents: arrays of any dtype but objects, lists of numbers, or dicts of
        arrays or lists of one length. The documents of a group that have tokens must have one
        dtype, and one shape after the first axis. Lists of integers are int64.
      length: tokens in a row, at least 1, less than 2**31; or a dict with the tokens of each field
        in a row, for documents that are dicts. With a dict, other fields are left out.
      window: documents in a group, at least 1.
      how: ``"best_fit"``, or ``"concatenate"`` for `ConcatenatePack`.
      key: the only packed field of documents that are dicts; by default all fields are packed.
        Documents that are no dicts are packed as the field ``tokens``.
      tail: ``"pad"`` fills rows up with ``pad``; with ``"short"`` a row ends with its last token.
      align: each document begins at a multiple of this number, and so must ``length`` be; or a dict
        with the number for some fields if ``length`` is a dict. The places between documents have
        ``pad``, and 0 as segment id.
      bos: token put before each document, and before each part of a document that is cut; or a dict
        with the token of each field. If ``length`` is a dict, fields missing in the dict get none.
        The token belongs to the segment; where a document has no tokens of a field, none is put
        there.
      eos: the same, after each document or part.
      max_documents: most documents in a row.
      per_document: names of fields that belong to a document rather than to its tokens, such as an
        id, a label or an image. A row has a list with the value of each of its documents, in their
        order. If there is ``max_documents``, numbers, and arrays of one shape, become an array of
        shape (max_documents, ...), filled up with ``pad``, or 0 for fields that the dict ``pad``
        does not name; other values, and fields whose ``pad`` is None, stay a list, filled up with
        None.
      parts: add ``document_numbers``, the number of each document of a row within the epoch, from
        0, and ``offsets``, the number of the document's tokens before its part in this row
        (``inputs_offsets`` and so on if ``length`` is a dict). Both are lists; if there is
        ``max_documents``, int64 arrays filled up with -1.
      pad: the padding, a number, or a dict with the padding of each field. 0 is the zero of any
        dtype.
      too_long: treatment of documents with a field of more tokens than a row has: ``"cut"`` makes
        several documents of one, ``"drop"`` leaves the document out, ``"error"`` raises.
      shuffle_rows: seed, in [0, 2**64), of the order in which the rows of a group come, different
        in each epoch; None for the order of their first documents.
      lengths: pipeline with the number of tokens of each document, in the same order, such as a
        column of the same files after the same shuffle; a dict of numbers if ``length`` is a dict.
        Both pipelines need random access. The rows of a group are then planned from the lengths,
        and documents are read when their row is asked for. The state is the number of the group and
        an offset, and a resume reads the lengths of the group.

    Raises:
      InvalidArgument: if a number is out of range, ``length`` is no multiple of ``align``, has no
        space for a token between ``bos`` and ``eos``, or lacks a field named by these arguments, if
        ``how``, ``tail`` or ``too_long`` is another word, or if ``lengths`` or the documents have
        no random access, or differ in number; while iterating, if the dtype cannot hold ``pad``,
        ``bos`` or ``eos``.
      InvalidType: if ``length`` is neither an integer nor a dict of integers, ``key`` is no string,
        or ``pad``, ``bos``, ``eos`` or ``align`` is neither a number nor a dict of numbers.
      MalformedItem: while iterating, if an item is no document, is too long under ``"error"``, or
        has another length than ``lengths`` says, or if arrays in ``per_document`` differ in shape
        although ``max_documents`` is given.

    >>> documents = rs.from_sequence([[1, 2, 3], [4, 5], [6]])
    >>> for row in documents.pack(4):
    ...     print(row["tokens"], row["segment_ids"], row["positions"])
    [1 2 3 6] [1 1 1 2] [0 1 2 0]
    [4 5 0 0] [1 1 0 0] [0 1 0 0]
    """

    identity: ClassVar[IdentityFields] = {
        "row_length": ROW_LENGTH,
        "window": WINDOW,
        **dict.fromkeys(("key", "tail", "pad", "too_long", *ROW_FIELDS), ALWAYS),
        "shuffle_rows": SEED,
    }
    tails: ClassVar[tuple[str, ...]] = ("pad", "short")
    state_cost = SavedState(
        "a group and an offset; a resume reads the group it is inside again", resumes_before=True
    )

    _: KW_ONLY
    too_long: str = "cut"
    shuffle_rows: int | None = None
    lengths: Stage[Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("too_long", self.too_long, ("cut", "drop", "error"))
        if self.lengths is not None:
            object.__setattr__(
                self, "lengths", self._check_lengths(as_stage(self.lengths, "lengths"))
            )
            check_no_threads(self, "leave its workers out where rows are planned from lengths")
        check_field(self, "shuffle_rows", check_seed, optional=True)

    def _check_lengths(self, lengths: Stage[Any]) -> Stage[Any]:
        for name, stage in (("documents", self.upstream), ("lengths", lengths)):
            if not stage.random_access or stage.length == math.inf:
                raise InvalidArgument(
                    f"{name} must have random access and an end where rows are planned from lengths, got {stage!r}"
                )
        if len(lengths) != len(self.upstream):
            raise InvalidArgument(
                f"lengths must have one item for each of {len(self.upstream)} documents, got {len(lengths)}"
            )
        return lengths

    @property
    def inputs(self) -> tuple[Stage[Any], ...]:
        return (self.upstream,) if self.lengths is None else (self.upstream, self.lengths)

    def start(self, epoch: int = 0) -> StageIterator[Columns]:
        if self.lengths is None:
            return GroupIterator(self, self.groups(epoch), partial(self._rows, epoch))
        count = len(self.upstream)
        plan = partial(self._plan, by_index(self.lengths, epoch), count, epoch)
        made = partial(self._planned, by_index(self.upstream, epoch))
        return PlannedIterator(self, epoch, -(-count // self.window), plan, made)

    def _rows(self, epoch: int, block: Block, group: int) -> Block:
        documents = self.documents(block)
        if self.parts:
            documents = documents.numbered_from(group * self.window, self)
        segments, rows = self._packed(documents.lengths, epoch, group)
        return self.made(documents, segments, rows, self.form) if len(rows) else []

    def _plan(self, lengths: Indexed[Any], count: int, epoch: int, group: int) -> Plan:
        """The rows of a group, from the lengths alone."""
        first = group * self.window
        block = lengths.gather(np.arange(first, min(first + self.window, count), dtype=np.int64))
        found = lengths_of(block, self.form)
        are_filled = np.flatnonzero(found.any(axis=1))
        segments, rows = self._packed(found[are_filled], epoch, group)
        return Plan.of(segments._replace(numbers=are_filled[segments.numbers]), rows, found)

    def _planned(
        self, upstream: Indexed[Any], plan: Plan, start: int, stop: int, group: int
    ) -> Block:
        """The rows of a plan from ``start`` to ``stop``, whose documents are read together."""
        first, rows = group * self.window, list(plan.rows(start, stop))
        wanted = np.unique(np.concatenate([numbers for numbers, _ in rows]))
        items = block_items(upstream.gather(first + wanted))
        made = []
        for numbers, segments in rows:
            places = np.searchsorted(wanted, numbers).tolist()
            # Each row separately, so that it does not depend on the rows read together with it.
            documents = self.documents([items[place] for place in places])
            plan.check(numbers, documents)
            documents = documents._replace(numbers=first + numbers)
            owners = np.zeros(len(segments.numbers), np.int64)
            made.append(self.made(documents, segments, owners, self.form))
        return concatenate(made)

    def _packed(self, lengths: Indices, epoch: int, group: int) -> tuple[Segments, Indices]:
        """The segments of documents of ``lengths``, and the row of each, shape (segments,)."""
        segments, form = self._fitting(lengths), self.form
        if not len(segments.numbers):
            return segments, segments.numbers
        rows = best_fit(form.needs(segments.lengths), form.limits)
        if self.shuffle_rows is not None:
            count = int(rows.max()) + 1
            rows = permutation(count, derive(self.shuffle_rows, epoch), group)(rows)
        return segments, rows

    def _fitting(self, lengths: Indices) -> Segments:
        """All documents; too long documents are cut, left out or refused."""
        most = self.form.most
        too_long = lengths > most
        segments = Segments.whole(lengths)
        if not too_long.any():
            return segments
        if self.too_long == "cut":
            return Segments.cut(lengths, most)
        if self.too_long == "error":
            place = int(too_long.any(axis=0).argmax())
            field = self.form.capacities[place].field
            raise MalformedItem(
                f"documents to pack must have at most {most[place]} tokens"
                f"{'' if field is None else f' of {field!r}'}, got "
                f"{lengths[:, place].max()}; too_long='cut' or 'drop' takes longer ones"
            )
        return segments.chosen(np.flatnonzero(~too_long.any(axis=1)))


@final
@dataclass(frozen=True, eq=False, repr=False)
class ConcatenatePack(Packs):
    """Rows of ``length`` tokens out of one stream of all documents, cut wherever a row is full.

    A document that is cut continues in the next row. Items are as in `BestFitPack`. Each part of a
    document in a row is a segment, whose positions begin at 0. If ``length`` is a dict, a row ends
    where one field is full; the document cut there gives the row as many tokens of each field as
    fit.

    State: O(1), upstream's from before the group of documents in which the next row begins, and how
    many tokens of the group come before the row, for each field if ``length`` is a dict. A resume
    reads the group again, and may choose another ``window``.

    Args:
      upstream: stage of documents as in `BestFitPack`, with the same fields, dtypes and shapes in an
        epoch.
      length: tokens in a row, at least 1, less than 2**31; or a dict with the tokens of each field in a row.
      window: documents read at once, at least 1.
      how: ``"concatenate"``.
      key: the only packed field of documents that are dicts; by default all fields are packed.
      tail: treatment of the tokens at the end of an epoch that fill no row: ``"pad"`` fills a row
        up with ``pad``, ``"short"`` makes a shorter row, and ``"drop"`` leaves the tokens out. With
        ``"short"``, no row has padding after its last token.
      align: as in `BestFitPack`; a part that continues in the next row begins the row.
      bos: as in `BestFitPack`. A row ends where no further token fits together with ``bos`` and
        ``eos``.
      eos: as in `BestFitPack`.
      max_documents: most documents, and parts of documents, in a row.
      per_document: as in `BestFitPack`; for a document that is cut, in each row with a part of the
        document.
      parts: as in `BestFitPack`. The state then also has the number of documents before the group.
      pad: the padding, a number, or a dict with the padding of each field. 0 is the zero of any dtype.
      too_long: only ``"cut"``, as no document is too long.
      shuffle_rows: only None, as rows have the order of the stream.
      lengths: only None.

    Raises:
      InvalidArgument: as in `BestFitPack`; while iterating, if the dtype cannot hold ``pad``, ``bos`` or ``eos``.
      InvalidType: if ``length`` is neither an integer nor a dict of integers, ``key`` is no string,
        or ``pad``, ``bos``, ``eos`` or ``align`` is neither a number nor a dict of numbers.
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
            form = replace(form, pad=0)  # never put in, so any value will do
        return ConcatenatingIterator(
            self, self.groups(epoch), self.documents, form, partial(self._rows, form)
        )

    def _rows(self, form: RowFormat, documents: Documents, cut: CutRows, last: bool) -> Block:
        if last and self.tail == "drop":
            return []
        return self.made(documents, cut.segments, cut.rows, form)
