"""Read the checkpoint files of a folder without changing them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Final, final

from ..errors import CorruptCheckpoint, NewerFormat, StateMismatch
from ..state.merging import merge_states
from .envelope import Checkpoint, decode
from .files import read_checkpoint_file
from .names import FileName, parse_file_name
from .part import WHOLE, Part

MOST_NAMED: Final = 3


@final
@dataclass(frozen=True)
class FoundFile:
    """A file with the name of a checkpoint, or all parts of one step.

    Attributes:
      path: of the file; of several parts, with ``*`` in the place of the rank.
      name: of the input; None if the file name is not that of a checkpoint.
      step: from the content if it is valid, else from the file name.
      size: in bytes.
      modified: seconds since the epoch.
      aside: why it was set aside; None if it was not, or if the file name is not that of a checkpoint.
      checkpoint: the content; None if that is not valid.
      problem: why the content is not valid; None if it is.
      part: whose part it is, of several that of rank 0; the whole if the file name says no other.
      incomplete: whether the only problem is that parts are missing, as of a save that is not done.
    """

    path: Path
    name: str | None
    step: int | None
    size: int
    modified: float
    aside: str | None
    checkpoint: Checkpoint | None
    problem: str | None
    part: Part = WHOLE
    incomplete: bool = False


def survey(folder: Path) -> Iterator[FoundFile]:
    """Every checkpoint in ``folder``, by name and step; the parts of a step are one.

    Raises:
      OSError: if the folder cannot be read.
    """
    named = {name: parse_file_name(name) for name in os.listdir(folder)}
    known = {name: found for name, found in named.items() if found is not None}
    in_order = sorted(known, key=lambda name: (*_together(known[name]), name))
    for (*_, run, _), names in groupby(in_order, key=lambda name: _together(known[name])):
        found = [
            file for name in names if (file := _examined(folder / name, known[name])) is not None
        ]
        if not run:
            yield from found
        elif found:
            yield _joined(found)


def _together(found: FileName) -> tuple[str, int, str, str]:
    """What the files of all parts of a step have in common."""
    return found.name, found.step, found.part.run, found.aside or ""


def _examined(path: Path, named: FileName) -> FoundFile | None:
    """What the file at ``path`` holds; None if it was removed meanwhile."""
    try:
        return examine(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = f"it cannot be read: {error.strerror}"
        return FoundFile(
            path, named.name, named.step, 0, 0.0, named.aside, None, problem, named.part
        )


def _joined(parts: list[FoundFile]) -> FoundFile:
    """The parts of a step as one."""
    first = parts[0]
    place = f"-{first.part.rank:05d}-of-"
    checkpoint, problem, incomplete = _merged(parts)
    return replace(
        first,
        path=first.path.with_name(first.path.name.replace(place, "-*-of-")),
        size=sum(part.size for part in parts),
        modified=max(part.modified for part in parts),
        checkpoint=checkpoint,
        problem=problem,
        part=replace(first.part, rank=0),
        incomplete=incomplete,
    )


def _merged(parts: list[FoundFile]) -> tuple[Checkpoint | None, str | None, bool]:
    """The checkpoint that ``parts`` make; or why they make none, and if for lack of a part alone."""
    for found in parts:
        if found.problem is not None:
            return None, f"the part of {found.part}: {found.problem}", False
    there = {found.part.rank for found in parts}
    ranks = parts[0].part.ranks
    if missing := ranks - len(there):
        first = [str(rank) for rank in range(len(there) + MOST_NAMED) if rank not in there]
        named = ", ".join(first[: min(missing, MOST_NAMED)]) + (
            " ..." if missing > MOST_NAMED else ""
        )
        return None, f"it has {len(there)} of {ranks} parts, and lacks that of rank {named}", True
    checkpoints = [found.checkpoint for found in parts if found.checkpoint is not None]
    try:
        state = merge_states([one.state for one in checkpoints])
    except StateMismatch as error:
        return None, str(error), False
    return Checkpoint(checkpoints[0].step, checkpoints[0].time, state), None, False


def examine(path: Path) -> FoundFile:
    """What the file at ``path`` holds, whatever its name.

    Raises:
      OSError: if it cannot be read.
    """
    status = os.lstat(path)
    named = parse_file_name(path.name)
    checkpoint, problem = None, None
    try:
        decoded = decode(read_checkpoint_file(path))
        if named is None or (decoded.step, decoded.part) == (named.step, named.part):
            checkpoint = decoded
        elif decoded.step != named.step:
            problem = f"it holds step {decoded.step}"
        else:
            problem = f"it holds the part of {decoded.part}"
    except (CorruptCheckpoint, NewerFormat) as error:
        problem = str(error)
    name, step, aside = (named.name, named.step, named.aside) if named else (None, None, None)
    part = named.part if named else WHOLE
    if checkpoint is not None:
        step, part = checkpoint.step, checkpoint.part
    size, modified = status.st_size, status.st_mtime
    return FoundFile(path, name, step, size, modified, aside, checkpoint, problem, part)
