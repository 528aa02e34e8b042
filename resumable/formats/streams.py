"""The records of files that are read in order: compressed ones, and remote ones without an index."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from typing import ClassVar, Final

from ..core.block import Block
from ..core.derived import derived
from ..core.evidence import Evidence
from ..core.identity import IdentityField, IdentityFields
from ..core.origin import Origin
from ..core.position import Position
from ..core.reliance import ALWAYS
from ..core.stage import Stage
from ..core.stage_iterator import Items, SourceIterator
from ..errors import InvalidArgument, StateMismatch, shorten
from ..state.value import State, unpack, unpack_count
from .contents import FILES, evidence_of
from .data_files import AnyFile
from .io.paths import is_remote
from .io.pieces import Start
from .record import Format, LocatedRecord
from .stream_file import BEGINNING, RecordChunk, StreamFile, StreamPosition, StreamReader

FORMAT_NAME: Final = IdentityField(ALWAYS, shown_as="format of paths")

MADE_AT_ONCE: Final = 512
"""Items that are made at once when they are asked for in order."""


@dataclass(frozen=True, eq=False, repr=False)
class RecordStream(Stage[LocatedRecord]):
    """The records of files as `LocatedRecord`, file after file, each read from its start.

    At most one file is open. Up to 2 MiB beyond the records handed out are read (16 MiB of a remote
    file), or two longer records.

    State: O(1), the number of the file, the record's number and offset in it, and where its content
    can be read from. A resume first reads the first and last 4 KiB of up to 10,000 files. It reads
    none of these if all files are remote and have an ETag. Then it opens this one file. A file that
    is not compressed is read from the record on. A compressed one is decompressed again from the
    member, frame or stream that the record begins in. That is a block of 64 KiB of bgzip, a frame of
    Zstandard in the seekable format, or the whole file if it was compressed in one piece.

    Damage of a compressed file is noticed where it cannot be decompressed, or at the checksum that
    follows. The record read at that point is malformed, and the rest of the file is passed over.

    Args:
      streams: the files as they were found.
      format: how records are found.
      passes_over: whether the records that the format passes over are left out.

    Raises:
      InvalidArgument: while iterating, if a file is compressed, and its name does not say so.
      MalformedItem: while iterating, if a file has changed since the pipeline was built.
      OSError: while iterating, if a file cannot be read.
      MissingDependency: while iterating, if a package is missing that decompresses a file.
    """

    identity: ClassVar[IdentityFields] = {
        "files": FILES,
        "contents": ALWAYS,
        "format_name": FORMAT_NAME,
        "passes_over": IdentityField(ALWAYS, shown_as="skip_blank"),
    }
    state_cost = "file, record and byte; reads a compressed file again up to there"

    streams: tuple[StreamFile, ...]
    _: KW_ONLY
    format: Format
    passes_over: bool = True

    @property
    def files(self) -> str:
        """The files in a few words: equal for the same names and sizes."""
        described = "\n".join(f"{file.name}:{file.size}" for file in self.streams)
        digest = hashlib.blake2b(described.encode("utf-8", "surrogateescape"), digest_size=6)
        more = f" and {len(self.streams) - 1} more" if len(self.streams) > 1 else ""
        return f"{shorten(self.streams[0].name, 24)}{more}, {digest.hexdigest()}"

    @derived
    def contents(self) -> Evidence:
        """What is known of the contents of the files."""
        return evidence_of(self.found)

    @property
    def found(self) -> tuple[AnyFile, ...]:
        """The files as they were found."""
        return tuple(file.file for file in self.streams)

    @property
    def format_name(self) -> str:
        """The format, and what its records depend on."""
        return self.format.name

    def start(self, epoch: int = 0) -> RecordStreamIterator:
        return RecordStreamIterator(self, epoch)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.files}, format={self.format_name})"


def stream_of(
    files: Sequence[AnyFile],
    format: Format,
    *,
    passes_over: bool = True,
    index_dir: str | os.PathLike[str] | None = None,
) -> RecordStream | None:
    """The records of ``files``, if any is compressed by its name, or remote without an index; else None.

    Args:
      files: as they were found.
      format: how records are found.
      passes_over: whether the records that the format passes over are left out.
      index_dir: the folder of indexes, which remote files have only there.

    Raises:
      InvalidArgument: if a file is compressed, and there is an ``index_dir``.
    """
    compressed = next((file.path for file in files if StreamFile.of(file).compression), None)
    if compressed is not None and index_dir is not None:
        raise InvalidArgument(
            f"index_dir must be None for compressed files, as {compressed}, which are read in order "
            f"without an index, got {shorten(index_dir)}"
        )
    remote = index_dir is None and any(is_remote(file.path) for file in files)
    if compressed is None and not remote:
        return None
    return RecordStream(tuple(map(StreamFile.of, files)), format=format, passes_over=passes_over)


class RecordStreamIterator(SourceIterator[LocatedRecord]):
    """Motion through the records; opens a file at its first record."""

    _stage: RecordStream

    def __init__(self, stage: RecordStream, epoch: int) -> None:
        super().__init__(stage, epoch)
        # The place after the last record handed out of earlier runs.
        self._file, self._place = 0, BEGINNING
        # The file that is read or opened next; the last record handed out may be in an earlier one.
        self._reading = 0
        self._reader: StreamReader | None = None
        self._run: RecordChunk | None = None
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
        """The run that the next record is in, and its reader; None at the end."""
        stage = self._stage
        while True:
            reader, run = self._reader, self._run
            if reader is not None and run is not None and self._next.number < run.length:
                return reader, run
            self._leave_run()
            if self._reading == len(stage.streams):
                return None
            if reader is None:
                # A place in an earlier file is at its end.
                place = self._place if self._file == self._reading else BEGINNING
                file = stage.streams[self._reading]
                self._reader = reader = StreamReader(file, stage.format, stage.passes_over, place)
            self._run = reader.next_run()
            if self._run is None:
                self._reader = None
                self._reading += 1
                reader.close()

    def _leave_run(self) -> None:
        """Keep the place after the last record handed out, without the run that it is in."""
        self._file, self._place = self._here()
        self._run = None
        self._next.move_to(0)

    def _here(self) -> tuple[int, StreamPosition]:
        """The number of a file, and the place after the last record handed out."""
        run, taken = self._run, self._next.number
        if run is None or not taken:
            return self._file, self._place
        if taken == run.length and run.last:
            return self._reading + 1, BEGINNING
        assert self._reader is not None
        offset = run.begin + run.ends[taken - 1]
        return self._reading, StreamPosition(
            run.numbers[taken - 1], offset, self._reader.start_before(offset)
        )

    def last_origin(self) -> Origin:
        run, reader, last = self._run, self._reader, self._next.number - 1
        assert run is not None
        assert reader is not None
        name, path = type(self._stage).__name__, self._stage.streams[self._reading].path
        if last == len(run.starts):  # the record that is damaged
            return Origin(name, run.after - 1, path)
        return Origin(name, run.numbers[last] - 1, path, run.begin + run.starts[last])

    def get_state(self) -> State:
        file, place = self._here()
        return {
            "file": file,
            "record": place.record,
            "offset": place.offset,
            "stored": place.start.stored,
            "inside": place.offset - place.start.content,
        }

    def set_state(self, state: State) -> None:
        stage = self._stage
        names = ("file", "record", "offset", "stored", "inside")
        values = unpack(stage, state, *names)
        file, record, offset, stored, inside = (
            unpack_count(stage, name, value) for name, value in zip(names, values, strict=True)
        )
        unpack_count(stage, "file", file, len(stage.streams))
        ended = file == len(stage.streams)
        size = 0 if ended else stage.streams[file].size
        unpack_count(stage, "stored", stored, size, f"the end of its file, size={size}")
        unpack_count(stage, "inside", inside, offset, f"offset={offset}")
        compressed = not ended and stage.streams[file].compression is not None
        if (not compressed and (inside or stored != offset)) or bool(record) < bool(offset):
            raise StateMismatch(
                f"saved record={record}, offset={offset}, stored={stored} and inside={inside} are no "
                "place in a file that is not compressed",
                stage,
            )
        self._file = self._reading = file
        self._place = StreamPosition(record, offset, Start(stored, offset - inside))

    def close(self) -> None:
        reader = self._reader
        if reader is not None:
            self._leave_run()
            self._reader = None
            self._reading = max(self._file, self._reading)
            reader.close()
