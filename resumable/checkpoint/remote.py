"""Checkpoints as objects of a remote store: S3, Google Cloud Storage, Azure, HDFS and others."""

# An object store shows an object whole or not at all, so putting a single object is the commit. If
# the backend supports create-only, the put is create-only. Backends over file systems, such as
# SFTP, may leave a part of a file when the connection breaks; the digest then reveals the damage.

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from ..core.arguments import check_type
from ..errors import CorruptCheckpoint, InvalidArgument, MissingDependency
from ..errors.public_urls import public_url
from .envelope import check_unread
from .named_files import NamedFiles
from .names import parse_file_name


@final
class Remote(NamedFiles):
    """Objects ``{name}-{step:012d}.ckpt`` under ``url``, through `fsspec`.

    The part of a rank is ``{name}-{step:012d}.{run}-{rank:05d}-of-{ranks:05d}.ckpt``. Without a
    lock, a second loop over the same name is not refused. If the backend supports create-only, as
    S3 does, neither loop replaces a checkpoint of the other, and the later loop gets an error. With
    other backends the user must ensure that one process at a time writes a name.

    Args:
      url: such as ``"s3://bucket/run"``; the protocol names the backend, which must be installed
        (``s3fs``, ``gcsfs``, ``adlfs`` ...).
      name: letters, digits, ``_`` and ``.``, not starting with a dot.
      storage_options: of the backend.

    Raises:
      MissingDependency: if fsspec, or the backend, is not installed.
      InvalidArgument: if ``url`` is local, since only a `Directory` survives a power cut there, if
        ``fsspec`` does not know the protocol, or if ``name`` has other characters.
      InvalidType: if ``url`` or ``name`` is not a string.

    >>> store = rs.Remote("s3://bucket/run", name="input")  # doctest: +SKIP
    """

    # Path and bytes of a put without an answer.
    _in_doubt: tuple[str, bytes] | None

    def __init__(self, url: str, name: str = "input", **storage_options: Any) -> None:
        check_type("url", url, str, "a string")
        try:
            import fsspec

            self._system, self._folder = fsspec.url_to_fs(url, **storage_options)
        except ImportError as error:
            raise MissingDependency(
                f"{public_url(url)!r} needs fsspec and its backend: pip install 'resumable-loader[remote]' "
                f"({error})"
            ) from error
        except ValueError as error:
            raise InvalidArgument(
                f"url must be one that fsspec knows, got {public_url(url)!r}: {error}"
            ) from error
        protocol = self._system.protocol
        if {"file", "local"} & {protocol, *([] if isinstance(protocol, str) else protocol)}:
            raise InvalidArgument(
                f"url must not be local, got {public_url(url)!r}; use its path, or Directory"
            )
        self.url = url
        super().__init__(name)

    def copy_to(self, folder: Path, only: str | None = None) -> None:
        """Copy the checkpoint files of all names, with their times, into a local ``folder``.

        Args:
          folder: an existing folder.
          only: the file to copy; all by default.

        Raises:
          OSError: if a file cannot be read, or ``only`` does not exist.
        """
        for name in [only] if only is not None else self._files():
            if parse_file_name(name) is None:
                continue
            path = f"{self._folder}/{name}"
            (folder / name).write_bytes(self._system.cat_file(path))
            with suppress(NotImplementedError, FileNotFoundError, AttributeError):
                modified = self._system.modified(path).timestamp()
                os.utime(folder / name, (modified, modified))

    def save(self, step: int, data: bytes) -> str:
        path = self._path(step)
        self._roll_back(path)
        # Not every backend knows create-only.
        if not self._system.exists(path):
            self._in_doubt = path, data
            try:
                self._system.pipe_file(path, data, mode="create")
            except FileExistsError:  # somebody else, or the answer to an attempt of ours was lost
                self._check_equal(step, path, data)
        else:
            self._check_equal(step, path, data)
        self._in_doubt = None
        return self._shown(path)

    def load(self, step: int) -> bytes:
        path = self._path(step)
        self._system.invalidate_cache(self._folder)
        described = self._system.info(path)
        if described["type"] != "file":
            raise CorruptCheckpoint("it is not an object")
        offset = 0

        def read(count: int) -> bytes:
            nonlocal offset
            part: bytes = self._system.cat_file(path, start=offset, end=offset + count)
            offset += len(part)
            return part

        check_unread(described["size"], read)
        data: bytes = self._system.cat_file(path)
        return data

    def remove(self, step: int) -> None:
        path = self._path(step)
        if not self._system.exists(path):
            raise FileNotFoundError(f"there is no checkpoint for step {step}: {path}")
        self._system.rm_file(path)

    def set_aside(self, step: int, reason: str) -> str:
        path = self._path(step)
        name = self._names.free_aside(step, reason, set(self._files()).__contains__)
        aside = f"{self._folder}/{name}"
        self._system.cp_file(path, aside)
        self._system.rm_file(path)
        return self._shown(aside)

    def __repr__(self) -> str:
        return f"Remote({public_url(self.url)!r}, name={self.name!r})"

    def _roll_back(self, path: str) -> None:
        """Remove ``path`` if its bytes come from an earlier, failed attempt of this store."""
        if self._in_doubt is not None and self._in_doubt[0] == path:
            if self._system.exists(path) and self._system.cat_file(path) == self._in_doubt[1]:
                self._system.rm_file(path)
            self._in_doubt = None

    def _files(self) -> list[str]:
        # Another process may have written since the last listing.
        self._system.invalidate_cache(self._folder)
        try:
            listed = self._system.ls(self._folder, detail=False)
        except FileNotFoundError:
            return []
        return [path.rstrip("/").rpartition("/")[2] for path in listed]

    def _path(self, step: int) -> str:
        return f"{self._folder}/{self._names.of(step)}"

    def _shown(self, path: str) -> str:
        return public_url(str(self._system.unstrip_protocol(path)))

    def _check_equal(self, step: int, path: str, data: bytes) -> None:
        if self._system.cat_file(path) != data:
            self._in_doubt = None
            raise FileExistsError(f"there is a checkpoint for step {step} already in {self!r}")
