"""Decode the records of CSV files; an error names the file and the record."""

from __future__ import annotations

import codecs
import csv
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ..core.arguments import is_several
from ..errors import InvalidArgument, InvalidType, shorten
from .csv_scan import CsvScan
from .data_files import AnyFile
from .io.compression import check_uncompressed, compression_of
from .io.paths import Paths
from .io.remote import RemoteFile
from .io.remote_content import Span, read_spans
from .record import BYTE_ORDER_MARK, ByteReader, Format, LocatedRecord, MemoryReader
from .records import Records, open_bytes, records
from .tables.columns import checked_columns

FIRST_READ: Final = 1 << 12
LARGEST_HEADER: Final = 1 << 20
USUAL: Final = CsvScan(ord(","), ord('"'), True)

WITH_STATE: Final = ("iso2022", "hz", "utf-7")
"""Starts of names of codecs with shift states, where the byte of a quote may belong to a letter."""


class Dialect(NamedTuple):
    """How CSV files are written.

    Attributes:
      delimiter: between fields.
      quotechar: around fields with a delimiter, a quote or a newline; None without quotes.
      encoding: of the text.
      header: whether the first record names the columns.
      escapechar: makes text of the next character; None without escapes.
      comment: the first character of a comment line; None without comments.
      skipinitialspace: whether spaces at the start of a field are left out.
    """

    delimiter: str
    quotechar: str | None
    encoding: str
    header: bool
    escapechar: str | None = None
    comment: str | None = None
    skipinitialspace: bool = False

    @property
    def format(self) -> Format:
        """How records are found."""
        quote, escape, comment = (
            None if character is None else ord(character)
            for character in (self.quotechar, self.escapechar, self.comment)
        )
        delimiter, skips_spaces = ord(self.delimiter), self.skipinitialspace
        scan = CsvScan(delimiter, quote, self.header, escape, comment, skips_spaces)
        variant = f"-{delimiter:02x}{quote or 0:02x}{self.header:x}"
        if escape or comment or skips_spaces:
            variant += f"{escape or 0:02x}{comment or 0:02x}{skips_spaces:x}"
        return Format("csv" + ("" if scan == USUAL else variant), "record", scan)

    def fields(self, record: LocatedRecord) -> list[str]:
        """The fields of one record.

        Raises:
          MalformedItem: with file and record.
        """
        data = record.data
        if record.number == 1:
            data = data.removeprefix(BYTE_ORDER_MARK)
        try:
            text = data.decode(self.encoding)
        except UnicodeDecodeError as error:
            place = f"byte {error.start + 1}: cannot decode as {self.encoding}"
            raise record.malformed(f"{place}: {error.reason}") from None
        if "\0" in text:  # versions of Python treat a NUL differently
            raise record.malformed("it has a NUL")
        # The reader continues to the second line after an unclosed quote, or after an escape of the
        # added newline.
        rows = csv.reader(
            (text + "\n", ""),
            delimiter=self.delimiter,
            quotechar=self.quotechar,
            escapechar=self.escapechar,
            skipinitialspace=self.skipinitialspace,
            quoting=csv.QUOTE_NONE if self.quotechar is None else csv.QUOTE_MINIMAL,
        )
        try:
            row = next(rows)
        except csv.Error as error:
            raise record.malformed(_reason(str(error))) from None
        if rows.line_num > 1:
            escaped = self.escapechar is not None and text.endswith(self.escapechar)
            raise record.malformed(f"{'an escape' if escaped else 'a quote'} is not closed")
        return row

    def passes_over(self, record: LocatedRecord) -> bool:
        """Whether ``record`` is blank or a comment."""
        data = record.data.removeprefix(BYTE_ORDER_MARK) if record.number == 1 else record.data
        is_comment = self.comment is not None and data.startswith(self.comment.encode())
        return is_comment or data in (b"\n", b"\r\n")


def _reason(error: str) -> str:
    """The message of an error of the standard library, with advice."""
    if "field limit" in error:
        return f"{error}; csv.field_size_limit(n) raises it"
    if "new-line" in error:
        return (
            "new-line character seen in unquoted field; a record ends with \\n or \\r\\n, so convert a "
            "file whose lines end with \\r alone, or put the field in quotes"
        )
    return error


class CsvDecoder:
    """Makes a dict of each record: column -> field.

    Args:
      dialect: how the files are written.
      names: of all columns, in the order of the file.
      columns: names of the columns to keep; None keeps all.
    """

    def __init__(
        self, dialect: Dialect, names: Sequence[str], columns: Sequence[str] | None = None
    ) -> None:
        self._dialect = dialect
        self._names = names
        self._places = None if columns is None else [(name, names.index(name)) for name in columns]

    def __call__(self, record: LocatedRecord) -> dict[str, str]:
        row = self._dialect.fields(record)
        if len(row) != len(self._names):
            raise record.malformed(f"{len(row)} fields, not {len(self._names)}")
        if self._places is None:
            return dict(zip(self._names, row, strict=True))
        return {name: row[place] for name, place in self._places}


def open_csv(
    paths: Paths,
    dialect: Dialect,
    columns: Any,
    index_dir: str | os.PathLike[str] | None,
    storage_options: Mapping[str, Any] | None,
) -> tuple[Records, CsvDecoder]:
    """The records of CSV files, and their decoder.

    Raises:
      InvalidArgument: if ``columns`` are not in the header, the headers differ, or both header and
        ``columns`` are missing; also for the reasons in `records`.
      MalformedItem: if a file begins with no header.
      InvalidType: if ``columns`` are not strings.
    """
    several = is_several(columns) and not isinstance(columns, (str, bytes))
    wanted = checked_columns(list(columns) if several else columns)
    if not dialect.header and wanted is None:
        raise InvalidArgument("columns must be given for files without a header, got None")
    source = records(dialect.format, paths, index_dir=index_dir, storage_options=storage_options)
    if not dialect.header:
        assert wanted is not None
        return source, CsvDecoder(dialect, wanted)
    names: Sequence[str] | None = None
    first = ""
    for path, found in _headers(source.found or (), dialect):
        if names is None:
            names, first = found, path
        elif found not in (None, names):
            raise InvalidArgument(
                f"paths must have one header, got {shorten(names)} in {first} and "
                f"{shorten(found)} in {path}"
            )
    if names is None:  # all files are empty
        names = wanted or ()
    for name in wanted or ():
        if name not in names:
            raise InvalidArgument(f"columns must be among {shorten(names)}, got {name!r}")
    return source, CsvDecoder(dialect, names, wanted)


def _headers(files: Iterable[AnyFile], dialect: Dialect) -> Iterator[tuple[str, list[str] | None]]:
    """The path of each of ``files`` and the names of the columns; None for an empty file."""
    different = {file.path: file for file in files}
    # The starts of remote files are requested at the same time.
    spans = [
        Span(file, 0, min(FIRST_READ, file.size))
        for file in different.values()
        if isinstance(file, RemoteFile) and not compression_of(file.path)
    ]
    starts = {span.file.path: start for span, start in zip(spans, read_spans(spans), strict=True)}
    for path, file in different.items():
        start = starts.get(path)
        found = None
        if start is not None:
            check_uncompressed(start, path, dialect.format)
            found = _header_in(start, path, dialect, is_whole=len(start) == file.size)
        if start is None or (found is None and len(start) < file.size):
            with open_bytes(file, dialect.format) as reader:
                found = read_header(reader, path, dialect)
        yield path, found


def checked_dialect(
    delimiter: Any,
    quotechar: Any,
    encoding: Any,
    header: bool,
    escapechar: Any = None,
    comment: Any = None,
    skipinitialspace: bool = False,
) -> Dialect:
    """The dialect for arguments of `resumable.csv`.

    Raises:
      InvalidArgument: if a character is not ASCII or is given twice, or ``encoding`` does not keep
        newlines and the given characters as one byte.
      InvalidType: if an argument has the wrong type.
    """
    characters = dict[str, str]()
    named = {
        "delimiter": delimiter, "quotechar": quotechar, "escapechar": escapechar, "comment": comment
    }  # fmt: skip
    for name, value in named.items():
        if value is None and name != "delimiter":
            continue
        if not isinstance(value, str):
            raise InvalidType(f"{name} must be a string, got {shorten(value)}")
        if len(value) != 1 or not value.isascii() or value in "\r\n\0":
            raise InvalidArgument(f"{name} must be one ASCII character, got {shorten(value)}")
        if value in characters:
            raise InvalidArgument(f"{name} must differ from {characters[value]}, got {value!r}")
        if value == " " and skipinitialspace:
            raise InvalidArgument(f"{name} must not be a space with skipinitialspace=True")
        characters[value] = name
    if not isinstance(encoding, str):
        raise InvalidType(f"encoding must be a string, got {shorten(encoding)}")
    try:
        known = codecs.lookup(encoding).name
        kept = [character.encode(encoding) for character in ("\n", *characters)]
    except LookupError:
        raise InvalidArgument(f"encoding must be known to Python, got {encoding!r}") from None
    bare = b"".join(kept).replace(BYTE_ORDER_MARK, b"")
    if bare.decode("latin-1") != "".join(("\n", *characters)) or known.startswith(WITH_STATE):
        raise InvalidArgument(
            f"encoding must keep newlines and quotes as one byte, got {encoding!r}"
        )
    if escapechar is not None and _ends_letters(escapechar, encoding):
        raise InvalidArgument(
            f"escapechar must not be part of a letter in encoding={encoding!r}, got {escapechar!r}"
        )
    return Dialect(delimiter, quotechar, encoding, header, escapechar, comment, skipinitialspace)


def _ends_letters(character: str, encoding: str) -> bool:
    """Whether ``encoding`` has letters of two bytes that end with the byte of ``character``."""
    for first in range(128, 256):
        with suppress(UnicodeDecodeError):
            if len(bytes((first, ord(character))).decode(encoding)) == 1:
                return True
    return False


def read_header(reader: ByteReader, path: str, dialect: Dialect) -> list[str] | None:
    """The names of the columns of a file, read only from the start; None for an empty file.

    Raises:
      MalformedItem: if the file begins with no header.
      InvalidArgument: if two columns have one name.
    """
    content = b""
    while True:
        more = reader.read(max(FIRST_READ, len(content)))
        content += more
        found = _header_in(content, path, dialect, is_whole=not more)
        if found is not None or not more:
            return found
        if len(content) > LARGEST_HEADER:
            raise LocatedRecord(b"", path, 1).malformed(
                f"no header in {LARGEST_HEADER} bytes; it ends with \\n or \\r\\n"
            )


def _header_in(content: bytes, path: str, dialect: Dialect, *, is_whole: bool) -> list[str] | None:
    """The names of the columns in the first bytes of a file; None if the header may be incomplete."""
    ends = [
        end for part in dialect.format.scan(MemoryReader(content), 0) for end in part.ends.tolist()
    ]
    if not is_whole:  # the last record may be incomplete
        ends = ends[:-1]
    for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False), 1):
        record = LocatedRecord(content[begin:end], path, number)
        if not dialect.passes_over(record):
            return _names(dialect.fields(record), record)
    return None


def _names(header: list[str], record: LocatedRecord) -> list[str]:
    if len(set(header)) < len(header):
        twice = next(name for name, count in Counter(header).items() if count > 1)
        raise InvalidArgument(
            f"paths must have columns that differ, got {twice!r} twice in {record.path}"
        )
    return header
