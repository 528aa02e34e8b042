"""What the original hook was seen to do under an Estimator, done by ours without its faults."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import tensorflow as tf

if not hasattr(tf, "estimator"):
    pytest.skip("TensorFlow has no Estimator after 2.15", allow_module_level=True)

import tensorflow.compat.v1 as tf1
from resumable_tf import (
    AsyncCheckpointInputPipelineHook,
    CheckpointInputPipelineHook,
    make_dataset,
    make_initializable_iterator,
)
from tf_adapter.sessions import SCALAR, Crash, Raise, Told, aborted, recorded

import resumable as rs

TRACES = {
    scenario["id"]: scenario
    for scenario in json.loads(Path(__file__).with_name("traces.json").read_text())["scenarios"]
}


PIPELINE = rs.range(1000)


class Events(list[str]):
    """What happens, in order, in the words of the traces."""

    @property
    def listeners(self) -> list[str]:
        return [event for event in self if event.startswith("listener")]

    def saves(self, kind: str) -> list[int]:
        return self._numbers(rf"SAVE {kind}.ckpt (\d+)")

    @property
    def steps(self) -> list[tuple[int, int]]:
        matches = (re.fullmatch(r"STEP done (\d+) consumed (\d+)", event) for event in self)
        return [(int(match[1]), int(match[2])) for match in matches if match]

    def _numbers(self, pattern: str) -> list[int]:
        matches = (re.fullmatch(pattern, event) for event in self)
        return [int(match[1]) for match in matches if match]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Events:
    """Notes each file that is written."""
    noted = Events()
    save_model, save_input = tf1.train.Saver.save, rs.Directory.save

    def model(self: Any, session: Any, path: str, *args: Any, **options: Any) -> Any:
        noted.append(f"SAVE {Path(path).name} {options['global_step']}")
        return save_model(self, session, path, *args, **options)

    def state(self: Any, step: int, data: bytes) -> str:
        noted.append(f"SAVE input.ckpt {step}")
        return save_input(self, step, data)

    monkeypatch.setattr(tf1.train.Saver, "save", model)
    monkeypatch.setattr(rs.Directory, "save", state)
    return noted


def run(
    folder: Path,
    events: Events,
    *,
    last_step: int,
    hook: Any = CheckpointInputPipelineHook,
    error: tuple[int, Exception] | None = None,
    listeners: Any = (),
) -> None:
    """Train by an Estimator, with our hook where the original stood."""
    pipeline = PIPELINE

    def input_fn() -> Any:
        dataset = make_dataset(pipeline, SCALAR)
        return make_initializable_iterator(dataset).get_next(), tf.constant(0)

    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        steps: Any = []
        step = tf1.assign_add(tf1.train.get_global_step(), 1)
        done = recorded(step, features, steps)

        class Steps(tf1.train.SessionRunHook):  # type: ignore[misc]
            def after_run(self, run_context: Any, run_values: Any) -> None:
                events.extend(f"STEP done {step} consumed {item}" for step, item in steps)
                steps.clear()

        extra = [] if error is None else [Raise(*error)]
        return tf.estimator.EstimatorSpec(
            mode, loss=tf.constant(0.0), train_op=done, training_hooks=[Steps(), *extra]
        )

    config = tf.estimator.RunConfig(
        save_checkpoints_steps=3, save_summary_steps=None, log_step_count_steps=None
    )
    estimator = tf.estimator.Estimator(model_fn, str(folder), config)
    estimator.train(
        input_fn,
        hooks=[hook(estimator)],
        max_steps=last_step,
        saving_listeners=list(listeners),
    )


def check_exact(events: Events, folder: Path) -> None:
    """The input was saved at the model's steps, and step k has consumed item k - 1."""
    assert events.steps == [(step, step - 1) for step, _ in events.steps]
    kept = {int(path.stem.rpartition("-")[2]) for path in folder.glob("input-*.ckpt")}
    assert set(events.saves("input")) <= set(events.saves("model"))
    assert kept == {int(p.stem.rpartition("-")[2]) for p in folder.glob("model.ckpt-*.index")}


def test_a_fresh_run_saves_and_tells_as_the_original_does(events: Events, tmp_path: Path) -> None:
    recorded_events = Events(TRACES["A"]["events"])
    run(
        tmp_path,
        events,
        last_step=10,
        listeners=[Told(events, f"listener {number}") for number in (1, 2)],
    )
    assert events.listeners == recorded_events.listeners
    assert events.saves("input") == recorded_events.saves("input") == [0, 3, 6, 9, 10]
    assert events.saves("model") == recorded_events.saves("model")
    assert events.steps == recorded_events.steps
    check_exact(events, tmp_path)


def test_a_listener_stops_the_training_as_with_the_original(events: Events, tmp_path: Path) -> None:
    recorded_events = Events(TRACES["G"]["events"])
    listeners = [Told(events, "listener stop", stop_at=6), Told(events, "listener other")]
    run(tmp_path, events, last_step=10, listeners=listeners)
    assert events.listeners == recorded_events.listeners
    assert events.saves("input") == recorded_events.saves("input") == [0, 3, 6]
    assert events.steps == recorded_events.steps
    check_exact(events, tmp_path)


@pytest.mark.parametrize("hook", [CheckpointInputPipelineHook, AsyncCheckpointInputPipelineHook])
def test_a_resume_keeps_to_the_models_steps_where_the_original_drifts(
    hook: Any, events: Events, tmp_path: Path
) -> None:
    run(tmp_path, events, last_step=10, hook=hook)
    del events[:]
    run(tmp_path, events, last_step=20, hook=hook)
    drifted = Events(TRACES["B"]["events"])
    assert events.saves("model") == drifted.saves("model") == [10, 13, 16, 19, 20]
    assert events.saves("input") == [13, 16, 19, 20] != drifted.saves("input")
    assert events.steps == drifted.steps
    check_exact(events, tmp_path)


def test_a_crash_after_a_resume_skips_nothing_where_the_original_does(
    events: Events, tmp_path: Path
) -> None:
    run(tmp_path / "a", events, last_step=10)
    shutil.copytree(tmp_path / "a", tmp_path / "e")
    del events[:]
    with pytest.raises(Crash):
        run(tmp_path / "e", events, last_step=20, error=(15, Crash()))
    crashed = Events(TRACES["E"]["events"])
    assert events.saves("model") == crashed.saves("model") == [10, 13]
    assert events.saves("input") == [13] != crashed.saves("input")
    assert events.steps == crashed.steps
    check_exact(events, tmp_path / "e")

    del events[:]
    run(tmp_path / "e", events, last_step=15)
    skipping = Events(TRACES["F"]["events"])
    assert skipping.steps == [(14, 14), (15, 15)]
    assert events.steps == [(14, 13), (15, 14)]
    assert events.saves("model") == skipping.saves("model") == [13, 15]
    assert events.saves("input") == [15]
    check_exact(events, tmp_path / "e")


def test_a_session_that_recovers_restores_the_step_of_its_model(
    events: Events, tmp_path: Path
) -> None:
    run(tmp_path, events, last_step=12, error=(8, aborted()))
    recovered = Events(TRACES["K"]["events"])
    assert events.steps == recovered.steps
    assert events.saves("model") == recovered.saves("model")
    assert events.saves("input") == recovered.saves("input") == [0, 3, 6, 9, 12]
    check_exact(events, tmp_path)


def test_one_hook_may_serve_one_training_after_another(events: Events, tmp_path: Path) -> None:
    hooks: list[Any] = []

    def same(estimator: Any) -> Any:
        hooks.append(hooks[0] if hooks else CheckpointInputPipelineHook(estimator))
        return hooks[0]

    for last_step in (5, 8, 14):
        run(tmp_path, events, last_step=last_step, hook=same)
    assert events.steps == [(step, step - 1) for step in range(1, 15)]
    check_exact(events, tmp_path)
