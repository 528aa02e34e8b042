"""Processes that have a storage of their own save and load an input there, in both interfaces of Orbax.

Run by `processes.run`, as ``python -m jax_adapter.local_storage NUMBER PROCESSES PORT FOLDER``.
"""

# Orbax wants the same path on all processes. The folder in which a process works has one path for all.

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp
from jax_adapter.member import take_part
from orbax.checkpoint import v1
from resumable_jax import InputCheckpointHandler, InputRestore, InputSave

import resumable as rs

STEPS = 5
HERE = Path("/proc/self/cwd")


def pipelines(number: int, processes: int) -> dict[str, rs.Pipeline[Any]]:
    """An input whose state is equal on all processes, and one with partitions."""
    numbers = rs.range(90).shuffle(seed=1)
    parts = numbers.partition(6, lambda part: part.filter(lambda number: number % 4 > 0))
    return {
        "shard": numbers.shard(number, processes),
        "partition": parts.shard(number, processes),
    }


def save_and_load(name: str, pipeline: rs.Pipeline[Any]) -> dict[str, list[Any]]:
    """What comes after a save, from the iterator itself and from what either interface loads."""
    iterator = iter(pipeline)
    for _ in range(STEPS):
        next(iterator)
    context = v1.Context()
    context.multiprocessing.primary_host = None
    with context:
        v1.save_checkpointables(HERE / f"{name}-1", {"input": iterator})

    options = ocp.options.MultiprocessingOptions(primary_host=None)
    registry = ocp.DefaultCheckpointHandlerRegistry()
    handler = InputCheckpointHandler(multiprocessing_options=options)
    registry.add("input", InputSave, handler)
    registry.add("input", InputRestore, handler)
    manager = ocp.CheckpointManager(
        HERE / f"{name}-0",
        options=ocp.CheckpointManagerOptions(
            multiprocessing_options=options, create=False, enable_async_checkpointing=False
        ),
        handler_registry=registry,
    )
    manager.save(STEPS, args=ocp.args.Composite(input=InputSave(iterator)))
    loaded = {"rest": list(iterator)}

    with context:
        wanted = {"input": iter(pipeline)}
        loaded["v1"] = [*v1.load_checkpointables(HERE / f"{name}-1", wanted)["input"]]
    args = ocp.args.Composite(input=InputRestore(iter(pipeline)))
    loaded["v0"] = [*manager.restore(STEPS, args=args)["input"]]
    manager.close()
    return loaded


def main(place: str) -> None:
    """Save and load both inputs in a folder of this process, and write down what came."""
    number, processes = jax.process_index(), jax.process_count()
    folder = Path(place, str(number))
    folder.mkdir()
    os.chdir(folder)
    for name in pipelines(0, 1):
        Path(f"{name}-0").mkdir()
    found = {
        name: save_and_load(name, pipeline)
        for name, pipeline in pipelines(number, processes).items()
    }
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    take_part(main)
