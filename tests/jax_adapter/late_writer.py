"""Two processes save an input of which each has a part, and the second one writes its part late.

Run by `processes.run`, as ``python -m jax_adapter.late_writer NUMBER PROCESSES PORT FOLDER``.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp
import resumable_jax.arguments
import resumable_jax.checkpointable
from jax_adapter.member import take_part
from orbax.checkpoint import v1
from resumable_jax import InputSave
from resumable_jax.folder import write_file

import resumable as rs

WAITS = 1.5
"""Seconds that the second process gives the first one for committing without it."""


def pipeline(number: int, processes: int) -> rs.Pipeline[Any]:
    """Numbers of which each process leaves other ones out, so that it has a state of its own."""
    return rs.range(90).shuffle(seed=1).shard(number, processes).filter(lambda n: n % 3 > 0)


def save(place: str) -> None:
    """Save by both interfaces; the second process writes down what was committed before it wrote."""
    folder = Path(place)
    number = jax.process_index()
    early: list[str] = []
    committed = ["v1"]

    def write_late(*arguments: Any) -> None:
        until = time.monotonic() + WAITS
        while number == 1 and time.monotonic() < until and not early:
            early.extend(path.name for path in folder.iterdir() if path.name in committed)
            time.sleep(0.01)
        write_file(*arguments)

    for module in (resumable_jax.checkpointable, resumable_jax.arguments):
        module.write_file = write_late  # type: ignore[attr-defined]
    iterator = iter(pipeline(number, jax.process_count()))
    for _ in range(5):
        next(iterator)
    v1.save_checkpointables(folder / "v1", {"input": iterator, "other": iterator})
    committed[:] = ["v0"]
    manager = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
    manager.save(folder / "v0", ocp.args.Composite(input=InputSave(iterator)))
    manager.close()
    (folder / f"{number}.json").write_text(json.dumps(early))


if __name__ == "__main__":
    take_part(save)
