"""Warn about a restarted run that had already ended, and so delivers nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

ENDED: Final = "this run had come to its end"


def warn_of_ended_run(
    step: int,
    begin_anew: str,
    *,
    go_on: str = "raise the number in its take, or in a repeat with no shard, random_map or shuffle after it",
    stacklevel: int = 2,
) -> None:
    """Warn that the run had ended at ``step``. One wording, for the core and for all adapters.

    Args:
      step: step of the last item.
      begin_anew: advice on how to start at the first item, such as "use another folder".
      go_on: advice on how to get more items.
      stacklevel: as for `warnings.warn`, counted from the caller.
    """
    warnings.warn(
        f"{ENDED} at step {step}, so it delivers nothing: to go on, {go_on}; to "
        f"begin anew, {begin_anew}",
        RuntimeWarning,
        stacklevel=stacklevel + 1,
    )


@contextmanager
def ended_runs_expected() -> Iterator[None]:
    """Silence `warn_of_ended_run` for code that resumes a run to check whether it had ended."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ENDED, RuntimeWarning)
        yield
