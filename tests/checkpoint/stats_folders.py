"""Folders as a run with stats leaves them, made by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

__all__ = ["line", "note", "save"]

RUN: Final = "0123456789ab"


def line(step: int, time: float, **fields: Any) -> bytes:
    """A line that a rank writes at a save."""
    return json.dumps({"step": step, "time": time, **fields}).encode() + b"\n"


def note(folder: Path, rank: int, ranks: int, *lines: bytes, name: str = "input") -> None:
    """Write the lines of a rank."""
    which = "" if ranks == 1 else f"-{rank:05d}-of-{ranks:05d}"
    (folder / f"{name}{which}-stats.jsonl").write_bytes(b"".join(lines))


def save(folder: Path, step: int, rank: int, ranks: int, time: float, name: str = "input") -> None:
    """A file with the name of a checkpoint; what is in it is not looked at."""
    which = "" if ranks == 1 else f".{RUN}-{rank:05d}-of-{ranks:05d}"
    file = folder / f"{name}-{step:012d}{which}.ckpt"
    file.write_bytes(b"")
    os.utime(file, (time, time))
