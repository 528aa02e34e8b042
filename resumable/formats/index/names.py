"""Where the cache of an index is kept: next to the data, or in a separate folder."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Final

from ..io.paths import file_name, is_remote
from ..known import FORMATS
from ..record import Format

SUFFIX: Final = ".idx"
UNUSUAL: Final = re.compile(r"[^\w.-]")
LONGEST_NAME: Final = 100
"""Characters replaced in the file name of a URL, and the length to which the name is cut."""

NAMED: Final = "|".join(sorted({format.caches for format in FORMATS}))
KNOWN: Final = re.compile(rf"(\.({NAMED})(-[0-9a-f]+)?|^\.tmp-[0-9a-f]{{16}})\.idx$")


def suffix_of(format: Format) -> str:
    """How the names of caches of this format end."""
    return f".{format.name}{SUFFIX}"


def cache_path(path: str, folder: str | None, format: Format) -> str:
    """The cache of the file at ``path``, in ``folder`` or next to it; a URL's is in ``folder``."""
    if is_remote(path):
        assert folder is not None
        # The same name with another query may be another file.
        name = UNUSUAL.sub("_", file_name(path))[-LONGEST_NAME:]
        return os.path.join(folder, f"{name}.{_short_name(path)}{suffix_of(format)}")
    if folder is None:
        return path + suffix_of(format)
    parent, name = os.path.split(path)
    return os.path.join(folder, f"{name}.{_short_name(parent)}{suffix_of(format)}")


def pack_path(parent: str, folder: str | None, format: Format) -> str:
    """The cache that small files in the folder ``parent`` share."""
    if folder is None:
        return os.path.join(parent, f".folder{suffix_of(format)}")
    return os.path.join(folder, f".folder.{_short_name(parent)}{suffix_of(format)}")


def is_cache(path: str, format: Format | None = None) -> bool:
    """Whether the file name is that of a cache; patterns never take caches for data."""
    name = os.path.basename(path)
    own = format is not None and name.endswith(suffix_of(format))
    return own or KNOWN.search(name) is not None


def _short_name(parent: str) -> str:
    return hashlib.blake2b(os.fsencode(parent), digest_size=6).hexdigest()
