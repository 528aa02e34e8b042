"""The origin of an item: a record of a source, or the origins of its parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, final

Name: TypeAlias = str | int
"""How to refer to an input: by name, or by number where the inputs have no names."""


class ItemOrigin(ABC):
    """Where an item came from.

    `Origin` describes an item that is one record of a source. Other classes describe items made of
    several: `BatchOrigin` (batches, windows), `ZipOrigin` (``zip``), `PackedOrigin`, `PartOrigin`
    (one of several items made from the same item) and `UnknownOrigin`.
    """

    @abstractmethod
    def records(self) -> Iterator[Origin]:
        """The known records that the item was made of, in order."""

    @abstractmethod
    def mapped(self, change: Callable[[Origin], Origin]) -> ItemOrigin:
        """A copy with ``change`` applied to each record."""

    @abstractmethod
    def to_json(self) -> Any:
        """The origin as dicts, lists, strings and numbers."""


@final
@dataclass(frozen=True)
class Origin(ItemOrigin):
    """A record of a source.

    Attributes:
      source: the kind of the source, such as ``"Jsonl"``.
      record: number of the record in its file, or in a source without files, from 0. A whole file
        is record 0.
      file: path or URL of the file.
      offset: first byte of the record in the decompressed content of the file; None if the format
        has no such place, or the source does not know the offset.
      inputs: names or numbers of the inputs of ``mix``, ``concatenate`` and ``interleave`` passed
        on the way, the last of these stages first.
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
        """The origin after a stage that the record entered through input ``name``."""
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
    """The origins of the items of a batch or a window, in the order of reading: ``origin[row]``.

    A function that collates the batch, or a later ``map``, may order the rows differently.
    """

    rows: tuple[ItemOrigin, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> ItemOrigin:
        return self.rows[row]

    def __iter__(self) -> Iterator[ItemOrigin]:
        return iter(self.rows)

    def records(self) -> Iterator[Origin]:
        return chain.from_iterable(row.records() for row in self.rows)

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
        return chain.from_iterable(part.records() for part in self.parts.values())

    def mapped(self, change: Callable[[Origin], Origin]) -> ZipOrigin:
        return ZipOrigin({name: part.mapped(change) for name, part in self.parts.items()})

    def to_json(self) -> dict[str, Any]:
        return {str(name): part.to_json() for name, part in self.parts.items()}


@final
@dataclass(frozen=True)
class PartOrigin(ItemOrigin):
    """One of several items that a stage made from one item, or from a group.

    Attributes:
      whole: the origin of the item or group.
      part: number of the item among the items made from ``whole``, from 0; None if unknown.
      within: the item's origin within the pipeline opened by ``flat_map`` or ``interleave_map``, if
        any.
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
    """Tokens of a document, and their place in a row.

    Attributes:
      begin: the first token, counted in the document from 0, after ``drop`` and ``bos``.
      end: one past the last token.
      place: where the segment begins in the row.
    """

    begin: int
    end: int
    place: int


@final
@dataclass(frozen=True)
class Segment:
    """A document, or a part of a document, in a packed row.

    Attributes:
      document: origin of the document.
      spans: tokens and their places in the row, by field; under None if fields share their length.
    """

    document: ItemOrigin
    spans: Mapping[str | None, TokenSpan]


@final
@dataclass(frozen=True)
class PackedOrigin(ItemOrigin):
    """The origins of the segments of a ``pack`` row, in order: ``origin[segment - 1].document``."""

    segments: tuple[Segment, ...]

    def __len__(self) -> int:
        return len(self.segments)

    def __getitem__(self, number: int) -> Segment:
        return self.segments[number]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def records(self) -> Iterator[Origin]:
        return chain.from_iterable(segment.document.records() for segment in self.segments)

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
    """An origin that is unknown, or only partly known.

    Attributes:
      why: the reason.
      parts: the known origins of items read for the item.
    """

    why: str
    parts: tuple[ItemOrigin, ...] = ()

    def records(self) -> Iterator[Origin]:
        return chain.from_iterable(part.records() for part in self.parts)

    def mapped(self, change: Callable[[Origin], Origin]) -> UnknownOrigin:
        return replace(self, parts=tuple(part.mapped(change) for part in self.parts))

    def to_json(self) -> dict[str, Any]:
        return {"unknown": self.why, "parts": [part.to_json() for part in self.parts]}
