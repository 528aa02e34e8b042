"""A progress bar over the steps of a loop, with the time of the last save."""

from __future__ import annotations

import math
import sys
import time
from typing import Any, final

from ..errors import MissingDependency
from .listener import CheckpointListener


@final
class StepBar(CheckpointListener):
    """A tqdm bar on standard error that starts at the resumed step.

    Args:
      length: of the pipeline. The bar has an end if it is known and finite.
      step: the step at which the bar starts.

    Raises:
      MissingDependency: if tqdm is not installed.
    """

    def __init__(self, length: int | float | None, step: int) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError as error:
            raise MissingDependency(
                "progress=True needs tqdm: pip install 'resumable-loader[progress]'"
            ) from error

        class Bar(tqdm):  # type: ignore[type-arg]
            # tqdm's monitor thread would outlive the loop.
            monitor_interval = 0

        total = None if length == math.inf else length
        self._bar: Any = Bar(total=total, initial=step, unit="step", file=sys.stderr)

    def move_to(self, step: int) -> None:
        """Show that ``step`` steps are finished."""
        self._bar.update(step - self._bar.n)

    def after_save(self, step: int, path: str) -> None:
        self._bar.set_postfix_str(
            f"step {step} saved at {time.strftime('%H:%M:%S')}", refresh=False
        )

    def close(self) -> None:
        """Leave the bar as it is; may be called again."""
        self._bar.close()
