"""Train a Flax NNX model, with model, optimizer and input in one Orbax checkpoint.

    python nnx_orbax.py                      # 100,000 points, which it writes first
    python nnx_orbax.py --points 400 --batch-size 20 --every 8

Points on two spirals lie in a file of JSON lines, and are shuffled anew in each epoch. Orbax writes each
checkpoint in the background. The step at which it is saved has its model, its moments of Adam, its
generator of the dropout and its place in the input in one folder, which is there as a whole or not at all. So a run
that was killed ends with the same weights, bit for bit.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import resumable_jax  # noqa: F401  # lets Orbax save the iterator of a pipeline
from flax import nnx
from orbax.checkpoint import v1 as ocp

import resumable as rs

RUN = Path("run")
TRAINED = Path("trained.jsonl")


def batches_of(path: Path, batch_size: int, epochs: int) -> rs.Pipeline[Any]:
    """Batches of points, each moved a little, and of the spirals that they lie on."""
    return (
        rs.jsonl(path)
        .shuffle(seed=0)
        .repeat(epochs)
        .random_map(moved, seed=0)
        .batch(batch_size, drop_last=True)
    )


def moved(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """A point next to that of ``row``, by random numbers that belong to its place in the run."""
    point = np.asarray(row["point"]) + rng.normal(scale=0.02, size=2)
    return row | {"point": point.astype(np.float32)}


class Classifier(nnx.Module):
    """Tells the two spirals apart."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(2, 64, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.second = nnx.Linear(64, 64, rngs=rngs)
        self.last = nnx.Linear(64, 2, rngs=rngs)

    def __call__(self, points: jax.Array) -> jax.Array:
        """Logits of the two spirals, of shape (points, 2)."""
        hidden = self.dropout(nnx.relu(self.first(points)))
        return self.last(nnx.relu(self.second(hidden)))


@nnx.jit
def train(model: Classifier, optimizer: nnx.Optimizer[Classifier], batch: Any) -> jax.Array:
    """One step; returns the loss."""

    def loss_of(model: Classifier) -> jax.Array:
        logits = model(batch["point"])
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["spiral"])
        return jnp.mean(losses)

    loss: jax.Array
    loss, gradients = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, gradients)
    return loss


class Training:
    """What one checkpoint holds: the arrays of model and optimizer, and the place in the input."""

    def __init__(self, pipeline: rs.Pipeline[Any]) -> None:
        self.model = Classifier(nnx.Rngs(0))
        self.optimizer = nnx.Optimizer(self.model, optax.adam(1e-3), wrt=nnx.Param)
        self.batches = iter(pipeline)

    def checkpointables(self) -> dict[str, Any]:
        """For Orbax, to save them or to load into them."""
        arrays = nnx.state((self.model, self.optimizer))
        return {"train": nnx.to_pure_dict(arrays), "input": self.batches}

    def load(self, saver: ocp.training.Checkpointer) -> None:
        """Go on at the newest checkpoint, or begin at the start; the iterator is loaded in place."""
        if saver.latest is None:
            return
        loaded = saver.load_checkpointables(saver.latest, self.checkpointables())
        arrays = nnx.state((self.model, self.optimizer))
        nnx.replace_by_pure_dict(arrays, loaded["train"])
        nnx.update((self.model, self.optimizer), arrays)


def main() -> None:
    """Write the points if they are not there, and train from the newest checkpoint or the start."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=int, default=100_000, help="points in the data set")
    parser.add_argument("--batch-size", type=int, default=250)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--every", type=int, default=100, help="steps between checkpoints")
    options = parser.parse_args()

    path = Path(f"spirals-{options.points}.jsonl")
    write_points(path, options.points)
    training = Training(batches_of(path, options.batch_size, options.epochs))
    policies = ocp.training.save_decision_policies, ocp.training.preservation_policies
    saving = None
    with ocp.training.Checkpointer(
        RUN.absolute(),
        save_decision_policy=policies[0].FixedIntervalPolicy(options.every),
        preservation_policy=policies[1].LatestN(2),
        cleanup_tmp_directories=True,  # of saves that a kill has cut short
    ) as saver:
        training.load(saver)
        batches = training.batches
        print(f"starting after step {batches.step:,}", flush=True)
        note(start=batches.step)
        for batch in batches:
            loss = train(training.model, training.optimizer, batch)
            note(step=batches.step, rows=batch["number"].tolist())
            if saver.should_save(batches.step):
                if saving:
                    saving.result()  # of the save before: it raises what went wrong
                saving = saver.save_checkpointables_async(batches.step, training.checkpointables())
                print(f"step {batches.step:,}: loss {loss:.3f}", flush=True)
        if saving:
            saving.result()
    weights = jax.tree.leaves(nnx.to_pure_dict(nnx.state(training.model, nnx.Param)))
    np.savez("classifier.npz", *weights)
    print(f"{batches.step:,} steps")


def note(**entry: Any) -> None:
    """Append a line to the record of what was trained on."""
    with TRAINED.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def write_points(path: Path, count: int) -> None:
    """Points of two spirals, the same every time, in a file that is whole or not there."""
    if path.exists():
        return
    rng = np.random.default_rng(0)
    unfinished = path.with_suffix(".part")
    with unfinished.open("w", encoding="utf-8") as file:
        for number in range(count):
            spiral = number % 2
            angle = rng.uniform(1, 10)
            turned = angle + np.pi * spiral
            point = [angle / 10 * np.cos(turned), angle / 10 * np.sin(turned)]
            row = {"number": number, "point": point, "spiral": spiral}
            file.write(json.dumps(row) + "\n")
    os.replace(unfinished, path)


if __name__ == "__main__":
    main()
