"""Resume a pipeline in a process that shares only files with this process."""

# The pipeline is sent as a pickle and the states as bytes, and the runs come back as a pickle. The
# other process has another hash seed, to reveal a dependence on the order of a set.

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from ..errors import InvalidArgument
from ..pipeline import Pipeline
from .laws import ResumedItems, resumed_items
from .processes import FreshProcesses, Watch

PROTOCOL: Final = pickle.HIGHEST_PROTOCOL
"""With an earlier protocol, NumPy turns foreign byte orders into native byte order."""


def resume_in_a_fresh_process(
    pipeline: Pipeline[Any], states: Sequence[bytes], counts: Sequence[int]
) -> list[ResumedItems]:
    """The result of `resumed_items` in another process.

    Raises:
      InvalidArgument: if the pipeline, or an item, cannot be sent from one process to another.
      AssertionError: if the other process failed; with its output.
    """
    try:
        packed = pickle.dumps((pipeline, states, counts), PROTOCOL)
    except Exception as error:
        raise InvalidArgument(
            "pipeline must be one that can be pickled, with functions defined in a module, to go "
            f"to a fresh process; got {error!r}"
        ) from error
    other_seed = 2 if os.environ.get("PYTHONHASHSEED") == "1" else 1
    with tempfile.TemporaryDirectory() as folder, FreshProcesses(Path(folder), 1) as processes:
        ended = processes.do(partial(_runs, [*sys.path], packed), other_seed)
    if ended.error is not None:
        raise AssertionError(f"resuming in a fresh process failed: {ended.error}")
    runs: list[ResumedItems] = pickle.loads(ended.result)
    return runs


def _runs(search_path: list[str], packed: bytes, watch: Watch) -> bytes:
    sys.path[:] = search_path
    pipeline, states, counts = pickle.loads(packed)
    return pickle.dumps([*resumed_items(pipeline, states, counts)], PROTOCOL)
