"""What one process of a training does that saves model and input by Orbax after every step.

Run by `processes.run`, as ``python -m jax_adapter.runs NUMBER PROCESSES PORT COMMAND FOLDER``.
"""

# Model and input are saved in turns by both interfaces of Orbax, and each step is loaded by the other one.

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax_adapter.member import take_part
from orbax.checkpoint import v1
from resumable_jax import InputCheckpointable, InputRestore, InputSave, device_prefetch

import resumable as rs

RECORDS = 48
EPOCHS = 3
GLOBAL_BATCH = 12
PARTITIONS = 8
ROWS = 4
LENGTH = 8
KINDS = ("shard", "ahead", "partition")
"""Behind `shard`; the same with global batches that lie ahead on the devices; and packed in partitions."""
OPTIMIZER = optax.adam(0.05)


class Batch(NamedTuple):
    """What a process adds to a global batch.

    Attributes:
      rows: float32, one row a record or a packed row.
      records: int32, the number of the record, of each row or token.
    """

    rows: np.ndarray[Any, Any]
    records: np.ndarray[Any, Any]


def features(records: Any) -> Batch:
    """A row for each of ``records``, from its number."""
    numbers = np.asarray(records, np.int32)
    rows = np.sin(numbers[:, None] * np.arange(1, LENGTH + 1)).astype(np.float32)
    return Batch(rows, numbers)


def document(number: int) -> list[int]:
    """A document of 1 to 5 tokens, each 1 + its number."""
    return [1 + number] * (1 + number * 7 % 5)


def packed_rows(rows: Any) -> Batch:
    """The packed rows of a batch, with the records in them."""
    tokens = np.asarray(rows["tokens"])
    return Batch(np.sin(tokens).astype(np.float32), tokens[tokens > 0] - 1)


def packed(part: rs.Pipeline[Any]) -> rs.Pipeline[Batch]:
    """The documents of a partition without every seventh, as batches of packed rows."""
    kept = part.filter(lambda number: number % 7 > 0).map(document)
    return kept.pack(LENGTH, group=4).batch(ROWS).map(packed_rows)


def pipeline(kind: str, number: int, processes: int) -> rs.Pipeline[Batch]:
    """The input of a process, three epochs."""
    records = rs.range(RECORDS).shuffle(seed=5).repeat(EPOCHS)
    if kind != "partition":
        host_batch = GLOBAL_BATCH // processes
        return records.shard(number, processes).batch(host_batch).map(features)
    return records.partition(PARTITIONS, packed).shard(number, processes)


def global_rows(batch: Any, per_process: int) -> jax.Array:
    """The rows of all processes; zeros of a process that has no more, or has fewer."""
    if batch is not None and isinstance(batch.rows, jax.Array):
        return batch.rows
    rows = np.zeros((per_process, LENGTH), np.float32)
    if batch is not None:
        rows[: len(batch.rows)] = batch.rows
    whole: jax.Array = jax.make_array_from_process_local_data(sharding("data"), rows)  # type: ignore[no-untyped-call]
    return whole


def sharding(*axes: str) -> NamedSharding:
    """Of an array whose first axes are divided, over all devices of all processes."""
    spec = PartitionSpec(*axes)  # type: ignore[no-untyped-call]
    return NamedSharding(Mesh(np.asarray(jax.devices()), ("data",)), spec)


def records_of(batch: Any) -> list[int]:
    """The records of this process in a batch."""
    if isinstance(batch.records, jax.Array):
        parts = sorted(batch.records.addressable_shards, key=lambda part: part.index[0].start or 0)
        return [int(number) for part in parts for number in np.asarray(part.data)]
    return [int(number) for number in batch.records]


def fresh_model() -> Any:
    """Weights and the state of the optimizer, the same on every device."""
    weights = jnp.linspace(-1, 1, LENGTH)
    model = {"weights": weights, "optimizer": OPTIMIZER.init(weights)}
    return jax.device_put(model, sharding())


@partial(jax.jit, donate_argnums=0)
def trained(model: Any, rows: jax.Array) -> Any:
    """The model after a step."""

    def loss(weights: jax.Array) -> jax.Array:
        return jnp.mean((jnp.tanh(rows @ weights) - rows.sum(axis=1)) ** 2)

    updates, optimizer = OPTIMIZER.update(jax.grad(loss)(model["weights"]), model["optimizer"])
    return {"weights": optax.apply_updates(model["weights"], updates), "optimizer": optimizer}


class Training:
    """A training of ``kind``, in this process."""

    def __init__(self, kind: str) -> None:
        number, processes = jax.process_index(), jax.process_count()
        self.model = fresh_model()
        self.iterator: Any = iter(pipeline(kind, number, processes))
        if kind == "ahead":
            self.iterator = device_prefetch(self.iterator, 3, sharding("data"))
        self._per_process = ROWS if kind == "partition" else GLOBAL_BATCH // processes

    def steps(self) -> Iterator[list[int]]:
        """Train until no process has a batch; the records of this process in each step."""
        while True:
            batch = next(self.iterator, None)
            if not multihost_utils.process_allgather(np.array(batch is not None)).any():
                return
            self.model = trained(self.model, global_rows(batch, self._per_process))
            yield [] if batch is None else records_of(batch)

    @property
    def weights(self) -> str:
        """All bits of the model."""
        return b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(self.model)).hex()

    def abstract(self) -> Any:
        """The form of the model, for Orbax."""
        return jax.tree.map(ocp.utils.to_shape_dtype_struct, self.model)


def train(folder: Path) -> None:
    """Train to the end, save after every step without waiting for it, and write down what happened."""
    for kind in KINDS:
        training, seen, weights = Training(kind), [], [fresh := Training(kind).weights]
        assert training.weights == fresh
        where = folder / kind
        manager = ocp.CheckpointManager(where, options=ocp.CheckpointManagerOptions(create=True))
        saving: Any = None
        for step, records in enumerate(training.steps(), start=1):
            seen.append(records)
            weights.append(training.weights)
            if saving is not None:
                saving.result()
                saving = None
            if step % 2:
                manager.wait_until_finished()
                saved = {"state": training.model, "input": InputCheckpointable(training.iterator)}
                saving = v1.save_checkpointables_async(where / str(step), saved)
            else:
                model = ocp.args.StandardSave(training.model)
                args = ocp.args.Composite(state=model, input=InputSave(training.iterator))
                assert manager.save(step, args=args)
        if saving is not None:
            saving.result()
        manager.close()
        found = {"seen": seen, "weights": weights}
        (folder / f"{kind}-{jax.process_index()}.json").write_text(json.dumps(found))


def restore(folder: Path, out: Path, *, again: bool) -> None:
    """Go on from every step, and write down the rest of the records; with ``again``, the weights too."""
    for kind in KINDS:
        found = {}
        steps = sorted(int(path.name) for path in (folder / kind).iterdir() if path.name.isdigit())
        for step in steps:
            training = Training(kind)
            where = folder / kind / str(step)
            if step % 2:
                reader = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
                model = ocp.args.StandardRestore(training.abstract())
                args = ocp.args.Composite(state=model, input=InputRestore(training.iterator))
                training.model = reader.restore(where, args)["state"]
                reader.close()
            else:
                wanted = {"state": training.abstract(), "input": training.iterator}
                training.model = v1.load_checkpointables(where, wanted)["state"]
            loaded = training.weights
            rest = list(training.steps()) if again else [*map(records_of, training.iterator)]
            found[step] = {"loaded": loaded, "rest": rest, "ended": training.weights}
        (out / f"{kind}-{jax.process_index()}.json").write_text(json.dumps(found))


def main(command: str, folder: str, *arguments: str) -> None:
    """Do what the command line says."""
    if command == "train":
        train(Path(folder))
    else:
        restore(Path(folder), Path(arguments[0]), again="again" in arguments)


if __name__ == "__main__":
    take_part(main)
