"""`resumable index`: build the indexes of files before a training starts.

Finds where the records of files end, and keeps the index next to the files or in a folder, so that a pipeline
over the files opens at once. Leaves valid indexes unchanged. The exit status is 1 if a file cannot be indexed,
2 if no file is found.

Examples:
  resumable index "data/*.jsonl"
  resumable index "data/*.tar" --index-dir indexes --workers 4
  resumable index "s3://bucket/*.tar" --index-dir indexes --storage-option anon=true
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Final, NamedTuple

from .. import from_files
from ..errors import InvalidArgument, ResumableError
from ..errors.public_urls import public_url
from ..formats.index.names import is_cache
from ..formats.index.record_index import LARGEST_PACKED
from ..formats.io.compression import compression_of
from ..formats.io.paths import file_name, found_files, is_remote, without_query
from ..formats.io.remote import found_remote_files
from ..formats.known import FORMATS
from ..pipeline import Pipeline
from ..views.table import table_lines
from .progress import progress_bar
from .texts import explain

OPENED_BY: Final[dict[str, Callable[..., Pipeline[Any]]]] = {
    format.name: getattr(from_files, format.name) for format in FORMATS
}
ENDINGS: Final = {ending: format.name for format in FORMATS for ending in format.endings}


class IndexGroup(NamedTuple):
    """Files of a format to index together, since small files of a folder share a cache.

    Attributes:
      format: a key of `OPENED_BY`.
      paths: of the files.
    """

    format: str
    paths: list[str]


def run(options: argparse.Namespace) -> int:
    """Index the files of ``options.patterns``; returns the exit status."""
    storage_options = dict(options.storage_option)
    found = _found(options.patterns, options.index_dir, storage_options)
    files, records, failed = Counter[str](), Counter[str](), False
    with (
        progress_bar(len(found), "files") as bar,
        ThreadPoolExecutor(options.workers or os.cpu_count()) as executor,
    ):
        counts = {
            executor.submit(_indexed, group, options.index_dir, storage_options): group
            for group in _groups(found, options.format)
        }
        for done in as_completed(counts):
            group = counts[done]
            try:
                records[group.format] += done.result()
            except (ResumableError, OSError) as error:
                failed = True
                print(f"resumable index: {explain(error)}", file=sys.stderr)
            bar.update(len(group.paths))
            files[group.format] += len(group.paths)
    rows = [(name, f"{files[name]:,}", f"{records[name]:,}") for name in OPENED_BY if files[name]]
    print("\n".join(table_lines([("format", "files", "records"), *rows], "<>>")))
    return int(failed)


def _found(
    patterns: list[str], index_dir: str | None, storage_options: Mapping[str, Any]
) -> list[str]:
    """The files and URLs that ``patterns`` name.

    A user may be waiting, so a store is asked once, unless ``storage_options`` say otherwise.

    Raises:
      InvalidArgument: if a pattern matches nothing, a URL comes without ``index_dir``, or
        ``storage_options`` without a URL.
      OSError: if a remote file cannot be found.
      MissingDependency: if a URL needs a package that is not installed.
    """
    urls = [pattern for pattern in patterns if is_remote(pattern)]
    local = [pattern for pattern in patterns if not is_remote(pattern)]
    if urls and index_dir is None:
        raise InvalidArgument(
            f"--index-dir must say where the index of a URL is kept, got {public_url(urls[0])}"
        )
    if storage_options and not urls:
        raise InvalidArgument(f"--storage-option needs a URL, got the paths {local}")
    found = found_files(local, is_cache) if local else []
    asked_once = {"retry": {"attempts": 1}} | dict(storage_options)
    for files in found_remote_files(urls, asked_once) if urls else []:
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


def _indexed(group: IndexGroup, folder: str | None, storage_options: Mapping[str, Any]) -> int:
    """Build the indexes of a group; returns the number of records."""
    for path in group.paths:
        if compression_of(without_query(path)):
            shown = public_url(path)
            raise ResumableError(f"{shown} is compressed, and read as a stream without an index")
    options = {"storage_options": storage_options} if any(map(is_remote, group.paths)) else {}
    return len(OPENED_BY[group.format](group.paths, index_dir=folder, **options))
