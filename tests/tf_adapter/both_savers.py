"""``python -m tf_adapter.both_savers FOLDER`` trains by TensorFlow's own asynchronous hook, and by ours.

In a process of its own, because the original only works where eager execution is off for all threads.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf1
from resumable_tf import AsyncCheckpointSaverHook
from tensorflow.python.tpu.async_checkpoint import AsyncCheckpointSaverHook as Theirs
from tf_adapter.model_runs import train_model
from tf_adapter.sessions import Told


class Patient(Theirs):  # type: ignore[misc]
    """Waits for its thread, as otherwise it leaves out saves and writes later variables."""

    def _save(self, session: Any, step: Any, asynchronous: bool = True) -> Any:
        result = super()._save(session, step, asynchronous)
        if self._save_thread is not None:
            self._save_thread.join()
        return result


RUNS: dict[str, tuple[Any, bool]] = {
    "theirs": (Patient, False),
    "ours": (AsyncCheckpointSaverHook, False),
    "ours-with-input": (AsyncCheckpointSaverHook, True),
}


def trained(folder: Path, make: Any, with_input: bool) -> list[str]:
    """Two trainings, the second resumed from the first; what the listeners were told."""
    calls: list[str] = []
    for last_step in (10, 16):
        listeners = [Told(calls, "first"), Told(calls, "second")]
        hooks = [make(str(folder), None, 3, None, "model.ckpt", None, listeners)]
        train_model(folder, partial(list, hooks), last_step=last_step, with_input=with_input)
    return calls


if __name__ == "__main__":
    tf1.disable_eager_execution()
    print(json.dumps({name: trained(Path(sys.argv[1], name), *run) for name, run in RUNS.items()}))
