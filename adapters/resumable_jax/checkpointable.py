"""The state of an input as an object that version 1 of Orbax saves and loads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from orbax.checkpoint import v1

from resumable.checkpoint.input_folder import InputFile
from resumable.checkpoint.saveable_input import Input, SaveableInput, as_saveable, put_state

from .context import meeting_of_context, primary_of_context
from .folder import read_state, take_file, write_file

__all__ = ["InputCheckpointable", "load_input", "save_input"]


class InputCheckpointable:
    """An input for ``save_checkpointables`` and ``load_checkpointables``, an Orbax ``StatefulCheckpointable``.

    ``save_checkpointables(path, {"state": ..., "input": InputCheckpointable(iterator)})`` saves the
    state after the last batch handed to the loop. So in the body of the loop the current batch
    counts as done. The state is taken before the call returns, also by
    ``save_checkpointables_async``. ``load_checkpointables`` with the same dict moves the iterator
    to the saved state.

    State: one file of some 300 bytes if the state is equal on all processes, as after `shard`;
    otherwise one file for each process, such as with partitions. Any number of processes reads and
    joins the files. States that cannot be joined, because a stage holds items of its rank, need the
    same number of processes.

    Args:
      target: ``iter(pipeline)``, ``pipeline.resume(state)``, `device_prefetch`, or the loop of a
        `Checkpointer`. When loading, the loop must be at the checkpoint's position.

    Raises:
      InvalidType: if ``target`` is none of these.
    """

    def __init__(self, target: Input) -> None:
        self._saveable = as_saveable("target", target)

    async def save(self, directory: v1.path.PathAwaitingCreation) -> Awaitable[None]:
        """Take the state now; the result writes the state to ``directory`` once the folder exists.

        Raises:
          ExternalStateError, UnencodableState: if the state cannot be saved exactly.
        """
        return await save_input(directory, lambda: self._saveable)

    async def load(self, directory: v1.path.Path) -> Awaitable[None]:
        """Read the state from ``directory`` now, and move the input to the state.

        Raises:
          NoValidCheckpoint: if a part is missing, naming its rank.
          CorruptCheckpoint: if a file is damaged, naming it.
          StateMismatch: if the state belongs to another pipeline.
        """
        load_input(directory, self._saveable)
        return _nothing_more()


async def save_input(
    directory: v1.path.PathAwaitingCreation, find: Callable[[], SaveableInput]
) -> Awaitable[None]:
    """Take the state of ``find()`` now; the result writes the state to ``directory``."""
    try:
        file = take_file(find(), primary_of_context())
    except BaseException:
        # Orbax may have begun to save something else. Threads of that save wait for the folder, and
        # the process does not end before its threads.
        await directory.await_creation()
        raise
    return _write(directory, file, meeting_of_context(directory.path.name))


async def _write(
    directory: v1.path.PathAwaitingCreation,
    file: InputFile | None,
    meet: Callable[[], Awaitable[None]],
) -> None:
    folder = await directory.await_creation()
    await asyncio.to_thread(write_file, folder, file)
    # The first process commits the folder as soon as all its own files are written. Version 0 of
    # Orbax itself waits for the other processes.
    await meet()


def load_input(directory: v1.path.Path, saveable: SaveableInput) -> None:
    """Continue ``saveable`` at the state in ``directory``."""
    # At once: Orbax replaces later exceptions by an error that blames the handler.
    put_state(saveable, read_state(directory, saveable.stage, primary_of_context()))


async def _nothing_more() -> None:
    """The second phase, without any work left."""
