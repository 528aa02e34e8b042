"""Where an item came from: a record of a source, or what is made of several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, final

Name: TypeAlias = str | int
"""What an input is called: its name, or its number where the inputs have no names."""


class ItemOrigin(ABC):
    """Where an item came from.

    `Origin` says it of an item that is one record of a source. The other classes say it of items that are
    made of others: `BatchOrigin` (batches, windows), `ZipOrigin` (``zip``), `PackedOrigin`, `PartOrigin` (one of several items
    made of one) and `UnknownOrigin`.
    """

    @abstractmethod
    def records(self) -> Iterator[Origin]:
        """The records that the item was made of, as far as they are known, in their order."""

    @abstractmethod
    def mapped(self, change: Callable[[Origin], Origin]) -> ItemOrigin:
        """The same with ``change`` made to each record."""

    @abstractmethod
    def to_json(self) -> Any:
        """The same in dicts, lists, strings and numbers."""


@final
@dataclass(frozen=True)
class Origin(ItemOrigin):
    """A record of a source.

    Attributes:
      source: the kind of the source, such as ``"Jsonl"``.
      record: its number in its file, or in the source if that has no files, from 0. A whole file is record 0.
      file: the path of its file, or its URL.
      offset: where it begins in its file, in bytes of the decompressed content; None where the format
        has no such place, or the source does not know it.
      inputs: through which inputs of ``mix``, ``concatenate`` and ``interleave`` it came, the last of these
        stages first: their names, or their numbers.
    """

    source: str
    record: int
    file: str | None = None
    offset: int | None = None
    inputs: tuple[Name, ...] = ()

    def records(self) -> Iterator[Origin]:
        yield self

    def mapped(self, change: Callable[[Origin], Origin]) -> Origin:
        return change(self)

    def through(self, name: Name) -> Origin:
        """The same, behind a stage to which it came through input ``name``."""
        return replace(self, inputs=(name, *self.inputs))

    def to_json(self) -> dict[str, Any]:
        found = {
            "source": self.source,
            "file": self.file,
            "record": self.record,
            "offset": self.offset,
            "inputs": list(self.inputs) or None,
        }
        return {name: value for name, value in found.items() if value is not None}


@final
@dataclass(frozen=True)
class BatchOrigin(ItemOrigin):
    """The origins of the items of a batch or a window, in the order in which they were read: ``origin[row]``.

    A function that collates the batch, or a later ``map``, may order its rows in another way.
    """

    rows: tuple[ItemOrigin, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> ItemOrigin:
        return self.rows[row]

    def __iter__(self) -> Iterator[ItemOrigin]:
        return iter(self.rows)

    def records(self) -> Iterator[Origin]:
        for row in self.rows:
            yield from row.records()

    def mapped(self, change: Callable[[Origin], Origin]) -> BatchOrigin:
        return BatchOrigin(tuple(row.mapped(change) for row in self.rows))

    def to_json(self) -> list[Any]:
        return [row.to_json() for row in self.rows]


@final
@dataclass(frozen=True)
class ZipOrigin(ItemOrigin):
    """The origins of the parts of an item of ``zip``, by name or number: ``origin["label"]``."""

    parts: Mapping[Name, ItemOrigin]

    def __getitem__(self, name: Name) -> ItemOrigin:
        return self.parts[name]

    def records(self) -> Iterator[Origin]:
        for part in self.parts.values():
            yield from part.records()

    def mapped(self, change: Callable[[Origin], Origin]) -> ZipOrigin:
        return ZipOrigin({name: part.mapped(change) for name, part in self.parts.items()})

    def to_json(self) -> dict[str, Any]:
        return {str(name): part.to_json() for name, part in self.parts.items()}


@final
@dataclass(frozen=True)
class PartOrigin(ItemOrigin):
    """One of several items that a stage made of one, or of a group.

    Attributes:
      whole: the origin of what it was made of.
      part: its number among the items made of that, from 0; None if that is not known.
      within: its own origin there, if it is an item of a pipeline that ``flat_map`` or ``interleave`` opened.
    """

    whole: ItemOrigin
    part: int | None
    within: ItemOrigin | None = None

    def records(self) -> Iterator[Origin]:
        yield from self.whole.records()
        if self.within is not None:
            yield from self.within.records()

    def mapped(self, change: Callable[[Origin], Origin]) -> PartOrigin:
        return replace(self, whole=self.whole.mapped(change))

    def to_json(self) -> dict[str, Any]:
        found = {"made_from": self.whole.to_json(), "part": self.part}
        return found if self.within is None else {**found, "within": self.within.to_json()}


class TokenSpan(NamedTuple):
    """Which tokens of a document stand where in a row.

    Attributes:
      begin: the first of them, counted in the document from 0, after ``drop`` and ``bos``.
      end: the one behind the last.
      place: where the segment begins in the row.
    """

    begin: int
    end: int
    place: int


@final
@dataclass(frozen=True)
class Segment:
    """A document, or a part of one, in a packed row.

    Attributes:
      document: its origin.
      spans: which of its tokens stand where, by field; under None if fields share their length.
    """

    document: ItemOrigin
    spans: Mapping[str | None, TokenSpan]


@final
@dataclass(frozen=True)
class PackedOrigin(ItemOrigin):
    """The origins of the segments of a row of ``pack``, in their order: ``origin[segment - 1].document``."""

    segments: tuple[Segment, ...]

    def __len__(self) -> int:
        return len(self.segments)

    def __getitem__(self, number: int) -> Segment:
        return self.segments[number]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def records(self) -> Iterator[Origin]:
        for segment in self.segments:
            yield from segment.document.records()

    def mapped(self, change: Callable[[Origin], Origin]) -> PackedOrigin:
        return PackedOrigin(
            tuple(replace(one, document=one.document.mapped(change)) for one in self.segments)
        )

    def to_json(self) -> list[Any]:
        return [
            {
                "document": segment.document.to_json(),
                "spans": {field or "tokens": list(span) for field, span in segment.spans.items()},
            }
            for segment in self.segments
        ]


@final
@dataclass(frozen=True)
class UnknownOrigin(ItemOrigin):
    """An origin that is not known, or not all of it.

    Attributes:
      why: what cannot be known.
      parts: the origins that are known: of what was read for the item.
    """

    why: str
    parts: tuple[ItemOrigin, ...] = ()

    def records(self) -> Iterator[Origin]:
        for part in self.parts:
            yield from part.records()

    def mapped(self, change: Callable[[Origin], Origin]) -> UnknownOrigin:
        return replace(self, parts=tuple(part.mapped(change) for part in self.parts))

    def to_json(self) -> dict[str, Any]:
        return {"unknown": self.why, "parts": [part.to_json() for part in self.parts]}
