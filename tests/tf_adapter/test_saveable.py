"""The input's state inside the model's own checkpoint of a TF1 graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from resumable_tf import (
    make_dataset,
    make_initializable_iterator,
    make_saveable_from_iterator,
)
from tf_adapter.sessions import SCALAR, Crash, Raise, Steps, aborted, recorded
from tf_adapter.versions import dealt

import resumable as rs


def numbers() -> Any:
    return iter(range(40))


PIPELINES: dict[str, Any] = {
    "random access": lambda: rs.range(40).shuffle(3),
    "stream": lambda: rs.from_iterable(numbers).shuffle(1, window=6).prefetch(2),
}


def train(
    folder: Path, pipeline: rs.Pipeline[Any], steps: Steps, error: tuple[int, Exception] | None
) -> None:
    """Train to step 20 with no other hook than the one that fails."""
    with tf.Graph().as_default():
        step = tf1.assign_add(tf1.train.get_or_create_global_step(), 1)
        iterator = make_initializable_iterator(make_dataset(pipeline, SCALAR).prefetch(4))
        done = recorded(step, iterator.get_next(), steps)
        tf1.add_to_collection(tf1.GraphKeys.SAVEABLE_OBJECTS, make_saveable_from_iterator(iterator))
        hooks = [tf1.train.StopAtStepHook(last_step=20)]
        hooks += [] if error is None else [Raise(*error)]
        try:
            with tf1.train.MonitoredTrainingSession(
                checkpoint_dir=str(folder),
                save_checkpoint_steps=3,
                save_summaries_steps=None,
                save_summaries_secs=None,
                log_step_count_steps=None,
                hooks=hooks,
            ) as session:
                while not session.should_stop():
                    session.run(done)
        except Crash:
            pass


@pytest.mark.parametrize("kind", PIPELINES)
@pytest.mark.parametrize("crash", dealt([1, 3, 4, 11, 19]))
def test_the_models_checkpoint_restores_its_input(kind: str, crash: int, tmp_path: Path) -> None:
    pipeline = PIPELINES[kind]()
    steps: Steps = []
    for error in ((crash, Crash()), (crash + 2, aborted()), (crash + 4, Crash()), None):
        train(tmp_path, PIPELINES[kind](), steps, error)
    reference = list(pipeline)
    assert steps == [(step, reference[step - 1]) for step, _ in steps]
    assert {step for step, _ in steps} >= set(range(1, 21))
    assert not list(tmp_path.glob("input*"))


def test_a_plain_session_and_saver_do(tmp_path: Path) -> None:
    pipeline = rs.range(40).shuffle(3)
    reference = list(pipeline)
    for begin in (0, 5, 10):
        with tf.Graph().as_default(), tf1.Session() as session:
            iterator = make_initializable_iterator(make_dataset(pipeline, SCALAR))
            item = iterator.get_next()
            saveable = make_saveable_from_iterator(iterator)
            tf1.add_to_collection(tf1.GraphKeys.SAVEABLE_OBJECTS, saveable)
            saver = tf1.train.Saver()
            session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])
            if begin:
                saver.restore(session, str(tmp_path / f"model-{begin}"))
            got = [int(session.run(item)) for _ in range(5)]
            saver.save(session, str(tmp_path / "model"), global_step=begin + 5)
            assert got == reference[begin : begin + 5]
            # A restore in mid-run goes back, too.
            saver.restore(session, str(tmp_path / f"model-{begin + 5}"))
            assert int(session.run(item)) == reference[begin + 5]


def test_another_pipeline_is_refused(tmp_path: Path) -> None:
    for seed in (1, 2):
        with tf.Graph().as_default(), tf1.Session() as session:
            iterator = make_initializable_iterator(make_dataset(rs.range(9).shuffle(seed), SCALAR))
            saver = tf1.train.Saver([make_saveable_from_iterator(iterator)])
            session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])
            if seed == 1:
                saver.save(session, str(tmp_path / "model"))
                continue
            with pytest.raises(tf.errors.OpError, match="saved seed=1, this pipeline has seed=2"):
                saver.restore(session, str(tmp_path / "model"))


def test_bad_arguments_are_told() -> None:
    with tf.Graph().as_default():
        plain: Any = tf1.data.make_initializable_iterator(tf.data.Dataset.range(3))
        with pytest.raises(
            rs.InvalidType, match=r"make_initializable_iterator, .*make_dataset, got"
        ):
            make_saveable_from_iterator(plain)
        once = rs.from_iterable(numbers())
        iterator = make_initializable_iterator(make_dataset(once, SCALAR))
        with pytest.raises(ValueError, match="external_state_policy"):
            make_saveable_from_iterator(iterator, "perhaps")
        with pytest.raises(rs.ExternalStateError, match="can only be read once"):
            make_saveable_from_iterator(iterator)
        make_saveable_from_iterator(iterator, "ignore")


def test_several_inputs_of_a_graph_are_in_one_checkpoint(tmp_path: Path) -> None:
    pipelines = [rs.range(40).shuffle(3), rs.from_iterable(numbers).shuffle(1, window=6)]
    references = [list(pipeline) for pipeline in pipelines]
    for begin in (0, 5, 10):
        with tf.Graph().as_default(), tf1.Session() as session:
            iterators = [
                make_initializable_iterator(make_dataset(pipeline, SCALAR), pipeline)
                for pipeline in pipelines
            ]
            items = [iterator.get_next() for iterator in iterators]
            policies = [None, tf.data.experimental.ExternalStatePolicy.FAIL]
            saver = tf1.train.Saver(list(map(make_saveable_from_iterator, iterators, policies)))
            session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])
            if begin:
                saver.restore(session, str(tmp_path / f"model-{begin}"))
            for number in range(begin, begin + 5):
                assert [int(item) for item in session.run(items)] == [
                    reference[number] for reference in references
                ]
            saver.save(session, str(tmp_path / "model"), global_step=begin + 5)


def test_an_iterator_of_tf_data_in_the_checkpoint_is_named_as_what_cannot_be_continued(
    tmp_path: Path,
) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        iterator = tf1.data.make_initializable_iterator(tf.data.Dataset.range(9))
        session.run(iterator.initializer)
        theirs = tf.data.experimental.make_saveable_from_iterator(iterator)
        tf1.train.Saver([theirs]).save(session, str(tmp_path / "model"))
    with tf.Graph().as_default(), tf1.Session() as session:
        ours = make_saveable_from_iterator(
            make_initializable_iterator(make_dataset(rs.range(9), SCALAR))
        )
        saver = tf1.train.Saver([ours])
        message = r"has no input 'resumable_input', but 'Iterator.*', saved by tf\.data's own"
        with pytest.raises(tf.errors.OpError, match=message):
            saver.restore(session, str(tmp_path / "model"))


def test_a_checkpoint_without_an_input_is_told(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = tf1.get_variable("v", initializer=1.0)
        session.run(variable.initializer)
        tf1.train.Saver([variable]).save(session, str(tmp_path / "model"))
        ours = make_saveable_from_iterator(
            make_initializable_iterator(make_dataset(rs.range(9), SCALAR))
        )
        with pytest.raises(tf.errors.OpError, match="has no input 'resumable_input'; was it saved"):
            tf1.train.Saver([ours]).restore(session, str(tmp_path / "model"))
