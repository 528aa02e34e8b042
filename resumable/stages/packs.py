"""The common base of the stages that pack documents into rows of a fixed length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Final

from ..core import (
    ALWAYS,
    ITEMS,
    LISTS,
    PARTS,
    RANK,
    STACKED,
    Block,
    Dependence,
    Grouped,
    Held,
    IdentityField,
    Indices,
    Relation,
    Stage,
    StageIterator,
    Transform,
    block_items,
    check_int,
    computed_once,
)
from ..core.arguments import check_bool, check_choice, check_field
from ..core.layout import Layout
from ..core.relation import endless
from ..core.stage import InputShadows
from ..errors import InvalidArgument, InvalidType, shorten
from ..groups.documents import Documents, documents_of
from ..groups.filling import Numbers, check_numbers
from ..groups.motion import Groups
from ..groups.per_document import add_values, check_per_document
from ..groups.row_format import RowFormat, RowLength, check_align, check_length, row_format
from ..groups.rows import Columns, ends_short, rows_of
from ..groups.segments import Segments
from ..groups.traced_rows import ORIGIN, traced_rows, with_origin
from ..shadows.traced import Each

GROUP: Final = 1024
WINDOW: Final = IdentityField(ALWAYS, shown_as="group")
ROW_LENGTH: Final = IdentityField(ALWAYS, shown_as="length")
ROW_FIELDS: Final = ("align", "bos", "eos", "max_documents", "per_document", "parts")


@dataclass(frozen=True, eq=False, repr=False)
class Packs(Transform[Columns]):
    """A stage that packs documents; `BestFitPack` describes the arguments."""

    depends_on: ClassVar[Dependence] = ITEMS | PARTS | RANK
    tails: ClassVar[tuple[str, ...]]

    row_length: RowLength
    _: KW_ONLY
    window: int = GROUP
    key: str | None = None
    tail: str = "pad"
    pad: Numbers = 0
    align: RowLength = 1
    bos: Numbers | None = None
    eos: Numbers | None = None
    max_documents: int | None = None
    per_document: Sequence[str] = ()
    parts: bool = False
    # Whether documents and rows come with their origins, in the separate field ORIGIN.
    traced: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "row_length", check_length(self.row_length))
        object.__setattr__(self, "window", check_int("group", self.window, minimum=1))
        object.__setattr__(self, "per_document", check_per_document(self.per_document))
        check_bool("parts", self.parts)
        object.__setattr__(self, "pad", check_numbers("pad", self.pad, self.per_document))
        object.__setattr__(self, "align", check_align(self.align))
        for name in ("bos", "eos"):
            check_field(self, name, check_numbers, optional=True)
        check_field(self, "max_documents", check_int, optional=True, minimum=1)
        check_choice("tail", self.tail, self.tails)
        if self.key is not None and not isinstance(self.key, str):
            raise InvalidType(f"key must be a string or None, got {shorten(self.key)}")
        if self.key in self.per_document:
            raise InvalidArgument(f"per_document must not have the key, got {self.key!r}")
        if self.form.fields and self.key is not None:
            raise InvalidArgument(
                f"key must be None where length names the fields, got key={self.key!r}"
            )

    @computed_once
    def form(self) -> RowFormat:
        """The format of a row."""
        return row_format(
            self.row_length,
            pad=self.pad,
            bos=self.bos,
            eos=self.eos,
            align=self.align,
            max_documents=self.max_documents,
            per_document=(*self.per_document, *[ORIGIN] * self.traced),
            parts=self.parts,
        )

    @computed_once
    def block_layout(self) -> Layout:
        return STACKED if self.tail != "short" and self.form.is_of_columns else LISTS

    def relation(self, epoch: int) -> Relation:
        return Held(self, epoch, items=endless(self), like=Grouped)

    def groups(self, epoch: int) -> StageIterator[Block]:
        """The documents, in blocks of ``window``."""
        return Groups(self.upstream, size=self.window).start(epoch)

    def documents(self, block: Block) -> Documents:
        """The documents of ``block`` that have tokens."""
        return documents_of(block, self.key, self.form)

    def made(
        self, documents: Documents, segments: Segments, rows: Indices, form: RowFormat
    ) -> Block:
        """The rows made of ``segments``; ``rows`` has the row of each, shape (segments,)."""
        columns: Block = rows_of(documents, segments, rows, form)
        if self.tail == "short":
            columns = ends_short(columns, form)
        if form.is_of_columns:
            return columns
        made: list[dict[str, Any]] = block_items(columns)
        add_values(made, documents, segments, rows, form)
        return traced_rows(made, documents, segments, rows, form) if self.traced else made

    def _traced(self, inputs: InputShadows) -> Stage[Any]:
        return replace(self, upstream=Each(inputs.pairs[0], with_origin), traced=True)
