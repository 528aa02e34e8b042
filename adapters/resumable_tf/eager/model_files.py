"""Files with the weights of a model, numbered by step; each file is whole or absent."""

# The name of a file has a digest of the content. So one rename commits both, and damage is detected
# later, unlike in HDF5 itself, where some damage goes unnoticed.

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

import resumable as rs
from resumable.checkpoint.files import make_folders, sync_folder

__all__ = ["ModelFile", "ModelFiles"]

ENDING: Final = ".weights.h5"
"""The ending that Keras requires."""
PART: Final = 1 << 20
"""Bytes to read at once."""


class ModelFile(NamedTuple):
    """The weights of one step."""

    step: int
    digest: str
    path: Path


class ModelFiles:
    """The files ``model-000000001200-DIGEST.weights.h5`` of one folder.

    Args:
      folder: the folder of the files; made at the first save.
      name: the beginning of the file names.
      max_to_keep: how many of the newest stay.
    """

    def __init__(self, folder: Path, name: str, max_to_keep: int) -> None:
        self.folder = folder
        self._name = name
        self._max_to_keep = max_to_keep

    def save(self, step: int, write: Callable[[str], object]) -> None:
        """Commit the file that ``write`` writes to a given path.

        When this returns, the file survives a power cut. Only then are older files removed.
        """
        make_folders(self.folder)
        unfinished = self.folder / f".{self._name}-{step:012d}.{os.getpid()}{ENDING}"
        try:
            write(str(unfinished))
            digest = _digest(unfinished, sync=True)
            name = f"{self._name}-{step:012d}-{digest}{ENDING}"
            os.replace(unfinished, self.folder / name)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise
        sync_folder(self.folder)
        for old in self.found()[: -self._max_to_keep]:
            old.path.unlink(missing_ok=True)

    def newest(self) -> ModelFile | None:
        """The newest sound file; None without files. Damaged files are set aside, with a warning.

        Raises:
          NoValidCheckpoint: if all existing files are damaged.
        """
        found = self.found()
        for one in reversed(found):
            if _digest(one.path) == one.digest:
                return one
            aside = one.path.with_name(f"{one.path.name}.damaged")
            os.replace(one.path, aside)
            message = f"{one.path} is damaged; it was set aside as {aside.name}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        if found:
            raise rs.NoValidCheckpoint(
                f"all {len(found)} files of the model in {self.folder} are damaged; they were set aside as "
                "*.damaged, so the next start trains from the beginning"
            )
        return None

    def found(self) -> list[ModelFile]:
        """All files, the newest last."""
        pattern = re.compile(rf"{re.escape(self._name)}-(\d{{12}})-([0-9a-f]{{16}}){ENDING}")
        names = os.listdir(self.folder) if self.folder.is_dir() else []
        matches = [match for match in map(pattern.fullmatch, names) if match]
        return sorted(ModelFile(int(m[1]), m[2], self.folder / m[0]) for m in matches)

    def remove_unfinished(self) -> None:
        """Remove leftovers of killed processes; no other process may be writing."""
        for path in self.folder.glob(f".{self._name}-*{ENDING}"):
            path.unlink(missing_ok=True)


def _digest(path: Path, sync: bool = False) -> str:
    """A digest of the content of ``path``; with ``sync`` the file is also written to the disk."""
    digest = blake2b(digest_size=8)
    with path.open("rb+" if sync else "rb") as file:
        while part := file.read(PART):
            digest.update(part)
        if sync:
            os.fsync(file.fileno())
    return digest.hexdigest()
