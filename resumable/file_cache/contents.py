"""List the contents of a cache's folder, and empty the folder."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ..core.regular_files import replacing
from .parts import CachedFile
from .plan import PLANS, plans_of_others
from .room import IN_USE, KeptPart, kept_parts, part_folders

ENDING: Final = ".file.json"
NAME: Final = re.compile(r"[0-9a-f]{32}\.(file|copy)\.json")


class KeptFile(NamedTuple):
    """A remote file with parts in a cache.

    Attributes:
      url: without user, password and query.
      size: of the whole file, in bytes.
      parts: number of kept parts.
      kept: bytes of the kept parts.
      used: time of the last use of a part, in seconds since the epoch of Unix.
    """

    url: str
    size: int
    parts: int
    kept: int
    used: float


def note_file(folder: str, file: CachedFile) -> None:
    """Write a note with the URL and the size of ``file``, under its content name.

    Raises:
      OSError: if the note cannot be written.
    """
    path = os.path.join(folder, file.content_name[:2], file.content_name + ENDING)
    if os.path.exists(path):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with replacing(path, ".tmp") as note:
        note.write(json.dumps({"url": _shown_url(file.path), "size": file.size}).encode())


def kept_files(folder: str) -> list[KeptFile]:
    """The files with parts in ``folder``, sorted by URL.

    Raises:
      OSError: if the folder cannot be read.
    """
    by_content = defaultdict[str, list[KeptPart]](list)
    for part in kept_parts(folder)[0]:
        by_content[part.name.content].append(part)
    found = [_kept_file(folder, content, parts) for content, parts in by_content.items()]
    return sorted(found)


def users(folder: str) -> int:
    """How many living processes use the cache in ``folder``."""
    return len(plans_of_others(folder, ""))


def clear(folder: str) -> int:
    """Remove exactly the files of caches from ``folder``; returns the bytes of the parts.

    Raises:
      OSError: if a file cannot be removed.
    """
    parts, _ = kept_parts(folder)
    removed = 0
    for part in parts:
        if part.remove():
            removed += part.size
    for path in part_folders(folder):
        for name in os.listdir(path):
            if NAME.fullmatch(name):
                os.unlink(os.path.join(path, name))
        with suppress(OSError):  # not empty: a foreign file, or a part in flight
            os.rmdir(path)
    if not users(folder):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, IN_USE))
        with suppress(OSError):
            os.rmdir(os.path.join(folder, PLANS))
    return removed


def _kept_file(folder: str, content: str, parts: list[KeptPart]) -> KeptFile:
    url, size = f"({content})", 0
    with (
        suppress(OSError, ValueError, KeyError, TypeError),
        open(os.path.join(folder, content[:2], content + ENDING), encoding="utf-8") as file,
    ):
        described = json.load(file)
        url, size = str(described["url"]), int(described["size"])
    used = max(part.used_ns for part in parts) / 1e9
    return KeptFile(url, size, len(parts), sum(part.size for part in parts), used)


def _shown_url(url: str) -> str:
    """``url`` without user, password, query and fragment, which may be secret."""
    split = urlsplit(url)
    return split._replace(netloc=split.netloc.rpartition("@")[2], query="", fragment="").geturl()
