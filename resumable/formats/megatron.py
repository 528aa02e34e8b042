"""Read the token files of Megatron-LM by index."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

from ..core.arguments import check_choice
from ..core.block import Indices
from ..core.identity import ALWAYS, IdentityFields
from .data_files import AnyFile, found_data_files, path_of_found
from .io.fetching import map_at_once
from .io.open_files import DataFile
from .io.paths import FoundUrl, given_paths
from .megatron_index import DOCUMENT, SEQUENCE, TokenIndex
from .record_file import AnyRecords, with_index
from .record_files import RecordFiles

Tokens: TypeAlias = npt.NDArray[Any]

ENDING: Final = re.compile(r"\.(idx|bin)$")
INDEX: Final = ".idx"
TOKENS: Final = ".bin"


@final
@dataclass(frozen=True, eq=False, repr=False)
class Megatron(RecordFiles[Tokens]):
    """The tokens of Megatron-LM, an item a document: arrays of one axis, in the dtype of the files.

    ``tools/preprocess_data.py`` and the ``IndexedDatasetBuilder`` of Megatron write the files:
    ``PREFIX.bin`` with the tokens, and ``PREFIX.idx`` with the places of the tokens. A *sequence*
    is the argument of one ``add_item`` of the builder, and the element of an ``IndexedDataset`` at
    an index. A *document* is the sequences up to ``end_document``, here joined. Unless sentences
    were split, each document is one sequence. The modes of multimodal files are not read. An item
    is a copy, which may be written to.

    Opening reads the ``.idx`` files, and checks them against the sizes of the ``.bin`` files. The
    ends of items stay in memory (8 bytes an item). Local ``.bin`` files are mapped, or read if up
    to 64 KiB large; of remote files, only the necessary ranges are read.

    State: O(1), the position. Random access, so a global ``shuffle(seed)`` is efficient. A resume
    reads only the ``.idx`` files, and the first and last 4 KiB of the ``.bin`` files.

    Args:
      paths: a prefix such as ``"data/wiki_text_document"``, the path of one of its two files, a
        pattern of prefixes or of ``.idx`` files, a URL, or several; matches of a pattern are
        sorted.
      items: ``"document"`` or ``"sequence"``.
      storage_options: of remote files.

    Raises:
      InvalidArgument: if no file matches, a match is not a regular file, or ``items`` is another
        word.
      MissingDependency: if a URL needs a package that is not installed.
      OSError: if one of the two files is missing, or cannot be read.
      MalformedItem: if an ``.idx`` file is damaged or does not fit its ``.bin`` file; while
        iterating, if a file has changed since the pipeline was built.
      InvalidType: if an argument has the wrong type.

    >>> import os, struct, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prefix = os.path.join(folder, "corpus")
    ...     lengths, bounds = np.array([3, 1], np.int32), np.array([0, 1, 2])
    ...     with open(prefix + ".bin", "wb") as file:
    ...         _ = file.write(np.array([5, 6, 7, 8], np.uint16).tobytes())
    ...     with open(prefix + ".idx", "wb") as file:
    ...         _ = file.write(struct.pack("<9sQBQQ", b"MMIDIDX", 1, 8, len(lengths), len(bounds)))
    ...         _ = file.write(lengths.tobytes() + np.array([0, 6]).tobytes() + bounds.tobytes())
    ...     list(rs.megatron(prefix))
    [array([5, 6, 7], dtype=uint16), array([8], dtype=uint16)]
    """

    identity: ClassVar[IdentityFields] = {"items": ALWAYS, **RecordFiles.identity}

    _: KW_ONLY
    items: str = DOCUMENT

    def __post_init__(self) -> None:
        check_choice("items", self.items, (DOCUMENT, SEQUENCE))
        super().__post_init__()

    @property
    def _kind(self) -> str:
        return self.items

    def _opened(self) -> tuple[AnyRecords, ...]:
        named = [_of_prefix(path, INDEX) for path in given_paths(self.paths)]
        indexes = found_data_files(named, self.storage_options)
        beside = [_of_prefix(path_of_found(index), TOKENS) for index in indexes]
        tokens = found_data_files(beside, self.storage_options)
        pairs = list(zip(indexes, tokens, strict=True))
        open_pair = partial(_open, items=self.items)
        if all(isinstance(index, DataFile) for index in indexes):
            return tuple(map(open_pair, pairs))
        return tuple(map_at_once(open_pair, pairs))

    def _item(self, data: bytes, file: AnyRecords, number: int) -> Tokens:
        return _array(data, _dtype_of(file))

    def _items(self, found: list[bytes], files: Iterable[int], numbers: Indices) -> list[Tokens]:
        dtypes = list(map(_dtype_of, self._files))
        return [_array(data, dtypes[file]) for data, file in zip(found, files, strict=False)]

    def _item_by_index(self) -> Callable[[int], Tokens]:
        # The user may write to an item, so every item handed out is a copy.
        kept = super()._item_by_index()
        return lambda index: kept(index).copy()


def _of_prefix(path: str, ending: str) -> str:
    """The file with this ``ending`` for ``path``, a prefix or the path of one of its files."""
    named, *query = path.split("?", 1) if path.startswith(("http://", "https://")) else [path]
    found = "?".join([ENDING.sub("", named) + ending, *query])
    return FoundUrl(found) if isinstance(path, FoundUrl) else found


def _open(pair: tuple[AnyFile, AnyFile], items: str) -> AnyRecords:
    return with_index(pair[1], TokenIndex(*pair, items))


def _array(data: bytes, dtype: np.dtype[Any]) -> Tokens:
    """The tokens in ``data``: shape (tokens,)."""
    tokens: Tokens = np.frombuffer(data, dtype).copy()
    return tokens


def _dtype_of(file: AnyRecords) -> np.dtype[Any]:
    assert isinstance(file.positions, TokenIndex)
    return file.positions.dtype
