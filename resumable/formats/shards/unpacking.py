"""Decompress shards and items, up to the size in the index."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Mapping
from typing import Final

from ..io.compression import GzipMember, MemberDecoder, zstd_frame

DECODERS: Final[Mapping[str, Callable[[], MemberDecoder]]] = {
    "bz2": bz2.BZ2Decompressor,
    "gz": GzipMember,
    "zstd": zstd_frame,
}
"""Decoders by the names of compressions in indexes."""


def check_installed(compression: str) -> None:
    """Check that the package for ``compression``, a key of `DECODERS`, is installed.

    Raises:
      MissingDependency: if the package is not installed.
    """
    DECODERS[compression]()


def unpacked(data: bytes, compression: str, most: int) -> bytes:
    """The content of ``data``.

    Args:
      data: compressed.
      compression: a key of `DECODERS`.
      most: bytes that the content may have.

    Raises:
      ValueError, EOFError, OSError: if ``data`` are damaged, or the content has more bytes.
      MissingDependency: if the compression needs a package that is not installed.
    """
    pieces, size = [], 0
    rest = data
    while rest:
        decoder = DECODERS[compression]()
        given = rest
        while not decoder.eof:
            if not given and decoder.needs_input:
                raise EOFError("it is cut short")
            try:
                piece = decoder.decompress(given, most - size + 1)
            except zlib.error as error:
                raise ValueError(str(error)) from None
            given = b""
            size += len(piece)
            if size > most:
                raise ValueError(f"its content has more than the {most} bytes in the index")
            pieces.append(piece)
        rest = decoder.unused_data
    return b"".join(pieces)
