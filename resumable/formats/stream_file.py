"""A file that is read as a stream, and the records found in it."""

from __future__ import annotations

from itertools import repeat
from typing import Final, NamedTuple

import numpy as np

from ..errors import MalformedItem, ResumableError
from .data_files import AnyFile
from .io.compression import Compression, compression_of
from .io.paths import file_name
from .io.pieces import CheckedPieces, Damage, Decompressed, Pieces, Start
from .io.scan_buffer import ScanBuffer, pass_over
from .record import Format, FoundRecords, LocatedRecord, located


class StreamPosition(NamedTuple):
    """Where in a file a record begins.

    Attributes:
      record: how many records are before it, with those that are passed over.
      offset: bytes of content before it.
      start: from where its content can be read; at ``offset`` itself, unless the file is compressed.
    """

    record: int
    offset: int
    start: Start


BEGINNING: Final = StreamPosition(0, 0, Start(0, 0))


class DamagedRecord(LocatedRecord):
    """A record that cannot be read, nor anything after it in its file; ``data`` says why.

    It raises when a function that makes items asks for its bytes. So it is skipped where malformed
    items are.
    """

    @property
    def data(self) -> bytes:
        """Raises `MalformedItem`: there are none."""
        raise MalformedItem(self[0].decode())


class StreamFile(NamedTuple):
    """A file that is read in order.

    Attributes:
      file: as it was found.
      name: its name, without folders.
    """

    file: AnyFile
    name: str

    @classmethod
    def of(cls, file: AnyFile) -> StreamFile:
        """The same file; the query of a URL is no part of its name."""
        return cls(file, file_name(file.path))

    @property
    def path(self) -> str:
        """Absolute, or a URL."""
        return self.file.path

    @property
    def size(self) -> int:
        """Size of the stored file, in bytes."""
        return self.file.size

    @property
    def compression(self) -> Compression | None:
        """How it is compressed; None if it is not."""
        return compression_of(self.name)

    def pieces(self, stored: Pieces, start: Start, format: Format) -> Pieces:
        """Its content from ``start`` on.

        Args:
          stored: what is stored from there on.
          start: of a member, or of whatever can be read alone.
          format: of its records.

        Raises:
          MissingDependency: if it needs a package that is not installed.
        """
        compression = self.compression
        if compression is not None:
            return Decompressed(stored, compression, start)
        return stored if start.stored else CheckedPieces(stored, self.path, format)


class RecordChunk(NamedTuple):
    """Records found at once.

    Attributes:
      data: their bytes, joined.
      begin: offset of `data`.
      starts: where each begins in `data`.
      ends: where each ends.
      numbers: of the records in their file, from 1.
      damage: what is wrong with the next record and the rest of the file; None if nothing is.
      after: the number of the record after all of these, from 1.
      last: whether the file has no more.
    """

    data: bytes
    begin: int
    starts: list[int]
    ends: list[int]
    numbers: list[int]
    damage: str | None
    after: int
    last: bool

    @property
    def length(self) -> int:
        """How many records it has, with a damaged one."""
        return len(self.ends) + (self.damage is not None)


class StreamReader:
    """The records of ``file`` from ``place`` on, a chunk of them at a time.

    Args:
      file: to read.
      format: how records are found.
      passes_over: whether the records that the format passes over are left out.
      place: of a record.
      stored: what the file stores from the place on; it is closed with this.

    Raises:
      MalformedItem: if the file has not what was before the place.
      OSError: if it cannot be read.
    """

    def __init__(
        self,
        file: StreamFile,
        format: Format,
        passes_over: bool,
        place: StreamPosition,
        stored: Pieces,
    ) -> None:
        self._file = file
        self._format = format
        self._passes_over = passes_over
        self._record = place.record  # how many were found in the file
        self._kept = 0  # how many of those since `place` are not passed over
        self._ahead: FoundRecords | None = None  # what comes after the last run
        self._error: ResumableError | None = None  # raised in place of what comes after it
        self._cut = False  # whether the last record found is cut by damage
        self._ended = False
        pieces = file.pieces(stored, place.start, format)
        try:
            self._reach(pieces, place)
            self._tape = ScanBuffer(pieces, place.offset)
        except BaseException:
            pieces.close()
            raise
        self._scan = self._format.scan(self._tape, place.offset)

    def next_run(self) -> RecordChunk | None:
        """The next records, at least one; None at the end.

        It reads one run ahead, to know whether a record is the last of its file: a resume must not
        look for records in what a format leaves after damage.

        Raises:
          MalformedItem: if the file has changed.
          OSError: if it cannot be read.
        """
        while not self._ended:
            if self._error is not None:
                raise self._error
            found = self._ahead or self._find()
            try:
                self._ahead = found and self._find()
            except ResumableError as error:  # it belongs to the records after these
                self._error = error
            else:
                self._ended = self._ahead is None
            if self._ended and self._file.compression is not None:
                self._tape.check_rest()
            run = self._run(found or FoundRecords.joined([]))
            if run.length:
                return run
        return None

    def _find(self) -> FoundRecords | None:
        """What the scan finds next."""
        found = next(self._scan, None)
        if self._tape.damage is not None:
            # To the scan this is the end of the file, so the last of all may be a part of a record. It
            # counts as one also where the damage is noticed after it: that depends on where reading began.
            self._cut = True
            if found is not None:
                found = FoundRecords.joined([found, *self._scan])
        return found

    def start_before(self, offset: int) -> Start:
        """From where to read the content at ``offset`` again, for an offset that never decreases."""
        return self._tape.start_before(offset)

    def records(self, run: RecordChunk, start: int, stop: int) -> list[LocatedRecord]:
        """The records of ``run`` from number ``start`` to ``stop``, counted from 0."""
        data = run.data
        cut = [data[a:b] for a, b in zip(run.starts[start:stop], run.ends[start:stop], strict=True)]
        stripped = self._format.stripped
        if stripped is not None:
            cut = list(map(stripped, cut))
        records = located(cut, repeat(self._file.path), run.numbers[start:stop])
        if run.damage is not None and start < stop == run.length:
            number = run.after - 1 + self._format.first
            where = f"{self._file.path}, {self._format.record} {number}"
            reason = f"{where}: {run.damage}".encode(errors="replace")
            records.append(DamagedRecord(reason, self._file.path, run.after))
        return records

    def close(self) -> None:
        """Release the file; may be called again."""
        self._tape.close()

    def _reach(self, pieces: Pieces, place: StreamPosition) -> None:
        try:
            reached = pass_over(pieces, place.offset - place.start.content)
        except Damage as damage:
            raise MalformedItem(f"{self._file.path}, record {place.record}: {damage}") from damage
        if not reached:
            raise MalformedItem(
                f"{self._file.path} ends before the saved record {place.record}; was it replaced "
                "by another of the same size?"
            )

    def _run(self, found: FoundRecords) -> RecordChunk:
        """The records ``found``."""
        count, damage = len(found.ends), self._tape.damage if self._ended else None
        kept = np.ones(count, np.bool_)
        passed = found.kept_before - self._kept + np.arange(len(found.kept_before))
        self._kept += count - len(passed)
        if self._passes_over:
            kept[passed] = False
        if count and self._cut and damage is not None:
            count -= 1
        begin, first = self._tape.begin, self._record
        data = self._tape.take(int(found.ends[count - 1])) if count else b""
        ends = found.ends[:count] - begin
        starts = np.concatenate([[0], ends[:-1]]) if count else ends
        chosen = np.flatnonzero(kept[:count])
        numbers = (chosen + (first + 1)).tolist()
        self._record += count
        return RecordChunk(
            data, begin, starts[chosen].tolist(), ends[chosen].tolist(), numbers, damage,
            self._record + 1, self._ended,
        )  # fmt: skip
