"""The state of an input as files in a folder committed by another library, such as Orbax.

The committer ensures that the files of all processes are there, or none. So nothing is locked or
set aside here, and no earlier checkpoint matters. The files have the names and the form of a
`Directory`.
"""

# A file is a checkpoint, or the part of a rank. Whether one file is enough follows from the
# pipeline:
#
# - After `shard` the state is a place in the order of all ranks, equal on every rank. One file is
#   enough.
# - Ranks with own partitions have different states, and so have ranks with a stage that holds items
#   of the rank. Each rank writes a part, with its rank and the number of ranks, so any number of
#   processes can read all the parts and join them.
# - If nothing is dealt out, processes may read the same items or different items. The pipeline does
#   not say which, so each process writes a part, under its number among the processes. Its name
#   does not identify the pipeline, which may differ from process to process.
#
# If a pipeline is dealt out to more ranks than processes, a process has several inputs, each with a
# separate folder. Each folder has the parts of some ranks only, and each rank resumes from its own
# part.

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from ..core.iterator import PipelineIterator
from ..core.resuming import compare
from ..core.runnable import saved_position
from ..core.stage import Stage
from ..errors import CorruptCheckpoint, NewerFormat, NoValidCheckpoint, StateMismatch
from ..stages.global_order import differs_by_rank, rank_share_of
from ..state.encoding import dumps_frozen
from ..state.value import State
from .envelope import Checkpoint, decode, encode
from .names import CheckpointNames, FileName, parse_file_name
from .opening import check_for_others, take_checkpoint
from .ranks.part import WHOLE, RankPart
from .ranks.parts import state_of_rank
from .ranks.run import part_of

NAME: Final = "input"
"""The name of the input, in the names of its files."""

NOT_DEALT: Final = "0" * 12
"""The run of parts saved by processes that the pipeline deals nothing to."""


class InputFile(NamedTuple):
    """The file saved by one process.

    Attributes:
      name: of the file.
      data: the bytes of the file.
      is_shared: whether every process has this state, so any one process may write the file for
        all.
      stage: the last stage of the pipeline with the state.
    """

    name: str
    data: bytes
    is_shared: bool
    stage: Stage[Any]


class SavedInput(NamedTuple):
    """The checkpoints in a folder.

    Attributes:
      checkpoints: a whole checkpoint, or the existing parts, by rank.
      size: bytes of all files.
    """

    checkpoints: list[Checkpoint]
    size: int

    @property
    def ranks(self) -> int:
        """Number of parts of the checkpoint; 1 if the checkpoint is whole."""
        return self.checkpoints[0].part.ranks


def part_for(stage: Stage[Any], process: int, processes: int) -> RankPart:
    """The part saved by ``process`` of ``processes``, for the pipeline ending in ``stage``."""
    share = rank_share_of(stage)
    if share.ranks == 1:
        return WHOLE if processes == 1 else RankPart(process, processes, NOT_DEALT)
    if differs_by_rank(stage):
        return part_of(share.rank, share.ranks, stage, None, "")
    return WHOLE


def input_file(
    iterator: PipelineIterator[Any],
    get_state: Callable[[], State],
    step: int,
    process: int,
    processes: int,
) -> InputFile:
    """The file written by one of several processes for the input at ``step``.

    Args:
      iterator: of the pipeline.
      get_state: returns the state to be saved.
      step: of the state.
      process: number of this process, from 0.
      processes: number of processes.

    Raises:
      UnencodableState: if the state has no exact serialised form, or was taken right after an error
        and is also for other processes.
      ExternalStateError: if the position of a source cannot be restored.
    """
    part = part_for(iterator._stage, process, processes)
    checkpoint = take_checkpoint(get_state, time.time, part, None, step)
    is_shared = part == WHOLE and processes > 1
    if is_shared:
        check_for_others(checkpoint.state, step, RankPart(process, processes))
    name = CheckpointNames(NAME, part).of(step)
    return InputFile(name, encode(checkpoint), is_shared, iterator._stage)


def check_same(file: InputFile, there: bytes, where: str) -> None:
    """Check that ``there``, saved by another process under the name of ``file``, is the same state.

    Processes that share a rank save the same part. Only the times of the saves may differ, and
    facts known about copies of the data.

    Raises:
      StateMismatch: if the states differ, since one of the two would be lost.
    """
    mine, theirs = decode(file.data), _decoded(file.name, there, where).state
    reason = next(map(str, compare(file.stage, saved_position(file.stage, theirs))), None)
    if reason is None and _position(mine.state) == _position(theirs):
        return
    raise StateMismatch(
        f"{where} has another state of {mine.part} at step {mine.step}, saved by another process: processes "
        "with the same rank must read the same items, and those that read others must have other ranks"
        + (f" ({reason})" if reason else "")
    )


def check_one_checkpoint(file: InputFile, there: Iterable[str], where: str) -> None:
    """Check that the files ``there``, by name, belong to one checkpoint with ``file``.

    Raises:
      StateMismatch: if a file does not, with its name: nobody could read the folder any more.
    """
    mine = _named(file.name)
    for name in sorted(filter(is_input_file, there)):
        found = _named(name)
        same_kind = (found.part.ranks, found.part.run) == (mine.part.ranks, mine.part.run)
        if not same_kind or (found.part.rank == mine.part.rank and found.step != mine.step):
            raise StateMismatch(
                f"{where} has {name}, which is of another checkpoint than {file.name}: the folder of a "
                "checkpoint must be a new one"
            )


def is_input_file(name: str) -> bool:
    """Whether a file named ``name`` is the state of an input, or a part of the state."""
    found = parse_file_name(name)
    return found is not None and (found.name, found.aside) == (NAME, None)


def saved_input(files: Mapping[str, bytes], where: str) -> SavedInput:
    """The saved input in ``files``, bytes by name; only names accepted by `is_input_file` are read.

    Raises:
      NoValidCheckpoint: if no file is of an input.
      CorruptCheckpoint: if a file is damaged, with its name.
      NewerFormat: if a later version of the library wrote a file.
      StateMismatch: if the files are not of one checkpoint.
    """
    ours = {name: files[name] for name in sorted(files) if is_input_file(name)}
    found = [_decoded(name, data, where) for name, data in ours.items()]
    if not found:
        there = ", ".join(sorted(files)) or "nothing"
        raise NoValidCheckpoint(f"there is no state of an input in {where}, which holds {there}")
    kinds = {(one.part.ranks, one.part.run) for one in found}
    if len(kinds) > 1 or len({one.part.rank for one in found}) < len(found):
        raise StateMismatch(f"{where} holds files of several checkpoints: {', '.join(ours)}")
    found.sort(key=lambda one: one.part.rank)
    return SavedInput(found, sum(map(len, ours.values())))


def state_for_process(
    saved: SavedInput,
    stage: Stage[Any] | None,
    process: int,
    processes: int,
    where: str,
    *,
    own_files: bool = False,
) -> State:
    """The state from which ``process`` of ``processes`` resumes.

    Args:
      saved: the result of `saved_input`.
      stage: the last stage of the pipeline to resume; None if unknown.
      process: number of this process, from 0.
      processes: number of processes now.
      where: the folder, for errors.
      own_files: whether each process has a separate folder, so its own part is enough.

    Raises:
      NoValidCheckpoint: if a part is missing, with its rank.
      StateMismatch: if the parts cannot be joined and the number of ranks differs.
    """
    parts = saved.checkpoints
    if parts[0].part == WHOLE:
        return parts[0].state
    mine = RankPart(process, processes, parts[0].part.run)
    if stage is not None:
        own = part_for(stage, process, processes)
        mine = own if own != WHOLE else mine
        own_files = own_files or own.ranks > processes
    if own_files:
        for one in parts:
            if one.part == mine:
                return one.state
    missing = sorted({*range(saved.ranks)} - {one.part.rank for one in parts})
    if missing:
        named = " and ".join(f"rank {rank}" for rank in missing[:3])
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise NoValidCheckpoint(
            f"the part of {named}{more} of {saved.ranks} ranks is missing in {where}"
        )
    return state_of_rank([one.state for one in parts], mine, f"the input in {where}", stacklevel=3)


def _named(name: str) -> FileName:
    found = parse_file_name(name)
    assert found is not None  # an input's file name
    return found


def _position(state: State) -> bytes:
    return dumps_frozen({name: state[name] for name in ("epoch", "pipeline")})


def _decoded(name: str, data: bytes, where: str) -> Checkpoint:
    """The checkpoint in the file ``name``.

    Raises:
      CorruptCheckpoint, NewerFormat: naming the file.
    """
    place = f"{where.rstrip('/')}/{name}"
    try:
        checkpoint = decode(data)
    except (CorruptCheckpoint, NewerFormat) as error:
        raise type(error)(f"{place}: {error}") from error
    named = parse_file_name(name)
    if named is not None and (checkpoint.step, checkpoint.part) != (named.step, named.part):
        raise CorruptCheckpoint(
            f"{place}: it holds the part of {checkpoint.part} at step {checkpoint.step}"
        )
    return checkpoint
