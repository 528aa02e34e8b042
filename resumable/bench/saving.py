"""Measure the costs of saving a state and of resuming."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, final

from ..checkpoint import Checkpointer
from ..pipeline import Pipeline
from ..state.encoding import dumps
from ..state.value import State
from ..triggers import AtEnd
from ..verify.counted import after_resume, reads_of_next, reread

TIMINGS: Final = 50
"""How often a state is taken at each position."""


@final
@dataclass(frozen=True)
class Saving:
    """The costs.

    Attributes:
      position: the number of items after which the pipeline was resumed.
      state_bytes: of the state at ``position``.
      get_state_seconds: median time to take a state, over several positions.
      save_seconds: median time of a durable save into a temporary folder.
      resume_seconds: from opening the checkpoint up to and including the first item.
      reread: source items that the resume read again; None if not counted.
    """

    position: int
    state_bytes: int
    get_state_seconds: float
    save_seconds: float
    resume_seconds: float
    reread: int | None = None


def measure_saving(
    pipeline: Pipeline[Any],
    counting: Pipeline[Any] | None,
    reads: Counter[int],
    run: range,
    clock: Callable[[], float],
) -> tuple[Saving, State]:
    """Save up to and at a position, and resume there; returns the state too.

    Args:
      pipeline: to save and to resume.
      counting: the same pipeline without threads; counts items read in ``reads``. None to count
        nothing.
      reads: items read from each source.
      run: the items from the position on, up to the last item that may be drawn.
      clock: of seconds.
    """
    states, taking, saving = {}, [], []
    position, items = run.start, min(after_resume(pipeline.stage), len(run))
    before = max(position - items, 0)
    with tempfile.TemporaryDirectory(prefix="resumable-bench-") as folder:
        with Checkpointer(folder, AtEnd(), save_at_end=False) as checkpointer:
            iterator = checkpointer.resume(pipeline).iterator
            for stop in sorted({0, position // 2, before, position}):
                iterator.skip(stop - iterator.step)
                for _ in range(TIMINGS):
                    states[stop], seconds = _clocked(clock, iterator.get_state)
                    taking.append(seconds)
                saving.append(_clocked(clock, checkpointer.save)[1])
        _, resuming = _clocked(clock, lambda: _first_item(folder, pipeline))
    again = None
    if counting is not None:
        # A run from an earlier position, or from the start, has read all repeated items by the time
        # the position is reached.
        with counting.resume(states[before]) as iterator:
            reads_of_next(iterator, position - iterator.step, reads)
            again = reread(counting, iterator, items, reads)
    state = states[position]
    size = len(dumps(state))
    return Saving(position, size, median(taking), median(saving), resuming, again), state


def _clocked(clock: Callable[[], float], function: Callable[[], Any]) -> tuple[Any, float]:
    began = clock()
    result = function()
    return result, clock() - began


def _first_item(folder: str, pipeline: Pipeline[Any]) -> None:
    with Checkpointer(folder, AtEnd(), save_at_end=False) as checkpointer:
        next(checkpointer.resume(pipeline), None)
