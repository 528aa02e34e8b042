"""A pipeline inside a `tf.train.Checkpoint`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import numpy as np
import tensorflow as tf
from resumable_tf import CheckpointableInput

import resumable as rs


def numbers() -> Any:
    return iter(range(11))


PIPELINES: dict[str, Any] = {
    "random access": lambda: rs.range(11).shuffle(3),
    "stream": lambda: rs.from_iterable(numbers).shuffle(1, window=4).prefetch(2),
    "endless": lambda: rs.range(11).shuffle(3).repeat(),
    "arrays": lambda: rs.from_arrays({"x": np.arange(22).reshape(11, 2)}).shuffle(1).batch(3),
}


def flow(source: CheckpointableInput[Any], count: int) -> list[str]:
    """The next items, over as many passes as they take; an empty pass is none."""
    items: list[str] = []
    while len(items) < count:
        for item in source:
            items.append(str(item))
            if len(items) == count:
                break
    return items


@pytest.mark.parametrize("kind", PIPELINES)
@given(cuts=st.lists(st.integers(1, 15), min_size=1, max_size=5))
def test_a_restored_input_continues_with_the_next_item(
    kind: str, cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("checkpoints")
    reference = flow(CheckpointableInput(PIPELINES[kind]()), sum(cuts))
    got: list[str] = []
    for count in cuts:
        source = CheckpointableInput(PIPELINES[kind]())
        checkpoint = tf.train.Checkpoint(step=tf.Variable(0), source=source)
        manager = tf.train.CheckpointManager(checkpoint, str(folder), max_to_keep=2)
        if manager.restore_or_initialize():
            source.check_restored()
        got += flow(source, count)
        manager.save()
    assert got == reference


def test_each_loop_is_the_rest_of_a_pass_and_the_next_one_the_next_epoch() -> None:
    pipeline = rs.range(5).shuffle(1)
    source = CheckpointableInput(pipeline)
    for item in source:
        assert (source.step, item) == (1, next(iter(pipeline)))
        break
    assert list(source) == list(pipeline)[1:]
    assert list(source) == list(pipeline.start(1))
    assert source.epoch == 2


def train(
    source: CheckpointableInput[Any], epochs: int, stop_after: int | None = None
) -> list[tuple[int, Any]]:
    """The items of the loops that are left, each with the number of its loop."""
    trained: list[tuple[int, Any]] = []
    for epoch in range(source.epoch, epochs):
        for item in source:
            trained.append((epoch, item))
            if len(trained) == stop_after:
                return trained
    return trained


@pytest.mark.parametrize("stop_after", range(1, 19))
def test_each_loop_is_one_epoch_of_a_pipeline_that_repeats(stop_after: int) -> None:
    pipeline = rs.range(3).shuffle(0).repeat(2)
    whole = [(epoch, item) for epoch in range(3) for item in pipeline.start(epoch)]
    source, restored = CheckpointableInput(pipeline), CheckpointableInput(pipeline)
    trained = train(source, 3, stop_after)
    restored.deserialize(source.serialize())
    assert trained + train(restored, 3) == whole


def test_the_state_at_the_last_item_is_before_the_end_of_the_epoch(tmp_path: Path) -> None:
    """A loop over epochs that is resumed there does not skip one."""
    source = CheckpointableInput(rs.range(3))
    path = None
    for item in source:
        if item == 2:
            path = tf.train.Checkpoint(source=source).save(str(tmp_path / "last"))
    restored = CheckpointableInput(rs.range(3))
    tf.train.Checkpoint(source=restored).restore(path)
    assert list(restored) == []
    assert list(restored) == [0, 1, 2]


def test_a_checkpoint_without_the_input_is_told(tmp_path: Path) -> None:
    path = tf.train.Checkpoint(step=tf.Variable(3)).save(str(tmp_path / "model"))
    source = CheckpointableInput(rs.range(3))
    tf.train.Checkpoint(step=tf.Variable(0), source=source).restore(path)
    with pytest.raises(rs.NoValidCheckpoint, match="no state was restored into the input"):
        source.check_restored()


def test_each_restore_is_checked_by_itself(tmp_path: Path) -> None:
    source = CheckpointableInput(rs.range(3))
    checkpoint = tf.train.Checkpoint(source=source)
    checkpoint.restore(checkpoint.save(str(tmp_path / "with")))
    source.check_restored()
    checkpoint.restore(tf.train.Checkpoint(step=tf.Variable(3)).save(str(tmp_path / "without")))
    with pytest.raises(rs.NoValidCheckpoint):
        source.check_restored()


def test_another_pipeline_is_refused_and_the_position_kept(tmp_path: Path) -> None:
    path = tf.train.Checkpoint(source=CheckpointableInput(rs.range(3))).save(str(tmp_path / "m"))
    source = CheckpointableInput(rs.range(4))
    assert flow(source, 1) == ["0"]
    with pytest.raises(rs.StateMismatch, match="saved stop=3, this pipeline has stop=4"):
        tf.train.Checkpoint(source=source).restore(path)
    assert flow(source, 1) == ["1"]


def test_a_source_that_is_read_once_is_passed_over_by_a_fresh_one_if_that_is_wanted(
    tmp_path: Path,
) -> None:
    def made() -> CheckpointableInput[int]:
        return CheckpointableInput(rs.from_iterable(numbers()), external_state_policy="ignore")

    source = made()
    assert flow(source, 4) == ["0", "1", "2", "3"]
    path = tf.train.Checkpoint(source=source).save(str(tmp_path / "model"))
    source = made()
    tf.train.Checkpoint(source=source).restore(path)
    assert flow(source, 2) == ["4", "5"]


def test_the_core_reads_what_tensorflow_has_saved(tmp_path: Path) -> None:
    pipeline = rs.range(20).shuffle(1)
    source = CheckpointableInput(pipeline)
    flow(source, 7)
    assert list(pipeline.resume(rs.loads(source.serialize()))) == list(pipeline)[7:]


def test_bad_arguments_are_told() -> None:
    with pytest.raises(rs.InvalidType, match="pipeline must be a pipeline"):
        CheckpointableInput([1, 2])  # type: ignore[arg-type]
    with pytest.raises(rs.ExternalStateError, match="can only be read once"):
        CheckpointableInput(rs.from_iterable(numbers()))
    source = CheckpointableInput(rs.range(3))

    @tf.function  # type: ignore[untyped-decorator]
    def inside() -> Any:
        return [item for item in source]  # noqa: C416

    @tf.function  # type: ignore[untyped-decorator]
    def one() -> Any:
        return source.next_item()

    # AutoGraph raises an exception of its own, with ours in its message.
    with pytest.raises(Exception, match=r"InvalidArgument: .* within a tf.function"):
        inside()
    with pytest.raises(Exception, match=r"InvalidArgument: .* within a tf.function"):
        one()


@pytest.mark.parametrize("window", [False, True])
def test_a_checkpoint_is_small_whatever_is_shuffled(window: bool, tmp_path: Path) -> None:
    sizes = []
    for length in (10**3, 10**4, 10**5, 10**6):
        options: Any = {"window": length} if window and length < 10**6 else {}
        source = CheckpointableInput(rs.range(2 * length).shuffle(1, **options))
        assert len(flow(source, 2)) == 2
        folder = tmp_path / str(length)
        tf.train.Checkpoint(source=source).save(str(folder / "model"))
        sizes.append(sum(path.stat().st_size for path in folder.glob("model-*")))
    assert max(sizes) <= 700
    assert max(sizes) - min(sizes) <= 100
