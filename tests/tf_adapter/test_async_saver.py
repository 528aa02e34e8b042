"""The model saved in a thread: as it was at its step, after the input of that step, and none left out."""

from __future__ import annotations

import threading
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from resumable_tf import (
    AsyncCheckpointSaverHook,
    CheckpointInputPipelineHook,
    make_dataset,
    make_initializable_iterator,
)
from resumable_tf.sessions.snapshot import ModelSnapshot
from tf_adapter.model_runs import NUMBERS, problems_of, train_model
from tf_adapter.sessions import SCALAR, Crash, Raise, Told, aborted, models, saved
from tf_adapter.versions import dealt

import resumable as rs

SAVES = [0, 3, 6, 9, 10]


def saver(folder: Path, **options: Any) -> AsyncCheckpointSaverHook:
    return AsyncCheckpointSaverHook(str(folder), save_steps=3, **options)


class Gate(tf1.train.SessionRunHook):  # type: ignore[misc]
    """Lets a model be written only when the training is some steps further, or has begun anew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: int = 2) -> None:
        self._step = 0
        self._sessions: list[int] = []
        self._moved = threading.Condition()
        write = ModelSnapshot.write

        def wait(snapshot: ModelSnapshot, path: str, step: int) -> None:
            with self._moved:
                begun = len(self._sessions)
                if step != self._sessions[-1]:
                    self._moved.wait_for(
                        lambda: self._step >= step + steps or len(self._sessions) > begun, 60
                    )
            write(snapshot, path, step)

        monkeypatch.setattr(ModelSnapshot, "write", wait)

    def begin(self) -> None:
        self._global_step = tf1.train.get_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        step = int(session.run(self._global_step))
        self._sessions.append(step)
        self._move_to(step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._move_to(int(run_context.session.run(self._global_step)))

    def end(self, session: Any) -> None:
        self._move_to(10**9)

    def _move_to(self, step: int) -> None:
        with self._moved:
            self._step = step
            self._moved.notify_all()


def test_a_checkpoint_holds_the_variables_of_its_step_however_late_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    train_model(tmp_path, lambda: [gate, saver(tmp_path)], last_step=10)
    assert models(tmp_path) == saved(tmp_path) == SAVES
    assert problems_of(tmp_path) == []
    assert not list(tmp_path.glob(".*unfinished"))


@pytest.mark.parametrize("crash", dealt([1, 3, 4, 6, 8]))
def test_crashes_lose_and_repeat_nothing(
    crash: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    steps: Any = []
    for at in (crash, crash + 4, None):
        extra = [] if at is None else [Raise(at, Crash())]
        hooks = [gate, saver(tmp_path), *extra]
        train_model(tmp_path, partial(list, hooks), last_step=14, steps=steps)
        assert problems_of(tmp_path) == []
    assert steps == [(step, NUMBERS[step - 1]) for step, _ in steps]
    assert {step for step, _ in steps} == set(range(1, 15))


@pytest.mark.parametrize("at", dealt([1, 3, 4, 5, 7, 9]))
def test_a_session_that_recovers_while_a_model_is_written_goes_on_with_its_input(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    hooks = [gate, saver(tmp_path), Raise(at, aborted())]
    steps = train_model(tmp_path, lambda: hooks, last_step=14)
    assert steps == [(step, NUMBERS[step - 1]) for step, _ in steps]
    assert steps[-1][0] == 14
    assert problems_of(tmp_path) == []
    assert models(tmp_path)[-1] == saved(tmp_path)[-1] == 14


def test_later_inputs_stay_until_there_is_a_model_to_go_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state file may still name a later model, of a write that was in work."""
    train_model(tmp_path, lambda: [saver(tmp_path)], last_step=10)
    inputs: list[list[int]] = []
    write = ModelSnapshot.write

    def noted(snapshot: ModelSnapshot, path: str, step: int) -> None:
        inputs.append(saved(tmp_path))
        write(snapshot, path, step)

    monkeypatch.setattr(ModelSnapshot, "write", noted)
    tf1.train.update_checkpoint_state(str(tmp_path), str(tmp_path / "model.ckpt-6"))
    steps = train_model(tmp_path, lambda: [saver(tmp_path)], last_step=8)
    assert steps == [(7, NUMBERS[6]), (8, NUMBERS[7])]
    assert inputs == [SAVES, [0, 3, 6, 8]]
    assert saved(tmp_path, r"input-0*([0-9]+)\.ckpt\.superseded") == [9, 10]


def test_a_failed_write_is_raised_once_and_leaves_the_model_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ModelSnapshot.write
    failures = iter([OSError(28, "no space left on device")])

    def fail_at_six(snapshot: ModelSnapshot, path: str, step: int) -> None:
        for failure in failures if step == 6 else ():
            raise failure
        write(snapshot, path, step)

    monkeypatch.setattr(ModelSnapshot, "write", fail_at_six)
    with pytest.raises(rs.SaveError, match=r"step 6 could not be saved: .*no space left"):
        train_model(tmp_path, lambda: [saver(tmp_path)], last_step=10)
    assert models(tmp_path) == [0, 3]
    assert problems_of(tmp_path) == []
    steps = train_model(tmp_path, lambda: [saver(tmp_path)], last_step=10)
    assert steps[0] == (4, NUMBERS[3])
    assert models(tmp_path) == [0, 3, 6, 9, 10]


def test_a_failed_write_of_the_input_keeps_its_model_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = rs.Directory.save

    def fail_at_six(self: Any, step: int, data: bytes) -> str:
        if step == 6:
            raise OSError(28, "no space left on device")
        return save(self, step, data)

    monkeypatch.setattr(rs.Directory, "save", fail_at_six)
    with pytest.raises(rs.SaveError, match="step 6 could not be saved"):
        train_model(tmp_path, lambda: [saver(tmp_path)], last_step=10)
    assert models(tmp_path) == saved(tmp_path) == [0, 3]


def test_listeners_are_called_at_each_save_and_before_the_end(tmp_path: Path) -> None:
    events: list[str] = []
    listeners = [Told(events, "first"), Told(events, "second")]
    train_model(tmp_path, lambda: [saver(tmp_path, listeners=listeners)], last_step=10)
    expected = ["first begin", "second begin"]
    for step in SAVES:
        for event in ("before_save", "after_save"):
            expected += [f"first {event} {step}", f"second {event} {step}"]
    assert events == [*expected, "first end 10", "second end 10"]


def test_a_listener_stops_the_training(tmp_path: Path) -> None:
    events: list[str] = []
    steps = train_model(
        tmp_path, lambda: [saver(tmp_path, listeners=[Told(events, stop_at=6)])], last_step=500
    )
    # A save is known of a little later than it was begun, and before the next one.
    assert 6 <= steps[-1][0] <= 9
    assert f"end {steps[-1][0]}" == events[-1]


def test_without_an_input_it_saves_the_model_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for last_step in (10, 14):
        gate = Gate(monkeypatch)
        hooks = [gate, saver(tmp_path)]
        train_model(tmp_path, partial(list, hooks), last_step=last_step, with_input=False)
    assert models(tmp_path) == [6, 9, 10, 13, 14]
    assert problems_of(tmp_path, with_input=False) == []
    assert not list(tmp_path.glob("*input*"))


@pytest.mark.parametrize("input_first", [True, False])
def test_the_hook_of_the_input_leaves_its_input_to_it(input_first: bool, tmp_path: Path) -> None:
    events: list[str] = []
    steps: Any = []
    for at in (5, 8, None):

        def hooks(at: int | None = at) -> list[Any]:
            both = [
                CheckpointInputPipelineHook(
                    tmp_path, save_steps=2, name="mine", listeners=[Told(events, "input")]
                ),
                saver(tmp_path, listeners=[Told(events, "model")]),
            ]
            extra = [] if at is None else [Raise(at, Crash())]
            return [*(both if input_first else reversed(both)), *extra]

        train_model(tmp_path, hooks, last_step=10, steps=steps)
    assert steps == [(step, NUMBERS[step - 1]) for step, _ in steps]
    assert saved(tmp_path, r"mine-0*([0-9]+)\.ckpt") == models(tmp_path)
    assert not list(tmp_path.glob("input*"))
    last = [event for event in events if event.endswith(" 10")]
    assert last[:4] == [
        "model before_save 10", "input before_save 10", "model after_save 10", "input after_save 10",
    ]  # fmt: skip
    assert sorted(last[4:]) == ["input end 10", "model end 10"]


def test_all_inputs_of_the_graph_are_of_the_models_step(tmp_path: Path) -> None:
    first, second = rs.range(30).shuffle(1), rs.range(100, 130).shuffle(2)
    steps = []
    for last_step in (5, 9):
        with tf.Graph().as_default():
            items = [
                make_initializable_iterator(make_dataset(pipeline, SCALAR), pipeline).get_next()
                for pipeline in (first, second)
            ]
            with tf.control_dependencies(items):
                step = tf1.assign_add(tf1.train.get_or_create_global_step(), 1)
            with tf1.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path),
                save_checkpoint_steps=None,
                save_checkpoint_secs=None,
                hooks=[saver(tmp_path), tf1.train.StopAtStepHook(last_step=last_step)],
            ) as session:
                while not session.should_stop():
                    steps.append([int(got) for got in session.run([step, *items])])
    expected = zip(range(1, 10), first, second, strict=False)
    assert steps == [list(each) for each in expected]
    assert models(tmp_path) == saved(tmp_path) == [0, 3, 5, 8, 9]
    assert saved(tmp_path, r"input_1-0*([0-9]+)\.ckpt") == models(tmp_path)


SAVERS: dict[str, Any] = {
    "few": lambda: tf1.train.Saver(max_to_keep=2),
    "all": lambda: tf1.train.Saver(max_to_keep=None),
    "shards": lambda: tf1.train.Saver(sharded=True, max_to_keep=2),
    "relative": lambda: tf1.train.Saver(save_relative_paths=True, max_to_keep=2),
}


@pytest.mark.parametrize(
    ("kind", "given"), dealt(product(SAVERS, ["saver", "scaffold", "collection"]))
)
def test_the_saver_decides_how_and_what_is_kept(given: str, kind: str, tmp_path: Path) -> None:
    made: list[Any] = []

    def scaffold() -> Any:
        made.append(tf1.train.Scaffold(saver=SAVERS[kind]()))
        if given == "collection":
            tf1.add_to_collection(tf1.GraphKeys.SAVERS, made[-1].saver)
        return made[-1]

    def hooks() -> list[Any]:
        options = {"saver": {"saver": made[-1].saver}, "scaffold": {"scaffold": made[-1]}}
        return [saver(tmp_path, **options.get(given, {}))]

    train_model(tmp_path, hooks, last_step=10, scaffold=scaffold)
    assert models(tmp_path) == saved(tmp_path) == (SAVES if kind == "all" else [9, 10])
    assert made[-1].saver.last_checkpoints == (
        [] if kind == "all" else [str(tmp_path / f"model.ckpt-{step}") for step in (9, 10)]
    )
    assert problems_of(tmp_path) == []
    assert (kind == "relative") == (str(tmp_path) not in (tmp_path / "checkpoint").read_text())


def test_other_saves_by_the_same_saver_wait_for_the_thread(tmp_path: Path) -> None:
    train_model(tmp_path, lambda: [saver(tmp_path)], last_step=10, save_checkpoint_steps=2)
    assert models(tmp_path) == saved(tmp_path) == [4, 6, 8, 9, 10]
    assert problems_of(tmp_path) == []


def test_tables_are_saved_as_they_were_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, 1)
    with tf.Graph().as_default():
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1, name="table")
        global_step = tf1.train.get_or_create_global_step()
        with tf.control_dependencies([table.insert(global_step, global_step)]):
            step = tf1.assign_add(global_step, 1)
        with tf1.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path),
            save_checkpoint_steps=None,
            save_checkpoint_secs=None,
            hooks=[gate, saver(tmp_path), tf1.train.StopAtStepHook(last_step=4)],
        ) as session:
            while not session.should_stop():
                session.run(step)
    reader = tf.train.load_checkpoint(str(tmp_path / "model.ckpt-3"))
    (keys,) = (key for key in reader.get_variable_to_shape_map() if key.endswith("-keys"))
    assert sorted(reader.get_tensor(keys).tolist()) == [0, 1, 2]


def test_an_iterator_of_tf_data_in_the_model_is_refused(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        iterator = tf1.data.make_initializable_iterator(tf.data.Dataset.range(9))
        tf1.add_to_collection(
            tf1.GraphKeys.SAVEABLE_OBJECTS,
            tf.data.experimental.make_saveable_from_iterator(iterator),
        )
        tf1.add_to_collection(tf1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        tf1.train.get_or_create_global_step()
        with pytest.raises(
            rs.InvalidArgument, match=r"SerializeIterator.*make_initializable_iterator"
        ):
            tf1.train.MonitoredTrainingSession(hooks=[saver(tmp_path)])


def test_two_for_one_path_are_refused(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        tf1.train.get_or_create_global_step()
        saver(tmp_path).begin()
        with pytest.raises(rs.InvalidArgument, match="one AsyncCheckpointSaverHook for a path"):
            saver(tmp_path).begin()
        saver(tmp_path, checkpoint_basename="other").begin()


@pytest.mark.parametrize("input_hook", [False, True])
def test_two_that_would_write_one_input_are_refused_before_a_step(
    input_hook: bool, tmp_path: Path
) -> None:
    def hooks() -> list[Any]:
        more = [CheckpointInputPipelineHook(tmp_path, save_steps=2)] if input_hook else []
        return [*more, saver(tmp_path), saver(tmp_path, checkpoint_basename="other")]

    with pytest.raises(
        rs.InvalidArgument, match=r"got two, for .*model\.ckpt and .*other|other and"
    ):
        train_model(tmp_path, hooks, last_step=5)
    assert not saved(tmp_path)
    if not input_hook:  # without an input each saves its model
        train_model(tmp_path, hooks, last_step=5, with_input=False)
        assert list(tmp_path.glob("other-5.index"))


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"save_steps": None}, ValueError, "every_secs"),
    ({"save_secs": 1}, ValueError, "every_secs"),
    ({"checkpoint_dir": 1}, rs.InvalidType, "checkpoint_dir must be a path, got 1"),
    ({"checkpoint_basename": 1}, rs.InvalidType, "checkpoint_basename must be a string, got 1"),
    ({"saver": 1}, rs.InvalidType, r"saver must be a tf\.compat\.v1\.train\.Saver, got 1"),
    ({"scaffold": 1}, rs.InvalidType, r"scaffold must be a tf\.compat\.v1\.train\.Scaffold, got 1"),
    ({"save_steps": "3"}, rs.InvalidType, "save_steps must be an integer, got '3'"),
    ({"save_steps": -1}, rs.InvalidArgument, "save_steps must be at least 1, got -1"),
    ({"listeners": [1]}, rs.InvalidType, "CheckpointSaverListener objects"),
    ({"external_state_policy": "perhaps"}, ValueError, "external_state_policy"),
    ({"allow_fresh_input": 1}, rs.InvalidType, "allow_fresh_input must be True or False"),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: "-".join(each[0]))
def test_wrong_arguments_are_refused(wrong: Any, tmp_path: Path) -> None:
    arguments, error, message = wrong
    make: Any = AsyncCheckpointSaverHook
    with pytest.raises(error, match=message):
        make(**{"checkpoint_dir": tmp_path, "save_steps": 1, **arguments})
