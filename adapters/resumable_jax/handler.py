"""The handler by which version 1 of Orbax saves and loads an unwrapped input."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, NamedTuple

from orbax.checkpoint import v1

import resumable as rs
from resumable.checkpoint.saveable_input import as_saveable, is_input

from .checkpointable import InputCheckpointable, load_input, save_input
from .context import primary_of_context
from .folder import read_input, read_state

__all__ = ["TYPE_STRING", "InputHandler", "InputMetadata", "described"]

TYPE_STRING: Final = "resumable_jax.InputHandler"
"""The handler's name in the checkpoints of both versions of Orbax's interface."""


class InputMetadata(NamedTuple):
    """The metadata of an input in ``checkpointables_metadata``.

    Attributes:
      step: number of batches handed out on each process; with parts, on the furthest process.
      parts: how many processes saved a part; 1 if the state is equal on all.
      bytes: size of the files.
    """

    step: int
    parts: int
    bytes: int


class InputHandler:
    """Saves and loads an iterator of a pipeline, or a loop, among Orbax's checkpointables.

    ``import resumable_jax`` registers the handler. So ``save_checkpointables(path, {"input":
    iterator})`` works like a call with `InputCheckpointable`, and ``load_checkpointables(path,
    {"input": iterator})`` resumes the iterator and returns it. Without an iterator, as in
    ``load_checkpointables(path)``, the state of the whole run is returned, for
    ``pipeline.resume(state)``.
    """

    # Orbax writes the name of the class into the checkpoint, where it must not change.
    __module__ = TYPE_STRING.rpartition(".")[0]

    async def save(
        self, directory: v1.path.PathAwaitingCreation, checkpointable: Any
    ) -> Awaitable[None]:
        """Take the state now; the result writes the state.

        Raises:
          InvalidType: if ``checkpointable`` is a `Pipeline` or a `Checkpointer`; the message says
            what to pass.
        """
        if isinstance(checkpointable, InputCheckpointable):
            return await checkpointable.save(directory)
        return await save_input(directory, lambda: as_saveable("a checkpointable", checkpointable))

    async def load(
        self, directory: v1.path.Path, abstract_checkpointable: Any = None
    ) -> Awaitable[Any]:
        """Resume ``abstract_checkpointable`` and return it; without an input, return the state.

        Raises:
          NoValidCheckpoint, CorruptCheckpoint, StateMismatch: as for `InputCheckpointable`.
        """
        if abstract_checkpointable is None or isinstance(abstract_checkpointable, InputMetadata):
            return _already(read_state(directory, None, primary_of_context()))
        if isinstance(abstract_checkpointable, InputCheckpointable):
            await (await abstract_checkpointable.load(directory))
        else:
            load_input(
                directory, as_saveable("an abstract checkpointable", abstract_checkpointable)
            )
        return _already(abstract_checkpointable)

    async def metadata(self, directory: v1.path.Path) -> InputMetadata:
        """The step of the input, the number of saved parts, and the size."""
        return await asyncio.to_thread(described, directory)

    def is_handleable(self, checkpointable: Any) -> bool:
        """Whether the object is an input, or one mistaken for an input."""
        # A `Checkpointer` has methods `save` and `load`. Orbax would call these by another
        # protocol.
        handled = rs.Pipeline, rs.Checkpointer, InputCheckpointable
        return isinstance(checkpointable, handled) or is_input(checkpointable)

    def is_abstract_handleable(self, abstract_checkpointable: Any) -> bool | None:
        """The same for the target of a load; metadata may be the target too."""
        if isinstance(abstract_checkpointable, InputMetadata):
            return True
        return self.is_handleable(abstract_checkpointable)


async def _already(loaded: Any) -> Any:
    """The second phase of a finished load."""
    return loaded


def described(directory: v1.path.Path) -> InputMetadata:
    """The metadata of the input from the files in ``directory``."""
    saved = read_input(directory)
    furthest = max(one.step for one in saved.checkpoints)
    return InputMetadata(furthest, saved.ranks, saved.size)


v1.handlers.register_handler(InputHandler)
