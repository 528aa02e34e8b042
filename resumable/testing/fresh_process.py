"""Resume a pipeline in a process that shares only files with this process."""

# The pipeline is sent as a pickle and the states as bytes, and the runs come back as a pickle. All
# data are in files, since the functions of the pipeline may print. The other process has another
# hash seed, to reveal a dependence on the order of a set.

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ..errors import InvalidArgument
from ..pipeline import Pipeline
from .laws import ResumedItems, resumed_items

PROTOCOL: Final = pickle.HIGHEST_PROTOCOL
"""With an earlier protocol, NumPy turns foreign byte orders into native byte order."""
LIBRARY: Final = str(Path(__file__).parents[2])
"""Enough to find this module; the rest of the search path comes with the task."""


def resume_in_a_fresh_process(
    pipeline: Pipeline[Any], states: Sequence[bytes], counts: Sequence[int]
) -> list[ResumedItems]:
    """The result of `resumed_items` in another process.

    Raises:
      InvalidArgument: if the pipeline, or an item, cannot be sent from one process to another.
      AssertionError: if the other process failed; with its output.
    """
    try:
        packed = pickle.dumps((sys.path, states, counts), PROTOCOL)
        carried = pickle.dumps(pipeline, PROTOCOL)
    except Exception as error:
        raise InvalidArgument(
            "pipeline must be one that can be pickled, with functions defined in a module, to go "
            f"to a fresh process; got {error!r}"
        ) from error
    other_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "task").write_bytes(packed)
        (place / "pipeline").write_bytes(carried)
        done = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import main; main({folder!r})"],
            env=os.environ | {"PYTHONHASHSEED": other_seed, "PYTHONPATH": LIBRARY},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"resuming in a fresh process failed:\n{done.stderr}")
        runs: list[ResumedItems] = pickle.loads((place / "runs").read_bytes())
    return runs


def main(folder: str) -> None:
    """Run in the other process: read the task in ``folder``, and write the runs to ``folder``."""
    place = Path(folder)
    sys.path[:], states, counts = pickle.loads((place / "task").read_bytes())
    pipeline: Pipeline[Any] = pickle.loads((place / "pipeline").read_bytes())
    runs = [*resumed_items(pipeline, states, counts)]
    (place / "runs").write_bytes(pickle.dumps(runs, PROTOCOL))
