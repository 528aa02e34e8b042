"""The records of files read in order: compressed files, and remote files without an index."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain
from typing import Any, ClassVar, Final, NamedTuple

from ..core.block import Block
from ..core.computed_once import computed_once
from ..core.evidence import Evidence
from ..core.identity import ALWAYS, IdentityField, IdentityFields
from ..core.origin import Origin
from ..core.position import Position
from ..core.reach import Reach
from ..core.record_source import RecordSource
from ..core.records import Records
from ..core.stage_iterator import Items, SourceIterator
from ..core.timeline import UNBOUNDED
from ..errors import InvalidArgument, StateMismatch, shorten
from ..state.value import State, unpack, unpack_count
from .contents import FILES, evidence_of
from .data_files import AnyFile
from .io.compression import compression_of
from .io.paths import is_remote
from .io.pieces import Start
from .io.stored_files import StoredFiles
from .left_out_of_streams import LeftOutOfStream
from .named_files import files_in_words
from .record import Format, LocatedRecord
from .stream_file import BEGINNING, RecordChunk, StreamPosition, StreamReader

FORMAT_NAME: Final = IdentityField(ALWAYS, shown_as="format of paths")

FIRST_SHAPE: Final = ("file", "record", "offset", "stored", "inside")
"""The keys of a state of version 1."""
NOT_COUNTED: Final = (
    "an earlier version saved this state, which did not count the items of a stream of files, so no records can be "
    "left out in this epoch; from the next epoch on they can, as rs.by_epoch({0: old, n: old.exclude(...)})"
)

MADE_AT_ONCE: Final = 512
"""Items that are made at once when they are asked for in order."""


@dataclass(frozen=True, eq=False, repr=False)
class RecordStream(RecordSource[LocatedRecord]):
    """The records of files as `LocatedRecord`, file after file, each read from its start.

    At most one file is open. Up to 2 MiB beyond the records handed out are read (16 MiB of a remote
    file), or two longer records. The next bytes of remote files are requested ahead: up to 32 MiB
    by all streams of a process, or as much as the storage option ``"ahead"`` says.

    State: O(1), the number of the file, the number and the offset of the record in the file, the
    start for reading the content, and how many items were handed out and left out. A resume first
    reads the first and last 4 KiB of up to 10,000 files, unless all files are remote and have an
    ETag. Then it opens the file of the position. An uncompressed file is read from the record on. A
    compressed file is decompressed again from the start of the member, frame or stream with the
    record: a block of 64 KiB of bgzip, a frame of Zstandard in the seekable format, or the whole
    file if compressed in one piece.

    Damage of a compressed file is noticed where decompression fails, or at the next checksum. The
    record read at this point is malformed, and the rest of the file is passed over.

    Args:
      found: the files as found when the pipeline was built.
      format: how records are found.
      passes_over: whether the records that the format passes over are left out.
      left_out: further records to leave out, if any.

    Raises:
      InvalidArgument: while iterating, if a file is compressed without the suffix of a compression.
      MalformedItem: while iterating, if a file has changed since the pipeline was built.
      OSError: while iterating, if a file cannot be read.
      MissingDependency: while iterating, if the package to decompress a file is missing.
    """

    identity: ClassVar[IdentityFields] = {
        "files": FILES,
        "contents": ALWAYS,
        "format_name": FORMAT_NAME,
        "passes_over": IdentityField(ALWAYS, shown_as="skip_blank"),
    }
    version: ClassVar[int] = 2  # the first did not count the items
    state_cost = "file, record and byte; reads a compressed file again up to there"

    found: tuple[AnyFile, ...]
    _: KW_ONLY
    format: Format
    passes_over: bool = True
    left_out: LeftOutOfStream | None = field(default=None, repr=False)

    @property
    def files(self) -> str:
        """The files in a few words: equal for the same names and sizes."""
        return files_in_words(self.found)

    @computed_once
    def contents(self) -> Evidence:
        """Evidence of the contents of the files."""
        return evidence_of(self.found)

    @property
    def format_name(self) -> str:
        """The name of the format, with the options that its records depend on."""
        return self.format.name

    def start(self, epoch: int = 0) -> RecordStreamIterator:
        return RecordStreamIterator(self, epoch)

    def _without_records(self, epoch: int, records: Mapping[int, Records]) -> RecordStream:
        paths = [file.path for file in self.found]
        return replace(self, left_out=LeftOutOfStream(records, paths))

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.files}, format={self.format_name})"


def stream_of(
    files: Sequence[AnyFile],
    format: Format,
    *,
    passes_over: bool = True,
    index_dir: str | os.PathLike[str] | None = None,
) -> RecordStream | None:
    """The records of ``files`` as a stream; None if all files can be read by an index.

    A stream is necessary if a file is compressed, by its name, or remote without an ``index_dir``.

    Args:
      files: as found when the pipeline was built.
      format: how records are found.
      passes_over: whether the records that the format passes over are left out.
      index_dir: the folder of indexes; remote files have indexes only there.

    Raises:
      InvalidArgument: if all files are compressed, and there is an ``index_dir``.
    """
    compressed = [file.path for file in files if compression_of(file.path)]
    if len(compressed) == len(files) and index_dir is not None:
        raise InvalidArgument(
            f"index_dir must be None for compressed files, as {compressed[0]}, which are read in order "
            f"without an index, got {shorten(index_dir)}"
        )
    remote = index_dir is None and any(is_remote(file.path) for file in files)
    if not compressed and not remote:
        return None
    return RecordStream(tuple(files), format=format, passes_over=passes_over)


class _Place(NamedTuple):
    """The place after a record that was handed out.

    Attributes:
      file: number of the file.
      inside: position in the file.
      items: items handed out before the place; None if an earlier version saved the state.
      left_out: items left out before the place.
    """

    file: int
    inside: StreamPosition
    items: int | None = 0
    left_out: int = 0


class _Run(NamedTuple):
    """The remaining records of a chunk.

    Attributes:
      chunk: the remaining records.
      items: how many items were handed out before the run.
      left_out: how many items were left out before the run.
      places: the place of each record in the chunk as found; None if all records remain.
      found: number of records in the chunk as found.
    """

    chunk: RecordChunk
    items: int | None
    left_out: int
    places: list[int] | None
    found: int

    def left_out_before(self, taken: int) -> int:
        """How many items were left out before record number ``taken``, at least 1, of the run."""
        return self.left_out + (0 if self.places is None else self.places[taken - 1] + 1 - taken)


class RecordStreamIterator(SourceIterator[LocatedRecord]):
    """Motion through the records; opens a file at its first record."""

    _stage: RecordStream

    def __init__(self, stage: RecordStream, epoch: int) -> None:
        super().__init__(stage, epoch)
        # The place after the last record handed out of earlier runs.
        self._place = _Place(0, BEGINNING)
        # The file that is read or opened next; the last record handed out may be in an earlier
        # file.
        self._reading = 0
        # How many items were left out before the next run.
        self._left_out = 0
        self._stored = StoredFiles(stage.found, epochs=True)
        self._reader: StreamReader | None = None
        self._run: _Run | None = None
        # The position of the next record in the run.
        self._next = Position()

    def pull(self, count: int) -> Block:
        records: list[LocatedRecord] = []
        while (missing := count - len(records)) and (ready := self._ready()) is not None:
            reader, run = ready
            start = self._next.number
            stop = min(start + missing, run.length)
            records += reader.records(run, start, stop)
            self._next.move_to(stop)
        return records

    def skip(self, count: int) -> int:
        passed = 0
        while passed < count and (ready := self._ready()) is not None:
            start = self._next.number
            stop = min(start + count - passed, ready[1].length)
            self._next.move_to(stop)
            passed += stop - start
        return passed

    def items(self) -> Items[LocatedRecord]:
        return Items(chain.from_iterable(self._parts()))

    def _parts(self) -> Iterator[Iterator[LocatedRecord]]:
        while (ready := self._ready()) is not None:
            reader, run = ready
            start = self._next.number
            records = reader.records(run, start, min(start + MADE_AT_ONCE, run.length))
            yield self._next.counting(iter(records))

    def _ready(self) -> tuple[StreamReader, RecordChunk] | None:
        """The reader and the run with the next record; None at the end."""
        stage = self._stage
        while True:
            reader, run = self._reader, self._run
            if reader is not None and run is not None and self._next.number < run.chunk.length:
                return reader, run.chunk
            self._leave_run()
            if self._reading == len(stage.found):
                if stage.left_out is not None:
                    # At the end, the last records to leave out have been passed over too.
                    self._place = self._place._replace(file=self._reading, inside=BEGINNING)
                return None
            if reader is None:
                # A place in an earlier file is at its end.
                at = self._place
                inside = at.inside if at.file == self._reading else BEGINNING
                file = stage.found[self._reading]
                stored = self._stored.open(self._reading, inside.start.stored)
                self._reader = reader = StreamReader(
                    file, stage.format, stage.passes_over, inside, stored
                )
            found = reader.next_run()
            if found is not None:
                self._run = self._remaining(found)
            else:
                self._reader = None
                self._reading += 1
                reader.close()

    def _remaining(self, found: RecordChunk) -> _Run:
        """The run of the records ``found`` without records to leave out."""
        items, left_out = self._place.items, self._left_out
        places, excluded = None, self._stage.left_out
        if excluded is not None:
            assert items is not None
            places = excluded.remaining(self._reading, found.numbers, items + left_out, items)
        if places is None:
            return _Run(found, items, left_out, None, found.length)
        # Damage is no record, so it is never left out.
        ended = found.damage is not None or places[-1:] == [len(found.numbers) - 1]
        chunk = found._replace(
            starts=[found.starts[place] for place in places],
            ends=[found.ends[place] for place in places],
            numbers=[found.numbers[place] for place in places],
            last=found.last and ended,
        )
        if found.damage is not None:
            places.append(len(found.numbers))
        return _Run(chunk, items, left_out, places, found.length)

    def _leave_run(self) -> None:
        """Keep the place after the last record handed out, and drop the run."""
        run = self._run
        self._place = self._here()
        if run is not None:
            self._left_out = run.left_out + run.found - run.chunk.length
        self._run = None
        self._next.move_to(0)

    def _here(self) -> _Place:
        """The place after the last record handed out."""
        run, taken = self._run, self._next.number
        if run is None or not taken:
            return self._place
        items, chunk = None if run.items is None else run.items + taken, run.chunk
        left_out = run.left_out_before(taken)
        if taken == chunk.length and chunk.last:
            return _Place(self._reading + 1, BEGINNING, items, left_out)
        assert self._reader is not None
        offset = chunk.begin + chunk.ends[taken - 1]
        start = self._reader.start_before(offset)
        inside = StreamPosition(chunk.numbers[taken - 1], offset, start)
        return _Place(self._reading, inside, items, left_out)

    def _reached(self) -> Iterator[Reach]:
        here = self._here()
        items = UNBOUNDED if here.items is None else here.items
        # At the end, the last records to leave out have been passed over too.
        yield Reach(self._stage, items + (here.file == len(self._stage.found)))

    def last_origin(self) -> Origin:
        run, last = self._run, self._next.number - 1
        assert run is not None
        chunk, path = run.chunk, self._stage.found[self._reading].path
        name = type(self._stage).__name__
        if last == len(chunk.starts):  # the damaged record
            return Origin(name, chunk.after - 1, path)
        return Origin(name, chunk.numbers[last] - 1, path, chunk.begin + chunk.starts[last])

    def get_state(self) -> State:
        file, place, items, left_out = self._here()
        stored, inside = place.start.stored, place.offset - place.start.content
        state = {"file": file, "record": place.record, "offset": place.offset}
        if items is None:
            return {**state, "stored": stored, "inside": inside}
        return {**state, "from": [stored, inside], "items": [items, left_out]}

    def set_state(self, state: State) -> None:
        stage = self._stage
        items, left_out = None, 0
        if isinstance(state, dict) and state.keys() == set(FIRST_SHAPE):
            if stage.left_out is not None:
                raise StateMismatch(NOT_COUNTED, stage)
            values = list(unpack(stage, state, *FIRST_SHAPE))
        else:
            *values, start, counts = unpack(stage, state, *FIRST_SHAPE[:3], "from", "items")
            values += _pair(stage, "from", start)
            items, left_out = _pair(stage, "items", counts)
        file, record, offset, stored, inside = (
            unpack_count(stage, name, value)
            for name, value in zip(FIRST_SHAPE, values, strict=True)
        )
        unpack_count(stage, "file", file, len(stage.found))
        ended = file == len(stage.found)
        size = 0 if ended else stage.found[file].size
        unpack_count(stage, "stored", stored, size, f"the end of its file, size={size}")
        unpack_count(stage, "inside", inside, offset, f"offset={offset}")
        compressed = not ended and compression_of(stage.found[file].path) is not None
        if (not compressed and (inside or stored != offset)) or bool(record) < bool(offset):
            raise StateMismatch(
                f"saved record={record}, offset={offset}, stored={stored} and inside={inside} are no "
                "place in a file that is not compressed",
                stage,
            )
        self._reading, self._left_out = file, left_out
        place = StreamPosition(record, offset, Start(stored, offset - inside))
        self._place = _Place(file, place, items, left_out)

    def close(self) -> None:
        reader = self._reader
        if reader is not None:
            self._leave_run()
            self._reader = None
            # Records passed over since then are read and counted again.
            self._reading, self._left_out = self._place.file, self._place.left_out
            reader.close()
        self._stored.close()


def _pair(stage: RecordStream, name: str, value: Any) -> tuple[int, int]:
    """``value`` of a state, which must be two counts."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise StateMismatch(f"saved {name} must be two integers, got {shorten(value)}", stage)
    first, second = (unpack_count(stage, name, one) for one in value)
    return first, second
