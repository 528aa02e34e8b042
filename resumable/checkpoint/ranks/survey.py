"""Read the checkpoint files of a folder without changing them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Final, TypeAlias, final

from ...core.merging import merge_states
from ...errors import CorruptCheckpoint, NewerFormat, StateMismatch
from ..envelope import Checkpoint, decode
from ..files import read_checkpoint_file
from ..names import CheckpointNames, FileName, parse_file_name
from .conflicts import Listed, conflicts_among, need_their_ranks
from .part import WHOLE, RankPart

MOST_NAMED: Final = 3

Conflicts: TypeAlias = Mapping[tuple[str, int, str], str]
"""Why parts never become whole, by the name of their input, their step and their run."""


@final
@dataclass(frozen=True)
class FoundFile:
    """A file with the name of a checkpoint, or all parts of one step.

    Attributes:
      path: of the file; for several parts, with ``*`` instead of the rank.
      name: of the input; None if the file name is not the name of a checkpoint.
      step: from valid content, else from the file name.
      size: in bytes.
      modified: seconds since the epoch.
      aside: the reason why the file was set aside; None for a regular checkpoint or another file
        name.
      checkpoint: the content; None if invalid.
      problem: why the content is invalid; None for valid content.
      part: the part in the file; for several parts, the part of rank 0; `WHOLE` for a file name
        without a part.
      incomplete: whether missing parts are the only problem, as during a save.
      restriction: why only as many ranks can resume, each from its own part; None if any number
        can.
    """

    path: Path
    name: str | None
    step: int | None
    size: int
    modified: float
    aside: str | None
    checkpoint: Checkpoint | None
    problem: str | None
    part: RankPart = WHOLE
    incomplete: bool = False
    restriction: str | None = None


def survey(folder: Path) -> Iterator[FoundFile]:
    """Every checkpoint in ``folder``, by name and step; the parts of a step are joined.

    Raises:
      OSError: if the folder cannot be read.
    """
    named = {name: parse_file_name(name) for name in os.listdir(folder)}
    known = {name: found for name, found in named.items() if found is not None}
    conflicts = _conflicts(folder, known.values())
    in_order = sorted(known, key=lambda name: (*_together(known[name]), name))
    for (*_, run, _), names in groupby(in_order, key=lambda name: _together(known[name])):
        examined = [_examined(folder / name) for name in names]
        found = [file for file in examined if file is not None]
        if not run:
            yield from found
        elif found:
            yield _joined(found, conflicts)


def _together(found: FileName) -> tuple[str, int, str, str]:
    """The fields shared by the parts of a step."""
    return found.name, found.step, found.part.run, found.aside or ""


def _examined(path: Path) -> FoundFile | None:
    """The content of the file at ``path``; None if the file was removed meanwhile."""
    try:
        return examine(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        with suppress(OSError):
            return replace(_unread(path), problem=f"it cannot be read: {error.strerror}")
        return None


def _conflicts(folder: Path, files: Iterable[FileName]) -> Conflicts:
    """Why a step of a run never becomes whole, by the fields shared by its files."""
    by_name: dict[str, list[Listed]] = {}
    for file in files:
        if file.aside is None:
            by_name.setdefault(file.name, []).append((file.step, file.part))
    found = {}
    for name, listed in by_name.items():

        def read(step: int, part: RankPart, name: str = name) -> Checkpoint:
            return decode(read_checkpoint_file(folder / CheckpointNames(name, part).of(step)))

        for conflict in conflicts_among(listed):
            for part in filter(None, (conflict.one, conflict.other)):
                found[name, conflict.step, part.run] = conflict.reason(read)
    return found


def _joined(parts: list[FoundFile], conflicts: Conflicts) -> FoundFile:
    """The joined parts of a step."""
    first = parts[0]
    place = f"-{first.part.rank:05d}-of-"
    joined = replace(
        first,
        path=first.path.with_name(first.path.name.replace(place, "-*-of-")),
        size=sum(part.size for part in parts),
        modified=max(part.modified for part in parts),
        part=replace(first.part, rank=0),
        checkpoint=None,
    )
    damaged = next((found for found in parts if found.problem is not None), None)
    if damaged is not None:
        return replace(joined, problem=f"the part of {damaged.part}: {damaged.problem}")
    if missing := _missing(parts):
        assert first.name is not None
        assert first.step is not None
        reason = conflicts.get((first.name, first.step, first.part.run))
        if reason is None or first.aside is not None:
            return replace(joined, problem=missing, incomplete=True)
        return replace(joined, problem=f"{missing}, and never becomes whole: {reason}")
    return _merged(joined, [found.checkpoint for found in parts if found.checkpoint is not None])


def _missing(parts: list[FoundFile]) -> str | None:
    """The missing parts, in words; None if all are present."""
    there = {found.part.rank for found in parts}
    ranks = parts[0].part.ranks
    missing = ranks - len(there)
    if not missing:
        return None
    first = [str(rank) for rank in range(len(there) + MOST_NAMED) if rank not in there]
    named = ", ".join(first[: min(missing, MOST_NAMED)]) + (" ..." if missing > MOST_NAMED else "")
    return f"it has {len(there)} of {ranks} parts, and lacks that of rank {named}"


def _merged(joined: FoundFile, checkpoints: list[Checkpoint]) -> FoundFile:
    """``joined`` with the checkpoint joined from the parts, or with the reason why not."""
    first, states = checkpoints[0], [one.state for one in checkpoints]
    try:
        state = merge_states(states)
    except StateMismatch as error:
        if need_their_ranks(states):
            return replace(joined, checkpoint=first, restriction=str(error))
        return replace(joined, problem=str(error))
    return replace(joined, checkpoint=Checkpoint(first.step, first.time, state))


def examine(path: Path) -> FoundFile:
    """The content of the file at ``path``, whatever its name.

    Raises:
      OSError: if the file cannot be read.
    """
    found, named = _unread(path), parse_file_name(path.name)
    try:
        decoded = decode(read_checkpoint_file(path))
    except (CorruptCheckpoint, NewerFormat) as error:
        return replace(found, problem=str(error))
    step, part = decoded.step, decoded.part
    if named is None or (step, part) == (named.step, named.part):
        return replace(found, step=step, checkpoint=decoded, part=part)
    what = f"step {step}" if step != named.step else f"the part of {part}"
    return replace(found, problem=f"it holds {what}")


def _unread(path: Path) -> FoundFile:
    """The file at ``path`` without its content."""
    status, named = os.lstat(path), parse_file_name(path.name)
    found = FoundFile(path, None, None, status.st_size, status.st_mtime, None, None, None)
    if named is None:
        return found
    return replace(found, name=named.name, step=named.step, aside=named.aside, part=named.part)
