"""Write the state of an input into the folder of a Ray checkpoint, and read the state back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyarrow.fs import FileSelector, FileType, LocalFileSystem

import resumable as rs
from resumable.checkpoint.files import write_if_new
from resumable.checkpoint.input_folder import (
    NAME,
    InputFile,
    check_one_checkpoint,
    check_same,
    is_input_file,
    saved_input,
    state_for_process,
)
from resumable.core.stage import Stage
from resumable.state.value import State

if TYPE_CHECKING:
    from ray.train import Checkpoint

__all__ = ["folder_of", "read_state", "remove_unfinished", "write_file"]

FOLDER: Final = NAME
"""Of the input, within the folder of a checkpoint."""


def folder_of(checkpoint: Checkpoint) -> str:
    """Where the files of the input are, on the file system of ``checkpoint``."""
    return f"{checkpoint.path.rstrip('/')}/{FOLDER}"


def write_file(checkpoint: Checkpoint, file: InputFile) -> None:
    """Write ``file`` into the folder of ``checkpoint``. Other workers may write files meanwhile.

    Raises:
      StateMismatch: if the folder has files of another checkpoint, or another worker has written
        another state into the same file.
      OSError: if the system refuses.
    """
    filesystem: Any = checkpoint.filesystem
    folder = folder_of(checkpoint)
    filesystem.create_dir(folder, recursive=True)
    check_one_checkpoint(file, _names(filesystem, folder), folder)
    place = f"{folder}/{file.name}"
    if isinstance(filesystem, LocalFileSystem):
        is_new = write_if_new(Path(place), file.data)
    elif is_new := filesystem.get_file_info(place).type == FileType.NotFound:
        # An object appears whole or not at all.
        with filesystem.open_output_stream(place) as stream:
            stream.write(file.data)
    if not is_new:
        check_same(file, _content(filesystem, place), folder)


def read_state(checkpoint: Checkpoint, stage: Stage[Any], rank: int, workers: int) -> State:
    """The state at which worker ``rank`` of ``workers`` continues; all workers' parts are joined.

    Args:
      checkpoint: written by `write_file`, by any number of workers.
      stage: the last stage of the pipeline.
      rank: of this worker.
      workers: the present number of workers.

    Raises:
      NoValidCheckpoint: if ``checkpoint`` has no state of an input, or lacks a part.
      CorruptCheckpoint, NewerFormat, StateMismatch: if a file cannot be used, with the file's name.
      OSError: if the folder cannot be read.
    """
    filesystem: Any = checkpoint.filesystem
    folder = folder_of(checkpoint)
    names = [name for name in _names(filesystem, folder) if is_input_file(name)]
    if not names:
        there = ", ".join(sorted(_names(filesystem, checkpoint.path))) or "nothing"
        raise rs.NoValidCheckpoint(
            f"the checkpoint {checkpoint.path} has no state of an input, it holds {there}: pass the loop to "
            "resumable_ray.report at each checkpoint; to begin anew on purpose, loop over iter(pipeline)"
        )
    files = {name: _content(filesystem, f"{folder}/{name}") for name in names}
    return state_for_process(saved_input(files, folder), stage, rank, workers, folder)


def remove_unfinished(checkpoint: Checkpoint) -> None:
    """Remove the state of an input left in an uncommitted ``checkpoint`` by dead workers."""
    filesystem: Any = checkpoint.filesystem
    folder = folder_of(checkpoint)
    if any(map(is_input_file, _names(filesystem, folder))):
        filesystem.delete_dir(folder)


def _names(filesystem: Any, folder: str) -> list[str]:
    """The names in ``folder``; empty without the folder."""
    infos = filesystem.get_file_info(FileSelector(folder, allow_not_found=True))
    return [info.base_name for info in infos]


def _content(filesystem: Any, place: str) -> bytes:
    with filesystem.open_input_stream(place) as stream:
        data: bytes = stream.read()
    return data
