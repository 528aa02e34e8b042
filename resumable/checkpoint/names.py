"""The names of checkpoint files, of one input among several in a folder."""

# {name}-{step:012d}.ckpt                      a checkpoint
# {name}-{step:012d}.ckpt.{reason}[.{number}]  one that was set aside
# .tmp-{name}-{16 hexadecimal digits}          one that is being written
# .lock-{name}                                 locked by the writer
#
# A name has no hyphen, so the files of one input are never taken for those of another.

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, final

from ..core.arguments import check_int
from ..errors import InvalidArgument, InvalidType

NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.]*"
UP_TO_32_BITS: Final = 0xFFFFFFFF
FILE_NAME: Final = re.compile(
    rf"(?P<name>{NAME})-(?P<step>[0-9]{{12,}})\.ckpt(\.(?P<aside>[a-z]+)(\.[0-9]+)?)?"
)


def task_name(task_type: str, index: int, name: str = "input") -> str:
    """The name of one task's input where several tasks share a folder: ``input_worker_3``.

    Args:
      task_type: of the task, such as ``"worker"``.
      index: of the task among those of its type, from 0.
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
      InvalidArgument: if it has other characters than letters, digits, ``_`` and ``.``, or starts
        with a dot.
      InvalidType: if it is not a string.
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
    """What the name of a checkpoint file says.

    Attributes:
      name: of the input.
      step: of the checkpoint.
      aside: why it was set aside, in one word; None if it was not.
    """

    name: str
    step: int
    aside: str | None


def parse_file_name(text: str) -> FileName | None:
    """What the file name ``text`` says; None if it is not the name of a checkpoint file."""
    match = FILE_NAME.fullmatch(text)
    if match is None:
        return None
    found = FileName(match["name"], int(match["step"]), match["aside"])
    # Each step has one spelling: with more leading zeros it would have a second file.
    return found if text.startswith(_file_name(found.name, found.step)) else None


@final
class CheckpointNames:
    """The file names of the input ``name``."""

    def __init__(self, name: str) -> None:
        self.name = check_name("name", name)
        self._number = int.from_bytes(os.urandom(4), "big")
        self._temporary = re.compile(rf"\.tmp-{re.escape(name)}-[0-9a-f]{{16}}")

    def of(self, step: int) -> str:
        """The file name of the checkpoint of ``step``."""
        return _file_name(self.name, step)

    def aside(self, step: int, reason: str, number: int) -> str:
        """The file name for the ``number``-th checkpoint of ``step`` set aside for ``reason``."""
        return f"{self.of(step)}.{reason}" + (f".{number}" if number else "")

    def free_aside(self, step: int, reason: str, is_taken: Callable[[str], bool]) -> str:
        """The first file name of `aside` that is not taken.

        Raises:
          FileExistsError: if a thousand are taken.
        """
        for number in range(1000):
            name = self.aside(step, reason, number)
            if not is_taken(name):
                return name
        raise FileExistsError(f"too many files were set aside for {self.of(step)}")

    def steps_among(self, file_names: Iterable[str]) -> list[int]:
        """The steps of the checkpoints among ``file_names``, ascending."""
        found = map(self.step_of, file_names)
        return sorted(step for step in found if step is not None)

    def step_of(self, file_name: str) -> int | None:
        """The step of a checkpoint that is not set aside; None for any other file."""
        found = parse_file_name(file_name)
        return found.step if found and (found.name, found.aside) == (self.name, None) else None

    def is_aside(self, file_name: str, reason: str) -> bool:
        """Whether ``file_name`` is that of a checkpoint set aside for ``reason``."""
        found = parse_file_name(file_name)
        return found is not None and (found.name, found.aside) == (self.name, reason)

    @property
    def lock(self) -> str:
        """The name of the file that the writer locks."""
        return f".lock-{self.name}"

    def new_temporary(self) -> str:
        """A file name that no other file has."""
        self._number = (self._number + 1) & UP_TO_32_BITS
        return f".tmp-{self.name}-{os.getpid() & UP_TO_32_BITS:08x}{self._number:08x}"

    def is_temporary(self, file_name: str) -> bool:
        """Whether `new_temporary` made ``file_name``."""
        return self._temporary.fullmatch(file_name) is not None


def _file_name(name: str, step: int) -> str:
    return f"{name}-{step:012d}.ckpt"
