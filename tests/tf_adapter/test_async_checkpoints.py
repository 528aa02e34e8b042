"""A pipeline inside a `tf.train.Checkpoint` that TensorFlow writes in a thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

import tensorflow as tf
from resumable_tf import CheckpointableInput

import resumable as rs

SAVES = 30
ASYNC = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
PIPELINES: dict[str, Callable[[], rs.Pipeline[Any]]] = {
    "random access": lambda: rs.range(10**6).shuffle(3),
    "stream": lambda: rs.from_iterable(lambda: iter(range(50))).shuffle(1, window=4).repeat(),
    "prefetched": lambda: rs.range(10**6).filter(lambda number: number % 3).prefetch(2),
}


class Training:
    """A step, and inputs at various places below one `tf.train.Checkpoint`."""

    def __init__(self) -> None:
        self.step = tf.Variable(0, dtype=tf.int64)
        self.inputs = {kind: CheckpointableInput(make()) for kind, make in PIPELINES.items()}
        module = tf.Module()
        module.source = self.inputs["stream"]
        self.checkpoint = tf.train.Checkpoint(
            step=self.step,
            source=self.inputs["random access"],
            nested=tf.train.Checkpoint(module=module),
            listed=[self.inputs["prefetched"]],
        )

    def train(self, steps: int) -> None:
        for _ in range(steps):
            for each in self.inputs.values():
                each.next_item()
            self.step.assign_add(1)

    def close(self) -> None:
        # TensorFlow keeps the objects of asynchronous checkpoints until the process ends.
        for each in self.inputs.values():
            each.close()

    @property
    def at(self) -> set[int]:
        """The steps of all parts, which are one."""
        return {int(self.step), *(each.step for each in self.inputs.values())}


def restored(path: str) -> set[int]:
    """The steps of all parts of a checkpoint."""
    training = Training()
    training.checkpoint.restore(path).assert_existing_objects_matched()
    return training.at


@pytest.mark.parametrize("saver", ["checkpoint", "manager"])
def test_every_asynchronous_save_has_the_inputs_of_its_own_step(saver: str, tmp_path: Path) -> None:
    training = Training()
    manager = tf.train.CheckpointManager(training.checkpoint, str(tmp_path), max_to_keep=None)
    paths = []
    for _ in range(SAVES):
        training.train(6)
        if saver == "manager":
            paths.append(manager.save(options=ASYNC))
        else:
            paths.append(training.checkpoint.save(str(tmp_path / "model"), options=ASYNC))
        training.train(1)  # while it is written
    training.checkpoint.sync()
    training.close()
    assert [restored(path) for path in paths] == [{7 * save + 6} for save in range(SAVES)]


@given(
    saves=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(["sync", "async", "restore"])), max_size=12
    )
)
def test_synchronous_saves_and_restores_may_come_between(
    saves: list[tuple[int, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    training = Training()
    folder = tmp_path_factory.mktemp("saves")
    manager = tf.train.CheckpointManager(training.checkpoint, str(folder), max_to_keep=None)
    saved: list[tuple[str, int]] = []
    for steps, action in saves:
        training.train(steps)
        step = int(training.step)
        if action == "restore" and saved:
            training.checkpoint.sync()
            path, step = saved[-1]
            training.checkpoint.restore(path)
            assert training.at == {step}
        elif action != "restore":
            options = ASYNC if action == "async" else None
            saved.append((manager.save(len(saved), options=options), step))
    training.checkpoint.sync()
    training.close()
    assert [restored(path) for path, _ in saved] == [{step} for _, step in saved]


def test_a_state_that_cannot_be_taken_fails_the_save_with_its_reason(tmp_path: Path) -> None:
    source = CheckpointableInput(
        rs.range(100).scan(lambda carry, item: (object() if item == 7 else item, item), 0)
    )
    checkpoint = tf.train.Checkpoint(source=source)
    for number in range(1, 9):
        source.next_item()
        if number < 8:
            checkpoint.save(str(tmp_path / "model"), options=ASYNC)
    with pytest.raises(rs.UnencodableState):
        checkpoint.save(str(tmp_path / "model"), options=ASYNC)
    source.next_item()
    path = checkpoint.save(str(tmp_path / "model"), options=ASYNC)
    checkpoint.sync()
    again = CheckpointableInput(source.pipeline)
    tf.train.Checkpoint(source=again).restore(path)
    assert again.step == 9


def test_an_input_that_joins_after_the_first_save_is_refused(tmp_path: Path) -> None:
    """TensorFlow copies what was there at the first save; the rest is read while it is written."""
    module = tf.Module()
    checkpoint = tf.train.Checkpoint(step=tf.Variable(0), module=module)
    checkpoint.save(str(tmp_path / "model"), options=ASYNC)
    checkpoint.sync()
    module.source = CheckpointableInput(rs.range(9))
    checkpoint.save(str(tmp_path / "model"), options=ASYNC)
    with pytest.raises(rs.InvalidArgument, match="after the first asynchronous save"):
        checkpoint.save(str(tmp_path / "model"), options=ASYNC)
    checkpoint.sync()
