"""TensorFlow's own AsyncCheckpointSaverHook, which 2.15 has, and ours: the same files and the same calls."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import tensorflow as tf

if not hasattr(tf, "estimator"):
    pytest.skip("TensorFlow has neither the hook nor Estimator after 2.15", allow_module_level=True)

import tensorflow.compat.v1 as tf1
from resumable_tf import (
    AsyncCheckpointSaverHook,
    CheckpointInputPipelineHook,
    make_dataset,
    make_initializable_iterator,
)
from tf_adapter.model_runs import problems_of
from tf_adapter.sessions import SCALAR, Told, models, recorded, saved

import resumable as rs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """The folder of the runs by both hooks, and what listeners were told in each."""
    folder = tmp_path_factory.mktemp("runs")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tf_adapter.both_savers", str(folder)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(root / each) for each in (".", "tests", "adapters")),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder, json.loads(done.stdout)


def files(folder: Path) -> list[str]:
    names = (re.sub(r"tfevents\.[0-9]+\..*", "tfevents", path.name) for path in folder.iterdir())
    return sorted({name for name in names if "input" not in name})


@pytest.mark.parametrize("name", ["ours", "ours-with-input"])
def test_files_calls_and_variables_are_the_same(name: str, runs: Any) -> None:
    ours, theirs = runs[0] / name, runs[0] / "theirs"
    assert runs[1][name] == runs[1]["theirs"]
    assert files(ours) == files(theirs)
    state = (theirs / "checkpoint").read_text().replace(str(theirs), str(ours))
    assert (ours / "checkpoint").read_text() == state
    assert problems_of(ours, with_input=name != "ours") == []
    assert problems_of(theirs, with_input=False) == []
    assert saved(ours) == ([] if name == "ours" else models(ours))


@pytest.mark.parametrize("name", ["theirs", "ours", "ours-with-input"])
def test_the_meta_graph_beside_the_model_can_be_imported(name: str, runs: Any) -> None:
    newest = tf.train.latest_checkpoint(str(runs[0] / name))
    if name == "ours-with-input":  # its graph has functions of this process
        assert tf1.MetaGraphDef.FromString(Path(f"{newest}.meta").read_bytes()).graph_def.node
        return
    with tf.Graph().as_default(), tf1.Session() as session:
        saver = tf1.train.import_meta_graph(f"{newest}.meta")
        saver.restore(session, newest)
        assert session.run(tf1.train.get_global_step()) == 16


@pytest.mark.parametrize("place", ["hooks", "training_chief_hooks"])
@pytest.mark.parametrize("kind", ["estimator", "config", "folder"])
def test_an_estimator_saves_by_it_alone(place: str, kind: str, tmp_path: Path) -> None:
    """As written for the originals, but for the imports and the making of the data set."""
    steps: Any = []
    calls: list[str] = []
    config = tf.estimator.RunConfig(str(tmp_path), save_checkpoints_steps=3)

    def input_fn() -> Any:
        dataset = make_dataset(rs.range(100), SCALAR)
        return make_initializable_iterator(dataset).get_next(), tf.constant(0)

    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        step = tf1.assign_add(tf1.train.get_global_step(), 1)
        chief = [AsyncCheckpointSaverHook(str(tmp_path), save_steps=3)]
        return tf.estimator.EstimatorSpec(
            mode,
            loss=tf.constant(0.0),
            train_op=recorded(step, features, steps),
            training_chief_hooks=chief if place != "hooks" else [],
        )

    for last_step in (5, 8):
        estimator = tf.estimator.Estimator(model_fn, config=config)
        given: Any = {"estimator": estimator, "config": config, "folder": str(tmp_path)}[kind]
        when: dict[str, Any] = {"save_steps": 3} if kind == "folder" else {}
        hooks: list[Any] = [CheckpointInputPipelineHook(given, **when)]
        if place == "hooks":
            hooks.append(AsyncCheckpointSaverHook(str(tmp_path), save_steps=3))
        estimator.train(input_fn, hooks=hooks, max_steps=last_step, saving_listeners=[Told(calls)])
    assert steps == [(step, step - 1) for step in range(1, 9)]
    assert models(tmp_path) == saved(tmp_path) == [0, 3, 5, 8]
    assert [call for call in calls if "before" in call] == [
        f"before_save {step}" for step in (0, 3, 5, 5, 8)
    ]


def test_a_run_config_needs_a_folder() -> None:
    config = tf.estimator.RunConfig(save_checkpoints_steps=3)
    with pytest.raises(rs.InvalidArgument, match="model_dir of a RunConfig must be set"):
        CheckpointInputPipelineHook(config)


def test_the_settings_are_those_of_the_run_config(tmp_path: Path) -> None:
    none = tf.estimator.RunConfig(
        str(tmp_path), save_checkpoints_steps=None, save_checkpoints_secs=None
    )
    with pytest.raises(ValueError, match="Either every_secs or every_steps should be provided"):
        CheckpointInputPipelineHook(none, None)
    with pytest.raises(ValueError, match="Can not provide both every_secs and every_steps"):
        CheckpointInputPipelineHook(none, save_steps=1, save_secs=1)
    CheckpointInputPipelineHook(estimator=none, external_state_policy="warn", save_secs=1)
