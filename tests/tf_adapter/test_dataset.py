"""A data set that an ``input_fn`` returns, or that TensorFlow's own function iterates."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from resumable_tf import (
    CheckpointInputPipelineHook,
    ResumableIterator,
    make_dataset,
    make_initializable_iterator,
)
from tf_adapter.sessions import SCALAR, Crash, Raise, recorded

import resumable as rs

needs_estimator = pytest.mark.skipif(
    not hasattr(tf, "estimator"), reason="TensorFlow has no Estimator after 2.15"
)
PAIR = (SCALAR, SCALAR)
Prepare = Callable[[tf.data.Dataset], tf.data.Dataset]


def pairs() -> rs.Pipeline[Any]:
    return rs.range(60).shuffle(3).map(lambda number: (number, -number))


def train(
    folder: Path,
    prepare: Prepare,
    last_step: int,
    error: Any = None,
    strategy: Any = None,
    returned: Callable[[tf.data.Dataset], Any] = lambda dataset: dataset,
) -> Any:
    """What each step of an Estimator consumed, whose ``input_fn`` returns a data set."""
    steps: Any = []
    pipeline = pairs()

    def input_fn() -> Any:
        return returned(prepare(make_dataset(pipeline, PAIR)))

    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_equal(features, -labels)]):
            step = tf1.assign_add(tf1.train.get_global_step(), 1)
        done = recorded(step, features, steps)
        extra = [] if error is None else [Raise(*error)]
        loss = tf.constant(0.0)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=done, training_hooks=extra)

    config = tf.estimator.RunConfig(
        save_checkpoints_steps=3,
        save_summary_steps=None,
        log_step_count_steps=None,
        train_distribute=strategy,
    )
    estimator = tf.estimator.Estimator(model_fn, str(folder), config)
    hook = CheckpointInputPipelineHook(estimator)
    with suppress(Crash):
        estimator.train(input_fn, hooks=[hook], max_steps=last_step)
    return steps


PREPARED: dict[str, tuple[int, Prepare]] = {
    "as it is": (1, lambda d: d),
    "prefetched": (1, lambda d: d.prefetch(5)),
    "batched": (4, lambda d: d.batch(4).prefetch(2)),
    "mapped": (4, lambda d: d.map(lambda n, item: (n, item)).batch(4)),
    "applied": (4, lambda d: d.apply(lambda each: each.prefetch(2)).batch(4)),
}


@needs_estimator
@pytest.mark.parametrize("kind", PREPARED)
def test_an_input_fn_may_return_the_data_set(kind: str, tmp_path: Path) -> None:
    size, prepare = PREPARED[kind]
    steps: Any = []
    for last, error in ((14, (5, Crash())), (14, (10, Crash())), (14, None)):
        steps += train(tmp_path, prepare, last, error)
    items = [features for features, _ in pairs()]
    batches = [items[start : start + size] for start in range(0, 60, size)]
    assert steps == [(n, batches[n - 1] if size > 1 else items[n - 1]) for n, _ in steps]
    assert {n for n, _ in steps} == set(range(1, 15))


@needs_estimator
def test_an_operation_with_a_position_is_refused_there_too(tmp_path: Path) -> None:
    with pytest.raises(rs.InvalidArgument, match=r"nothing but map.*got RepeatDataset"):
        train(tmp_path, lambda d: d.repeat(2).batch(3), 5)


@needs_estimator
def test_several_replicas_are_refused_with_what_to_return_instead(tmp_path: Path) -> None:
    strategy = tf.distribute.MirroredStrategy(["cpu:0"])
    with pytest.raises(
        rs.InvalidArgument, match=r"make_initializable_iterator\(dataset\).get_next"
    ):
        train(tmp_path, lambda d: d, 5, strategy=strategy)


@needs_estimator
def test_what_several_replicas_are_told_to_return_works(tmp_path: Path) -> None:
    steps: Any = []
    for last, error in ((12, (5, Crash())), (12, None)):
        steps += train(
            tmp_path,
            lambda d: d,
            last,
            error,
            tf.distribute.MirroredStrategy(["cpu:0"]),
            returned=lambda dataset: make_initializable_iterator(dataset).get_next,
        )
    items = [features for features, _ in pairs()]
    assert steps == [(n, items[n - 1]) for n, _ in steps]
    assert {n for n, _ in steps} == set(range(1, 13))


def test_tensorflows_own_functions_give_the_iterator_that_counts() -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        iterator = tf1.data.make_initializable_iterator(make_dataset(rs.range(9), SCALAR).batch(2))
        assert isinstance(iterator, ResumableIterator)
        batch = iterator.get_next()
        session.run([tf1.local_variables_initializer(), iterator.initializer])
        assert session.run(batch).tolist() == [0, 1]
        assert session.run(iterator.consumed) == 2


def test_a_data_set_shows_the_types_of_its_items() -> None:
    """And not those of the pairs that the functions of its methods get."""
    with tf.Graph().as_default():
        dataset = make_dataset(pairs(), PAIR)
        for each in (dataset, dataset.map(lambda n, item: (n, item)).prefetch(2)):
            assert each.element_spec == PAIR
            assert tf1.data.get_output_types(each) == (tf.int64, tf.int64)
            assert tf1.data.get_output_shapes(each) == (tf.TensorShape([]), tf.TensorShape([]))
        lengths = dataset.map(lambda n, item: (n, tf.strings.as_string(item[0]))).batch(3)
        assert lengths.element_spec == tf.TensorSpec((None,), tf.string)
        iterator = make_initializable_iterator(lengths)
        assert iterator.element_spec == lengths.element_spec
        assert tf1.data.get_output_types(iterator) == iterator.get_next().dtype == tf.string


@needs_estimator
def test_a_hook_in_evaluate_is_told_to_be_left_out(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        loss = tf.cast(features, tf.float32)
        with tf.control_dependencies([loss]):
            step = tf1.assign_add(tf1.train.get_global_step(), 1)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    hook = CheckpointInputPipelineHook(estimator)
    estimator.train(lambda: make_dataset(rs.range(9), SCALAR), hooks=[hook])
    before = sorted(tmp_path.iterdir())
    with pytest.raises(rs.InvalidArgument, match="in an evaluation: leave it out there"):
        estimator.evaluate(lambda: make_dataset(rs.range(5), SCALAR), hooks=[hook])
    assert sorted(tmp_path.iterdir()) == before
    estimator.evaluate(lambda: make_dataset(rs.range(5), SCALAR))


def test_an_iterator_that_does_not_count_is_refused() -> None:
    with (
        tf.Graph().as_default(),
        pytest.raises(rs.InvalidArgument, match="iterated by make_initializable_iterator"),
    ):
        tf1.data.make_one_shot_iterator(make_dataset(rs.range(9), SCALAR).prefetch(2))


def test_each_of_several_data_sets_knows_its_pipeline() -> None:
    pipelines = [rs.range(9), rs.range(100, 109)]
    with tf.Graph().as_default():
        made = [make_dataset(pipeline, SCALAR).batch(2) for pipeline in pipelines]
        feeds = [make_initializable_iterator(dataset).feed for dataset in made]
    assert [feed.pipeline for feed in feeds] == pipelines
