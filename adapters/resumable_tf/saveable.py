"""The input's state inside the model's own checkpoint of a TF1 graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

# It has no public name; TensorFlow's own iterators and users of `tf.compat.v1.train.Saver` take it
# from here.
from tensorflow.python.training.saving import saveable_object

import resumable as rs
from resumable.core.arguments import check_choice
from resumable.core.external_source import POLICIES
from resumable.errors import shorten

from .dataset import ResumableIterator
from .policy import check_policy

__all__ = ["make_saveable_from_iterator"]


def make_saveable_from_iterator(
    iterator: ResumableIterator, external_state_policy: str | None = None
) -> saveable_object.SaveableObject:
    """A saveable for the collection ``tf.GraphKeys.SAVEABLE_OBJECTS``, made before the Saver.

    It is `tf.data.experimental.make_saveable_from_iterator` for these iterators. The checkpoint of the
    model then holds the state of the input at the same step. Do not add it to a graph for evaluation,
    where the input begins at its start.

    State: some 200 bytes in the checkpoint of the model, under the name of the iterator.

    Args:
      iterator: the result of `make_initializable_iterator`.
      external_state_policy: as in `CheckpointInputPipelineHook`; by default ``"fail"``.

    Raises:
      InvalidType: if ``iterator`` is another one.
      ValueError: if the policy is another word.
      ExternalStateError: if the pipeline cannot be saved under the policy ``"fail"``.
    """
    if not isinstance(iterator, ResumableIterator):
        raise rs.InvalidType(
            "iterator must be one of resumable_tf.make_initializable_iterator, got "
            f"{shorten(iterator)}"
        )
    policy = check_choice("external_state_policy", external_state_policy or "fail", POLICIES)
    check_policy(iterator.feed.pipeline, policy)
    return _IteratorSaveable(iterator)


class _IteratorSaveable(saveable_object.SaveableObject):  # type: ignore[misc]
    def __init__(self, iterator: ResumableIterator) -> None:
        self._iterator = iterator
        feed = iterator.feed
        state = tf.numpy_function(
            lambda number: rs.dumps(feed.state_after(int(number))),
            [iterator.consumed.read_value()],
            tf.string,
        )
        state.set_shape(())
        spec = saveable_object.SaveSpec(state, "", iterator.name)
        super().__init__(iterator.consumed, [spec], iterator.name)

    def restore(self, restored_tensors: list[tf.Tensor], restored_shapes: Any) -> tf.Operation:
        feed = self._iterator.feed

        def move(data: bytes) -> int:
            feed.move_to(rs.loads(data))
            return feed.origin

        moved = tf.numpy_function(move, restored_tensors, tf.int64)
        moved.set_shape(())
        return self._iterator.restart(moved)
