"""A file that is read as a stream, and the records in the file."""

from __future__ import annotations

from itertools import repeat
from typing import Final, NamedTuple

import numpy as np

from ..errors import MalformedItem, ResumableError
from .data_files import AnyFile
from .io.compression import compression_of
from .io.pieces import CheckedPieces, Damage, Decompressed, Pieces, Start
from .io.scan_buffer import ScanBuffer, pass_over
from .record import Format, FoundRecords, LocatedRecord, located


class StreamPosition(NamedTuple):
    """The place in a file where a record begins.

    Attributes:
      record: number of earlier records, with records passed over.
      offset: bytes of content before the record.
      start: for reading the content; at ``offset`` itself, unless the file is compressed.
    """

    record: int
    offset: int
    start: Start


BEGINNING: Final = StreamPosition(0, 0, Start(0, 0))


class DamagedRecord(LocatedRecord):
    """A damaged record; neither its bytes nor the rest of the file can be read.

    Its ``data`` raise an error with the reason. So the record is skipped where malformed items are
    skipped.
    """

    @property
    def data(self) -> bytes:
        """Raises `MalformedItem`, as there are no bytes."""
        raise MalformedItem(self[0].decode())


def content_of(file: AnyFile, stored: Pieces, start: Start, format: Format) -> Pieces:
    """The content of ``file`` from ``start`` on.

    Args:
      file: to read.
      stored: the stored bytes from ``start`` on.
      start: of a member, or any offset of an uncompressed file.
      format: of the records.

    Raises:
      MissingDependency: if the package to decompress the file is not installed.
    """
    compression = compression_of(file.path)
    if compression is not None:
        return Decompressed(stored, compression, start)
    return stored if start.stored else CheckedPieces(stored, file.path, format)


class RecordChunk(NamedTuple):
    """Records found at once.

    Attributes:
      data: the bytes of the records, joined.
      begin: offset of `data` in the content.
      starts: start of each record in `data`.
      ends: end of each record in `data`.
      numbers: of the records in the file, from 1.
      damage: description of the damage after the records; None if there is none.
      after: the number of the next record after the chunk, from 1.
      last: whether the file ends after the chunk.
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
        """Number of records, including a damaged record."""
        return len(self.ends) + (self.damage is not None)


class StreamReader:
    """The records of ``file`` from ``place`` on, a chunk at a time.

    Args:
      file: to read.
      format: how records are found.
      passes_over: whether the records that the format passes over are left out.
      place: of a record.
      stored: the stored bytes of the file from the place on; closed with this reader.

    Raises:
      MalformedItem: if the file ends or is damaged before the place.
      OSError: if the file cannot be read.
    """

    def __init__(
        self,
        file: AnyFile,
        format: Format,
        passes_over: bool,
        place: StreamPosition,
        stored: Pieces,
    ) -> None:
        self._file = file
        self._format = format
        self._passes_over = passes_over
        self._record = place.record  # records found in the file
        self._kept = 0  # records since `place` that are not passed over
        self._ahead: FoundRecords | None = None  # the records after the last run
        self._error: ResumableError | None = None  # raised instead of the next run
        self._cut = False  # whether the last record found is cut by damage
        self._ended = False
        pieces = content_of(file, stored, place.start, format)
        try:
            self._reach(pieces, place)
            self._tape = ScanBuffer(pieces, place.offset)
        except BaseException:
            pieces.close()
            raise
        self._scan = self._format.scan(self._tape, place.offset)

    def next_run(self) -> RecordChunk | None:
        """The next records, at least one; None at the end.

        The reader reads one run ahead, to know whether a record is the last of the file: a resume
        must not look for records after damage.

        Raises:
          MalformedItem: if the file has changed.
          OSError: if the file cannot be read.
        """
        while not self._ended:
            if self._error is not None:
                raise self._error
            found = self._ahead or self._find()
            try:
                self._ahead = found and self._find()
            except ResumableError as error:  # belongs to the records after ``found``
                self._error = error
            else:
                self._ended = self._ahead is None
            if self._ended and compression_of(self._file.path) is not None:
                self._tape.check_rest()
            run = self._run(found or FoundRecords.joined([]))
            if run.length:
                return run
        return None

    def _find(self) -> FoundRecords | None:
        """The next records of the scan."""
        found = next(self._scan, None)
        if self._tape.damage is not None:
            # To the scan the damage is the end of the file, so the last record may be incomplete.
            # It is treated as incomplete even if the damage comes after it, since the point at
            # which damage is noticed depends on the start of reading.
            self._cut = True
            if found is not None:
                found = FoundRecords.joined([found, *self._scan])
        return found

    def start_before(self, offset: int) -> Start:
        """The start for reading the content at ``offset`` again; calls never decrease ``offset``."""
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
