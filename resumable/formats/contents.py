"""Digests in states to recognise the contents of files, beyond names and sizes."""

# The time of the last change and the path do not count, since a copy of the data is as good as the
# data. An index has a digest, so that opening reads no more than its header. Other files are
# identified by their ends, where formats have headers, names and checksums. Remote files may have a
# version, such as an ETag. Servers make versions differently, so versions are compared for equal
# URLs only.

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from ..core.evidence import UNKNOWN, Evidence
from ..core.identity import ALWAYS, IdentityField
from .data_files import AnyFile
from .io.open_files import DataFile, ReadingAhead
from .io.paths import file_name, is_remote, without_query
from .io.remote import RemoteFile
from .io.remote_content import Span, read_spans

END: Final = 4096
"""Bytes at either end of a file that are compared."""

MOST_READ: Final = 10_000
"""Most files whose ends are read; of more files, so many at even distances."""

DIGEST: Final = 16

ENDS: Final = "ends"
"""The kind of evidence for ends of files."""

FILES: Final = IdentityField(
    ALWAYS,
    shown_as="files of paths",
    hint="were files added, removed, changed or listed in another order?",
)


def evidence_of(files: Sequence[AnyFile]) -> Evidence:
    """Evidence of the contents of ``files``, at least one, without an index of records.

    The ends of files are read, unless all files have a version. If a file cannot be read, the
    evidence is empty; the error is raised when the file itself is read.
    """
    versions = [file.version_tag for file in files if isinstance(file, RemoteFile)]
    names = {None if tag is None else tag[0] for tag in versions}
    if len(versions) == len(files) and len(names) == 1 and None not in names:
        place = _digest(without_query(file.path).encode() for file in files)[:3].hex()
        digests = [_digest([str(tag).encode()]) for tag in versions]
        return Evidence(f"{names.pop()} {place}", digests, _names(files))
    step = -(-len(files) // MOST_READ)
    with ReadingAhead():
        found = files[::step]
        return Evidence(
            ENDS, digests_of_ends(found), _names(found), _local([file.path for file in found])
        )
    return UNKNOWN


def digests_of_ends(files: Sequence[AnyFile]) -> list[bytes]:
    """For each of ``files`` a digest of its first and its last bytes.

    Raises:
      MalformedItem: if a file has changed since the pipeline was built.
      ReadError: if a remote file cannot be read.
      OSError: if a file cannot be read.
    """
    remote = [file for file in files if isinstance(file, RemoteFile)]
    spans = [[Span(file, *end) for end in _ends(file.size)] for file in remote]
    fetched = iter(read_spans([span for of_file in spans for span in of_file], checked=False))
    remotes = iter([[next(fetched) for _ in of_file] for of_file in spans])
    return [_digest(_read_ends(f) if isinstance(f, DataFile) else next(remotes)) for f in files]


def digest_of_index(pages: Iterable[bytes], file: AnyFile) -> bytes:
    """A digest of the index of ``file``, and of the first and last bytes of the file.

    Args:
      pages: digests of the pages of the index.
      file: the indexed file.

    Raises:
      MalformedItem: if the file has changed since the pipeline was built.
      ReadError: if a remote file cannot be read.
      OSError: if the file cannot be read.
    """
    return _digest([*pages, *digests_of_ends([file])])


def evidence_of_indexes(files: Sequence[tuple[str, bytes]]) -> Evidence:
    """Evidence of the contents of files, given the path of each and the digest of its index."""
    paths, digests = zip(*files, strict=True)
    return Evidence("index", digests, list(map(file_name, paths)), _local(paths))


def _ends(size: int) -> list[tuple[int, int]]:
    """The starts and ends of the compared parts of a file of ``size`` bytes."""
    if size <= 2 * END:
        return [(0, size)] if size else []
    return [(0, END), (size - END, size)]


def _read_ends(file: DataFile) -> list[bytes]:
    ends = []
    with file.open() as opened:
        for start, stop in _ends(file.size):
            opened.seek(start)
            ends.append(opened.read(stop - start))
    return ends


def _names(files: Sequence[AnyFile]) -> list[str]:
    return [file_name(file.path) for file in files]


def _local(paths: Sequence[str]) -> Sequence[str]:
    """``paths``; none if some are URLs."""
    return [] if any(map(is_remote, paths)) else paths


def _digest(parts: Iterable[bytes]) -> bytes:
    hasher = hashlib.blake2b(digest_size=DIGEST)
    for part in parts:
        hasher.update(part)
    return hasher.digest()
