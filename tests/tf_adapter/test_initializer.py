"""The initializer of an input: a fresh epoch each time, and nothing lost where a session restores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from resumable_tf import (
    CheckpointInputPipelineHook,
    make_dataset,
    make_initializable_iterator,
    make_saveable_from_iterator,
)
from tf_adapter.sessions import SCALAR, saved

import resumable as rs

COUNT = 11
EPOCHS = 3


def numbers() -> Any:
    return iter(range(COUNT))


PIPELINES: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "random access": lambda: rs.range(COUNT).shuffle(3),
    "stream": lambda: rs.from_iterable(numbers).shuffle(1, window=4).prefetch(2),
}


class Run:
    """A session of the user's own with one input, in its model's checkpoint."""

    def __init__(self, pipeline: rs.Pipeline[Any]) -> None:
        iterator = make_initializable_iterator(make_dataset(pipeline, SCALAR).prefetch(4))
        self.iterator, self.item = iterator, iterator.get_next()
        self.saver = tf1.train.Saver([make_saveable_from_iterator(iterator)])
        self.session = tf1.Session()
        self.session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])

    def items(self, count: int) -> list[int]:
        return [int(self.session.run(self.item)) for _ in range(count)]

    def rest(self) -> list[int]:
        """The items up to the end."""
        items = []
        while True:
            try:
                items += self.items(1)
            except tf.errors.OutOfRangeError:
                return items

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()


@pytest.mark.parametrize("kind", PIPELINES)
@pytest.mark.parametrize("cut", [1, COUNT + 4, 2 * COUNT])
def test_each_run_of_the_initializer_is_an_epoch_before_and_after_a_resume(
    kind: str, cut: int, tmp_path: Path
) -> None:
    """The usual loop of epochs of TensorFlow 1; the process ends in one, and another one goes on."""
    epoch, within = divmod(cut, COUNT)
    whole = list(PIPELINES[kind]())
    with tf.Graph().as_default(), Run(PIPELINES[kind]()) as run:
        for _ in range(epoch):
            run.session.run(run.iterator.initializer)
            assert run.rest() == whole
        run.session.run(run.iterator.initializer)
        assert run.items(within) == whole[:within]
        path = run.saver.save(run.session, str(tmp_path / "model"))
    with tf.Graph().as_default(), Run(PIPELINES[kind]()) as run:
        run.saver.restore(run.session, path)
        assert run.rest() == whole[within:]
        for _ in range(epoch + 1, EPOCHS):
            run.session.run(run.iterator.initializer)
            assert run.rest() == whole


@pytest.mark.parametrize("kind", PIPELINES)
@pytest.mark.parametrize("restored", [5, COUNT])
def test_an_initializer_after_a_restore_begins_at_the_start_and_saves_what_follows(
    kind: str, restored: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order in which TensorFlow's documentation restores a model to validate it."""
    logged: list[str] = []
    monkeypatch.setattr(tf.get_logger(), "warning", logged.append)
    whole = list(PIPELINES[kind]())
    with tf.Graph().as_default(), Run(PIPELINES[kind]()) as run:
        run.items(restored)
        path = run.saver.save(run.session, str(tmp_path / "model"))
        run.saver.restore(run.session, path)
        run.session.run(tf1.tables_initializer())
        run.session.run(run.iterator.initializer)
        assert run.items(3) == whole[:3]
        again = run.saver.save(run.session, str(tmp_path / "again"))
    (warned,) = logged
    assert f"restored after item {restored}, and is initialized before the next one" in warned
    with tf.Graph().as_default(), Run(PIPELINES[kind]()) as run:
        run.saver.restore(run.session, again)
        assert run.rest() == whole[3:]


def test_the_tables_of_a_session_start_where_the_input_was_restored(tmp_path: Path) -> None:
    with tf.Graph().as_default(), Run(rs.range(COUNT)) as run:
        run.items(4)
        run.saver.restore(run.session, run.saver.save(run.session, str(tmp_path / "model")))
        run.session.run(tf1.tables_initializer())
        assert run.items(2) == [4, 5]
        assert int(run.session.run(run.iterator.consumed)) == 6


def monitored(folder: Path, steps: int, before: str, with_hook: bool) -> list[int]:
    """The items of ``steps`` steps in a session that restores by itself.

    ``before`` says where the initializer runs: in the session's preparation, or first thing in it.
    """
    with tf.Graph().as_default():
        iterator = make_initializable_iterator(make_dataset(rs.range(40), SCALAR))
        item = iterator.get_next()
        step = tf1.assign_add(tf1.train.get_or_create_global_step(), 1)
        if not with_hook:
            saveable = make_saveable_from_iterator(iterator)
            tf1.add_to_collection(tf1.GraphKeys.SAVEABLE_OBJECTS, saveable)
        prepared = [tf1.local_variables_initializer(), tf1.tables_initializer()]
        if before == "preparation":
            prepared.append(iterator.initializer)
        with tf1.train.MonitoredTrainingSession(
            checkpoint_dir=str(folder),
            scaffold=tf1.train.Scaffold(local_init_op=tf.group(*prepared)),
            save_checkpoint_steps=2,
            save_summaries_steps=None,
            save_summaries_secs=None,
            log_step_count_steps=None,
            hooks=[CheckpointInputPipelineHook(folder, save_steps=2)] if with_hook else [],
        ) as session:
            if before == "first":
                session.run(iterator.initializer)
            return [int(session.run([item, step])[0]) for _ in range(steps)]


@pytest.mark.parametrize("before", ["preparation", "first"])
@pytest.mark.parametrize("with_hook", [True, False])
def test_a_session_that_restores_by_itself_keeps_the_position_when_it_is_initialized(
    before: str, with_hook: bool, tmp_path: Path
) -> None:
    """As an Estimator initializes the data set of its ``input_fn``, after the model was restored."""
    got = [monitored(tmp_path, 5, before, with_hook) for _ in range(3)]
    assert [item for items in got for item in items] == list(range(15))


def test_a_hook_saves_and_restores_each_epoch_of_its_session(tmp_path: Path) -> None:
    whole = list(PIPELINES["random access"]())
    got: list[list[int]] = []
    for first, steps in ((0, COUNT + 4), (COUNT + 4, 3 * COUNT)):
        with tf.Graph().as_default():
            iterator = make_initializable_iterator(
                make_dataset(PIPELINES["random access"](), SCALAR)
            )
            item = iterator.get_next()
            step = tf1.assign_add(tf1.train.get_or_create_global_step(), 1)
            with tf1.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path),
                save_checkpoint_steps=3,
                save_summaries_steps=None,
                save_summaries_secs=None,
                log_step_count_steps=None,
                hooks=[CheckpointInputPipelineHook(tmp_path, save_steps=3)],
            ) as session:
                for number in range(first, steps):
                    if number % COUNT == 0:
                        session.run(iterator.initializer)
                    got.append([number, int(session.run([item, step])[0])])
    assert got == [[number, whole[number % COUNT]] for number in range(3 * COUNT)]
    assert saved(tmp_path)[-1] == 3 * COUNT
