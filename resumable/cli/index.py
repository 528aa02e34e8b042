"""`resumable index`: builds the indexes of files before a training needs them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Final, NamedTuple

from .. import from_files
from ..errors import InvalidArgument, ResumableError
from ..errors.public_urls import public_url
from ..formats.index.known import FORMATS
from ..formats.index.names import is_cache
from ..formats.index.record_index import LARGEST_PACKED
from ..formats.io.compression import compression_of
from ..formats.io.paths import file_name, found_files, is_remote, without_query
from ..formats.io.remote import found_remote_files
from ..pipeline import Pipeline
from ..views.table import table_lines
from .progress import progress_bar

OPENED_BY: Final[dict[str, Callable[..., Pipeline[Any]]]] = {
    format.name: getattr(from_files, format.name) for format in FORMATS
}
ENDINGS: Final = {ending: format.name for format in FORMATS for ending in format.endings}


class IndexGroup(NamedTuple):
    """Files of one format that are indexed at once, as small ones of a folder share a cache.

    Attributes:
      format: a key of `OPENED_BY`.
      paths: of the files.
    """

    format: str
    paths: list[str]


def run(options: argparse.Namespace) -> int:
    """Index the files of ``options.patterns``; returns the exit status."""
    try:
        found = _found(options.patterns, options.index_dir)
    except (ResumableError, OSError) as error:
        print(f"resumable index: {error}", file=sys.stderr)
        return 2
    records, failed = dict.fromkeys(OPENED_BY, 0), False
    groups = list(_groups(found, options.format))
    with (
        progress_bar(len(found), "files") as bar,
        ThreadPoolExecutor(options.workers or os.cpu_count()) as executor,
    ):
        counts = {executor.submit(_indexed, group, options.index_dir): group for group in groups}
        for done in as_completed(counts):
            group = counts[done]
            try:
                records[group.format] += done.result()
            except (ResumableError, OSError) as error:
                failed = True
                print(f"resumable index: {error}", file=sys.stderr)
            bar.update(len(group.paths))
    files = dict.fromkeys(OPENED_BY, 0)
    for group in groups:
        files[group.format] += len(group.paths)
    rows = [(name, f"{files[name]:,}", f"{records[name]:,}") for name in files if files[name]]
    print("\n".join(table_lines([("format", "files", "records"), *rows], "<>>")))
    return int(failed)


def _found(patterns: list[str], index_dir: str | None) -> list[str]:
    """The files and URLs that ``patterns`` name.

    Raises:
      InvalidArgument: if a pattern matches nothing, or there is a URL and no ``index_dir``.
      OSError: if a remote file cannot be found.
      MissingDependency: if a URL needs a package that is not installed.
    """
    urls = [pattern for pattern in patterns if is_remote(pattern)]
    local = [pattern for pattern in patterns if not is_remote(pattern)]
    if urls and index_dir is None:
        raise InvalidArgument(
            f"--index-dir must say where the index of a URL is kept, got {public_url(urls[0])}"
        )
    found = found_files(local, is_cache) if local else []
    for files in found_remote_files(urls, None) if urls else []:
        found += [file.url for file in files]
    return found


def _groups(paths: Iterable[str], format: str | None) -> Iterable[IndexGroup]:
    together: dict[tuple[str, str], list[str]] = {}
    for path in dict.fromkeys(paths):
        chosen = format or ENDINGS.get(os.path.splitext(file_name(path))[1].lower(), "lines")
        shares = not is_remote(path) and not compression_of(path) and os.path.isfile(path)
        if shares and os.path.getsize(path) <= LARGEST_PACKED:
            together.setdefault((chosen, os.path.dirname(path)), []).append(path)
        else:
            yield IndexGroup(chosen, [path])
    for (chosen, _), small in together.items():
        yield IndexGroup(chosen, small)


def _indexed(group: IndexGroup, folder: str | None) -> int:
    """Build the indexes of a group; returns the number of its records."""
    for path in group.paths:
        if compression_of(without_query(path)):
            shown = public_url(path)
            raise ResumableError(f"{shown} is compressed, and read as a stream without an index")
    return len(OPENED_BY[group.format](group.paths, index_dir=folder))
