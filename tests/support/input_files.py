"""What several processes save of one input, without their framework: files by name, as `input_folder` has them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from support.behind_deals import Deal

import resumable as rs
from resumable.checkpoint.input_folder import input_file, saved_input, state_for_process

__all__ = ["FOLDER", "Saved", "resumed", "saved_by", "state_in"]

FOLDER = "/runs/40/input"


class Saved(NamedTuple):
    """What processes have done until they saved.

    Attributes:
      items: that each process was given.
      files: what they saved, by name.
    """

    items: list[list[Any]]
    files: dict[str, bytes]

    @property
    def delivered(self) -> list[Any]:
        """The items of all processes."""
        return list(chain.from_iterable(self.items))


def saved_by(
    iterators: Sequence[rs.PipelineIterator[Any]], cuts: Sequence[int], *, step: int | None = None
) -> Saved:
    """Let each process take as many items as ``cuts`` says, and save.

    Of the processes whose state is equal, only the first one writes it. The iterators are closed.
    """
    items, files = [], {}
    for process, (iterator, cut) in enumerate(zip(iterators, cuts, strict=True)):
        with iterator:
            items.append(list(islice(iterator, cut)))
            at = iterator.step if step is None else step
            file = input_file(iterator, iterator.get_state, at, process, len(iterators))
        if process == 0 or not file.is_shared:
            files[file.name] = file.data
    return Saved(items, files)


def state_in(
    files: Mapping[str, bytes],
    pipeline: rs.Pipeline[Any] | None,
    process: int = 0,
    processes: int = 1,
    *,
    own_files: bool = False,
) -> Any:
    """The state in ``files`` for a process."""
    stage = None if pipeline is None else pipeline.stage
    return state_for_process(
        saved_input(files, FOLDER), stage, process, processes, FOLDER, own_files=own_files
    )


def resumed(
    files: Mapping[str, bytes], made: Deal, processes: int, ranks: int | None = None
) -> list[rs.PipelineIterator[Any]]:
    """The iterators of ``processes``, which go on from ``files``.

    Args:
      files: by name.
      made: makes the pipeline of a rank.
      processes: how many there are.
      ranks: among how many the items are dealt out; processes with the same rank read the same.

    Raises:
      StateMismatch: if one is refused; then none is left open.
    """
    ranks = ranks or processes
    iterators: list[rs.PipelineIterator[Any]] = []
    try:
        for process in range(processes):
            pipeline = made(process % ranks, ranks)
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "the input in .* can be resumed by")
                state = state_in(files, pipeline, process, processes)
            iterators.append(pipeline.resume(state))
    except rs.StateMismatch:
        for iterator in iterators:
            iterator.close()
        raise
    return iterators
