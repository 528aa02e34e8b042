"""`resumable cache`: the content of a cache of remote files.

Lists the remote files in the folder of an rs.FileCache, the kept share of each file, and the number of
processes that use the cache. With --clear, removes only the files written by a cache.

Examples:
  resumable cache /scratch/cache
  resumable cache /scratch/cache --clear
"""

from __future__ import annotations

import argparse
import os

from ..file_cache.contents import clear, kept_files, users
from ..views.table import table_lines
from .places import folder_at
from .texts import show_time


def run(options: argparse.Namespace) -> int:
    """Show or empty the cache in ``options.folder``; returns the exit status."""
    folder = os.path.abspath(folder_at(options.folder, "DIR must be the folder of a cache"))
    if options.clear:
        print(f"{clear(folder):,} bytes removed from {folder}")
    else:
        _show(folder)
    return 0


def _show(folder: str) -> None:
    files = kept_files(folder)
    rows = [
        [
            file.url,
            f"{file.parts:,}",
            f"{file.kept:,}",
            f"{min(100 * file.kept // file.size, 100)} %" if file.size else "?",
            show_time(file.used),
        ]
        for file in files
    ]
    if rows:
        header = ["file", "parts", "bytes", "share", "last used"]
        print(*table_lines([header, *rows], "<>>>"), sep="\n")
    kept, parts = sum(file.kept for file in files), sum(file.parts for file in files)
    print(
        f"{parts:,} parts of {len(files):,} files, {kept:,} bytes; used by {users(folder)} processes"
    )
