"""Kill trainings whose model and input Orbax saves after every step, at random moments, and follow both.

Run as `PYTHONPATH=.:tests:adapters python -m campaigns.orbax_kills --kills 100`, with JAX and Orbax installed; the
suite runs a short form. Half of the trainings have two processes, all of which are killed.
"""

# A fork of a process that has imported JAX must not have used it. So this process uses nothing of JAX.

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import warnings
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from campaigns.harness import (
    KILLED,
    Log,
    Report,
    fresh_folders,
    kill,
    logged,
    run_kills,
    start_telling,
)
from jax_adapter.processes import free_port
from resumable_jax import InputRestore, InputSave

import resumable as rs

MOST_SAVES: Final = 5
"""Of a life, before it may be killed."""
LONGEST: Final = 0.25
"""Seconds from the last of them to the kill."""
LIVES: Final = 12
"""After so many another run is begun."""
GLOBAL_BATCH: Final = 8
PARTITIONS: Final = 6


class Kind(NamedTuple):
    """What is trained on.

    Attributes:
      name: of the pipeline.
      processes: how many a life may have.
    """

    name: str
    processes: tuple[int, ...]


KINDS: Final = (Kind("shards", (1, 2)), Kind("partitions", (2,)))
"""With shards, a step is the same global batch for any number of processes; with partitions it is not."""


def pipeline(kind: str, number: int, processes: int) -> rs.Pipeline[Any]:
    """Numbers without end, as batches of a process."""
    numbers = rs.range(1000).shuffle(seed=3)
    if kind == "shards":
        return numbers.repeat().shard(number, processes).batch(GLOBAL_BATCH // processes)
    return numbers.partition(PARTITIONS, _packed).shard(number, processes)


def _packed(part: rs.Pipeline[Any]) -> rs.Pipeline[Any]:
    kept = part.filter(lambda number: number % 5 > 0).repeat()
    return kept.map(lambda number: [number] * (1 + number % 3)).pack(6, group=4)


def total(batch: Any) -> int:
    """The sum of the numbers in a batch."""
    tokens = batch["tokens"] if isinstance(batch, dict) else batch
    return int(np.asarray(tokens).sum())


@dataclass
class ResumingReport(Report):
    """What this campaign found."""

    resumed: int = 0
    """Lives that went on from a checkpoint."""


def campaign(kills: int, seed: int, folder: Path) -> ResumingReport:
    """Kill ``kills`` trainings, most of which go on where the one before was killed."""
    chosen, report = random.Random(seed), ResumingReport()
    folders = fresh_folders(folder, LIVES)
    for life in range(kills):
        place = next(folders)
        kind = KINDS[life // LIVES % len(KINDS)]
        processes = chosen.choice(kind.processes)
        place.mkdir(parents=True, exist_ok=True)
        newest = _committed(place)
        _live(
            place, kind.name, processes, chosen.randint(1, MOST_SAVES), chosen.uniform(0, LONGEST)
        )
        report.kills += 1
        report.resumed += newest > 0
        report.unfinished += any(".orbax-checkpoint-tmp" in path.name for path in place.rglob("*"))
        report.problems += [
            f"life {life}: {text}" for text in _problems(place, kind.name, newest, processes)
        ]
        report.steps += max(_committed(place) - newest, 0)
        (place / "log").unlink()
    return report


def _committed(place: Path) -> int:
    """The newest committed step; 0 if there is none."""
    steps = [int(path.name) for path in place.iterdir() if path.name.isdigit()]
    return max(steps, default=0)


def _live(place: Path, kind: str, processes: int, saves: int, seconds: float) -> None:
    """Train in ``processes`` processes, and kill all of them after some saves."""
    port = free_port()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the fork, see above
        started = [
            start_telling(partial(_train, place, kind, number, processes, port))
            for number in range(processes)
        ]
    with started[0][1] as told:
        for _ in range(saves):
            assert told.read(1), "the process did not come so far"
        time.sleep(seconds)
        for child, _ in started:
            os.kill(child, signal.SIGSTOP)  # so that none sees another one die
        ended = [kill(child) for child, _ in started]
    for _, other in started[1:]:
        other.close()
    assert ended == [KILLED] * processes, f"a process ended by itself: {ended}"


def _train(place: Path, kind: str, number: int, processes: int, port: int, descriptor: int) -> None:
    """Go on from the newest checkpoint, note each step, and save it, until killed."""
    if processes > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", processes, number)
    log = Log(place / "log", number)
    iterator = iter(pipeline(kind, number, processes))
    model = {"step": jnp.zeros((), jnp.int32), "total": jnp.zeros((), jnp.int32)}
    if processes > 1:
        everywhere = jax.sharding.NamedSharding(
            jax.sharding.Mesh(np.asarray(jax.devices()), ("data",)), jax.sharding.PartitionSpec()
        )
        model = jax.device_put(model, everywhere)
    options = ocp.CheckpointManagerOptions(max_to_keep=2)
    with ocp.CheckpointManager(place, options=options) as manager:
        newest = manager.latest_step()
        if newest is not None:
            form = jax.tree.map(ocp.utils.to_shape_dtype_struct, model)
            args = ocp.args.Composite(
                model=ocp.args.StandardRestore(form), input=InputRestore(iterator)
            )
            model = manager.restore(newest, args=args).model
        log.write(
            "began",
            iterator.step,
            json.dumps([newest or 0, *map(int, (model["step"], model["total"]))]),
        )
        for batch in iterator:
            log.write("batch", iterator.step, total(batch))
            # Every process adds what all were given: the reference tells it, so that none waits.
            step = int(model["step"]) + 1
            model = jax.tree.map(
                lambda old, new: jax.device_put(np.int32(new), old.sharding),
                model,
                {"step": step, "total": _total_until(kind, processes, step)},
            )
            args = ocp.args.Composite(model=ocp.args.StandardSave(model), input=InputSave(iterator))
            manager.save(iterator.step, args=args)
            os.write(descriptor, b"+")


@cache
def _totals(kind: str, processes: int, number: int) -> tuple[list[int], Any]:
    """The sums of the batches of a process, as far as they were asked for, and where they come from."""
    return [], iter(pipeline(kind, number, processes))


def _sum_of_batch(kind: str, processes: int, number: int, step: int) -> int:
    """The sum of the batch of a process at ``step``, from 1, in a run without kills."""
    known, more = _totals(kind, processes, number)
    while len(known) < step:
        known.append(total(next(more)))
    return known[step - 1]


def _total_until(kind: str, processes: int, step: int) -> int:
    """The sum of the batches of all processes until ``step``."""
    steps = range(1, step + 1)
    numbers = range(processes)
    return (
        sum(_sum_of_batch(kind, processes, number, one) for one in steps for number in numbers)
        % 2**31
    )


def _problems(place: Path, kind: str, newest: int, processes: int) -> list[str]:
    """What a life did wrong that began when ``newest`` was the newest committed step."""
    found = []
    at = dict.fromkeys(range(processes), newest)
    for event, number, step, detail in logged(place / "log"):
        if event == "began":
            model = [newest, newest, _total_until(kind, processes, newest)]
            if step != newest or json.loads(detail) != model:
                found.append(f"process {number} began at {step} with {detail}, wanted {model}")
        else:
            at[number] += 1
            wanted = _sum_of_batch(kind, processes, number, at[number])
            if (step, detail) != (at[number], wanted):
                found.append(
                    f"process {number} was given {detail} at step {step}, wanted {wanted} at {at[number]}"
                )
    return found


if __name__ == "__main__":
    sys.exit(run_kills(campaign, "orbax-kills", __doc__, kills=100))
