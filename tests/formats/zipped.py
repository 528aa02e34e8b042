"""Folders as archives, in which small files of others are kept."""

from __future__ import annotations

import zipfile
from pathlib import Path


def zip_folder(folder: Path, archive: Path) -> None:
    """Write the files below ``folder`` into ``archive``, which depends on nothing but their names and contents."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                name = path.relative_to(folder).as_posix()
                opened.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)


def unzip(archive: str, folder: Path) -> Path:
    """Extract the ``archive`` of this name, which stands beside this module; returns ``folder``."""
    with zipfile.ZipFile(Path(__file__).parent / archive) as opened:
        opened.extractall(folder)
    return folder
