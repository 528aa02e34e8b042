"""Real text for the workloads: the source and documentation files of the machine."""

from __future__ import annotations

import json
import os
import sysconfig
from collections.abc import Iterator
from itertools import count
from pathlib import Path

__all__ = ["write_documents"]

SUFFIXES = {".md", ".py", ".rst", ".txt"}
SYSTEM = "/usr/share/doc"


def write_documents(path: Path, size: int) -> int:
    """Write files as lines ``{"id": ..., "text": ...}`` until ``path`` has ``size`` bytes.

    Where there is not enough text, the same files come again, each with the number of the turn in front.

    Returns:
      how many lines were written.
    """
    written = documents = 0
    with path.open("w") as file:
        for documents, text in enumerate(_documents()):
            if written >= size:
                break
            written += file.write(json.dumps({"id": documents, "text": text}) + "\n")
    return documents


def _documents() -> Iterator[str]:
    for turn in count():
        for file in _files():
            if text := _text_of(file):
                yield f"{turn}\n{text}" if turn else text


def _files() -> Iterator[Path]:
    """The standard library, what is installed with it, and the documentation of the system."""
    paths = sysconfig.get_paths()
    for place in dict.fromkeys([paths["stdlib"], paths["purelib"], SYSTEM]):
        for folder, inner, names in os.walk(place):
            inner.sort()
            if place != paths["purelib"] and "site-packages" in inner:
                inner.remove("site-packages")  # it has a turn of its own
            for name in sorted(names):
                file = Path(folder, name)
                if file.suffix in SUFFIXES and file.is_file():
                    yield file


def _text_of(file: Path) -> str:
    """Empty if it is no text; a zero is none, so that padding can be told from text."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    return "" if "\0" in text else text
