"""The TensorFlow recipes of the README run, twice, and go on where they were."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from checkpoint.saving_loops import files_in

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import numpy as np
import resumable_tf
import tensorflow as tf
import tensorflow.compat.v1 as tf1
from tf_adapter.sessions import recorded

import resumable as rs

README = Path(__file__).parents[2] / "README.md"
SIGNATURE = (tf.TensorSpec((None, 2), tf.float32), tf.TensorSpec((None,), tf.float32))


def pipeline() -> rs.Pipeline[Any]:
    rows = np.arange(800, dtype=np.float32).reshape(400, 2)
    return rs.from_arrays((rows, rows.sum(1))).shuffle(0).batch(4)


def recipes() -> list[str]:
    text = README.read_text(encoding="utf-8")
    section = text[text.index("## TensorFlow") : text.index("## A stage of your own")]
    return re.findall(r"^```py\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    public = {name: getattr(resumable_tf, name) for name in dir(resumable_tf) if name[0] != "_"}
    return {**public, "tf": tf, "pipeline": pipeline(), "signature": SIGNATURE, "epochs": 1}


def test_there_are_four() -> None:
    assert len(recipes()) == 4


@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="TensorFlow has no Estimator after 2.15")
def test_the_estimator(names: dict[str, Any], tmp_path: Path) -> None:
    steps: Any = []

    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        step = tf1.assign_add(tf1.train.get_global_step(), 1)
        done = recorded(step, labels[0], steps)
        return tf.estimator.EstimatorSpec(mode, loss=tf.constant(0.0), train_op=done)

    for last in (40, 100):
        names["estimator"] = tf.estimator.Estimator(model_fn, str(tmp_path / "model"))
        exec(recipes()[0].replace("max_steps=100", f"max_steps={last}"), names)
    assert [first for _, first in steps] == [labels[0] for _, labels in pipeline()]


def test_the_session(names: dict[str, Any]) -> None:
    steps: Any = []

    def make_train_op(item: Any) -> Any:
        step = tf1.assign_add(tf1.train.get_or_create_global_step(), 1)
        return recorded(step, item[1][0], steps)

    names["make_train_op"] = make_train_op
    for text in ("hooks=[hook, tf.compat.v1.train.StopAtStepHook(last_step=30)]", "hooks=[hook]"):
        exec(recipes()[1].replace("hooks=[hook]", text), names)
    assert [first for _, first in steps] == [labels[0] for _, labels in pipeline()]


def test_the_loop(names: dict[str, Any]) -> None:
    seen: Any = []
    layer = tf.keras.layers.Dense(1)
    layer.build((None, 2))

    class Stop(Exception):
        pass

    def train_step(batch: Any) -> None:
        if len(seen) == 30 and not names.get("again"):
            raise Stop
        seen.append(batch[1][0])

    names |= {"model": tf.Module(), "optimizer": tf.Module(), "train_step": train_step}
    with pytest.raises(Stop):
        exec(recipes()[2], names)
    names["again"] = True
    exec(recipes()[2], names)
    assert seen == [labels[0] for _, labels in pipeline()]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_keras(names: dict[str, Any], tmp_path: Path) -> None:
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    exec(recipes()[3], names | {"model": model})
    assert int(model.optimizer.iterations) == 100
    assert files_in(tmp_path / "input") == [
        "input-000000000000.ckpt", "input-000000000050.ckpt", "input-000000000100.ckpt",
    ]  # fmt: skip
