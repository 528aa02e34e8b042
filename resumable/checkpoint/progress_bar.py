"""A progress bar over the steps of a loop, with the time of the last save."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, final

from ..core.best_effort import BestEffort
from ..formats.packages import imported
from .listener import CheckpointListener


@final
class StepBar(CheckpointListener):
    """A tqdm bar on standard error, starting at the resumed step.

    Args:
      length: of the pipeline. A known and finite length is the end of the bar.
      step: the step at which the bar starts.
      wait_share: returns the share of the time spent waiting for items, None if unknown. The share
        is shown, and updated once a second.

    Raises:
      MissingDependency: if tqdm is not installed.
    """

    def __init__(
        self,
        length: int | float | None,
        step: int,
        wait_share: Callable[[], float | None] | None = None,
    ) -> None:
        imported("tqdm.auto", "progress=True needs tqdm", "progress")
        from tqdm.auto import tqdm

        class Bar(tqdm):  # type: ignore[type-arg]
            # tqdm's monitor thread would outlive the loop.
            monitor_interval = 0

        total = None if length == math.inf else length
        self._wait_share = wait_share
        self._due = -math.inf
        self._saved = ""
        self._best_effort = BestEffort("the progress bar is")
        self._bar: Any = Bar(total=total, initial=step, unit="step", file=sys.stderr)

    def move_to(self, step: int) -> None:
        """Show that ``step`` steps are finished."""
        self._best_effort(partial(self._move_to, step), None)

    def _move_to(self, step: int) -> None:
        if self._wait_share is not None and time.monotonic() >= self._due:
            self._due = time.monotonic() + 1
            self._show()
        self._bar.update(step - self._bar.n)

    def after_save(self, step: int, path: str) -> None:
        self._saved = f"step {step} saved at {time.strftime('%H:%M:%S')}"
        self._best_effort(self._show, None)

    def _show(self) -> None:
        share = None if self._wait_share is None else self._wait_share()
        waited = "" if share is None else f"waited {share:.0%}"
        self._bar.set_postfix_str(", ".join(filter(None, [waited, self._saved])), refresh=False)

    def close(self) -> None:
        """Leave the bar unchanged on the screen; may be called again."""
        self._best_effort(self._bar.close, None)
