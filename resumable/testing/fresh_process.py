"""Resume a pipeline in a process that shares nothing with this one but files."""

# The pipeline is sent as a pickle and the states as bytes, and the runs come back as a pickle. All are in
# files, since the functions of the pipeline may print. The other process has another hash seed, so that
# a dependence on the order of a set shows.

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
"""With an earlier one, NumPy turns foreign byte orders into the machine's own."""


def resume_in_a_fresh_process(
    pipeline: Pipeline[Any], states: Sequence[bytes], counts: Sequence[int]
) -> list[ResumedItems]:
    """What `resumed_items` gives in another process.

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
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "task").write_bytes(packed)
        (place / "pipeline").write_bytes(carried)
        done = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import main; main({folder!r})"],
            env=os.environ | {"PYTHONHASHSEED": _other_hash_seed(), "PYTHONPATH": _search_path()},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"resuming in a fresh process failed:\n{done.stderr}")
        runs: list[ResumedItems] = pickle.loads((place / "runs").read_bytes())
    return runs


def _other_hash_seed() -> str:
    return "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"


def _search_path() -> str:
    # Enough to find this module; the rest comes with the task.
    return str(Path(__file__).parents[2])


def main(folder: str) -> None:
    """What the other process does: read the task in ``folder``, and write the runs there."""
    place = Path(folder)
    sys.path[:], states, counts = pickle.loads((place / "task").read_bytes())
    pipeline: Pipeline[Any] = pickle.loads((place / "pipeline").read_bytes())
    runs = [*resumed_items(pipeline, states, counts)]
    (place / "runs").write_bytes(pickle.dumps(runs, PROTOCOL))
