"""Compressed files of numbers for pipelines that are made where there is no `tmp_path`."""

from __future__ import annotations

import atexit
import gzip
import shutil
import tempfile
from functools import cache
from pathlib import Path
from string import ascii_lowercase


@cache
def gzipped_numbers(*files: range) -> list[str]:
    """The paths of ``a.gz``, ``b.gz`` and so on, one for each of ``files``, with a number in each line."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, True)
    paths = [Path(folder, f"{name}.gz") for name in ascii_lowercase[: len(files)]]
    for path, numbers in zip(paths, files, strict=True):
        path.write_bytes(gzip.compress("".join(f"{number}\n" for number in numbers).encode()))
    return list(map(str, paths))
