"""Read a folder of images with a sub-folder for each class, as torchvision's ImageFolder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple, final

from ..core.computed_once import computed_once
from ..core.identity import IdentityFields
from ..errors import InvalidArgument, InvalidType, MalformedItem, shorten
from .contents import FILES
from .files import WholeFiles, described, located
from .io.held_ranges import HeldRanges

SUFFIXES: Final = (
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp",
)  # fmt: skip
"""Endings of the names of images, as in torchvision. Upper and lower case do not matter."""


class LabelledFile(NamedTuple):
    """The content of an image file.

    Attributes:
      data: the bytes of the file.
      path: of the file.
      label: number of the class.
    """

    data: bytes
    path: str
    label: int


@final
@dataclass(frozen=True, eq=False, repr=False)
class ImageFolder(WholeFiles[Any]):
    """The images in the sub-folders of ``folder``, each with the number of its class.

    The classes are the sub-folders, sorted. The images of a class are all files below its folder
    with an ending of `SUFFIXES`, in torchvision's order.

    State: O(1), the position. Random access; a resume reads the first and last 4 KiB of at most
    10,000 files. A file is open only during a read.

    Args:
      folder: has a sub-folder for each class.
      read: deliver `LabelledFile`, instead of pairs of path and label.

    Raises:
      InvalidArgument: if the folder has no class, or a class has no image.
      OSError: if a folder cannot be read.
      MalformedItem: while reading, if a file has changed since the pipeline was built.
      InvalidType: if ``folder`` is not a path.
    """

    identity: ClassVar[IdentityFields] = {
        **WholeFiles.identity,
        "files": replace(FILES, shown_as="files of folder"),
    }

    folder: str | os.PathLike[str]
    _: KW_ONLY
    read: bool = False
    _labels: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        folder = _checked(self.folder)
        paths, labels = [], []
        for label, name in enumerate(image_classes(folder)):
            found = list(_images(os.path.join(folder, name)))
            if not found:
                raise InvalidArgument(
                    f"each class in folder must have an image, got none in {name!r}"
                )
            paths += found
            labels += [label] * len(found)
        files = tuple(located("folder", path) for path in paths)
        vars(self).update(folder=folder, _files=files, _labels=tuple(labels))

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_files": self._paths, "_labels": self._labels}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Another process looks at the same files again. It lists no folder: an image added since
        # then would change the numbers of other images, and a class added their labels.
        files = tuple(located("folder", path) for path in state["_files"])
        self.__dict__.update(state, _files=files)

    @computed_once
    def files(self) -> str:
        """The files in a few words: equal for the same names in ``folder`` and the same sizes."""
        return described(self._files, str(self.folder))

    def _items(self, indices: list[int], held: HeldRanges) -> list[LabelledFile | tuple[str, int]]:
        paths = [self._files[index].path for index in indices]
        labels = [self._labels[index] for index in indices]
        if not self.read:
            return list(zip(paths, labels, strict=True))
        return list(map(LabelledFile, self._read(indices, held), paths, labels))


def image_classes(folder: str | os.PathLike[str]) -> list[str]:
    """The names of the classes of an `image_folder`, by label.

    Args:
      folder: has a sub-folder for each class.

    Returns:
      the names of the sub-folders, sorted.

    Raises:
      InvalidArgument: if ``folder`` has no sub-folder.
      OSError: if ``folder`` cannot be read.
      InvalidType: if ``folder`` is not a path.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("dog", "cat"):
    ...         os.mkdir(os.path.join(folder, name))
    ...     rs.image_classes(folder)
    ['cat', 'dog']
    """
    with os.scandir(_checked(folder)) as entries:
        classes = sorted(entry.name for entry in entries if entry.is_dir())
    if not classes:
        raise InvalidArgument(f"folder must have a sub-folder for each class, got {folder!r}")
    return classes


def _checked(folder: Any) -> str:
    """The absolute path of ``folder``."""
    if not isinstance(folder, (str, os.PathLike)):
        raise InvalidType(f"folder must be a path, got {shorten(folder)}")
    return os.path.abspath(os.path.expanduser(os.fspath(folder)))


def _images(folder: str) -> Iterator[str]:
    """The images below ``folder``, in torchvision's order."""
    for parent, _, names in sorted(_walk(folder)):
        for name in sorted(names):
            if name.lower().endswith(SUFFIXES):
                yield os.path.join(parent, name)


def _walk(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Like `os.walk` with links, except links to a folder that contains the link."""
    for parent, folders, names in os.walk(folder, onerror=_fail, followlinks=True):
        around = os.path.join(os.path.realpath(parent), "")
        folders[:] = [
            name
            for name in folders
            if not os.path.islink(path := os.path.join(parent, name))
            or not around.startswith(os.path.join(os.path.realpath(path), ""))
        ]
        yield parent, folders, names


def _fail(error: OSError) -> None:
    raise error


@dataclass(frozen=True)
class LabelledDecoder:
    """Decodes the content of a `LabelledFile`; gives a pair of image and label.

    Args:
      decode: called with the bytes of the file.
    """

    decode: Callable[[bytes], Any]

    def __call__(self, file: LabelledFile) -> tuple[Any, int]:
        """The pair.

        Raises:
          MalformedItem: with the path of the file, if ``decode`` raises one.
        """
        try:
            return self.decode(file.data), file.label
        except MalformedItem as error:
            raise MalformedItem(f"{file.path}: {error}") from error
