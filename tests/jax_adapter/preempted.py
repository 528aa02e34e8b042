"""A training of several processes that saves when one of them is told to end, and only then.

Run by `processes.start`, as ``python -m jax_adapter.preempted NUMBER PROCESSES PORT FOLDER``.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp
from jax_adapter.member import take_part
from resumable_jax import InputSave

import resumable as rs

GLOBAL_BATCH = 6
MOST_STEPS = 4000
STEP_SECONDS = 0.02


def pipeline(number: int, processes: int) -> rs.Pipeline[Any]:
    """Numbers without end."""
    numbers = rs.range(48).shuffle(seed=5).repeat()
    return numbers.shard(number, processes).batch(GLOBAL_BATCH // processes)


def train(place: str) -> None:
    """Train until a checkpoint was saved because of a preemption; write down what was seen."""
    folder = Path(place)
    number, processes = jax.process_index(), jax.process_count()
    iterator = iter(pipeline(number, processes))
    options = ocp.CheckpointManagerOptions(save_interval_steps=10 * MOST_STEPS, create=True)
    seen: list[int] = []
    with ocp.CheckpointManager(folder / "run", options=options) as manager:
        for step, batch in zip(range(1, MOST_STEPS), iterator, strict=False):
            seen += batch.tolist()
            if step == 3:
                (folder / f"begun-{number}").touch()
            args = ocp.args.Composite(input=InputSave(iterator))
            saved = manager.save(step, args=args)
            if saved and manager.reached_preemption(step):
                break
            time.sleep(STEP_SECONDS)
    (folder / f"{number}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    take_part(train)
