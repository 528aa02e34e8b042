"""The input's state inside the model's own checkpoint of a TF1 graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

# Without a public name; TensorFlow's own iterators and users of `tf.compat.v1.train.Saver` import
# the module from here.
from tensorflow.python.training.saving import saveable_object

import resumable as rs
from resumable.errors import shorten

from ..policy import check_policy, policy_of
from .dataset import ResumableIterator
from .model_folder import REASON, iterators_in

__all__ = ["make_saveable_from_iterator"]


def make_saveable_from_iterator(
    iterator: ResumableIterator, external_state_policy: str | None = None
) -> saveable_object.SaveableObject:
    """A saveable for the collection ``tf.GraphKeys.SAVEABLE_OBJECTS``, made before the Saver.

    Works like `tf.data.experimental.make_saveable_from_iterator`. The checkpoint of the model then
    holds the state of the input at the same step. If a graph has several inputs, each gets a
    saveable. A graph for evaluation must not have a saveable: there the input begins at the start.

    State: some 200 bytes in the checkpoint of the model, under the name of the iterator.

    Args:
      iterator: the result of `make_initializable_iterator`.
      external_state_policy: as in `CheckpointInputPipelineHook`; by default ``"fail"``.

    Raises:
      InvalidType: if ``iterator`` is another iterator, such as TensorFlow's own.
      ValueError: if the policy is another word.
      ExternalStateError: if the pipeline cannot be saved under the policy ``"fail"``.

    A `tf.compat.v1.train.Saver` that restores the saveable raises an error of TensorFlow if the
    checkpoint lacks the input, or has the input of another pipeline.
    """
    if not isinstance(iterator, ResumableIterator):
        raise rs.InvalidType(
            "iterator must be one of resumable_tf.make_initializable_iterator, over a data set of "
            f"resumable_tf.make_dataset, got {shorten(iterator)}"
        )
    policy = policy_of(external_state_policy)
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
        feed, name = self._iterator.feed, self._iterator.name
        (restored,) = restored_tensors
        reading = restored.op
        # TensorFlow's own error about a missing key does not mention inputs. The read operation
        # does not run if the result is not used.
        by_path = reading.type == "RestoreV2"

        def move(data: bytes) -> int:
            feed.move_to(rs.loads(_read(data, name) if by_path else data))
            return feed.origin

        moved = tf.numpy_function(move, [reading.inputs[0] if by_path else restored], tf.int64)
        moved.set_shape(())
        return self._iterator.start_after(moved)


def _read(prefix: bytes, name: str) -> bytes:
    """The state of the input ``name`` in the checkpoint at ``prefix``.

    Raises:
      NoValidCheckpoint: if the state is missing.
    """
    reader = tf.train.load_checkpoint(prefix.decode())
    if reader.has_tensor(name):
        return bytes(reader.get_tensor(name))
    message = f"{prefix.decode()} has no input {name!r}; was it saved without make_saveable_from_iterator?"
    if keys := iterators_in(reader):
        message = (
            f"{prefix.decode()} has no input {name!r}, but {', '.join(map(repr, keys))}, saved by "
            f"tf.data's own make_saveable_from_iterator: it holds {REASON}"
        )
    raise rs.NoValidCheckpoint(message)
