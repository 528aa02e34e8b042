"""The compressions of files, known by file name; a compressed file with another name is refused."""

# A decoder decodes one member (the word of gzip; bzip2 and xz say stream, Zstandard says frame),
# with the methods of the decoders in the standard library. A file has any number of members, one
# after another; no member depends on earlier members.

from __future__ import annotations

import bz2
import lzma
import re
import sys
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from ...errors import InvalidArgument
from ..packages import imported
from ..record import Format
from .paths import file_name

LONGEST_MAGIC: Final = 12
"""Bytes at the start of a file that identify its compression."""

MOST_MEMORY: Final = 1 << 28
"""Bytes that a decoder of xz may use, four times the need of the strongest preset."""


class MemberDecoder(Protocol):
    """Decodes one member.

    Attributes:
      eof: whether the member has ended.
      needs_input: whether more input is needed for more output.
      unused_data: input after the end of the member.
    """

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Up to ``max_length`` bytes.

        Raises:
          ValueError, EOFError, OSError, zlib.error, lzma.LZMAError: if the member is damaged.
        """


class GzipMember:
    """A member of gzip, with checksum and length verified at the end."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def needs_input(self) -> bool:
        return not self._decoder.unconsumed_tail and not self.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._decoder.decompress(self._decoder.unconsumed_tail + data, max_length)


class FrameDecoder:
    """A frame of Zstandard or LZ4, which may be skippable.

    Args:
      decoder: of the package for the format.
      error: raised by the decoder for damage.
    """

    def __init__(self, decoder: Any, error: type[Exception]) -> None:
        self._decoder, self._error = decoder, error

    @property
    def eof(self) -> bool:
        return bool(self._decoder.eof)

    @property
    def needs_input(self) -> bool:
        return bool(self._decoder.needs_input)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._decoder.unused_data or b"")

    def decompress(self, data: bytes, max_length: int) -> bytes:
        try:
            return bytes(self._decoder.decompress(data, max_length))
        except self._error as error:
            raise ValueError(str(error)) from error


def zstd_frame() -> FrameDecoder:
    """The decoder of a frame of Zstandard, from the standard library in Python 3.14 and later.

    Memory: the window that the header of the frame asks for, at most 128 MiB (a larger window is
    refused), and 1 to 3 MiB, as measured. The package zstandard, fed block by block, took as much.

    Raises:
      MissingDependency: if Python has no decoder of Zstandard and backports.zstd is not installed.
    """
    in_python = sys.version_info >= (3, 14)
    zstd = _installed("compression.zstd" if in_python else "backports.zstd", "zstd")
    return FrameDecoder(zstd.ZstdDecompressor(), zstd.ZstdError)


def lz4_frame() -> FrameDecoder:
    """The decoder of a frame of LZ4.

    Raises:
      MissingDependency: if lz4 is not installed.
    """
    return FrameDecoder(_installed("lz4.frame", "lz4").LZ4FrameDecompressor(), RuntimeError)


def _installed(module: str, compression: str) -> Any:
    package = module.removesuffix(".frame")
    return imported(module, f"what is compressed by {compression} needs {package}", "compressed")


class Compression(NamedTuple):
    """How a file is compressed.

    Attributes:
      name: for messages.
      suffixes: of file names.
      magic: the first bytes of a file.
      decoder: makes the decoder of a member.
    """

    name: str
    suffixes: tuple[str, ...]
    magic: re.Pattern[bytes]
    decoder: Callable[[], MemberDecoder]


COMPRESSIONS: Final = (
    Compression("gzip", (".gz", ".tgz", ".bgz"), re.compile(rb"\x1f\x8b"), GzipMember),
    Compression("bzip2", (".bz2",), re.compile(rb"BZh[1-9]1AY&SY"), bz2.BZ2Decompressor),
    Compression(
        "xz",
        (".xz",),
        re.compile(rb"\xfd7zXZ\0"),
        partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, MOST_MEMORY),
    ),
    Compression("zstd", (".zst",), re.compile(rb"\x28\xb5\x2f\xfd"), zstd_frame),
    Compression("lz4", (".lz4",), re.compile(rb"\x04\x22\x4d\x18"), lz4_frame),
)

NOT_READ: Final = {
    "compress": re.compile(rb"\x1f\x9d"),
    "lzma": re.compile(rb"\x5d\0\0..\xff{7}", re.DOTALL),
}
"""The first bytes of files in compressions that are not read."""


def compression_of(path: str) -> Compression | None:
    """The compression by the suffix of ``path``, which may be a URL; None for other suffixes."""
    lower = file_name(path).lower()
    for each in COMPRESSIONS:
        if lower.endswith(each.suffixes):
            return each
    return None


def check_uncompressed(content: bytes, path: str, format: Format) -> None:
    """Refuse the file at ``path`` if its ``content`` begins like a compressed file.

    Content that surely begins a file of ``format`` is not refused. A file with the suffix of a
    compression is decompressed, and never checked here.

    Raises:
      InvalidArgument: if the file is compressed.
    """
    magics = {each.name: each.magic for each in COMPRESSIONS} | NOT_READ
    kind = next((name for name, magic in magics.items() if magic.match(content)), None)
    recognises = format.recognises
    if kind is not None and not (recognises and recognises(content[:LONGEST_MAGIC])):
        suffixes = ".gz, .bz2, .xz, .zst or .lz4"
        advice = f"decompress it, or compress it again as {suffixes}"
        if kind not in NOT_READ:
            advice = f"a compressed one must be named so, as by the suffix {suffixes}"
        raise InvalidArgument(
            f"paths must name uncompressed files, got {path!r}, which is compressed by {kind}; {advice}"
        )
