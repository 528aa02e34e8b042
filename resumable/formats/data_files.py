"""Find the files for paths and URLs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from ..errors import InvalidArgument, InvalidType
from ..file_cache.cache import FileCache, check_cache
from .index.names import is_cache
from .io.open_files import DataFile, found_file
from .io.paths import FoundUrl, Paths, found_files, given_paths, is_remote
from .io.remote import CACHE, RemoteFile, found_remote_files
from .record import Format

AnyFile: TypeAlias = DataFile | RemoteFile


def location(file: AnyFile) -> str:
    """The path of ``file``, or its URL, which may hold a secret."""
    return file.url if isinstance(file, RemoteFile) else file.path


def path_of_found(file: AnyFile) -> str:
    """`location` for `found_data_files`, which then finds only ``file``, also in other processes."""
    return FoundUrl(file.url) if isinstance(file, RemoteFile) else file.path


def found_data_files(
    paths: Paths,
    storage_options: Mapping[str, Any] | None = None,
    format: Format | None = None,
    look: Callable[[str], DataFile] = found_file,
) -> list[AnyFile]:
    """The current files for ``paths``; the matches of a pattern are sorted.

    Args:
      paths: a path, a URL, a pattern, or several of them.
      storage_options: of remote files.
      format: of the records; no pattern matches caches of the format.
      look: finds the file at a path on a disk.

    Raises:
      InvalidArgument: if no file matches, a match is no regular file, or ``storage_options`` are
        given without a URL.
      InvalidType: if an argument has the wrong type.
      OSError: if a file cannot be found.
      MissingDependency: if a URL needs a package that is not installed.
    """
    given, is_left_out = given_paths(paths), partial(is_cache, format=format)
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise InvalidType(f"storage_options must be a dict, got {type(storage_options).__name__}")
    if not any(map(is_remote, given)):
        if storage_options is not None and storage_options.keys() != {CACHE}:
            names = sorted(map(str, storage_options))  # their values may be secrets
            raise InvalidArgument(
                f"storage_options must be None for local files, got those called {names}"
            )
        return list(map(look, found_files(given, is_left_out)))

    urls = list(dict.fromkeys(filter(is_remote, given)))
    remote = dict(zip(urls, found_remote_files(urls, storage_options, is_left_out), strict=True))
    found: list[AnyFile] = []
    for path in given:
        found += remote.get(path) or map(look, found_files(path, is_left_out))
    return found


def with_cache(
    storage_options: Mapping[str, Any] | None, cache: FileCache | None
) -> Mapping[str, Any] | None:
    """``storage_options`` with ``cache``, if any.

    Raises:
      InvalidArgument: if both name a cache.
      InvalidType: if an argument has the wrong type.
    """
    if check_cache(cache) is None:
        return storage_options
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise InvalidType(f"storage_options must be a dict, got {type(storage_options).__name__}")
    if CACHE in (storage_options or {}):
        raise InvalidArgument("cache must be None if storage_options have one, got both")
    return {**(storage_options or {}), CACHE: cache}
