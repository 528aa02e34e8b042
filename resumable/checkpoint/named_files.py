"""Stores that keep each checkpoint in a separate file, in a folder shared by several names."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, TypeVar

from .names import CheckpointNames, names_among, steps_by_name
from .ranks.part import RankPart
from .store import Store

S = TypeVar("S", bound="NamedFiles")


class NamedFiles(Store):
    """The checkpoints of one name in a folder.

    Args:
      name: letters, digits, ``_`` and ``.``, not starting with a dot.

    Raises:
      InvalidArgument: if ``name`` has other characters.
      InvalidType: if ``name`` is not a string.
    """

    def __init__(self, name: str) -> None:
        self._names = CheckpointNames(name)
        # The possible remains of a failed save.
        self._in_doubt: Any = None

    @abstractmethod
    def _files(self) -> list[str]:
        """The names of all files now in the folder."""

    @property
    def name(self) -> str:
        """The name of the input."""
        return self._names.name

    def names(self) -> list[str]:
        """The names in the folder with a checkpoint, or with a part of a rank."""
        return names_among(self._files())

    def steps_by_name(self) -> dict[str, list[int]]:
        """The steps, ascending, of each name in the folder with a checkpoint."""
        return steps_by_name(self._files())

    def named(self: S, name: str) -> S:
        """The store of another name in the same folder."""
        return self._with(CheckpointNames(name))

    def part(self: S, part: RankPart) -> S:
        return self._with(CheckpointNames(self.name, part))

    def steps(self) -> list[int]:
        return self._names.steps_among(self._files())

    def parts(self) -> list[tuple[int, RankPart]]:
        return self._names.parts_among(self._files())

    def has_damaged(self) -> bool:
        return any(self._names.is_aside(file, "damaged") for file in self._files())

    def _with(self: S, names: CheckpointNames) -> S:
        one = copy.copy(self)
        one._names, one._in_doubt = names, None
        return one
