"""A pipeline inside a `tf.train.Checkpoint`, for training loops written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import tensorflow as tf
import tensorflow.compat.v1 as tf1
from tensorflow.python.checkpoint.checkpoint_context import in_async_metrics_context

import resumable as rs
from resumable.checkpoint.opening import check_pipeline

from ..policy import check_policy, policy_of, without_policy

__all__ = ["CheckpointableInput"]

T = TypeVar("T")


class CheckpointableInput(tf.train.experimental.PythonState, Generic[T]):  # type: ignore[misc]
    """The items of ``pipeline``, epoch after epoch, with the position in a `tf.train.Checkpoint`.

    Each ``for`` loop goes through the rest of the epoch in progress, and the next loop through the
    next epoch. In the body of the loop the current item counts as consumed, so save after the step.
    Only ``prefetch`` and the workers of the pipeline run ahead, and the state accounts for both. Do
    not make a `tf.data.Dataset` of this input: the data set would run ahead too.

    State: some 200 bytes and the usual overhead of a value in TensorFlow's checkpoint, O(1) to
    take. A resume costs what a resume of the pipeline costs.

    Args:
      pipeline: the pipeline with the items. NumPy arrays can be passed to a `tf.function` directly.
      external_state_policy: as in `CheckpointInputPipelineHook`; by default ``"fail"``.

    Raises:
      InvalidType: if ``pipeline`` is not a pipeline.
      InvalidArgument: if the policy is another word.
      ExternalStateError: if the pipeline has a source that can only be read once, or a function
        that draws random numbers not restored by any state, and the policy is ``"fail"``.
    """

    def __init__(
        self, pipeline: rs.Pipeline[T], *, external_state_policy: str | None = None
    ) -> None:
        self.pipeline = check_pipeline(pipeline)
        check_policy(pipeline, policy_of(external_state_policy))
        self._saved = without_policy(pipeline)
        self._iterator = self._saved.start()
        self._epoch = 0
        self._iterator.get_state()  # an unsavable state raises before the first item
        self._was_restored = False

    @property
    def epoch(self) -> int:
        """The number of the current epoch of the whole pipeline, even with a repeated source."""
        return self._epoch

    @property
    def step(self) -> int:
        """Number of items of the epoch handed out."""
        return self._iterator.step

    def __iter__(self) -> Iterator[T]:
        _check_is_eager()
        return _Items(self)

    def next_item(self) -> T:
        """The next item of the epoch in progress.

        Raises:
          StopIteration: at the end of the epoch; the next call begins the next epoch.
          IteratorClosed: after `close`.
        """
        _check_is_eager()
        try:
            return next(self._iterator)
        except StopIteration:
            following = self._epoch + 1
            self._iterator, self._epoch = self._saved.start(following), following
            raise

    def close(self) -> None:
        """End threads and processes of the pipeline; may be called again. The state stays readable.

        Only `close` ends them: TensorFlow keeps asynchronously saved objects until the process
        ends.
        """
        self._iterator.close()

    def serialize(self) -> bytes:
        """The state, for TensorFlow to put into its checkpoint.

        Raises:
          InvalidArgument: in TensorFlow's thread for asynchronous checkpoints, as the input has
            moved on.
        """
        if in_async_metrics_context():
            raise rs.InvalidArgument(
                f"the input {self.pipeline!r} has joined its Checkpoint after the first asynchronous "
                "save, and TensorFlow takes no copy of such an object at later ones; put it in before "
                "the first save, or make a new Checkpoint"
            )
        return rs.dumps(self._iterator.get_state())

    def deserialize(self, string_value: bytes) -> None:
        """Continue at the state that TensorFlow has read from its checkpoint.

        Raises:
          StateMismatch: if the state belongs to another pipeline; the position is then unchanged.
        """
        state = rs.loads(string_value)
        self._iterator.set_state(state)
        self._epoch = state["epoch"]
        self._was_restored = True

    def _copy_trackable_to_cpu(self, object_map: Any) -> None:
        # TensorFlow's asynchronous checkpoints serialise a copy later, when the input has moved on.
        # The first save calls this method; the second save traces a `tf.function` that calls the
        # method, and from then on only the function runs. Values captured by the graph at call time
        # are computed again for each save, in the thread that saves, before the variables are
        # copied.
        snapshot = object_map.setdefault(self, _Snapshot())

        def take() -> tf.Tensor:
            snapshot.data = self.serialize()
            return tf.constant(0)

        if tf.inside_function():
            nothing = tf.TensorSpec((), tf.int32)
            tf1.get_default_graph().capture_call_time_value(take, nothing)
        else:
            take()

    def check_restored(self) -> None:
        """Make sure that the last ``restore`` has restored this input too.

        TensorFlow does not report an object missing in a checkpoint. Training would continue with a
        restored model and an input at the start. Call this after ``restore``.

        Raises:
          NoValidCheckpoint: if no state was restored.
        """
        if not self._was_restored:
            raise rs.NoValidCheckpoint(
                f"no state was restored into the input {self.pipeline!r}; was the checkpoint "
                "saved without it, or is it tracked under another name?"
            )
        self._was_restored = False


class _Items(Iterator[T]):
    def __init__(self, source: CheckpointableInput[T]) -> None:
        self._source: CheckpointableInput[Any] | None = source

    def __next__(self) -> T:
        if self._source is None:
            raise StopIteration
        try:
            item: T = self._source.next_item()
        except StopIteration:
            self._source = None
            raise
        return item


class _Snapshot(tf.train.experimental.PythonState):  # type: ignore[misc]
    """A past state of an input."""

    data = b""

    def serialize(self) -> bytes:
        return self.data

    def deserialize(self, string_value: bytes) -> None:
        self.data = string_value


def _check_is_eager() -> None:
    if tf.inside_function():
        raise rs.InvalidArgument(
            "a CheckpointableInput cannot be iterated within a tf.function, which would read it "
            "while it is traced and never again; iterate it outside and pass the items in"
        )
