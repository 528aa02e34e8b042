"""Train a TF1 Estimator on TFRecord files, and resume model and input at the same step.

    python estimator_hooks.py                  # 200,000 rows, which it writes first
    python estimator_hooks.py --rows 2000

This needs TensorFlow up to 2.15, the last with Estimators. Beside the imports, two lines are not those
of a program for tf.data: the input is made by `make_dataset`, and the hook is ours. At each save of the
model it writes the place in the input, under the same step.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from resumable_tf import CheckpointInputPipelineHook, make_dataset

import resumable as rs

tf1 = tf.compat.v1
FEATURES = 8
SHARDS = 4
SIGNATURE = (
    {"numbers": tf.TensorSpec((None, FEATURES), tf.float32)},
    tf.TensorSpec((None,), tf.float32),
)


def rows(folder: Path) -> rs.Pipeline[Any]:
    """Features and label of each row."""
    decode = rs.decoders.example({"numbers": ("float32", (FEATURES,)), "label": "float32"})
    return rs.tfrecord(f"{folder}/*.tfrecord", decode=decode).map(features_and_label)


def features_and_label(row: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """What the `model_fn` of an Estimator takes."""
    return {"numbers": row["numbers"]}, row["label"]


def model_fn(features: Any, labels: Any, mode: Any, params: Any) -> Any:
    """Logistic regression with one hidden layer."""
    # Without a seed of its own, each start would begin with other weights.
    seeded = {"kernel_initializer": tf1.glorot_uniform_initializer(seed=0)}
    hidden = tf1.layers.dense(features["numbers"], params["units"], tf.nn.relu, **seeded)
    logits = tf1.layers.dense(hidden, 1, **seeded)[:, 0]
    loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
    train_op = tf1.train.AdamOptimizer(0.001).minimize(loss, tf1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main() -> None:
    """Write the records if they are not there, and train."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000, help="size of the data set")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--every", type=int, default=500, help="steps between checkpoints")
    options = parser.parse_args()

    records = Path(f"records-{options.rows}")
    write_records(records, options.rows)
    pipeline = rows(records).shuffle(seed=0).repeat(options.epochs).batch(options.batch_size)

    def input_fn() -> Any:
        return make_dataset(pipeline, SIGNATURE).prefetch(4)

    config = tf.estimator.RunConfig(
        "run", save_checkpoints_steps=options.every, log_step_count_steps=None
    )
    estimator = tf.estimator.Estimator(model_fn, config=config, params={"units": 16})
    hook = CheckpointInputPipelineHook(estimator)
    done = estimator.get_variable_value("global_step") if estimator.latest_checkpoint() else 0
    print(f"starting after step {done:,}", flush=True)
    estimator.train(input_fn, hooks=[hook])  # up to the end of the input
    print(f"{estimator.get_variable_value('global_step'):,} steps")


def write_records(folder: Path, rows: int) -> None:
    """Some rows: the same every time, in files that are whole or not there."""
    folder.mkdir(exist_ok=True)
    for shard in range(SHARDS):
        path = folder / f"{shard}.tfrecord"
        if path.exists():
            continue
        rng = np.random.default_rng(shard)
        unfinished = path.with_suffix(".part")
        with tf.io.TFRecordWriter(str(unfinished)) as writer:
            for _ in range(shard, rows, SHARDS):
                numbers = rng.normal(size=FEATURES)
                label = float(numbers[0] * numbers[1] > 0)
                example = tf.train.Example()
                example.features.feature["numbers"].float_list.value.extend(numbers)
                example.features.feature["label"].float_list.value.append(label)
                writer.write(example.SerializeToString())
        os.replace(unfinished, path)


if __name__ == "__main__":
    main()
