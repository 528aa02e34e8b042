"""Run tasks in fresh processes; each process loads the pipeline."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..checkpoint.directory import Directory
from ..core.graph import Tuning, cut_after, tuned
from ..errors import ResumableError
from ..pipeline import Pipeline
from ..testing.processes import FreshProcesses
from .conditions import SAME, Conditions
from .runs import Watch
from .target import Target
from .work import Work


class TaskOutcome(NamedTuple):
    """The outcome of a task in a fresh process.

    Attributes:
      fingerprint: of the pipeline in the process; None if loading failed.
      result: of the work; None after an error.
      error: the error, if the work could not be done.
      kind: the name of the error's type.
      seconds: of the work alone, without loading the pipeline.
      loading: seconds that loading took.
    """

    fingerprint: str | None
    result: Any
    error: str | None = None
    kind: str | None = None
    seconds: float = 0.0
    loading: float = 0.0

    @property
    def died(self) -> bool:
        """Whether the process ended without using the pipeline, or failed to load the pipeline."""
        return self.error is not None and self.fingerprint is None


class TaskProcesses(FreshProcesses):
    """Runs tasks for a target, each task in a separate process.

    Args:
      target: the pipeline; all arguments must be picklable.
      folder: an empty folder, for the files exchanged by the processes.
      at_once: how many processes to run at the same time.
    """

    def __init__(self, target: Target, folder: Path, at_once: int) -> None:
        super().__init__(folder, at_once)
        self._target = target

    def new_file(self) -> str:
        """A path where no file is yet."""
        return f"{tempfile.mkdtemp(prefix='run-', dir=self._folder)}/digests"

    def moved(self, saved_in: str, step: int) -> str:
        """A new folder with a copy of the checkpoint of ``step`` in ``saved_in``."""
        folder = self.new_folder()
        Directory(folder).save(step, Directory(saved_in).load(step))
        return folder

    def run(
        self,
        work: Work,
        cut: int = 0,
        tuning: Tuning | None = None,
        conditions: Conditions = SAME,
        watch: Callable[[int], object] = lambda count: None,
    ) -> TaskOutcome:
        """Do ``work`` in a fresh process.

        Args:
          work: the task.
          cut: the number of the stage to cut the pipeline after; 0 leaves the pipeline whole.
          tuning: changes to the cut pipeline.
          conditions: the circumstances.
          watch: called with the number of items drawn.
        """
        task = partial(_outcome, self._target, work, cut, tuning, conditions)
        ended = self.do(task, conditions.hash_seed, watch, may_fork=conditions.are_natural)
        if ended.error is not None:
            return TaskOutcome(None, None, ended.error, "ProcessEnded")
        outcome: TaskOutcome = ended.result
        return outcome


def _outcome(
    target: Target,
    work: Work,
    cut: int,
    tuning: Tuning | None,
    conditions: Conditions,
    watch: Watch,
) -> TaskOutcome:
    """What a fresh process does."""
    conditions.bring_about()
    fingerprint = None
    starts = time.monotonic()
    try:
        stage = cut_after(target.load().stage, cut)
        fingerprint = Pipeline(stage).fingerprint
        if tuning is not None:
            stage = tuned(stage, tuning)
        began = time.monotonic()
        result = work(stage, watch)
        seconds = time.monotonic() - began
        return TaskOutcome(fingerprint, result, seconds=seconds, loading=began - starts)
    except Exception as error:
        kind = type(error).__name__
        known = isinstance(error, ResumableError)
        return TaskOutcome(fingerprint, None, str(error) if known else f"{kind}: {error}", kind)
