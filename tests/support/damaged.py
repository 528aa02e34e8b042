"""Files that are not what was written."""

from __future__ import annotations

from pathlib import Path


def flip_last_bit(path: Path) -> None:
    """Change the file at ``path``, whatever its last byte is; done twice, it is as it was."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
