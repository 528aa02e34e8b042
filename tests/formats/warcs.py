"""Write WARC files, without a package for them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

__all__ = ["member", "record", "records_of", "zipped"]


def record(content: bytes, kind: str = "resource", *more: tuple[str, str]) -> bytes:
    """A record with this ``content`` and ``more`` lines in its header."""
    lines = [("WARC-Type", kind), *more, ("Content-Length", str(len(content)))]
    header = "".join(f"{name}: {value}\r\n" for name, value in lines)
    return b"WARC/1.0\r\n" + header.encode() + b"\r\n" + content + b"\r\n\r\n"


def records_of(count: int, size: int = 40) -> list[bytes]:
    """Records of many sizes."""
    return [
        record(b"%d" % number * (7 * number % size), "response", ("WARC-Target-URI", f"a:{number}"))
        for number in range(count)
    ]


def zipped(records: Iterable[bytes]) -> bytes:
    """As crawlers compress them: each record is a member of gzip."""
    return b"".join(map(member, records))


def member(data: bytes) -> bytes:
    """``data`` as a member of gzip, the same with every version of Python: `gzip` writes other headers."""
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    return packer.compress(data) + packer.flush()
