"""Decode a frame of Zstandard a block at a time, so that memory stays bounded."""

# The decoder of `zstandard` decodes all input it is given, and a few bytes may become gigabytes. So
# the frame is taken apart here (RFC 8878, section 3.1.1), and the decoder is given one block at a
# time, which gives at most 128 KiB. This also tells where the frame ends.

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from ...errors import MissingDependency

MAGIC: Final = b"\x28\xb5\x2f\xfd"
MAGIC_OF_SKIPPABLE: Final = b"\x2a\x4d\x18"
PIECE: Final = 1 << 16
SIZES_OF_DICTIONARY_ID: Final = (0, 1, 2, 4)
SIZES_OF_CONTENT_SIZE: Final = (0, 2, 4, 8)
RLE, RESERVED = 1, 3


class ZstdFrame:
    """A frame of Zstandard, also a skippable one, with the methods of the standard decoders.

    Raises:
      MissingDependency: if zstandard is not installed.
    """

    def __init__(self) -> None:
        self._decoder = _decoder()
        self._input = bytearray()
        self._output = b""
        self._parts = self._parse()
        self._wanted = next(self._parts)
        self.eof = False

    @property
    def needs_input(self) -> bool:
        """Whether it gives nothing without more input."""
        return not self.eof and len(self._input) < self._wanted

    @property
    def unused_data(self) -> bytes:
        """What was given of the input after its end."""
        return bytes(self._input) if self.eof else b""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """The content of up to one block, whatever ``max_length`` is.

        Raises:
          ValueError: if the frame is damaged.
        """
        self._input += data
        while not self.needs_input and not self.eof:
            part = bytes(memoryview(self._input)[: self._wanted])
            del self._input[: self._wanted]
            try:
                self._wanted = self._parts.send(part)
            except StopIteration:
                self.eof = True
            if self._output:
                output, self._output = self._output, b""
                return output
        return b""

    def _parse(self) -> Generator[int, bytes, None]:
        """Yields how many bytes come next, and is sent them."""
        magic = yield 4
        if magic[1:] == MAGIC_OF_SKIPPABLE and magic[0] >> 4 == 5:
            size = int.from_bytes((yield 4), "little")
            while size:
                size -= len((yield min(size, PIECE)))
            return
        if magic != MAGIC:
            raise ValueError("this is no frame of Zstandard")
        descriptor = yield 1
        flags = descriptor[0]
        single_segment = flags >> 5 & 1
        rest = 1 - single_segment + SIZES_OF_DICTIONARY_ID[flags & 3]
        rest += SIZES_OF_CONTENT_SIZE[flags >> 6] or single_segment
        self._decode(magic + descriptor + (yield rest))
        last = 0
        while not last:
            header = yield 3
            number = int.from_bytes(header, "little")
            last, kind, size = number & 1, number >> 1 & 3, number >> 3
            if kind == RESERVED:
                raise ValueError("a block of Zstandard has a type that is not known")
            stored = 1 if kind == RLE else size
            self._decode(header + ((yield stored) if stored else b""))
        if flags >> 2 & 1:
            self._decode((yield 4))

    def _decode(self, part: bytes) -> None:
        if part:
            try:
                self._output += self._decoder.decompress(part)
            except Exception as error:
                if type(error).__module__.split(".")[0] != "zstandard":
                    raise
                raise ValueError(str(error)) from error


def _decoder() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise MissingDependency(
            "what is compressed by zstd needs zstandard: pip install 'resumable-loader[compressed]' "
            f"({error})"
        ) from error
    return zstandard.ZstdDecompressor().decompressobj()
