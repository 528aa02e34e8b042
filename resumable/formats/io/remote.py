"""Find remote files, and notice when a file has changed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, Final, NamedTuple, final

from ...errors import InvalidArgument, MalformedItem, MissingDependency
from ...errors.public_urls import public_errors, public_url
from ...file_cache.cache import FileCache, cache_of_environment, check_cache
from .braces import expanded
from .failures import root_of
from .fetching import Patience, Request, fetch, fetch_all
from .paths import FoundUrl, no_match, without_query

VERSIONS: Final = ("ETag", "etag", "e_tag", "generation", "blob_id", "md5", "Content-MD5")
TIMES: Final = (
    "LastModified", "Last-Modified", "last_modified", "mtime", "modified", "updated", "created",
)  # fmt: skip
"""Keys of a file's info whose values change with the file, the best first."""


CACHE: Final = "cache"
"""The storage option for a `FileCache`."""


CACHES_OF_FSSPEC: Final[Mapping[str, str]] = {
    "filecache": "fetches a whole file for each range, and hands out files that are not whole yet",
    "simplecache": "does not notice that a file has changed, and hands out what it was",
    "blockcache": "fetches everything several times, and keeps nothing of it",
}
"""The caches' faults when ranges of a file are read at the same time."""


IN_A_NETWORK: Final = frozenset(
    {
        "adlfs.spec.AzureBlobFileSystem",
        "fsspec.implementations.http.HTTPFileSystem",
        "gcsfs.core.GCSFileSystem",
        "huggingface_hub.hf_file_system.HfFileSystem",
        "s3fs.core.S3FileSystem",
    }
)
"""Classes of file systems that keep no data in the memory of a process."""


@final
class RemoteSystem:
    """A remote file system, opened once in each process, for all threads.

    Args:
      url: of a file, or a pattern of files.
      options: of the file system.
      patience: timeouts and retries.
      cache: of the files on a local disk, if any.
    """

    def __init__(
        self, url: str, options: dict[str, Any], patience: Patience, cache: FileCache | None = None
    ) -> None:
        self.url = url
        self.patience = patience
        self.cache = cache
        self._options = options
        self._opened: tuple[int, Any, str] | None = None

    @classmethod
    def of(cls, url: str, storage_options: Mapping[str, Any] | None) -> RemoteSystem:
        """The file system of ``url``.

        Raises:
          InvalidArgument: if ``"retry"`` or ``"read"`` has an unknown key or a value out of range,
            or the environment describes an impossible cache.
          InvalidType: if ``"retry"`` or ``"read"`` is no dict of numbers, or ``"cache"`` is no
            `FileCache`.
        """
        options = dict(storage_options or {})
        patience = Patience.of(options.pop("retry", {}), options.pop("read", {}))
        cache = check_cache(options.pop(CACHE, None)) or cache_of_environment(os.environ)
        return cls(url, options, patience, cache)

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteSystem, (self.url, self._options, self.patience, self.cache)

    def open(self) -> tuple[Any, str]:
        """The file system, and the path of `url` in the file system.

        Raises:
          MissingDependency: if fsspec, or the backend, is not installed.
          InvalidArgument: if fsspec does not know the protocol or an option, or opens a cache of
            fsspec.
        """
        opened = self._opened
        if opened is None or opened[0] != os.getpid():
            opened = self._opened = (os.getpid(), *self._found())
        return opened[1:]

    @public_errors
    def _found(self) -> tuple[Any, str]:
        try:
            import fsspec

            options = _for_s3(self.url, self._options, self.patience.at_once)
            system, path = fsspec.url_to_fs(self.url, **options)
        except ImportError as error:
            raise MissingDependency(
                f"{public_url(self.url)!r} needs fsspec and its backend: pip install "
                f"'resumable-loader[remote]' ({error})"
            ) from error
        except ValueError as error:
            raise InvalidArgument(
                f"paths must be URLs that fsspec knows, got {self.url!r}: {error}"
            ) from error
        except TypeError as error:
            raise self.refused_options(error) from error
        self._check_no_cache(system)
        return system, path

    @property
    def is_pattern(self) -> bool:
        """Whether the URL names files by a pattern."""
        return not isinstance(self.url, FoundUrl) and _has_magic(self.open()[1])

    @property
    def is_in_a_network(self) -> bool:
        """Whether another process finds the same files by the same options."""
        return self.kind in IN_A_NETWORK

    @property
    def kind(self) -> str:
        """The name of the class of the file system."""
        kind = type(self.open()[0])
        return f"{kind.__module__}.{kind.__qualname__}"

    def _check_no_cache(self, system: Any) -> None:
        from fsspec.implementations.cached import CachingFileSystem

        if not isinstance(system, CachingFileSystem):
            return
        name = type(system).protocol
        name = name if isinstance(name, str) else name[0]
        raise InvalidArgument(
            f"paths must not lead through a cache of fsspec, got {self.url!r}: {name} "
            f"{CACHES_OF_FSSPEC.get(name, 'has been tried with no pipeline')}; leave it out and pass "
            "cache=rs.FileCache(folder, max_bytes)"
        )

    def refused_options(self, error: TypeError) -> InvalidArgument:
        """The error for an option that the file system does not take."""
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        # Names only, since values may be secrets.
        got = str(sorted(self._options)) if unknown is None else f"the unknown {unknown[1]!r}"
        return InvalidArgument(
            f"storage_options must be what the file system of {self.url!r} takes, got {got}: {error}"
        )


def _for_s3(url: str, options: dict[str, Any], at_once: int) -> dict[str, Any]:
    """``options`` with defaults for s3fs: the endpoint, one attempt, a connection per request.

    Explicit options win. By default botocore makes at most ten connections, and five attempts of
    its own in up to a minute before it reports an error, so five for each of our attempts.
    """
    config = options.get("config_kwargs", {})
    if not url.startswith(("s3://", "s3a://")) or "session" in options or not _is_s3fs(url):
        return options
    if "endpoint_url" not in options.get("client_kwargs", {}):
        options = _endpoint_of_streaming() | options
    ours = {"retries": {"total_max_attempts": 1}, "max_pool_connections": max(at_once, 10)}
    return options | {"config_kwargs": ours | config}


def _endpoint_of_streaming() -> dict[str, Any]:
    """The endpoint in the variable of MosaicML Streaming, unless a variable of botocore is set."""
    endpoint = os.environ.get("S3_ENDPOINT_URL")
    of_botocore = map(os.environ.get, ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
    return {"endpoint_url": endpoint} if endpoint and not any(of_botocore) else {}


def _is_s3fs(url: str) -> bool:
    """Whether fsspec opens ``url`` with s3fs, and not with another registered class."""
    import fsspec

    module: str = fsspec.get_filesystem_class(url.partition("://")[0]).__module__
    return module == "s3fs.core"


def calling(system: Any, method: str, *arguments: Any, **options: Any) -> Callable[[], Any]:
    """A function that calls a ``method`` of a file system, and returns a coroutine."""
    if system.async_impl:
        return lambda: getattr(system, f"_{method}")(*arguments, **options)
    return lambda: asyncio.to_thread(getattr(system, method), *arguments, **options)


class RemoteFile(NamedTuple):
    """A remote file as it was found when a pipeline was built.

    Attributes:
      system: the file system.
      key: path in the file system.
      url: may hold a secret, so it is never shown.
      path: the public URL.
      size: in bytes.
      tag: the key in the file's info and its value that changes with the content; None if none is
        known.
    """

    system: RemoteSystem
    key: str
    url: str
    path: str
    size: int
    tag: tuple[str, str] | None

    def __repr__(self) -> str:
        return f"RemoteFile({self.path!r}, size={self.size}, tag={self.tag})"

    @property
    def version(self) -> int:
        """A number of 64 bits that changes with the tag; 0 without a tag."""
        if self.tag is None:
            return 0
        digest = hashlib.blake2b(self.tag[1].encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little", signed=True)

    @property
    def version_tag(self) -> tuple[str, str] | None:
        """The tag, unless it is the time of the last change, which copying does not preserve."""
        return self.tag if self.tag is not None and self.tag[0] in VERSIONS else None

    @property
    def cache(self) -> FileCache | None:
        """The cache for parts of the file, if any; a file without a tag has none."""
        return None if self.tag is None else self.system.cache

    @property
    def content_name(self) -> str:
        """32 hexadecimal digits for the file, its version, and the size of parts in the cache."""
        cache = self.system.cache
        assert cache is not None
        return _content_name(self.path, self.tag, self.size, cache.part_bytes)

    @property
    def owner(self) -> None:
        """The user who owns the file: not known."""

    def changed(self) -> MalformedItem:
        """The error for a changed file."""
        return MalformedItem(f"{self.path} changed since the pipeline was built; build it again")

    def look(self) -> Request:
        """A request for the info that `is_unchanged` compares."""
        opened, _ = self.system.open()
        opened.invalidate_cache(opened._parent(self.key))
        return _asking_for_info(opened, self.path, self.key)

    def is_unchanged(self, info: Mapping[str, Any]) -> bool:
        """Whether the file is unchanged, by the answer to `look`."""
        if self.tag is not None:
            name, before = self.tag
            now = before if info.get(name) is None else _tag_text(info[name])
            if now != before:
                return False
        return info.get("size") == self.size

    def check_unchanged(self) -> None:
        """Ask the file system whether the file is unchanged.

        Raises:
          MalformedItem: if the file has changed.
          ReadError: if the file system cannot be asked.
          FileNotFoundError: if the file no longer exists.
        """
        # An answer that was cut short may have a wrong size, so a change is checked twice.
        for _ in range(2):
            if self.is_unchanged(fetch(self.look(), self.system.patience)):
                return
        raise self.changed()


class _Match(NamedTuple):
    """A file that a URL or a pattern names, and its info from the file system."""

    system: RemoteSystem
    key: str
    info: Mapping[str, Any]

    @property
    def url(self) -> str:
        opened, _ = self.system.open()
        return str(opened.unstrip_protocol(self.key))


def found_remote_files(
    urls: Sequence[str],
    storage_options: Mapping[str, Any] | None,
    is_left_out: Callable[[str], bool] = lambda path: False,
) -> list[list[RemoteFile]]:
    """The files of each URL in ``urls``, at least one; the matches of a pattern are sorted.

    A `FoundUrl` is no pattern.

    Raises:
      InvalidArgument: if a pattern matches nothing, fsspec does not know the protocol, a size is
        not known, or two URLs differ in user and password alone.
      FileNotFoundError: if a file does not exist.
      ReadError: if the file system cannot be asked.
      MissingDependency: if fsspec or the backend is not installed.
    """
    patterns = [[url] if isinstance(url, FoundUrl) else expanded(url) for url in urls]
    each = list(chain.from_iterable(patterns))
    systems = [RemoteSystem.of(url, storage_options) for url in each]
    try:
        answers = fetch_all([_search(system) for system in systems], systems[0].patience)
    except OSError as error:
        # Some file systems pass options on, and only a request shows that an option is unknown.
        cause = error.__cause__ and root_of(error.__cause__)
        if isinstance(cause, TypeError) and "unexpected keyword argument" in str(cause):
            raise systems[0].refused_options(cause) from cause
        raise
    matches = iter(map(_matches, systems, answers, repeat(is_left_out)))
    found = [[match for _ in pattern for match in next(matches)] for pattern in patterns]
    files = iter(_files(list(chain.from_iterable(found))))
    return [[next(files) for _ in each] for each in found]


def _matches(system: RemoteSystem, answer: Any, is_left_out: Callable[[str], bool]) -> list[_Match]:
    """The files in ``answer``, sorted.

    Raises:
      InvalidArgument: if a pattern matches nothing.
    """
    _, path = system.open()
    if not system.is_pattern:
        return [_Match(system, path, answer)]
    matches = [
        _Match(system, key, info)
        for key, info in sorted(answer.items())
        if info["type"] == "file" and not is_left_out(key)
    ]
    if not matches:
        raise no_match(public_url(system.url))
    return matches


def _search(system: RemoteSystem) -> Request:
    """A request for the current files, without listings that this process has cached."""
    opened, path = system.open()
    opened.invalidate_cache()
    opened.dircache.clear()  # needed for HTTP, whose `invalidate_cache` does nothing
    if system.is_pattern:
        return Request(system.url, calling(opened, "glob", path, detail=True))
    return _asking_for_info(opened, system.url, path)


def _asking_for_info(opened: Any, url: str, key: str) -> Request:
    """A request for the info of the file ``key``, and for its first byte if the info is refused."""
    again = calling(opened, "cat_file", key, start=0, end=1)
    return Request(url, calling(opened, "info", key), again=again)


def _files(matches: Sequence[_Match]) -> list[RemoteFile]:
    """The files of ``matches``. Sizes missing in the listing, as by HTTP, are requested.

    Raises:
      InvalidArgument: if two files differ in user and password alone.
    """
    lacking = [match for match in matches if match.info.get("size") is None]
    requests = [_asking_for_info(match.system.open()[0], match.url, match.key) for match in lacking]
    infos = iter(fetch_all(requests, matches[0].system.patience))
    files, urls = list[RemoteFile](), dict[str, str]()
    for match in matches:
        info = next(infos) if match.info.get("size") is None else match.info
        file = _file(match._replace(info=info))
        if urls.setdefault(file.path, file.url) != file.url:
            raise InvalidArgument(
                f"paths must not differ in user and password alone, got {file.path!r} with two"
            )
        files.append(file)
    return files


def _file(match: _Match) -> RemoteFile:
    system, key, info = match
    if info["type"] != "file":
        raise InvalidArgument(f"paths must name files, got the folder {public_url(match.url)!r}")
    if info.get("size") is None:
        raise InvalidArgument(
            "paths must name files of known size, but the server does not report the size of "
            f"{public_url(match.url)!r}"
        )
    tag = next(((name, _tag_text(info[name])) for name in VERSIONS + TIMES if info.get(name)), None)
    url = match.url
    return RemoteFile(system, key, url, public_url(url), int(info["size"]), tag)


@lru_cache(1 << 16)
def _content_name(path: str, tag: tuple[str, str] | None, size: int, part_bytes: int) -> str:
    # The query of a signed URL differs each time; a version suffices to identify the content.
    path = without_query(path) if tag is not None and tag[0] in VERSIONS else path
    described = repr((path, tag, size, part_bytes)).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(described, digest_size=16).hexdigest()


def _tag_text(tag: Any) -> str:
    """The tag as text: in listings, some file systems give times in another type."""
    return str(tag.timestamp() if isinstance(tag, datetime) else tag)


def _has_magic(path: str) -> bool:
    # In an HTTP address a question mark begins a query, and fsspec does not treat it as a pattern.
    http = path.startswith(("http://", "https://"))
    return any(character in path for character in ("*[" if http else "*?["))
