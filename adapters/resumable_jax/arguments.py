"""The state of an input among the arguments of version 0 of Orbax, as for its ``CheckpointManager``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orbax.checkpoint as ocp
from etils import epath

from resumable.checkpoint.input_folder import InputFile
from resumable.checkpoint.saveable_input import Input, as_saveable, put_state

from .folder import Hosts, read_state, take_file, write_file
from .handler import TYPE_STRING, InputMetadata, described

__all__ = ["InputCheckpointHandler", "InputRestore", "InputSave"]


class InputCheckpointHandler(ocp.AsyncCheckpointHandler):
    """Saves and restores the input of `InputSave` and `InputRestore`; Orbax makes one by itself.

    Register one of your own only where each process has a storage of its own
    (``multiprocessing_options.primary_host`` is None):
    ``registry.add("input", InputSave, InputCheckpointHandler(multiprocessing_options=options))``, and
    the same with `InputRestore`.

    Args:
      multiprocessing_options: those of the ``CheckpointManager``; only ``primary_host`` is used.
    """

    def __init__(
        self,
        *,
        multiprocessing_options: ocp.options.MultiprocessingOptions | None = None,
    ) -> None:
        options = multiprocessing_options or ocp.options.MultiprocessingOptions()
        self._hosts = Hosts(options.primary_host)

    async def async_save(
        self, directory: epath.Path, item: Any = None, args: InputSave | None = None
    ) -> list[ocp.future.Future]:
        """Take the state now, and write it in the background.

        If it cannot be saved, that is raised where Orbax tells that a save has failed, such as by
        ``wait_until_finished``.
        """
        try:
            work = _write(directory, self._file(item, args))
        except Exception as error:
            # Raised here, it would leave the threads behind by which Orbax makes the folders. They wait
            # for what then never happens, and the process does not end before them.
            work = _refuse(error)
        name = "resumable_input_save"
        return [ocp.future.CommitFutureAwaitingContractedSignals(work, name=name)]

    def save(self, directory: epath.Path, item: Any = None, args: InputSave | None = None) -> None:
        """Take the state and write it."""
        write_file(directory, self._file(item, args))

    def restore(
        self, directory: epath.Path, item: Any = None, args: InputRestore | None = None
    ) -> Any:
        """Let the input of ``args`` go on, and return it; without one, return the state.

        Raises:
          NoValidCheckpoint: if a part is missing, naming its rank.
          CorruptCheckpoint: if a file is damaged, naming it.
          StateMismatch: if it belongs to another pipeline.
        """
        target = item if args is None else args.item
        if target is None:
            return read_state(directory, None, self._hosts)
        saveable = as_saveable("item", target)
        put_state(saveable, read_state(directory, saveable.stage, self._hosts))
        return target

    def metadata(self, directory: epath.Path) -> InputMetadata:
        """Where the input stands, and how many processes saved it."""
        return described(directory)

    @classmethod
    def typestr(cls) -> str:
        """The name in the checkpoint, the same as that of `InputHandler`."""
        return TYPE_STRING

    def _file(self, item: Any, args: InputSave | None) -> InputFile | None:
        return take_file(as_saveable("item", item if args is None else args.item), self._hosts)


async def _write(directory: epath.Path, file: InputFile | None) -> None:
    write_file(directory, file)


async def _refuse(error: Exception) -> None:
    raise error


@ocp.args.register_with_handler(InputCheckpointHandler, for_save=True)
@dataclass
class InputSave(ocp.args.CheckpointArgs):
    """Save an input: ``manager.save(step, args=ocp.args.Composite(input=InputSave(iterator), ...))``.

    It saves the state after the batches that the loop was given. With asynchronous saving, the state is taken
    before ``save`` returns. The files are those of `InputCheckpointable`, and each version of Orbax's
    interface reads what the other one saved.

    Args:
      item: ``iter(pipeline)``, ``pipeline.resume(state)``, `device_prefetch`, or the loop of a `Checkpointer`.

    Raises:
      InvalidType: if ``item`` is none of these.
    """

    item: Input

    def __post_init__(self) -> None:
        as_saveable("item", self.item)


@ocp.args.register_with_handler(InputCheckpointHandler, for_restore=True)
@dataclass
class InputRestore(ocp.args.CheckpointArgs):
    """Restore an input: ``manager.restore(step, args=ocp.args.Composite(input=InputRestore(iterator), ...))``.

    The iterator goes on at the saved state, and is returned. Any number of processes may restore, as for
    `InputCheckpointable`.

    Args:
      item: as of `InputSave`; if it is left out, the state is returned, for ``pipeline.resume(state)``.

    Raises:
      InvalidType: if ``item`` is none of these.
    """

    item: Input | None = None

    def __post_init__(self) -> None:
        if self.item is not None:
            as_saveable("item", self.item)
