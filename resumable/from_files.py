"""Pipelines over files: one function for each format."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from .core.arguments import check_bool, check_callable, check_choice
from .errors import InvalidArgument
from .file_cache.cache import FileCache
from .formats.array_record import ArrayRecord
from .formats.arrow import Arrow
from .formats.csv import checked_dialect, open_csv
from .formats.data_files import found_data_files, with_cache
from .formats.files import Files
from .formats.image_folder import ImageFolder, LabelledDecoder
from .formats.io.paths import Paths, repeatable
from .formats.jsonl import parse_json_line
from .formats.lance import Lance
from .formats.lines import LINES, Lines, check_encoding, decode_line
from .formats.megatron import Megatron, Tokens
from .formats.parquet import Parquet
from .formats.records import records
from .formats.shards.litdata import LitData
from .formats.shards.mds import Mds
from .formats.streams import stream_of
from .formats.tar import TAR, Decoders, DecodeSample
from .formats.tfrecord import TFRECORD, RecordDecoder
from .formats.warc import WARC, parse_warc
from .pipeline import Pipeline
from .stages.map import Map
from .views.explained import explained_by

U = TypeVar("U")


@explained_by(ArrayRecord)
def array_record(  # noqa: D417  # the class explains the rest
    paths: Paths,
    *,
    storage_options: Mapping[str, Any] | None = None,
    cache: FileCache | None = None,
) -> Pipeline[bytes]:
    """The records of ArrayRecord files, as bytes, in the order of the files.

    See `resumable.formats.array_record.ArrayRecord`.

    Args:
      cache: of remote files on a local disk, the source of the copies.
    """
    return Pipeline(ArrayRecord(paths, storage_options=with_cache(storage_options, cache)))


@explained_by(Arrow)
def arrow(  # noqa: D417  # the class explains the rest
    paths: Paths,
    columns: Sequence[str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    cache: FileCache | None = None,
) -> Pipeline[dict[str, Any]]:
    """The rows of Arrow IPC files as dicts, in the order of the files.

    See `resumable.formats.arrow.Arrow`.

    Args:
      cache: of remote files on a local disk.
    """
    return Pipeline(Arrow(paths, columns, storage_options=with_cache(storage_options, cache)))


@explained_by()
def csv(
    paths: Paths,
    *,
    delimiter: str = ",",
    quotechar: str | None = '"',
    escapechar: str | None = None,
    comment: str | None = None,
    skipinitialspace: bool = False,
    header: bool = True,
    columns: Sequence[str] | None = None,
    encoding: str = "utf-8",
    on_error: str = "raise",
    on_skip: Callable[..., object] | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: FileCache | None = None,
) -> Pipeline[dict[str, str]]:
    r"""The rows of CSV files as dicts: column -> field, a string. Blank lines are left out.

    Fields in quotes may hold newlines. The standard library's ``csv.reader`` reads each record. An
    index of the ends of records is made beforehand, as for `resumable.formats.lines.Lines`.

    State: O(1), the position. Random access, unless ``on_error`` is ``"skip"``. With ``"skip"``,
    malformed records are left out and counted, and the count is in the state.

    Args:
      paths: a path, a pattern (``*.x``, ``{00..19}.x``), or several of them; matches of a pattern
        are sorted.
      delimiter: the ASCII character between fields.
      quotechar: the ASCII character around fields with a delimiter, a newline or a quote, which is
        then doubled; with None, quotes are text.
      escapechar: the ASCII character that makes the next character text, even a newline, and is
        left out, as in ``csv.reader``; with None, there is no escape. Spark, MySQL and Redshift
        write ``escapechar="\\"``, and ``\N`` for NULL, read as ``"N"``.
      comment: lines that begin with this ASCII character are left out.
      skipinitialspace: whether spaces at the start of a field are left out.
      header: whether the first record of each non-empty file names the columns. The header is read
        when the pipeline is built.
      columns: columns to keep, in this order; all by default. Without a header, the names of all
        columns.
      encoding: of the text; newlines and quotes must be single bytes.
      on_error: ``"raise"`` or ``"skip"``.
      on_skip: with ``"skip"``, called with the number of each malformed record and its
        `MalformedItem`. Numbers count from 0 in the epoch; see `resumable.stages.map.Map`.
      index_dir: folder of the cached indexes; next to the data by default. Remote files have an
        index only with ``index_dir``, and are otherwise streams.
      storage_options: of remote files.
      cache: of remote files on a local disk.

    Raises:
      MalformedItem: with file and record, counted from 0 with the header, comments and blank lines:
        while iterating, if a record has another number of fields, an unclosed quote or escape, a
        ``\r`` outside quotes without a line end, or a NUL, cannot be decoded, or has a field above
        ``csv.field_size_limit``, or if a file has changed since the pipeline was built; at once, if
        a file begins without a header.
      InvalidArgument: if no file is found, the headers of files differ, a column is missing or
        repeated, both the header and ``columns`` are missing, or an argument is not as described.
      InvalidType: if an argument has the wrong type.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.csv")
    ...     with open(path, "w") as file:
    ...         print("id,text", '1,"Hello, you"', '2,"two{}lines"'.format(os.linesep), sep=os.linesep, file=file)
    ...     list(rs.csv(path, columns=["text"]))
    [{'text': 'Hello, you'}, {'text': 'two\nlines'}]
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    check_bool("header", header)
    check_bool("skipinitialspace", skipinitialspace)
    dialect = checked_dialect(
        delimiter, quotechar, encoding, header, escapechar, comment, skipinitialspace
    )
    options = with_cache(storage_options, cache)
    source, decode = open_csv(paths, dialect, columns, index_dir, options)
    return Pipeline(Map(source, decode, on_error=on_error, on_skip=on_skip))


@explained_by(Lance, dataset_version="version")
def lance(
    uri: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    version: int | str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Pipeline[dict[str, Any]]:
    """The rows of a Lance dataset as dicts, in the order of a scan.

    See `resumable.formats.lance.Lance`.
    """
    return Pipeline(Lance(uri, columns, dataset_version=version, storage_options=storage_options))


@explained_by(Lines)
def lines(  # noqa: D417  # `Lines` explains the rest
    paths: Paths,
    *,
    encoding: str | None = "utf-8",
    errors: str = "strict",
    skip_blank: bool = False,
    index_dir: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: FileCache | None = None,
) -> Pipeline[Any]:
    """The lines of text files, in the order of the files; see `resumable.formats.lines.Lines`.

    Compressed files, and remote files without an ``index_dir``, are read as streams, without random
    access.

    Args:
      storage_options: of remote files, for `fsspec`.
      cache: of remote files on a local disk.
    """
    check_encoding(encoding, errors)
    check_bool("skip_blank", skip_blank)
    paths = repeatable(paths)
    storage_options = with_cache(storage_options, cache)
    found = found_data_files(paths, storage_options, LINES)
    stream = stream_of(found, LINES, passes_over=skip_blank, index_dir=index_dir)
    if stream is not None:
        return Pipeline(Map(stream, partial(decode_line, encoding=encoding, errors=errors)))
    return Pipeline(
        Lines(
            paths,
            encoding=encoding,
            errors=errors,
            skip_blank=skip_blank,
            index_dir=index_dir,
            storage_options=storage_options,
            found=found,
        )
    )


@explained_by(Files)
def files(  # noqa: D417  # the class explains the rest
    paths: Paths,
    *,
    read: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    cache: FileCache | None = None,
) -> Pipeline[Any]:
    """Whole files, on a disk or behind URLs: their paths, or their bytes.

    See `resumable.formats.files.Files`.

    Args:
      cache: of remote files on a local disk.
    """
    return Pipeline(Files(paths, read=read, storage_options=with_cache(storage_options, cache)))


@explained_by()
def image_folder(
    folder: str | os.PathLike[str],
    *,
    decode: Callable[[bytes], Any] | None = None,
    on_error: str = "raise",
    on_skip: Callable[..., object] | None = None,
) -> Pipeline[tuple[Any, int]]:
    """Pairs of an image and its label, from a folder with a sub-folder for each class.

    Classes and order are as in torchvision's ``ImageFolder``: labels count the sorted sub-folders
    from 0, and `image_classes` returns their names; the images of a class are all files below its
    folder ending in ``.jpg``, ``.jpeg``, ``.png``, ``.ppm``, ``.bmp``, ``.pgm``, ``.tif``,
    ``.tiff`` or ``.webp``, in any case.

    State: O(1), the position. Random access, unless ``on_error`` is ``"skip"``. With ``"skip"``,
    undecodable images are left out and counted, and the count is in the state. A resume reads the
    first and last 4 KiB of the files, of at most 10,000. A file is open only during reading. The
    names of the files in ``folder``, their sizes and these parts of the contents must be the same
    at save and resume.

    Args:
      folder: with a sub-folder for each class.
      decode: called with the bytes of each file. By default an image is the absolute path of its
        file; to decode in several workers, `map` the paths.
      on_error: ``"raise"`` or ``"skip"``.
      on_skip: with ``"skip"``, called with the number of each image left out and its exception; see
        `resumable.stages.map.Map`.

    Raises:
      InvalidArgument: if ``folder`` has no class, a class has no image, or ``on_error`` is another
        word.
      OSError: if a folder or a file cannot be read.
      MalformedItem: while iterating, with the file, if ``decode`` raises `MalformedItem`, or if a
        file has changed since the pipeline was built.
      InvalidType: if an argument has the wrong type.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("dog", "cat"):
    ...         os.mkdir(os.path.join(folder, name))
    ...         with open(os.path.join(folder, name, "1.jpg"), "wb") as file:
    ...             _ = file.write(name.encode())
    ...     list(rs.image_folder(folder, decode=len)), rs.image_classes(folder)
    ([(3, 0), (3, 1)], ['cat', 'dog'])
    """
    if decode is None:
        check_choice("on_error", on_error, ("raise", "skip"))
        if on_skip is not None:
            raise InvalidArgument("on_skip needs decode, got decode=None")
        return Pipeline(ImageFolder(folder))
    decoder = LabelledDecoder(check_callable("decode", decode))
    images = ImageFolder(folder, read=True)
    return Pipeline(Map(images, decoder, on_error=on_error, on_skip=on_skip))


@explained_by()
def jsonl(
    paths: Paths,
    *,
    on_error: str = "raise",
    on_skip: Callable[..., object] | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: FileCache | None = None,
) -> Pipeline[Any]:
    """The values of JSON lines, in UTF-8.

    Empty lines are left out; a line of spaces alone is malformed.

    State: O(1), the position. Random access, unless ``on_error`` is ``"skip"``. With ``"skip"``,
    malformed lines are left out and counted, and the count is in the state. If orjson is installed,
    it reads the lines, with the same values. Compressed files, and remote files without an
    ``index_dir``, are read as streams, without random access.

    Args:
      paths: a path, a URL, a pattern (``*.x``, ``{00..19}.x``), or several of them.
      on_error: ``"raise"`` or ``"skip"``.
      on_skip: with ``"skip"``, called with the number of each malformed line and its
        `MalformedItem`. Numbers count from 0 in the epoch, without empty lines; see
        `resumable.stages.map.Map`.
      index_dir: folder of the cached line indexes; next to the data by default. Remote files have
        an index only with ``index_dir``.
      storage_options: of remote files, for `fsspec`.
      cache: of remote files on a local disk.

    Raises:
      MalformedItem: while iterating, with file, line number and column.
      InvalidArgument: if no file is found, or ``on_error`` is another word.
      InvalidType: if an argument has the wrong type.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.jsonl")
    ...     with open(path, "w") as file:
    ...         print('{"id": 1}', '{"id": 2}', sep=os.linesep, file=file)
    ...     list(rs.jsonl(path))
    [{'id': 1}, {'id': 2}]
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    options = with_cache(storage_options, cache)
    located = records(LINES, paths, index_dir=index_dir, storage_options=options)
    return Pipeline(Map(located, parse_json_line, on_error=on_error, on_skip=on_skip))


@explained_by(LitData)
def litdata(  # noqa: D417  # the class explains the rest
    path: str | os.PathLike[str],
    *,
    block_size: int | None = None,
    tensors: str = "numpy",
    allow_pickle: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    cache: FileCache | None = None,
) -> Pipeline[Any]:
    """The items of a dataset optimised by LitData; see `resumable.formats.shards.litdata.LitData`.

    Args:
      cache: of remote files on a local disk.
    """
    return Pipeline(
        LitData(
            path,
            block_size=block_size,
            tensors=tensors,
            allow_pickle=allow_pickle,
            storage_options=with_cache(storage_options, cache),
        )
    )


@explained_by(Mds)
def mds(  # noqa: D417  # the class explains the rest
    path: str | os.PathLike[str],
    *,
    allow_pickle: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    cache: FileCache | None = None,
) -> Pipeline[dict[str, Any]]:
    """The samples of an MDS dataset of MosaicML Streaming as dicts: column -> value.

    See `resumable.formats.shards.mds.Mds`.

    Args:
      cache: of remote files on a local disk.
    """
    options = with_cache(storage_options, cache)
    return Pipeline(Mds(path, allow_pickle=allow_pickle, storage_options=options))


@explained_by(Megatron)
def megatron(  # noqa: D417  # the class explains the rest
    paths: Paths,
    *,
    items: str = "document",
    storage_options: Mapping[str, Any] | None = None,
    cache: FileCache | None = None,
) -> Pipeline[Tokens]:
    """The documents or sequences of Megatron-LM's token files, as arrays of one axis.

    See `resumable.formats.megatron.Megatron`.

    Args:
      cache: of remote files on a local disk.
    """
    options = with_cache(storage_options, cache)
    return Pipeline(Megatron(paths, items=items, storage_options=options))


@explained_by()
def tar(
    paths: Paths,
    *,
    decode: Decoders | None = None,
    on_error: str = "raise",
    on_skip: Callable[..., object] | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: FileCache | None = None,
) -> Pipeline[dict[str, Any]]:
    """The samples of tar archives in the layout of WebDataset.

    A sample is made of consecutive members with one key: the name up to the first dot of its last
    component. The rest, in lower case, is the extension: ``images/7.seg.png`` has the key
    ``images/7`` and the extension ``seg.png``. An item is a dict of ``"__key__"``, and of the data
    of each member by its extension. Names are mere strings: no file is ever made from a name.

    Archives may be v7, ustar, GNU or PAX, of any length, and several one after another in a file.
    Passed over are directories, links and devices, members without an extension, and members with a
    first component such as ``__index__``. A damaged sample, or a sample directly followed by
    damage, raises `MalformedItem`. So does a sample with a sparse member or with two members of the
    same extension. After damage nothing more is read from the file. As for tar itself, an archive
    may end without its blocks of zeros, and zeros are the end of an archive: a file cut short
    exactly between two members, or with zeros instead of whole members, is not noticed.

    State: O(1), the position. Random access, by an index of samples (8 bytes each), unless
    ``on_error`` is ``"skip"``. With ``"skip"``, malformed samples are left out and counted, and the
    count is in the state. A resume reads nothing. Indexes are kept in cache files; building one
    reads the headers of the members, and passes over large data.

    Args:
      paths: a path, a pattern (``*.x``, ``{00..19}.x``), or several of them; matches of a pattern
        are sorted.
      decode: functions that turn bytes into values, by extension, in any case, such as the
        functions of ``rs.decoders``. ``"png"`` also applies to ``"seg.png"``, unless ``"seg.png"``
        has a separate function. Other data remain bytes.
      on_error: ``"raise"`` or ``"skip"``.
      on_skip: with ``"skip"``, called with the number of each malformed sample and its
        `MalformedItem`. Numbers count from 0 in the epoch; see `resumable.stages.map.Map`.
      index_dir: folder of the cached indexes; next to the data by default. Remote files have an
        index only with ``index_dir``, and are otherwise streams.
      storage_options: of remote files.
      cache: of remote files on a local disk.

    Raises:
      MalformedItem: while iterating, with file and number of the sample.
      InvalidArgument: if no file is found, a file is compressed, an extension of ``decode`` begins
        with a dot, or ``on_error`` is another word.
      InvalidType: if an argument has the wrong type.
      OSError: if a file cannot be read.

    >>> import io, os, tarfile, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.tar")
    ...     with tarfile.open(path, "w") as file:
    ...         for name, data in {"7.txt": b"seven", "7.json": b"[7]", "8.txt": b"eight"}.items():
    ...             member = tarfile.TarInfo(name)
    ...             member.size = len(data)
    ...             file.addfile(member, io.BytesIO(data))
    ...     list(rs.tar(path, decode={"json": rs.decoders.json}))
    [{'__key__': '7', 'txt': b'seven', 'json': [7]}, {'__key__': '8', 'txt': b'eight'}]
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    make = DecodeSample(decode)
    options = with_cache(storage_options, cache)
    located = records(TAR, paths, index_dir=index_dir, storage_options=options)
    return Pipeline(Map(located, make, on_error=on_error, on_skip=on_skip))


@explained_by(Parquet)
def parquet(  # noqa: D417  # the class explains the rest
    paths: Paths,
    columns: Sequence[str] | None = None,
    *,
    batch_rows: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: FileCache | None = None,
) -> Pipeline[dict[str, Any]]:
    """The rows of Parquet files as dicts, in the order of the files.

    See `resumable.formats.parquet.Parquet`.

    Args:
      cache: of remote files on a local disk.
    """
    options = with_cache(storage_options, cache)
    return Pipeline(Parquet(paths, columns, batch_rows=batch_rows, storage_options=options))


@explained_by()
def tfrecord(
    paths: Paths,
    *,
    decode: Callable[[bytes], U] | None = None,
    on_error: str = "raise",
    on_skip: Callable[..., object] | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: FileCache | None = None,
) -> Pipeline[Any]:
    """The records of TFRecord files, as bytes or decoded, without TensorFlow.

    The checksum of each record is verified. `decoders.example` decodes ``tf.train.Example``.

    State: O(1), the position. Random access, unless ``on_error`` is ``"skip"``. With ``"skip"``,
    damaged or undecodable records are left out and counted, and the count is in the state. A resume
    reads nothing. The records of a file are indexed like lines (see
    `resumable.formats.lines.Lines`), 8 bytes a record; indexing passes over the content of large
    records.

    After a record that is cut off or has a damaged length, no further record can be found in its
    file. The rest of the file, from this record on, counts as one damaged record.

    Args:
      paths: a path, a pattern (``*.x``, ``{00..19}.x``), or several of them; matches of a pattern
        are sorted.
      decode: called with the bytes of each record.
      on_error: ``"raise"`` or ``"skip"``.
      on_skip: with ``"skip"``, called with the number of each record left out and its exception.
        Numbers count from 0 in the epoch; see `resumable.stages.map.Map`.
      index_dir: folder of the cached indexes; next to the data by default. Remote files have an
        index only with ``index_dir``, and are otherwise streams.
      storage_options: of remote files.
      cache: of remote files on a local disk.

    Raises:
      MalformedItem: while iterating, with file and number of the record, if the record is damaged,
        or ``decode`` raises `MalformedItem`; or if a file has changed since the pipeline was built.
      MissingDependency: without google-crc32c, installed by the extra ``tfrecord``.
      InvalidArgument: if no file is found, a file is compressed, or ``on_error`` is another word.
      OSError: if a file cannot be read.
      InvalidType: if an argument has the wrong type.

    >>> import os, tempfile
    >>> record = bytes.fromhex("0300000000000000 b099490e 616263 6e57f121")  # TensorFlow wrote this
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.tfrecord")
    ...     with open(path, "wb") as file:
    ...         _ = file.write(record)
    ...     list(rs.tfrecord(path))
    [b'abc']
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    if decode is not None:
        check_callable("decode", decode)
    decoder = RecordDecoder(decode)
    options = with_cache(storage_options, cache)
    located = records(TFRECORD, paths, index_dir=index_dir, storage_options=options)
    return Pipeline(Map(located, decoder, on_error=on_error, on_skip=on_skip))


@explained_by()
def warc(
    paths: Paths,
    *,
    on_error: str = "raise",
    on_skip: Callable[..., object] | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache: FileCache | None = None,
) -> Pipeline[dict[str, Any]]:
    r"""The records of WARC files, as crawlers write them, of all types, in the order of files.

    An item is a dict: ``"type"``, ``"url"``, ``"date"`` and ``"id"`` are strings, or None if
    missing in the header; ``"headers"`` is a tuple of names and values, unchanged; ``"content"`` is
    the bytes of the block, with the headers of HTTP first in a response.

    State: O(1), the position. Compressed files are read as streams: a resume decompresses a
    ``.warc.gz`` from the member before the record on, so one record again, since each record is a
    member. If the whole file is one member, a resume reads the file again from the start.
    Uncompressed files have random access by an index of records (8 bytes each), unless ``on_error``
    is ``"skip"``. With ``"skip"``, malformed records are left out and counted, and the count is in
    the state.

    After a record that is cut off or has a wrong header or length, no further record can be found
    in its file. The rest of the file, from this record on, counts as one damaged record.

    Args:
      paths: a path, a URL, a pattern (``*.x``, ``{00..19}.x``), or several of them; matches of a
        pattern are sorted.
      on_error: ``"raise"`` or ``"skip"``.
      on_skip: with ``"skip"``, called with the number of each malformed record and its
        `MalformedItem`. Numbers count from 0 in the epoch; see `resumable.stages.map.Map`.
      index_dir: folder of the cached indexes; next to the data by default. Remote files have an
        index only with ``index_dir``, and are otherwise streams.
      storage_options: of remote files.
      cache: of remote files on a local disk.

    Raises:
      MalformedItem: while iterating, with file and number of the record from 0, if the record is
        damaged, or if a file has changed since the pipeline was built.
      InvalidArgument: if no file is found, or ``on_error`` is another word.
      OSError: if a file cannot be read.
      InvalidType: if an argument has the wrong type.

    >>> import os, tempfile
    >>> lines = ["WARC/1.0", "WARC-Type: resource", "WARC-Target-URI: dns:a", "Content-Length: 2", "", "hi", "", ""]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.warc")
    ...     with open(path, "wb") as file:
    ...         _ = file.write("\r\n".join(lines).encode())
    ...     [(record["type"], record["url"], record["content"]) for record in rs.warc(path)]
    [('resource', 'dns:a', b'hi')]
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    options = with_cache(storage_options, cache)
    located = records(WARC, paths, index_dir=index_dir, storage_options=options)
    return Pipeline(Map(located, parse_warc, on_error=on_error, on_skip=on_skip))
