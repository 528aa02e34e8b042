"""The state of an input among the arguments of version 0 of Orbax, as for its ``CheckpointManager``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orbax.checkpoint as ocp
from etils import epath

from resumable.checkpoint.input_folder import InputFile
from resumable.checkpoint.saveable_input import Input, as_saveable, put_state

from .folder import read_state, take_file, write_file
from .handler import TYPE_STRING, InputMetadata, described

__all__ = ["InputCheckpointHandler", "InputRestore", "InputSave"]


class InputCheckpointHandler(ocp.AsyncCheckpointHandler):
    """Saves and restores the input of `InputSave` and `InputRestore`; Orbax makes a handler itself.

    Register your own handler only where each process has a separate storage
    (``multiprocessing_options.primary_host`` is None): ``registry.add("input", InputSave,
    InputCheckpointHandler(multiprocessing_options=options))``, and the same with `InputRestore`.

    Args:
      multiprocessing_options: options of the ``CheckpointManager``; only ``primary_host`` is used.
    """

    def __init__(
        self, *, multiprocessing_options: ocp.options.MultiprocessingOptions | None = None
    ) -> None:
        options = multiprocessing_options or ocp.options.MultiprocessingOptions()
        self._primary = options.primary_host

    async def async_save(
        self, directory: epath.Path, item: Any = None, args: InputSave | None = None
    ) -> list[ocp.future.Future]:
        """Take the state now, and write it in the background.

        The error of a state that cannot be saved is raised where Orbax reports failed saves, such
        as by ``wait_until_finished``.
        """
        try:
            work = _write(directory, self._file(item, args))
        except Exception as error:
            # Raised here, the error would leave behind the threads by which Orbax makes folders.
            # The threads would wait forever, and the process does not end before its threads.
            work = _refuse(error)
        name = "resumable_input_save"
        return [ocp.future.CommitFutureAwaitingContractedSignals(work, name=name)]

    def save(self, directory: epath.Path, item: Any = None, args: InputSave | None = None) -> None:
        """Take and write the state."""
        write_file(directory, self._file(item, args))

    def restore(
        self, directory: epath.Path, item: Any = None, args: InputRestore | None = None
    ) -> Any:
        """Resume the input of ``args`` and return it; without an input, return the state.

        Raises:
          NoValidCheckpoint: if a part is missing, naming its rank.
          CorruptCheckpoint: if a file is damaged, naming it.
          StateMismatch: if the state belongs to another pipeline.
        """
        target = item if args is None else args.item
        if target is None:
            return read_state(directory, None, self._primary)
        saveable = as_saveable("item", target)
        put_state(saveable, read_state(directory, saveable.stage, self._primary))
        return target

    def metadata(self, directory: epath.Path) -> InputMetadata:
        """The step of the input, the number of saved parts, and the size."""
        return described(directory)

    @classmethod
    def typestr(cls) -> str:
        """The name in the checkpoint, the same as for `InputHandler`."""
        return TYPE_STRING

    def _file(self, item: Any, args: InputSave | None) -> InputFile | None:
        return take_file(as_saveable("item", item if args is None else args.item), self._primary)


async def _write(directory: epath.Path, file: InputFile | None) -> None:
    write_file(directory, file)


async def _refuse(error: Exception) -> None:
    raise error


@ocp.args.register_with_handler(InputCheckpointHandler, for_save=True)
@dataclass
class InputSave(ocp.args.CheckpointArgs):
    """Save an input: ``manager.save(step, args=ocp.args.Composite(input=InputSave(iterator), ...))``.

    Saves the state after the last batch handed to the loop. With asynchronous saving, the state is
    taken before ``save`` returns. The files are the same as for `InputCheckpointable`, and each
    version of Orbax's interface reads the files of the other.

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

    The iterator continues at the saved state, and is returned. Any number of processes may restore,
    as for `InputCheckpointable`.

    Args:
      item: as for `InputSave`; without it, the state is returned, for ``pipeline.resume(state)``.

    Raises:
      InvalidType: if ``item`` is none of these.
    """

    item: Input | None = None

    def __post_init__(self) -> None:
        if self.item is not None:
            as_saveable("item", self.item)
