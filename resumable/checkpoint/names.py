"""The names of checkpoint files, of one input among several in a folder."""

# {name}-{step:012d}.ckpt                                            a checkpoint
# {name}-{step:012d}.{run}-{rank:05d}-of-{ranks:05d}.ckpt            the part of a rank
# {name}-{step:012d}[.{part}].ckpt.{reason}[.{number}]               a checkpoint set aside
# .tmp-{name}[-{rank:05d}-of-{ranks:05d}]-{16 hexadecimal digits}    a file being written
# .lock-{name}[-{rank:05d}-of-{ranks:05d}]                           locked by the writer
# {name}-history.jsonl                                               changes of the run
# {name}[-{rank:05d}-of-{ranks:05d}]-stats.jsonl                     stats of the run, or of a rank
#
# A name has no hyphen, so the files of one input never look like the files of another input.

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, final

from ..core.arguments import check_int
from ..errors import InvalidArgument, InvalidType
from .ranks.part import RUN, WHOLE, RankPart

NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.]*"
UP_TO_32_BITS: Final = 0xFFFFFFFF
RANK_OF_RANKS: Final = r"-(?P<rank>[0-9]{5,})-of-(?P<ranks>[0-9]{5,})"
FILE_NAME: Final = re.compile(
    rf"(?P<name>{NAME})-(?P<step>[0-9]{{12,}})(\.(?P<run>{RUN}){RANK_OF_RANKS})?\.ckpt"
    r"(\.(?P<aside>[a-z]+)(\.[0-9]+)?)?"
)

HISTORY_NAME: Final = re.compile(rf"(?P<name>{NAME})-history\.jsonl")
STATS_NAME: Final = re.compile(rf"(?P<name>{NAME})({RANK_OF_RANKS})?-stats\.jsonl")


def task_name(task_type: str, index: int, name: str = "input") -> str:
    """The name of one task's input if several tasks share a folder: ``input_worker_3``.

    Args:
      task_type: of the task, such as ``"worker"``.
      index: of the task among the tasks of its type, from 0.
      name: of the input.

    Raises:
      InvalidArgument: if a name has other characters than letters, digits, ``_`` and ``.`` or
        starts with a dot, or ``index`` is below 0.
      InvalidType: if a name is not a string, or ``index`` not an integer.

    >>> rs.task_name("worker", 3)
    'input_worker_3'
    """
    check_name("task_type", task_type)
    check_name("name", name)
    return f"{name}_{task_type}_{check_int('index', index, minimum=0)}"


def check_name(argument: str, name: Any) -> str:
    """Return ``name`` if it may name an input.

    Raises:
      InvalidArgument: if ``name`` has other characters than letters, digits, ``_`` and ``.``, or
        starts with a dot.
      InvalidType: if ``name`` is not a string.
    """
    if not isinstance(name, str):
        raise InvalidType(f"{argument} must be a string, got {name!r}")
    if not re.fullmatch(NAME, name):
        raise InvalidArgument(
            f"{argument} must be letters, digits, '_' and '.', not starting with '.', got {name!r}"
        )
    return name


@final
@dataclass(frozen=True)
class FileName:
    """The fields in the name of a checkpoint file.

    Attributes:
      name: of the input.
      step: of the checkpoint.
      part: of the step.
      aside: the reason why the file was set aside, in one word; None for a regular checkpoint.
    """

    name: str
    step: int
    part: RankPart
    aside: str | None


def parse_file_name(text: str) -> FileName | None:
    """The fields of the file name ``text``; None if no checkpoint file has such a name."""
    match = FILE_NAME.fullmatch(text)
    if match is None:
        return None
    found = FileName(match["name"], int(match["step"]), _part_in(match), match["aside"])
    # Each checkpoint has one spelling; more leading zeros would allow a second file.
    spelt = _file_name(found.name, found.step, found.part)
    return found if text.startswith(spelt) and found.part.is_possible else None


def histories_among(file_names: Iterable[str]) -> dict[str, str]:
    """The files among ``file_names`` with the history of an input, by name, in order."""
    matches = filter(None, map(HISTORY_NAME.fullmatch, file_names))
    return dict(sorted((match["name"], match[0]) for match in matches))


def stats_among(file_names: Iterable[str]) -> dict[str, tuple[str, int, int]]:
    """The stats files among ``file_names``: name of the input, rank and number of ranks of each."""
    found = {}
    for match in filter(None, map(STATS_NAME.fullmatch, sorted(file_names))):
        part = _part_in(match)
        if part.rank < part.ranks:
            found[match[0]] = match["name"], part.rank, part.ranks
    return found


def names_among(file_names: Iterable[str]) -> list[str]:
    """The names of the inputs with a checkpoint among ``file_names``, in alphabetical order."""
    return sorted({file.name for file in _present(file_names)})


def steps_by_name(file_names: Iterable[str]) -> dict[str, list[int]]:
    """The steps of the whole checkpoints among ``file_names``, ascending, by the name of the input."""
    found: dict[str, list[int]] = {}
    for file in _present(file_names):
        if file.part == WHOLE:
            found.setdefault(file.name, []).append(file.step)
    return {name: sorted(found[name]) for name in sorted(found)}


@final
class CheckpointNames:
    """The file names of the input ``name``, for the rank that saves ``part``."""

    def __init__(self, name: str, part: RankPart = WHOLE) -> None:
        self.name = check_name("name", name)
        self.part = part
        self._number = int.from_bytes(os.urandom(4), "big")
        own = rf"{re.escape(name)}({RANK_OF_RANKS})?"
        self._temporary = re.compile(rf"\.tmp-{own}-[0-9a-f]{{16}}")
        self._lock = re.compile(rf"\.lock-{own}")

    def of(self, step: int) -> str:
        """The file name of this part of ``step``."""
        return _file_name(self.name, step, self.part)

    def aside(self, step: int, reason: str, number: int) -> str:
        """The file name for the ``number``-th file of ``step`` set aside for ``reason``."""
        return f"{self.of(step)}.{reason}" + (f".{number}" if number else "")

    def free_aside(self, step: int, reason: str, is_taken: Callable[[str], bool]) -> str:
        """The first free file name of `aside`.

        Raises:
          FileExistsError: if a thousand names are taken.
        """
        for number in range(1000):
            name = self.aside(step, reason, number)
            if not is_taken(name):
                return name
        raise FileExistsError(f"too many files were set aside for {self.of(step)}")

    def parts_among(self, file_names: Iterable[str]) -> list[tuple[int, RankPart]]:
        """Step and part of each file of the input among ``file_names``."""
        found = [file for file in _present(file_names) if file.name == self.name]
        return [(file.step, file.part) for file in found]

    def steps_among(self, file_names: Iterable[str]) -> list[int]:
        """The steps with a file of this part among ``file_names``, ascending."""
        return sorted(step for step, part in self.parts_among(file_names) if part == self.part)

    def is_aside(self, file_name: str, reason: str) -> bool:
        """Whether ``file_name`` names a part of the input set aside for ``reason``."""
        found = parse_file_name(file_name)
        return found is not None and (found.name, found.aside) == (self.name, reason)

    @property
    def history(self) -> str:
        """The name of the file with the changes of the run, for all parts."""
        return f"{self.name}-history.jsonl"

    @property
    def stats(self) -> str:
        """The name of the file with the stats of the run, for this part."""
        return f"{self.name}{_rank_suffix(self.part)}-stats.jsonl"

    @property
    def lock(self) -> str:
        """The name of the file locked by the writer of this part."""
        return f".lock-{self.name}{_rank_suffix(self.part)}"

    def excludes(self, file_name: str) -> bool:
        """Whether a writer with another number of parts locks ``file_name``."""
        match = self._lock.fullmatch(file_name)
        return match is not None and _part_in(match).ranks != self.part.ranks

    def new_temporary(self) -> str:
        """A new, unused file name."""
        self._number = (self._number + 1) & UP_TO_32_BITS
        number = f"{os.getpid() & UP_TO_32_BITS:08x}{self._number:08x}"
        return f".tmp-{self.name}{_rank_suffix(self.part)}-{number}"

    def is_temporary(self, file_name: str) -> bool:
        """Whether `new_temporary` made ``file_name``, for this part or one this rank removes."""
        match = self._temporary.fullmatch(file_name)
        return match is not None and self.part.removes(_part_in(match))


def _present(file_names: Iterable[str]) -> Iterator[FileName]:
    """The names of checkpoints that were not set aside."""
    return (file for file in map(parse_file_name, file_names) if file and file.aside is None)


def _file_name(name: str, step: int, part: RankPart) -> str:
    which = "" if part.ranks == 1 else f".{part.run}{_rank_suffix(part)}"
    return f"{name}-{step:012d}{which}.ckpt"


def _rank_suffix(part: RankPart) -> str:
    return "" if part.ranks == 1 else f"-{part.rank:05d}-of-{part.ranks:05d}"


def _part_in(match: re.Match[str]) -> RankPart:
    """The part in a file name; the names of some files have no run."""
    found = match.groupdict()
    if found["ranks"] is None:
        return WHOLE
    return RankPart(int(found["rank"]), int(found["ranks"]), found.get("run", ""))
