"""What the page on TensorFlow shows and does not run, for it needs TensorFlow 2.15."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.pages import DOCS, blocks

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import numpy as np
import resumable_tf
import tensorflow as tf
import tensorflow.compat.v1 as tf1
from tf_adapter.sessions import recorded

import resumable as rs

PAGE = DOCS / "frameworks" / "tensorflow-sessions.md"
SIGNATURE = (tf.TensorSpec((None, 2), tf.float32), tf.TensorSpec((None,), tf.float32))


def pipeline() -> rs.Pipeline[Any]:
    rows = np.arange(800, dtype=np.float32).reshape(400, 2)
    return rs.from_arrays((rows, rows.sum(1))).shuffle(0).batch(4)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    public = {name: getattr(resumable_tf, name) for name in dir(resumable_tf) if name[0] != "_"}
    return {**public, "tf": tf, "pipeline": pipeline(), "signature": SIGNATURE, "epochs": 1}


@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="TensorFlow has no Estimator after 2.15")
def test_the_estimator(names: dict[str, Any], tmp_path: Path) -> None:
    steps: Any = []
    (recipe,) = (block.text for block in blocks(PAGE) if "estimator.train(" in block.text)

    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        step = tf1.assign_add(tf1.train.get_global_step(), 1)
        done = recorded(step, labels[0], steps)
        return tf.estimator.EstimatorSpec(mode, loss=tf.constant(0.0), train_op=done)

    for last in (40, 100):
        names["estimator"] = tf.estimator.Estimator(model_fn, str(tmp_path / "model"))
        exec(recipe.replace("max_steps=100", f"max_steps={last}"), names)
    assert [first for _, first in steps] == [labels[0] for _, labels in pipeline()]
